/**
 * What `doctor` speaks to, resolved: an address, its credential and how HTTP goes there.
 *
 * Guarantees that what cannot be used is a `UsageError` before any request to the server. Never shows a value.
 */
import type { Clock } from '../../clock.js';
import { HostedMcpError } from '../../errors.js';
import { type HostedOptions, resolveHostedOptions } from '../../options.js';
import { type CommandIo, UsageError } from '../command.js';
import type { Target } from '../target.js';
import type { Aim } from './line.js';
import { addressOf } from './report.js';

type Way = Pick<HostedOptions, 'credentials' | 'http'>;

export async function aimOf(target: Target, io: CommandIo): Promise<Aim> {
  const { url, label, config, credentials } = target;
  const { clock } = io;
  const http = io.fetch === undefined ? {} : { fetch: io.fetch };
  if (url !== undefined) return aimAt(label, url, { credentials, http }, clock);
  if (config?.resolve === undefined) {
    throw new UsageError(
      `${label}: This server is started here; only one that has an address can be examined.`,
    );
  }
  const resolved = await config.resolve({ clock, http });
  const way = { credentials: resolved.credentials, http: { ...http, ...resolved.http } };
  const aim = aimAt(label, resolved.url, way, clock);
  return config.shownUrl === undefined ? aim : { ...aim, shownUrl: config.shownUrl };
}

/** Throws a `UsageError` naming the option that cannot be used. */
export function aimAt(label: string, url: string | URL, way: Way, clock: Clock): Aim {
  try {
    const { url: address, credentials, http } = resolveHostedOptions(url, { ...way, clock });
    return { url: address, shownUrl: addressOf(address), credentials, http };
  } catch (error) {
    if (error instanceof TypeError && !HostedMcpError.isInstance(error)) {
      throw new UsageError(`${label}: ${error.message}`);
    }
    throw error;
  }
}
