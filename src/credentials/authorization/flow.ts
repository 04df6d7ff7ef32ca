/**
 * One authorization by a user: where the browser is sent to, and what its callback is good for (RFC 6749, 4.1 with PKCE,
 * RFC 7636).
 *
 * Guarantees that what the callback needs is stored before the user is sent away, so that any process with the same
 * store can finish; that a callback is used once; and that a code is sent once, to the server that gave it. Never sends
 * a user to a server that does not say that it checks the proof (PKCE).
 */
import type { Clock } from '../../clock.js';
import { HostedMcpError } from '../../errors.js';
import type { MetadataSource, ServerMetadata } from '../metadata.js';
import { type Moment, momentOf } from '../moment.js';
import { problemError } from '../problem.js';
import { unionScope } from '../scopes.js';
import type { IssuedToken, TokenEndpoint } from '../token-endpoint.js';
import { authorizationRequest, withOfflineAccess } from './authorization-request.js';
import { type Callback, checkCallback, only, readCallback, refused } from './callback.js';
import { type Client, type ClientIdentity, clientBefore, identify } from './client-identity.js';
import type { DiscoveredServer } from './discovered-server.js';
import type { Discovery } from './discovery.js';
import type { PendingAuthorizations } from './pending.js';
import type { AuthorizationData } from './record.js';

export interface FlowParts {
  readonly identity: ClientIdentity;
  readonly redirectUri: string;
  readonly offlineAccess: boolean;
  readonly pending: PendingAuthorizations;
  /** The app's word (RFC 8707); undefined: what the MCP server calls itself. */
  readonly resource: string | undefined;
  readonly discovery: Discovery;
  endpointOf(client: Client, metadata: Pick<MetadataSource, 'get'>): TokenEndpoint;
  readonly clock: Clock;
  readonly timeoutMs: number;
}

/** A user's consent, as a token and what it rests on. */
export interface Authorized {
  readonly target: URL;
  readonly data: AuthorizationData & { readonly clientId: string };
  readonly issued: IssuedToken;
  readonly started: Moment;
}

export class AuthorizationFlow {
  readonly #parts: FlowParts;

  constructor(parts: FlowParts) {
    this.#parts = parts;
  }

  /** The address to send the user to. Throws `ERR_DISCOVERY`, `ERR_TOKEN_ENDPOINT`, `ERR_STORE_UNAVAILABLE`. */
  async begin(target: URL, server: DiscoveredServer, scope: string | undefined): Promise<URL> {
    const { identity, redirectUri, clock, timeoutMs, pending, discovery } = this.#parts;
    const { http } = discovery;
    const metadata = await discovery.metadataOf(server).get();
    const endpoint = checkedEndpoint(metadata);
    const record = discovery.recordOf(target);
    const before = await record.read();
    const asked = this.#parts.offlineAccess ? withOfflineAccess(scope, metadata) : scope;
    const options = { identity, redirectUri, scope: asked, http, clock, timeoutMs };
    const kept = before?.clients[server.issuer];
    let client = await identify(options, metadata, kept);
    const { registered } = client;
    if (registered !== undefined && registered !== kept) {
      const data = await record.update((now) => {
        const theirs = now?.clients[server.issuer];
        // Another process was first: the callback of the address it gave needs that client.
        if (theirs?.redirectUri === redirectUri && theirs.clientId !== kept?.clientId) return now;
        return {
          ...(now ?? { ...server, clients: {} }),
          clients: { ...now?.clients, [server.issuer]: registered },
        };
      });
      const used = data?.clients[server.issuer];
      client = clientBefore(identity, used?.clientId, used) ?? client;
    }
    const resource = this.#parts.resource ?? server.resource ?? target.href;
    const { url, verifier, state } = await authorizationRequest({
      endpoint,
      clientId: client.clientId,
      redirectUri,
      resource,
      scope: asked,
    });
    await pending.put(state, {
      target: target.href,
      issuer: server.issuer,
      clientId: client.clientId,
      verifier,
      redirectUri,
      resource,
      scope: asked,
    });
    return url;
  }

