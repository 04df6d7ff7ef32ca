/**
 * The authorization code grant with PKCE (RFC 6749, 4.1; RFC 7636), as MCP's authorization has it: the options.
 *
 * Guarantees that bad options are refused before any I/O, and that a secret or key of the app's is only taken together
 * with the app's word on where it may go. Never opens a browser.
 */
import { systemClock } from '../../clock.js';
import { clientAuthenticator } from '../client-auth.js';
import { Dpop } from '../dpop.js';
import type { MetadataSource } from '../metadata.js';
import { checkOptions, checkServer, credentialId, endpointGrant, type OAuthOptions } from '../oauth.js';
import { resolveRefreshPolicy } from '../options.js';
import { Refresher } from '../refresher.js';
import { TokenEndpoint } from '../token-endpoint.js';
import { isSafeEndpoint } from '../token-fetch.js';
import { type Client, type ClientIdentity, clientBefore } from './client-identity.js';
import { Discovery, digest } from './discovery.js';
import { AuthorizationFlow } from './flow.js';
import { PendingAuthorizations } from './pending.js';
import { type AuthorizationCodeProvider, AuthorizationProvider } from './provider.js';

export type AuthorizationCodeOptions = OAuthOptions & {
  /** The one authorization server to use. Default: the one that the MCP server names (RFC 9728), also when that changes. */
  issuer?: string | undefined;
  /** Keeps to the authorization server that the MCP server names first. This or `issuer` is required with a secret or key. */
  discover?: 'once' | undefined;
  /** Where the browser comes back to: https, loopback, or the app's own scheme. */
  redirectUri: string;
  /**
   * Sends the user to `url` and resolves with the URL that the browser came back to, as `loopbackRedirect()` does. Without
   * it (a web backend) callers get `ERR_REAUTHORIZATION_REQUIRED` with an `authorizationUrl`, and the handler of the
   * callback calls `finishAuth`. The signal ends when the provider is closed.
   */
  onRedirect?:
    | ((url: URL, options: { signal: AbortSignal }) => URL | string | Promise<URL | string>)
    | undefined;
  /** Default: registered at first use (RFC 7591) under the name `mcp-holdfast`. */
  client?: ClientIdentity | undefined;
  /** Asked for at the first consent, beside what the server's challenge names. Default: the challenge, else what the metadata list, else none. */
  scope?: string | undefined;
  /** Asks for `offline_access`, and with that for a refresh token, where the server has such a scope. Default: true. */
  offlineAccess?: boolean | undefined;
  /** Origins beside the MCP server's own that may publish its metadata. */
  metadataOrigins?: readonly string[] | undefined;
};

const DEFAULT_CLIENT: ClientIdentity = Object.freeze({ register: Object.freeze({ name: 'mcp-holdfast' }) });

/**
 * A user's credential: discovery, registration and consent when the MCP server first asks for a credential, then refresh,
 * as `refreshTokenGrant` does it. The first request to a server goes out without a credential. One provider serves one
 * MCP server and one user; with a `store` (and `subject`: which user) a restart needs no second consent, and any process
 * may take the callback.
 *
 * Throws a `TypeError` for bad options. `acquire` throws `ERR_REAUTHORIZATION_REQUIRED` (with `authorizationUrl`: where to
 * send the user), `ERR_DISCOVERY` (what the servers publish cannot be used), `ERR_INSUFFICIENT_SCOPE` (`requiredScope`;
 * with `onRedirect` the user is asked first, at most twice in ten minutes), and as `refreshTokenGrant` does.
 *
 * @example
 * // A command-line app: the system browser, and a store so that it is asked once.
 * const { redirectUri, onRedirect } = await loopbackRedirect();
 * const credentials = authorizationCodeGrant({ redirectUri, onRedirect, client: { register: { name: 'my-tool' } },
 *   store: fileCredentialStore('.credentials'), subject: 'me' });
 */
