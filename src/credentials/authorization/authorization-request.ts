/**
 * The address that a user is sent to (RFC 6749, 4.1.1; RFC 7636; RFC 8707).
 *
 * Guarantees a new proof and a new `state` each time. Does no I/O.
 */
import type { ServerMetadata } from '../metadata.js';
import { scopeItems } from '../scopes.js';
import { Secret } from '../secret.js';

export interface AuthorizationRequest {
  readonly endpoint: string;
  readonly clientId: string;
  readonly redirectUri: string;
  /** `''`: not sent. */
  readonly resource: string;
  readonly scope: string | undefined;
  /** Default: a new one. */
  readonly state?: string | undefined;
}

export async function authorizationRequest(
  request: AuthorizationRequest,
): Promise<{ url: URL; verifier: Secret; state: string }> {
  const { endpoint, clientId, redirectUri, resource, scope } = request;
  const openid = await import('openid-client');
  const verifier = openid.randomPKCECodeVerifier();
  const state = request.state ?? openid.randomState();
  const parameters = {
    response_type: 'code',
    client_id: clientId,
    redirect_uri: redirectUri,
    state,
    code_challenge: await openid.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    ...(resource === '' ? {} : { resource }),
    ...(scope === undefined || scope === '' ? {} : { scope }),
    // OpenID Connect Core, 11: without it no refresh token is given.
    ...(scopeItems(scope).includes('offline_access') ? { prompt: 'consent' } : {}),
  };
  const url = new URL(endpoint);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return { url, verifier: new Secret(verifier), state };
}

/** `scope` and `offline_access`, where the server has such a scope. */
export function withOfflineAccess(
  scope: string | undefined,
  { scopesSupported }: ServerMetadata,
): string | undefined {
  if (scopesSupported?.includes('offline_access') !== true) return scope;
  return [...new Set([...scopeItems(scope), 'offline_access'])].join(' ');
}