  /**
   * Exchanges the callback's code. Throws `TypeError` for what is no callback, `ERR_REAUTHORIZATION_REQUIRED` for a
   * refusal or one that fits nothing, and what the token endpoint's answer amounts to.
   */
  async finish(callback: Callback): Promise<Authorized> {
    const parameters = readCallback(callback);
    const state = only(parameters, 'state');
    const pending = state === undefined ? undefined : await this.#parts.pending.take(state);
    if (state === undefined || pending === undefined) {
      throw refused(
        'The callback belongs to no authorization that is under way: it was finished before, is older than ten minutes, or began elsewhere',
        'unknown_state',
      );
    }
    const target = new URL(pending.target);
    const { discovery } = this.#parts;
    discovery.bind(target);
    const record = discovery.recordOf(target);
    const before = await record.read();
    const isFallback =
      pending.issuer === before?.issuer ? before.isFallback : pending.issuer === target.origin;
    const source = discovery.metadataOf({ issuer: pending.issuer, isFallback });
    const metadata = await source.get();
    checkCallback(parameters, metadata);
    const client = clientBefore(this.#parts.identity, pending.clientId, before?.clients[pending.issuer]);
    if (client === undefined) throw refused('The client that asked is not known any more', 'unknown_client');
    const endpoint = this.#parts.endpointOf(client, source);
    const address = new URL(pending.redirectUri);
    address.search = parameters.toString();
    await endpoint.prepare();
    const started = momentOf(this.#parts.clock);
    const outcome = await endpoint.request({
      code: { callback: address, verifier: pending.verifier, state },
      resource: pending.resource,
      timeoutMs: this.#parts.timeoutMs,
    });
    if (outcome.kind !== 'token') throw exchangeError(outcome);
    const scope = outcome.scope ?? pending.scope;
    const data = await record.update((now) => ({
      issuer: pending.issuer,
      isFallback,
      resource: pending.resource,
      scopesSupported: now?.scopesSupported,
      clientId: client.clientId,
      // What was granted before is not given back: step-up asks for the union.
      scope: scope === undefined ? undefined : unionScope(scope),
      clients: now?.clients ?? {},
    }));
    return {
      target,
      data: { ...(data as AuthorizationData), clientId: client.clientId },
      issued: outcome,
      started,
    };
  }
}

/** Where the user is sent to. Throws `ERR_DISCOVERY`. */
export function checkedEndpoint(metadata: ServerMetadata): string {
  const { authorizationEndpoint, codeChallengeMethods, isAssumed } = metadata;
  if (authorizationEndpoint === undefined) {
    throw new HostedMcpError('ERR_DISCOVERY', 'The authorization server has no authorization endpoint', {
      reason: 'no_authorization_endpoint',
    });
  }
  // MCP 2025-11-25, authorization: clients must refuse where support is not stated.
  if (isAssumed !== true && codeChallengeMethods?.includes('S256') !== true) {
    throw new HostedMcpError(
      'ERR_DISCOVERY',
      'The authorization server does not say that it supports PKCE with S256',
      {
        reason: 'no_pkce',
      },
    );
  }
  return authorizationEndpoint;
}

/** A code is good for one try: whatever failed, the user has to come again. */
export function exchangeError(
  outcome: { kind: string } & Partial<{ problem: Parameters<typeof problemError>[0] }>,
): HostedMcpError {
  const problem = outcome.problem ?? { code: 'ERR_TOKEN_ENDPOINT', what: 'The code could not be exchanged' };
  if (problem.fields?.reason === 'invalid_grant') {
    return problemError({
      ...problem,
      code: 'ERR_REAUTHORIZATION_REQUIRED',
      what: 'The authorization server refused the code',
    });
  }
  return problemError(problem, { retryable: false });
}
