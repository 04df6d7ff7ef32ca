/**
 * Taking tokens back at their issuer (RFC 7009).
 *
 * Guarantees that a token goes to the revocation endpoint of the issuer that gave it and nowhere else, and that "revoked"
 * is said only where the issuer took each of them. Never retries, and never shows what the endpoint answered.
 */
import { HostedMcpError } from '../errors.js';
import { LIMITS } from '../limits.js';
import type { ClientAuthenticator } from './client-auth.js';
import type { ServerMetadata } from './metadata.js';
import type { Secret } from './secret.js';
import { isLoopback, type TokenHttp } from './token-fetch.js';

export interface RevocationParts {
  readonly clientId: string | undefined;
  readonly auth: ClientAuthenticator;
  readonly metadata: ServerMetadata;
  readonly http: TokenHttp;
  readonly timeoutMs: number;
}

export interface RevokedToken {
  readonly token: Secret;
  readonly hint: 'access_token' | 'refresh_token';
}

/** Throws `ERR_TOKEN_ENDPOINT` where one of them was not taken. */
export async function revokeTokens(
  { clientId, auth, metadata, http, timeoutMs }: RevocationParts,
  tokens: readonly RevokedToken[],
): Promise<'revoked' | 'unsupported'> {
  const { revocationEndpoint } = metadata;
  if (revocationEndpoint === undefined) return 'unsupported';
  const openid = await import('openid-client');
  const config = new openid.Configuration(
    {
      issuer: metadata.issuer,
      token_endpoint: metadata.tokenEndpoint,
      revocation_endpoint: revocationEndpoint,
    },
    clientId ?? 'unnamed',
    undefined,
    clientId === undefined ? () => {} : await auth.forServer(openid, metadata),
  );
  config.timeout = 0;
  if (isLoopback(new URL(revocationEndpoint))) openid.allowInsecureRequests(config);
  config[openid.customFetch] = async (url, init) => {
    const result = await http.send({
      method: 'POST',
      url,
      headers: init.headers,
      body: String(init.body ?? ''),
      timeoutMs,
      maxBytes: LIMITS.tokenResponseBytes,
    });
    if (result.kind !== 'reply') throw notRevoked();
    // Its body says nothing that we want (RFC 7009, 2.2).
    return new Response(null, { status: result.reply.status });
  };
  for (const { token, hint } of tokens) {
    try {
      await openid.tokenRevocation(config, token.reveal(), { token_type_hint: hint });
    } catch {
      throw notRevoked();
    }
  }
  return 'revoked';
}

function notRevoked(): HostedMcpError {
  return new HostedMcpError('ERR_TOKEN_ENDPOINT', 'The issuer did not take the token back');
}
