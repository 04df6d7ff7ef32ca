/**
 * The OAuth grants that need nothing but a token endpoint, client credentials and refresh token, and what every grant
 * is made of.
 *
 * Guarantees that client secrets, keys and refresh tokens go to the token endpoint that the app named, or to
 * the one in the metadata of the issuer it named, and nowhere else; that bad options are refused before any
 * I/O; and that openid-client is loaded when the first token is asked for, not before. Never asks an MCP
 * server where to send a secret.
 */
import { type Clock, systemClock } from '../clock.js';
import type { HttpFetch } from '../http/exchange.js';
import { hmacHex } from '../runtime/digest.js';
import { Discovery } from './authorization/discovery.js';
import { DiscoverOnceProvider, Pin } from './authorization/once.js';
import { clientAuthenticator, type SecretEncoding } from './client-auth.js';
import { Dpop } from './dpop.js';
import type { Grant } from './grant.js';
import { MetadataSource } from './metadata.js';
import { MAX_LIFETIME_MS, type ResolvedRefreshPolicy, resolveRefreshPolicy } from './options.js';
import type { CredentialProvider, CredentialStore, RefreshPolicy } from './provider.js';
import { Refresher } from './refresher.js';
import { isScope } from './scopes.js';
import { Secret } from './secret.js';
import type { Seed } from './seed.js';
import { TokenEndpoint } from './token-endpoint.js';
import { isSafeEndpoint, TokenHttp } from './token-fetch.js';
import { isTokenValue, jwtTimes } from './token-value.js';

/**
 * Where a secret may go is the app's word: the issuer (its metadata are read, RFC 8414) or the token endpoint itself; or,
 * with `discover: 'once'`, whichever authorization server the MCP server names when it first asks for a credential (RFC
 * 9728). That one is kept to: in the `store`, or else as long as the provider lives.
 */
export type OAuthIssuer =
  | { issuer: string; tokenEndpoint?: undefined; discover?: undefined }
  | { tokenEndpoint: string; issuer?: undefined; discover?: undefined }
  | { discover: 'once'; issuer?: undefined; tokenEndpoint?: undefined };

/** `private_key_jwt` (RFC 7523): a PKCS#8 PEM string or a CryptoKey that can sign. `algorithm`: RS256, PS256, ES256, EdDSA ... */
export type KeyAuth = {
  privateKey: string | object;
  algorithm?: string | undefined;
  keyId?: string | undefined;
  clientSecret?: undefined;
};

/** `client_secret_basic`, or `client_secret_post` where the issuer's metadata list only that; or a key. */
export type ClientAuth =
  | {
      clientSecret: string;
      privateKey?: undefined;
      /** How id and secret are written for `client_secret_basic`. Default: `'form'`. */
      secretEncoding?: SecretEncoding | undefined;
    }
  | KeyAuth;

/** A public client gives neither. */
export type OptionalClientAuth =
  | {
      clientSecret?: string | undefined;
      privateKey?: undefined;
      secretEncoding?: SecretEncoding | undefined;
    }
  | KeyAuth;

export type OAuthOptions = {
  /** RFC 8707: for which server the token is asked. Default: the address given to `acquire`, verbatim; `''`: not sent. */
  resource?: string | undefined;
  /** When the token is renewed; see `REFRESH_DEFAULTS`. */
  refresh?: RefreshPolicy | undefined;
  /** Used instead of undici for token and metadata requests. */
  fetch?: HttpFetch | undefined;
  /**
   * Tokens bound to a key (RFC 9449), with a proof on every request: a token that is stolen alone is of no use. The key
   * stands with the token in the store. A server that gives a bearer token instead is refused.
   */
  dpop?: boolean | undefined;
  /** Time for tests. */
  clock?: Clock | undefined;
} & (
  | {
      /** Shares the credential between processes and replicas. */
      store: CredentialStore;
      /** Whose credential this is; part of its id in the store. */
      subject: string;
    }
  | { store?: undefined; subject?: string | undefined }
);

export type ClientCredentialsOptions = OAuthIssuer &
  ClientAuth &
  OAuthOptions & { clientId: string; scope?: string | undefined };

export type RefreshTokenOptions = OAuthIssuer &
  OptionalClientAuth &
  OAuthOptions & {
    clientId: string;
    /** Used only when the store has none. */
    refreshToken?: string | undefined;
    /** A token that is still good, so that nothing need be asked at start. */
    accessToken?: string | undefined;
    /** Its end, epoch milliseconds. */
    expiresAtMs?: number | undefined;
    scope?: string | undefined;
  };

/**
 * A machine's own credential (RFC 6749, 4.4). Nothing is spent by asking, so that a store is optional and a
 * store that is down is no obstacle. The provider serves one origin: the first it is used for.
 *
 * Throws a `TypeError` for bad options. `acquire` throws `ERR_TOKEN_ENDPOINT` (wait), `ERR_CREDENTIAL_REJECTED`,
 * `ERR_INSUFFICIENT_SCOPE`, `ERR_DISCOVERY`, `ERR_ABORTED`, `ERR_CLOSED`.
 *
 * @example
 * clientCredentialsGrant({ issuer: 'https://login.example.com', clientId, clientSecret, scope: 'mcp' })
 */
