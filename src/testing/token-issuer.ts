/**
 * A small authorization server: client credentials and refresh tokens (RFC 6749), its metadata (RFC 8414)
 * and the resource's (RFC 9728).
 *
 * Guarantees that a token which is asked for with a proof answers to the key of that proof alone (RFC 9449), that a
 * refresh token is spent at the moment its request arrives, however long the answer
 * takes, and that a spent one that comes again ends its whole family. Never logs or derives a token: all are
 * random and opaque.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../clock.js';
import { ProofCheck } from './proof-check.js';
import type { Labels } from './request-log.js';
import type { TokenReply } from './types.js';

/** What tokens of one authorization have in common. */
interface Family {
  readonly number: number;
  /** Whose authorization it is. */
  readonly subject: string;
}
interface AccessGrant {
  expiresAtMs: number;
  readonly scope: string | undefined;
  readonly family: Family;
  /** Thumbprint of the key it is bound to. */
  readonly key: string | undefined;
}
interface RefreshGrant {
  spent: boolean;
  readonly scope: string | undefined;
  readonly family: Family;
  readonly key: string | undefined;
}

/** A token request. */
export interface TokenAsked {
  readonly form: URLSearchParams;
  readonly authorization: string | undefined;
  readonly proof: string | undefined;
  readonly url: string;
  /** What tokens are for. */
  readonly resource: string;
}

const CLIENT_ID = 'holdfast-test-client';

export interface IssuerSettings {
  readonly tokenLifetimeMs: number;
  readonly rotateRefreshTokens: boolean;
  readonly dpop: boolean | 'nonce';
}

export class TokenIssuer {
  readonly client: { readonly id: string; readonly secret: string; readonly refreshToken: string };
  readonly #clock: Clock;
  readonly #labels: Labels;
  readonly #settings: () => IssuerSettings;
  readonly #proofs: ProofCheck;
  readonly #access = new Map<string, AccessGrant>();
  readonly #refresh = new Map<string, RefreshGrant>();
  /** By access token; outlives revocation, for a server that knows no token any more still knows who calls. */
  readonly #subjects = new Map<string, string>();
  #lastFamily = 0;
  #failure: { reply: TokenReply; times: number } | undefined;

  constructor(clock: Clock, labels: Labels, settings: () => IssuerSettings) {
    this.#clock = clock;
    this.#labels = labels;
    this.#settings = settings;
    this.#proofs = new ProofCheck(clock, () => settings().dpop === 'nonce');
    this.client = {
      id: CLIENT_ID,
      secret: secret(),
      refreshToken: this.issueRefreshToken(),
    };
  }

  issueAccessToken(
    o: { lifetimeMs?: number | undefined; scope?: string | undefined; subject?: string | undefined } = {},
  ): string {
    return this.#issueAccess(this.#newFamily(o.subject), o.scope, undefined, o.lifetimeMs);
  }

  issueRefreshToken(o: { subject?: string | undefined } = {}): string {
    return this.#issueRefresh(this.#newFamily(o.subject), undefined, undefined);
  }

  /** Whose access token it is, valid or not; undefined for one that was never given out. */
  subjectOf(token: string): string | undefined {
    return this.#subjects.get(token);
  }

  /** Thumbprint of the key that a token is bound to. */
  keyOf(token: string): string | undefined {
    return this.#access.get(token)?.key;
  }

  judge(token: string): 'valid' | 'expired' | 'unknown' {
    const grant = this.#access.get(token);
    if (grant === undefined) return 'unknown';
    return grant.expiresAtMs > this.#clock.now() ? 'valid' : 'expired';
  }

