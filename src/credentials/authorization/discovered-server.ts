/**
 * Which authorization server an MCP server names (MCP 2025-11-25, authorization; RFC 9728).
 *
 * Guarantees that the server's own words are used as they are written, and that among several authorization servers the
 * one that is known already stays. Never sends a credential, and never decides whether the one named may have a secret.
 */
import type { Clock } from '../../clock.js';
import { readProtectedResource } from '../discovery/resource-metadata.js';
import type { Rejection } from '../provider.js';
import type { TokenHttp } from '../token-fetch.js';

export interface DiscoveredServer {
  readonly issuer: string;
  /** The MCP server publishes no metadata: it is its own authorization server, as MCP 2025-03-26 had it. */
  readonly isFallback: boolean;
  /** RFC 8707, verbatim; undefined: the MCP server's address. */
  readonly resource?: string | undefined;
  readonly scopesSupported?: readonly string[] | undefined;
}

export interface DiscoverOptions {
  readonly target: URL;
  readonly rejection?: Rejection | undefined;
  /** The issuer to stay with where the MCP server names several. */
  readonly known?: string | undefined;
  /** Origins beside the target's own that may publish its metadata. */
  readonly metadataOrigins?: readonly string[] | undefined;
  readonly http: TokenHttp;
  readonly clock: Clock;
  readonly timeoutMs: number;
}

/** Throws `ERR_DISCOVERY` (what is published cannot be used) or `ERR_TOKEN_ENDPOINT` (it cannot be had now). */
export async function discoverServer(options: DiscoverOptions): Promise<DiscoveredServer> {
  const { target, rejection, known, metadataOrigins, http, clock, timeoutMs } = options;
  const resource = await readProtectedResource({
    target,
    resourceMetadata: rejection?.resourceMetadata,
    allowedOrigins: metadataOrigins,
    http,
    clock,
    timeoutMs,
  });
  const issuers = resource?.authorizationServers ?? [];
  const [first] = issuers;
  const own = { resource: resource?.resource, scopesSupported: resource?.scopesSupported };
  if (first === undefined) return { ...own, issuer: target.origin, isFallback: true };
  const issuer = known !== undefined && issuers.includes(known) ? known : first;
  return { ...own, issuer, isFallback: false };
}