export function clientCredentialsGrant(options: ClientCredentialsOptions): CredentialProvider {
  if (options.clientSecret === undefined && options.privateKey === undefined) {
    throw new TypeError('clientSecret or privateKey is required');
  }
  return makeProvider(options, ({ endpoint }) => endpointGrant(endpoint, false));
}

/**
 * A user's credential, renewed with a refresh token (RFC 6749, 6). Where the server rotates refresh tokens,
 * replicas must share a `store`, or the first reuse ends the authorization.
 *
 * With a `store` one replica asks, under a lease of `refresh.tokenTimeoutMs` and 5 s, and the others take what it
 * stores. A replica that dies:
 * - before its request has left: another one asks when the lease is over; callers whose token is over wait for that.
 * - after it has left: nobody has the answer, and what is stored may be spent. Another one asks with it when the lease
 *   is over. A server that takes a token once more within a grace of longer than the lease goes on; a strict one ends the
 *   authorization: each replica finds that out with one request, and from then on says `ERR_REAUTHORIZATION_REQUIRED`.
 * - on SIGTERM: await `close()`, which finishes and stores a refresh that has left. It is the only cure for the above.
 *
 * A replica that was stopped for longer than its lease does not send what it held. While the store is down the token is
 * used until it is over, and no refresh is made. A store that forgets everything while replicas hold different pairs
 * cannot be told from a log-out: give Redis persistence. A machine's own identity has none of these troubles with
 * `clientCredentialsGrant`.
 *
 * Throws a `TypeError` for bad options. `acquire` throws as `clientCredentialsGrant` does, and
 * `ERR_REAUTHORIZATION_REQUIRED` once the refresh token is spent or revoked: without another request, until the
 * stored credential changes; and `ERR_STORE_UNAVAILABLE` when the token is over and the store down.
 *
 * @example
 * refreshTokenGrant({ issuer, clientId, refreshToken, store: fileCredentialStore('.credentials'), subject: 'user-7' })
 */
export function refreshTokenGrant(options: RefreshTokenOptions): CredentialProvider {
  const { refreshToken, accessToken, expiresAtMs, store } = options;
  if (refreshToken === undefined && store === undefined) {
    throw new TypeError('refreshToken or a store that holds one is required');
  }
  if (refreshToken !== undefined && (typeof refreshToken !== 'string' || refreshToken === '')) {
    throw new TypeError('refreshToken must be a string that is not empty');
  }
  if (accessToken !== undefined && !(typeof accessToken === 'string' && isTokenValue(accessToken))) {
    throw new TypeError('accessToken must be a token of visible ASCII characters');
  }
  if (accessToken !== undefined && options.dpop === true) {
    throw new TypeError(
      'accessToken cannot be given with dpop: the key that it is bound to is not known here',
    );
  }
  if (expiresAtMs !== undefined && !Number.isFinite(expiresAtMs)) {
    throw new TypeError('expiresAtMs must be a number of epoch milliseconds');
  }
  const { assumedLifetimeMs } = resolveRefreshPolicy(options.refresh);
  const nowMs = (options.clock ?? systemClock()).now();
  const end = accessToken === undefined ? undefined : (expiresAtMs ?? jwtTimes(accessToken)?.expiresAtMs);
  const lifetimeMs = end === undefined ? assumedLifetimeMs : Math.min(end - nowMs, MAX_LIFETIME_MS);
  const isAlive = accessToken !== undefined && lifetimeMs > 0;
  return makeProvider(options, ({ endpoint }) => endpointGrant(endpoint, true), {
    seed: {
      refreshToken: refreshToken === undefined ? undefined : new Secret(refreshToken),
      accessToken: isAlive ? new Secret(accessToken, 1) : undefined,
      lifetimeMs: isAlive ? lifetimeMs : undefined,
    },
  });
}

/** What all grants take. */
export type GrantOptions = OAuthIssuer &
  OptionalClientAuth &
  OAuthOptions & { clientId?: string | undefined; scope?: string | undefined };

/** One authorization server, as one client sees it. */
export interface AuthorizationServer {
  readonly endpoint: TokenEndpoint;
  readonly metadata: Pick<MetadataSource, 'get'>;
  readonly clock: Clock;
}

/** What distinguishes a grant beside its request. */
export interface GrantTraits {
  readonly seed?: Seed | undefined;
  /** What else makes the credential another one than server, client and subject do; not secret. */
  readonly identity?: readonly string[] | undefined;
  readonly mayOmitClientId?: boolean | undefined;
}