  expireAll(): void {
    const now = this.#clock.now();
    for (const grant of this.#access.values()) grant.expiresAtMs = Math.min(grant.expiresAtMs, now);
  }

  revokeAll(): void {
    this.#access.clear();
    this.#refresh.clear();
  }

  failWith(reply: TokenReply, times: number): void {
    this.#failure = { reply, times };
  }

  restore(): void {
    this.#failure = undefined;
  }

  /** Decides one token request, at once. */
  answer(asked: TokenAsked): TokenReply {
    if (this.#failure !== undefined) {
      const { reply } = this.#failure;
      this.#failure.times -= 1;
      if (this.#failure.times <= 0) this.#failure = undefined;
      return reply;
    }
    const reply = this.#decide(asked);
    return { ...reply, headers: { ...reply.headers, ...this.#proofs.headers() } };
  }

  #decide({ form, authorization, proof, url, resource }: TokenAsked): TokenReply {
    if (!this.#isClient(form, authorization)) {
      return oauthError(401, 'invalid_client', { 'www-authenticate': 'Basic realm="token"' });
    }
    let key: string | undefined;
    if (this.#settings().dpop !== false) {
      const verdict = this.#proofs.judge(proof, { method: 'POST', url });
      if ('error' in verdict) return oauthError(400, verdict.error);
      key = verdict.thumbprint;
    }
    const wanted = form.get('resource');
    if (wanted !== null && wanted.replace(/\/$/, '') !== resource && !resource.startsWith(`${wanted}`)) {
      return oauthError(400, 'invalid_target');
    }
    const scope = form.get('scope') ?? undefined;
    switch (form.get('grant_type')) {
      case 'client_credentials':
        return this.#grant(this.#newFamily(), scope, undefined, key);
      case 'refresh_token':
        return this.#refreshed(form.get('refresh_token'), scope, key);
      case null:
        return oauthError(400, 'invalid_request');
      default:
        return oauthError(400, 'unsupported_grant_type');
    }
  }

  /** RFC 7009: a token is taken back with all of its family; one that is not known is fine, too. */
  revoke({ form, authorization }: Pick<TokenAsked, 'form' | 'authorization'>): TokenReply {
    if (!this.#isClient(form, authorization)) {
      return oauthError(401, 'invalid_client', { 'www-authenticate': 'Basic realm="token"' });
    }
    const token = form.get('token') ?? '';
    const grant = this.#access.get(token) ?? this.#refresh.get(token);
    if (grant !== undefined) this.#revokeFamily(grant.family);
    return { status: 200, body: '' };
  }

  #refreshed(token: string | null, scope: string | undefined, key: string | undefined): TokenReply {
    if (token === null) return oauthError(400, 'invalid_request');
    const grant = this.#refresh.get(token);
    if (grant === undefined || (grant.key !== undefined && grant.key !== key))
      return oauthError(400, 'invalid_grant');
    if (grant.spent) {
      this.#revokeFamily(grant.family);
      return oauthError(400, 'invalid_grant');
    }
    if (!this.#settings().rotateRefreshTokens)
      return this.#grant(grant.family, scope ?? grant.scope, undefined, key);
    grant.spent = true;
    const next = this.#issueRefresh(grant.family, grant.scope, key);
    return this.#grant(grant.family, scope ?? grant.scope, next, key);
  }

  #grant(
    family: Family,
    scope: string | undefined,
    refreshToken: string | undefined,
    key: string | undefined,
  ): TokenReply {
    return {
      status: 200,
      headers: { 'cache-control': 'no-store' },
      body: {
        access_token: this.#issueAccess(family, scope, key),
        token_type: key === undefined ? 'Bearer' : 'DPoP',
        expires_in: this.#settings().tokenLifetimeMs / 1000,
        ...(refreshToken === undefined ? {} : { refresh_token: refreshToken }),
        ...(scope === undefined ? {} : { scope }),
      },
    };
  }

  #issueAccess(
    family: Family,
    scope: string | undefined,
    key: string | undefined,
    lifetimeMs?: number | undefined,
  ): string {
    const token = secret();
    const lifetime = lifetimeMs ?? this.#settings().tokenLifetimeMs;
    this.#access.set(token, { expiresAtMs: this.#clock.now() + lifetime, scope, family, key });
    this.#subjects.set(token, family.subject);
    this.#labels.issued('token', token);
    return token;
  }

  #issueRefresh(family: Family, scope: string | undefined, key: string | undefined): string {
    const token = secret();
    this.#refresh.set(token, { spent: false, scope, family, key });
    return token;
  }

  #revokeFamily(family: Family): void {
    for (const [token, grant] of this.#access) if (grant.family === family) this.#access.delete(token);
    for (const [token, grant] of this.#refresh) if (grant.family === family) this.#refresh.delete(token);
  }

  #newFamily(subject: string = CLIENT_ID): Family {
    this.#lastFamily += 1;
    return { number: this.#lastFamily, subject };
  }

  #isClient(form: URLSearchParams, authorization: string | undefined): boolean {
    const given = basicCredentials(authorization) ?? {
      id: form.get('client_id') ?? '',
      secret: form.get('client_secret') ?? '',
    };
    return given.id === this.client.id && equal(given.secret, this.client.secret);
  }
}

/** RFC 9728. */
export function resourceMetadata(resource: string, issuer: string, dpop: boolean): object {
  return {
    resource,
    authorization_servers: [issuer],
    bearer_methods_supported: ['header'],
    resource_name: 'mcp-holdfast simulator',
    ...(dpop && {
      dpop_signing_alg_values_supported: ['ES256'],
      dpop_bound_access_tokens_required: true,
    }),
  };
}

/** RFC 8414, with the fields that OpenID Connect Discovery and common parsers insist on. */
export function issuerMetadata(issuer: string, dpop: boolean): object {
  return {
    issuer,
    // Not served: only the grants below are. Parsers want the name to be there.
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    revocation_endpoint: `${issuer}/revoke`,
    jwks_uri: `${issuer}/jwks`,
    response_types_supported: ['code'],
    grant_types_supported: ['client_credentials', 'refresh_token'],
    token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
    code_challenge_methods_supported: ['S256'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['RS256'],
    ...(dpop && { dpop_signing_alg_values_supported: ['ES256'] }),
  };
}

/** 256 random bits. */
export function secret(): string {
  return randomBytes(32).toString('base64url');
}

function oauthError(status: number, error: string, headers: Record<string, string> = {}): TokenReply {
  return { status, headers: { 'cache-control': 'no-store', ...headers }, body: { error } };
}

function basicCredentials(authorization: string | undefined): { id: string; secret: string } | undefined {
  const encoded = /^basic +(\S+)$/i.exec(authorization ?? '')?.[1];
  if (encoded === undefined) return undefined;
  const text = Buffer.from(encoded, 'base64').toString();
  const colon = text.indexOf(':');
  // RFC 6749, 2.3.1: both parts are form-encoded before they are joined.
  return { id: formDecode(text.slice(0, colon)), secret: formDecode(text.slice(colon + 1)) };
}

function formDecode(text: string): string {
  return new URLSearchParams(`v=${text}`).get('v') ?? '';
}

function equal(a: string, b: string): boolean {
  const left = Buffer.from(a);
  const right = Buffer.from(b);
  return left.length === right.length && timingSafeEqual(left, right);
}
