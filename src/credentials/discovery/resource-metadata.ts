/**
 * What an MCP server says about itself as a protected resource (RFC 9728; MCP 2025-11-25, authorization).
 *
 * Guarantees that only the server's own origin is asked, and origins that the app allows; that what is said is about
 * this very server; and that the strings stay as they were written, for they are compared elsewhere. Never asks more than
 * two locations, and none but the one the server named where it named one.
 */
import type { Clock } from '../../clock.js';
import type { TokenHttp } from '../token-fetch.js';
import { addressRefused, checkScheme } from './address-guard.js';
import { type Document, memberOf, readDocument, stringsIn, unusable } from './document.js';

export interface ProtectedResource {
  /** Verbatim: RFC 8707's `resource`. */
  readonly resource: string;
  /** Verbatim, for an issuer is compared as a string; the addresses have been checked. Empty: none is named. */
  readonly authorizationServers: readonly string[];
  readonly scopesSupported?: readonly string[] | undefined;
}

export interface ProtectedResourceOptions {
  /** The MCP server's address. */
  readonly target: URL;
  /** `resource_metadata` of the server's challenge. */
  readonly resourceMetadata?: string | undefined;
  /** Origins beside the server's own where its metadata may be. */
  readonly allowedOrigins?: readonly string[] | undefined;
  readonly http: TokenHttp;
  readonly clock: Clock;
  /** For each request. */
  readonly timeoutMs: number;
}

const PARTY = 'The MCP server';
const TITLE = 'protected resource metadata';
const WELL_KNOWN = '/.well-known/oauth-protected-resource';

/**
 * Undefined: the server publishes none, as servers of MCP 2025-03-26 do not. Throws `ERR_DISCOVERY` (what it says must
 * not be used) or `ERR_TOKEN_ENDPOINT` (it does not answer now; retryable).
 */
export async function readProtectedResource(
  options: ProtectedResourceOptions,
): Promise<ProtectedResource | undefined> {
  const { target, resourceMetadata } = options;
  if (resourceMetadata !== undefined) {
    const document = await read(namedLocation(options, resourceMetadata), options);
    if (document.kind === 'object') return checked(document.value, options);
    throw document.kind === 'absent'
      ? unusable(
          `${PARTY} has no ${TITLE} at the address that it names for them`,
          'no_resource_metadata',
          document.status,
        )
      : unusable(`The ${TITLE} of the MCP server are no JSON object`, 'not_json');
  }
  for (const location of resourceLocations(target)) {
    const document = await read(location, options);
    if (document.kind === 'object') return checked(document.value, options);
  }
  return undefined;
}

/** Where metadata of the server may be if it does not say: at its path, then at the root. */
export function resourceLocations(target: URL): string[] {
  const { origin, pathname, search } = target;
  // RFC 9728, 3.1: a slash right after the host is left out, any other belongs to the path.
  const own = `${origin}${WELL_KNOWN}${pathname === '/' ? '' : pathname}${search}`;
  return [...new Set([own, `${origin}${WELL_KNOWN}`])];
}

async function read(url: string, { http, clock, timeoutMs }: ProtectedResourceOptions): Promise<Document> {
  const named = `The address of the MCP server's ${TITLE}`;
  checkScheme(new URL(url), named);
  return readDocument({ url, party: PARTY, title: TITLE, named, http, clock, timeoutMs });
}

/** The address from the challenge; it may be anything. */
function namedLocation({ target, allowedOrigins = [] }: ProtectedResourceOptions, named: string): string {
  if (!URL.canParse(named)) {
    throw addressRefused(`The address that the MCP server names for its ${TITLE}`, 'is not an absolute URL');
  }
  const url = new URL(named);
  const allowed = allowedOrigins
    .filter((origin) => URL.canParse(origin))
    .map((origin) => new URL(origin).origin);
  // An opaque origin is written as `null`, whoever has it.
  if (url.origin === 'null' || ![target.origin, ...allowed].includes(url.origin)) {
    throw unusable(`${PARTY} names an address at another origin for its ${TITLE}`, 'other_origin');
  }
  return url.href;
}

function checked(document: object, { target, http }: ProtectedResourceOptions): ProtectedResource {
  const resource = memberOf(document, 'resource');
  if (typeof resource !== 'string' || resource === '') {
    throw unusable(`The ${TITLE} of the MCP server do not say which resource they are about`, 'no_resource');
  }
  if (!covers(resource, target)) {
    throw unusable(`The ${TITLE} of the MCP server are about another resource`, 'resource_mismatch');
  }
  const servers = memberOf(document, 'authorization_servers') ?? [];
  if (!Array.isArray(servers)) {
    throw unusable(
      `The ${TITLE} of the MCP server name no list of authorization servers`,
      'no_authorization_servers',
    );
  }
  for (const server of servers) checkAuthorizationServer(server, http);
  return {
    resource,
    authorizationServers: servers,
    scopesSupported: stringsIn(document, 'scopes_supported'),
  };
}

/** The same origin, and whole segments of its path are the beginning of the target's. */
function covers(resource: string, target: URL): boolean {
  if (!URL.canParse(resource) || resource.includes('#')) return false;
  const url = new URL(resource);
  if (url.username !== '' || url.password !== '' || url.origin !== target.origin) return false;
  if (url.search !== '' && url.search !== target.search) return false;
  const path = url.pathname.replace(/\/$/, '');
  return target.pathname === path || target.pathname.startsWith(`${path}/`);
}

function checkAuthorizationServer(server: unknown, http: TokenHttp): asserts server is string {
  const named = 'An authorization server that the MCP server names';
  if (typeof server !== 'string' || !URL.canParse(server)) {
    throw addressRefused(named, 'is not an absolute URL');
  }
  // An issuer has neither (RFC 8414, 2); its metadata could not be found.
  if (/[?#]/.test(server)) throw addressRefused(named, 'has a query or a fragment');
  http.check(new URL(server), named);
}
