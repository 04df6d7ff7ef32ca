/**
 * The engine of a HostedClient: made of its options, or one that was made already.
 */
import { HostedConnection } from '../connection/connection.js';
import type { HostedClientOptions } from '../hosted-client-options.js';
import { type HostedOptions, resolveHostedOptions } from '../options.js';

/** Among the options of a client: the engine it is to use. Not to be had from outside this library. */
export const ENGINE: unique symbol = Symbol('engine');

/** Throws `TypeError` for an option that cannot be used. */
export function engineOf(
  options: HostedClientOptions & { readonly [ENGINE]?: HostedConnection },
  url: string | URL | undefined,
  hosted: HostedOptions,
): HostedConnection | undefined {
  const given = options[ENGINE];
  if (given !== undefined || url === undefined) return given;
  return new HostedConnection(resolveHostedOptions(url, hosted));
}
