/**
 * One token request, as an outcome.
 *
 * Guarantees that openid-client sees only answers it can accept: they are read, bounded and normalised first,
 * and what they bring (above all a rotated refresh token) is held here before any validation can throw. A
 * structured OAuth error is final; 429, 5xx and anything that is no OAuth answer are an outage. Never retries,
 * never attaches an error of openid-client (it carries tokens), never puts a server's words into a message.
 */
import type { Clock } from '../clock.js';
import { cleanServerText } from '../errors.js';
import { LIMITS } from '../limits.js';
import type { ClientAuthenticator } from './client-auth.js';
import type { MetadataSource, ServerMetadata } from './metadata.js';
import { MAX_LIFETIME_MS, MAX_RETRY_AFTER_MS } from './options.js';
import { type Problem, problemOf } from './problem.js';
import { Secret } from './secret.js';
import { isLoopback, retryAfterMs, type TokenHttp, type TokenHttpReply } from './token-fetch.js';
import { isTokenValue } from './token-value.js';

export interface IssuedToken {
  readonly kind: 'token';
  readonly accessToken: Secret;
  /** Undefined where the reply says nothing usable. */
  readonly expiresInMs?: number | undefined;
  readonly refreshToken?: Secret | undefined;
  readonly scope?: string | undefined;
}

export type TokenOutcome =
  | IssuedToken
  /** A structured OAuth error (RFC 6749, 5.2), or a configuration that cannot work: asking again is useless. */
  | { readonly kind: 'refused'; readonly oauthError?: string | undefined; readonly problem: Problem }
  | {
      readonly kind: 'unavailable';
      readonly problem: Problem;
      readonly retryAfterMs?: number | undefined;
      /** The request may have been executed and its answer lost. */
      readonly inDoubt: boolean;
      /** A refresh token that came with an answer which is unusable otherwise. */
      readonly rotated?: Secret | undefined;
    }
  /** `mayLeave` said no: nothing was sent. */
  | { readonly kind: 'held-back' };

/** What an exchange may bring (RFC 8693, 2.2.1). */
export interface IssuedRule {
  /** The values of `issued_token_type` that will do. */
  readonly types: readonly string[];
  /** An answer without a type is refused. */
  readonly mustBeNamed: boolean;
  /** False: it is presented elsewhere, and its `token_type` says nothing. */
  readonly isAccessToken: boolean;
}

/** A request that presents another token (RFC 8693, RFC 7523). */
export interface Presentation {
  readonly grantType: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly secrets: Readonly<Record<string, Secret>>;
  readonly issued?: IssuedRule | undefined;
}

export interface TokenRequest {
  readonly refreshToken?: Secret | undefined;
  /** Instead of a refresh token. */
  readonly presented?: Presentation | undefined;
  readonly scope?: string | undefined;
  readonly resource?: string | undefined;
  readonly timeoutMs: number;
  readonly mayLeave?: (() => boolean) | undefined;
}

export interface TokenEndpointOptions {
  /** Undefined where the client names itself in what it presents only. */
  readonly clientId: string | undefined;
  readonly auth: ClientAuthenticator;
  readonly metadata: MetadataSource;
  readonly http: TokenHttp;
  readonly clock: Clock;
}

/** Errors by which a token endpoint says that it is busy, although in the form of a final one. */
const PASSING_ERRORS = new Set(['temporarily_unavailable', 'server_error', 'slow_down']);
/** Names that may stand in a message: they are the standards' words, not the server's. */
const KNOWN_ERRORS = new Set([
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_scope',
  'invalid_target',
  'invalid_dpop_proof',
  'use_dpop_nonce',
]);

/** Parameters of a token request that must not stand in an error. */
const SECRET_PARAMETERS = [
  'refresh_token',
  'client_secret',
  'client_assertion',
  'subject_token',
  'actor_token',
  'assertion',
] as const;
/** openid-client wants a name; it is not sent. */
const UNNAMED = 'unnamed';

/** Thrown through openid-client and caught again here; carries nothing. */
class Captured extends Error {
  override readonly name = 'Captured';
}

export class TokenEndpoint {
  readonly #options: TokenEndpointOptions;

  constructor(options: TokenEndpointOptions) {
    this.#options = options;
  }