/** The provider around a grant. Throws a `TypeError` for bad options. */
export function makeProvider(
  options: GrantOptions,
  makeGrant: (server: AuthorizationServer) => Grant,
  traits: GrantTraits = {},
): CredentialProvider {
  checkServer(options, traits.mayOmitClientId);
  checkOptions(options);
  const policy = resolveRefreshPolicy(options.refresh);
  const clock = options.clock ?? systemClock();
  const dpop = options.dpop === true ? new Dpop(clock) : undefined;
  const { issuer, tokenEndpoint, discover, clientId = '', subject = '' } = options;
  const id = credentialId([
    issuer ?? tokenEndpoint ?? discover,
    clientId,
    subject,
    ...(traits.identity ?? []),
  ]);
  const { store, resource, scope, fetch } = options;
  const common = { id, policy, clock, store, seed: traits.seed, dpop };
  if (discover === undefined) {
    const grant = makeGrant(authorizationServer(options, policy, clock, fetch, dpop));
    return new Refresher({ ...common, grant, resource, scope });
  }
  const pin = new Pin();
  const discovery = new Discovery({ id, store, clock, fetch, timeoutMs: policy.tokenTimeoutMs });
  const grant = makeGrant(
    authorizationServer(options, policy, clock, fetch, dpop, { pin, http: discovery.http }),
  );
  const inner = new Refresher({
    ...common,
    grant,
    resource: () => resource ?? pin.resource,
    scope: () => scope ?? pin.scope,
  });
  return new DiscoverOnceProvider({ inner, pin, discovery, clock });
}

/** The options must have been checked. Throws a `TypeError` for a secret or key that cannot be used. */
export function authorizationServer(
  options: OAuthIssuer & OptionalClientAuth & { clientId?: string | undefined },
  policy: ResolvedRefreshPolicy,
  clock: Clock,
  fetch: HttpFetch | undefined,
  dpop?: Dpop | undefined,
  discovered?: { readonly pin: Pin; readonly http: TokenHttp } | undefined,
): AuthorizationServer {
  const auth = clientAuthenticator(options);
  const http = discovered?.http ?? new TokenHttp(clock, fetch);
  const { issuer, tokenEndpoint, clientId } = options;
  const timeoutMs = policy.tokenTimeoutMs;
  const metadata = discovered?.pin ?? new MetadataSource({ issuer, tokenEndpoint, http, clock, timeoutMs });
  return { endpoint: new TokenEndpoint({ clientId, auth, metadata, http, clock, dpop }), metadata, clock };
}

export function endpointGrant(endpoint: TokenEndpoint, spendsRefreshToken: boolean): Grant {
  return {
    spendsRefreshToken,
    prepare: () => endpoint.prepare(),
    request: (request) => endpoint.request(request),
    revoke: (tokens, timeoutMs) => endpoint.revoke(tokens, timeoutMs),
    close: () => endpoint.close(),
  };
}

/** Which server is asked, and as which client. Throws a `TypeError`. */
export function checkServer(
  options: OAuthIssuer & { clientId?: string | undefined },
  mayOmitClientId: boolean | undefined = false,
): void {
  const { issuer, tokenEndpoint, discover, clientId } = options;
  if (discover !== undefined && discover !== 'once') throw new TypeError("discover must be 'once'");
  if ([issuer, tokenEndpoint, discover].filter((each) => each !== undefined).length !== 1) {
    throw new TypeError("exactly one of issuer, tokenEndpoint and discover: 'once' is required");
  }
  checkEndpoint('issuer', issuer);
  checkEndpoint('tokenEndpoint', tokenEndpoint);
  if (issuer !== undefined && /[?#]/.test(issuer))
    throw new TypeError('issuer must have no query or fragment');
  if (clientId === undefined && mayOmitClientId) return;
  if (typeof clientId !== 'string' || clientId === '') throw new TypeError('clientId is required');
}

/** What all grants have in common. Throws a `TypeError`. */
export function checkOptions(options: OAuthOptions & { scope?: string | undefined }): void {
  const { scope, resource, store, subject, fetch, dpop } = options;
  if (dpop !== undefined && typeof dpop !== 'boolean') throw new TypeError('dpop must be true or false');
  if (scope !== undefined && scope !== '' && !(typeof scope === 'string' && isScope(scope))) {
    throw new TypeError('scope must be scope names separated by spaces');
  }
  if (resource !== undefined && resource !== '') {
    if (typeof resource !== 'string' || !URL.canParse(resource) || resource.includes('#')) {
      throw new TypeError('resource must be an absolute URI without a fragment');
    }
  }
  if (fetch !== undefined && typeof fetch !== 'function') throw new TypeError('fetch must be a function');
  if (subject !== undefined && (typeof subject !== 'string' || subject === '')) {
    throw new TypeError('subject must be a string that is not empty');
  }
  if (store === undefined) return;
  for (const method of ['read', 'compareAndSet', 'lease'] as const) {
    if (typeof store?.[method] !== 'function') throw new TypeError(`store.${method} must be a function`);
  }
  if (subject === undefined) throw new TypeError('subject is required with a store: whose credential is it?');
}

function checkEndpoint(name: string, value: string | undefined): void {
  if (value === undefined) return;
  if (typeof value !== 'string' || !URL.canParse(value) || !isSafeEndpoint(new URL(value))) {
    throw new TypeError(`${name} must be an https address (plain http on loopback only)`);
  }
}

/** Stable across processes and releases, and not secret. */
export function credentialId(parts: readonly (string | undefined)[]): string {
  return hmacHex('mcp-holdfast credential id v1', JSON.stringify(parts)).slice(0, 32);
}