export function authorizationCodeGrant(options: AuthorizationCodeOptions): AuthorizationCodeProvider {
  const { issuer, discover, redirectUri, onRedirect, client = DEFAULT_CLIENT, scope, store, fetch } = options;
  const identity = checkIdentity(client, issuer !== undefined || discover !== undefined);
  if (issuer !== undefined) checkServer({ issuer, discover } as never, true);
  else if (discover !== undefined) checkServer({ discover }, true);
  checkOptions(options);
  checkOwnOptions(options);
  const policy = resolveRefreshPolicy(options.refresh);
  const clock = options.clock ?? systemClock();
  // A key for each holder of a token, and one for each code, which goes along with the token it brings.
  const newKey = () => (options.dpop === true ? new Dpop(clock) : undefined);
  const id = credentialId([
    'authorization-code',
    issuer ?? '',
    nameOf(identity),
    options.subject ?? '',
    options.resource ?? '',
  ]);
  const timeoutMs = policy.tokenTimeoutMs;
  const { metadataOrigins } = options;
  const discovery = new Discovery({ id, store, clock, fetch, timeoutMs, issuer, metadataOrigins });
  const { http } = discovery;
  const endpointOf = (known: Client, metadata: Pick<MetadataSource, 'get'>, dpop = newKey()) =>
    new TokenEndpoint({ clientId: known.clientId, auth: known.auth, metadata, http, clock, dpop });
  const flow = new AuthorizationFlow({
    identity,
    redirectUri,
    offlineAccess: options.offlineAccess ?? true,
    resource: options.resource,
    pending: new PendingAuthorizations(discovery.store, id, clock),
    discovery,
    endpointOf,
    clock,
    timeoutMs,
  });
  return new AuthorizationProvider({
    id,
    flow,
    clock,
    scope,
    isPinned: discover === 'once',
    onRedirect,
    discovery,
    holderOf(target, data) {
      const known = clientBefore(identity, data.clientId, data.clients[data.issuer]);
      if (known === undefined) return undefined;
      const at = `${target.origin}${target.pathname}`;
      const dpop = newKey();
      return new Refresher({
        id: `${id}-${digest(at, data.issuer, known.clientId)}`,
        // What it sends with is shared, and closed with the provider.
        grant: {
          ...endpointGrant(endpointOf(known, discovery.metadataOf(data), dpop), true),
          close: async () => {},
        },
        policy,
        clock,
        store: discovery.store,
        dpop,
        resource: options.resource ?? data.resource,
        // A refresh asks for what was granted, which is what leaving it out means (RFC 6749, 6).
        scope: undefined,
      });
    },
  });
}

function checkIdentity(client: ClientIdentity, isServerNamed: boolean): ClientIdentity {
  if (typeof client !== 'object' || client === null) throw new TypeError('client must be an object');
  const given = client as Partial<Record<string, unknown>>;
  const ways = ['clientId', 'metadataUrl', 'register'].filter((name) => given[name] !== undefined);
  const isFallback = ways.join() === 'metadataUrl,register';
  if (ways.length !== 1 && !isFallback) {
    throw new TypeError('client must have one of clientId, metadataUrl and register');
  }
  if ('metadataUrl' in client) {
    const url = URL.canParse(client.metadataUrl) ? new URL(client.metadataUrl) : undefined;
    // The draft of client id metadata documents, section 3: an https address with a path.
    if (url?.protocol !== 'https:' || url.pathname === '/' || url.hash !== '' || url.username !== '') {
      throw new TypeError('client.metadataUrl must be an https address with a path and without a fragment');
    }
  }
  if (given.register !== undefined) {
    const { name } = (given.register ?? {}) as { name?: unknown };
    if (typeof name !== 'string' || name === '') throw new TypeError('client.register.name is required');
  }
  if ('clientId' in client) {
    if (typeof client.clientId !== 'string' || client.clientId === '') {
      throw new TypeError('client.clientId must be a string that is not empty');
    }
    // Refuses what cannot be used.
    clientAuthenticator(client);
    const isConfidential = client.clientSecret !== undefined || client.privateKey !== undefined;
    if (isConfidential && !isServerNamed) {
      throw new TypeError("issuer or discover: 'once' is required with a secret or key: where may it go?");
    }
  }
  return client;
}

function checkOwnOptions(options: AuthorizationCodeOptions): void {
  const { redirectUri, onRedirect, offlineAccess, metadataOrigins } = options;
  const redirect =
    typeof redirectUri === 'string' && URL.canParse(redirectUri) ? new URL(redirectUri) : undefined;
  const isHttp = redirect?.protocol === 'http:' || redirect?.protocol === 'https:';
  if (redirect === undefined || redirect.hash !== '' || (isHttp && !isSafeEndpoint(redirect))) {
    throw new TypeError(
      'redirectUri must be an https address, plain http on loopback, or one of a scheme of your own, without a fragment',
    );
  }
  if (onRedirect !== undefined && typeof onRedirect !== 'function') {
    throw new TypeError('onRedirect must be a function');
  }
  if (offlineAccess !== undefined && typeof offlineAccess !== 'boolean') {
    throw new TypeError('offlineAccess must be true or false');
  }
  const isOrigin = (each: unknown) =>
    typeof each === 'string' && URL.canParse(each) && new URL(each).origin === each;
  if (metadataOrigins !== undefined && !(Array.isArray(metadataOrigins) && metadataOrigins.every(isOrigin))) {
    throw new TypeError('metadataOrigins must be origins, such as https://auth.example.com');
  }
}

function nameOf(identity: ClientIdentity): string {
  if ('clientId' in identity) return identity.clientId;
  return 'metadataUrl' in identity ? identity.metadataUrl : `register ${identity.register.name}`;
}