  /** Metadata, modules and dispatcher, so that a request can leave at once. Throws as `MetadataSource.get`. */
  async prepare(): Promise<void> {
    await Promise.all([this.#options.metadata.get(), this.#options.http.prepare(), import('openid-client')]);
  }

  /** A refresh where `refreshToken` is given, what is `presented`, else client credentials. Never rejects. */
  async request(request: TokenRequest): Promise<TokenOutcome> {
    let metadata: ServerMetadata;
    try {
      metadata = await this.#options.metadata.get();
    } catch (error) {
      const problem = problemOf(error, {
        code: 'ERR_DISCOVERY',
        what: 'The authorization metadata are unusable',
      });
      if (problem.code === 'ERR_DISCOVERY') return { kind: 'refused', problem };
      return { kind: 'unavailable', problem, retryAfterMs: problem.fields?.retryAfterMs, inDoubt: false };
    }
    const openid = await import('openid-client');
    let captured: TokenOutcome | undefined;
    try {
      const { clientId, auth } = this.#options;
      const config = new openid.Configuration(
        { issuer: metadata.issuer, token_endpoint: metadata.tokenEndpoint },
        clientId ?? UNNAMED,
        undefined,
        clientId === undefined ? () => {} : await auth.forServer(openid, metadata),
      );
      // Its timer is one no fake time moves; ours is in `TokenHttp.send`.
      config.timeout = 0;
      if (isLoopback(new URL(metadata.tokenEndpoint))) openid.allowInsecureRequests(config);
      config[openid.customFetch] = async (url, init) => {
        const body = String(init.body ?? '');
        const result = await this.#options.http.send({
          method: 'POST',
          url,
          headers: init.headers,
          body,
          timeoutMs: request.timeoutMs,
          maxBytes: LIMITS.tokenResponseBytes,
          mayLeave: request.mayLeave,
        });
        if (result.kind === 'held-back') captured = result;
        else if (result.kind === 'failed') captured = failedOutcome(result);
        else captured = this.#read(result.reply, body, init.headers.authorization, request.presented);
        if (captured.kind !== 'token') throw new Captured();
        return normalisedReply(captured);
      };
      const parameters: Record<string, string> = {};
      if (request.scope !== undefined && request.scope !== '') parameters.scope = request.scope;
      if (request.resource !== undefined && request.resource !== '') parameters.resource = request.resource;
      const { presented } = request;
      if (presented !== undefined) {
        Object.assign(parameters, presented.parameters);
        for (const [name, secret] of Object.entries(presented.secrets)) parameters[name] = secret.reveal();
        await openid.genericGrantRequest(config, presented.grantType, parameters);
      } else if (request.refreshToken === undefined) await openid.clientCredentialsGrant(config, parameters);
      else await openid.refreshTokenGrant(config, request.refreshToken.reveal(), parameters);
    } catch (error) {
      if (captured === undefined) {
        // Before the request: a key that cannot sign, an address that cannot be.
        return {
          kind: 'refused',
          problem: {
            code: 'ERR_CREDENTIAL_SOURCE',
            what: 'The token request could not be made',
            fields: { cause: error },
          },
        };
      }
      if (captured.kind === 'token')
        return unusable('an answer that is no valid token reply', captured.refreshToken);
    }
    return captured ?? unusable('nothing', undefined);
  }

  async close(): Promise<void> {
    await this.#options.http.close();
  }

  /** What a complete answer means. */
  #read(
    reply: TokenHttpReply,
    requestBody: string,
    authorization: string | undefined,
    presented: Presentation | undefined,
  ): TokenOutcome {
    const retryMs = retryAfterMs(reply, this.#options.clock.now(), MAX_RETRY_AFTER_MS);
    const body = parseObject(reply.text);
    const serverText = () => this.#safeText(reply.text, requestBody, authorization);
    if (reply.status >= 200 && reply.status < 300 && body !== undefined && own(body, 'error') === undefined) {
      return readToken(body, presented);
    }
    const error = body === undefined ? undefined : own(body, 'error');
    const isOutage = reply.status === 429 || reply.status >= 500;
    if (typeof error === 'string' && error !== '' && !isOutage && !PASSING_ERRORS.has(error)) {
      const known = KNOWN_ERRORS.has(error) ? error : undefined;
      return {
        kind: 'refused',
        oauthError: known ?? 'other',
        problem: {
          code: 'ERR_CREDENTIAL_REJECTED',
          what: `The token endpoint refused the request${known === undefined ? '' : ` with ${known}`}`,
          fields: { status: reply.status, reason: known ?? 'oauth_error', serverText: serverText() },
        },
      };
    }
    return {
      kind: 'unavailable',
      inDoubt: false,
      retryAfterMs: retryMs,
      problem: {
        code: 'ERR_TOKEN_ENDPOINT',
        what: `The token endpoint answered with status ${reply.status} and no token`,
        fields: { status: reply.status, retryable: true, serverText: serverText() },
      },
    };
  }

  /** A server may echo what it was sent; an own secret must not stay in the text. */
  #safeText(text: string, requestBody: string, authorization: string | undefined): string {
    const form = new URLSearchParams(requestBody);
    const secrets = [
      ...this.#options.auth.secrets.map((secret) => secret.reveal()),
      authorization?.replace(/^Basic /, '') ?? null,
      ...SECRET_PARAMETERS.map((name) => form.get(name)),
    ];
    let safe = text;
    for (const secret of secrets) {
      if (secret === null || secret === '') continue;
      for (const spelling of new Set([
        secret,
        encodeURIComponent(secret),
        JSON.stringify(secret).slice(1, -1),
      ])) {
        safe = safe.replaceAll(spelling, '[redacted]');
      }
    }
    // Tokens that a broken answer brings are secrets of ours as well.
    safe = safe.replace(
      /((?:access|refresh|id)_token[\\"']*\s*[:=]\s*[\\"']*)[^"'\\&\s,}]+/gi,
      '$1[redacted]',
    );
    return cleanServerText(safe);
  }
}

function readToken(body: Record<string, unknown>, presented: Presentation | undefined): TokenOutcome {
  const issued = presented?.issued;
  // Who presents a token asks with that again; another secret to keep is of no use.
  const refresh = presented === undefined ? own(body, 'refresh_token') : undefined;
  const refreshToken = typeof refresh === 'string' && refresh !== '' ? new Secret(refresh) : undefined;
  const access = own(body, 'access_token');
  const accessToken = typeof access === 'string' ? access.trim() : '';
  if (accessToken === '') return unusable('no access token', refreshToken);
  if (!isTokenValue(accessToken))
    return unusable('an access token that cannot stand in a header', refreshToken);
  const issuedType = own(body, 'issued_token_type');
  const isNamed = issuedType !== undefined && issuedType !== null && issuedType !== '';
  if (issued !== undefined && (isNamed ? !issued.types.includes(issuedType as string) : issued.mustBeNamed)) {
    return unusable('a token of another type than the one asked for', refreshToken);
  }
  const type = own(body, 'token_type');
  const isBearer = typeof type !== 'string' || /^(bearer)?$/i.test(type.trim());
  // A missing type is Bearer in practice; another type would need another way of sending it.
  if (!isBearer && issued?.isAccessToken !== false) {
    return unusable('a token of a type other than Bearer', refreshToken);
  }
  const scope = own(body, 'scope');
  const scopeText = Array.isArray(scope) ? scope.filter((s) => typeof s === 'string').join(' ') : scope;
  return {
    kind: 'token',
    accessToken: new Secret(accessToken),
    expiresInMs: readExpiresIn(own(body, 'expires_in')),
    refreshToken,
    scope: typeof scopeText === 'string' && scopeText !== '' ? scopeText : undefined,
  };
}

/** Positive seconds, as a number or as digits; everything else counts as missing. */
function readExpiresIn(value: unknown): number | undefined {
  const seconds =
    typeof value === 'string' && /^\d{1,15}(\.\d+)?$/.test(value.trim()) ? Number(value) : value;
  if (typeof seconds !== 'number' || !Number.isFinite(seconds) || seconds <= 0) return undefined;
  return Math.min(seconds * 1000, MAX_LIFETIME_MS);
}

/** What openid-client gets to validate: the same token in the form the standard asks for. */
function normalisedReply(token: IssuedToken): Response {
  const body = {
    access_token: token.accessToken.reveal(),
    token_type: 'Bearer',
    ...(token.expiresInMs === undefined ? {} : { expires_in: token.expiresInMs / 1000 }),
    ...(token.refreshToken === undefined ? {} : { refresh_token: token.refreshToken.reveal() }),
    ...(token.scope === undefined ? {} : { scope: token.scope }),
  };
  return new Response(JSON.stringify(body), { status: 200, headers: { 'content-type': 'application/json' } });
}

function unusable(what: string, rotated: Secret | undefined): TokenOutcome {
  return {
    kind: 'unavailable',
    inDoubt: false,
    rotated,
    problem: {
      code: 'ERR_TOKEN_ENDPOINT',
      what: `The token endpoint answered with ${what}`,
      fields: { retryable: true, reason: 'unusable_reply' },
    },
  };
}

function failedOutcome(failure: {
  mayHaveLeft: boolean;
  reason: 'timeout' | 'network' | 'too-large';
  status?: number | undefined;
  cause?: unknown;
}): TokenOutcome {
  const what = {
    timeout: 'The token endpoint did not answer in time',
    network: 'The token endpoint could not be reached',
    'too-large': 'The token endpoint answered with too much',
  }[failure.reason];
  return {
    kind: 'unavailable',
    inDoubt: failure.mayHaveLeft && failure.reason !== 'too-large',
    problem: {
      code: 'ERR_TOKEN_ENDPOINT',
      what,
      fields: { retryable: true, reason: failure.reason, status: failure.status, cause: failure.cause },
    },
  };
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

function own(object: Record<string, unknown>, name: string): unknown {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}
