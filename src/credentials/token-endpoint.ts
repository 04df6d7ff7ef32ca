/**
 * One token request, as an outcome.
 *
 * Guarantees that openid-client sees only answers it can accept: they are read, bounded and normalised first,
 * and what they bring (above all a rotated refresh token) is held here before any validation can throw. A
 * structured OAuth error is final; 429, 5xx and anything that is no OAuth answer are an outage. Never asks again
 * save for another proof, never attaches an error of openid-client (it carries tokens), never puts a server's words into a message.
 */
import type { Clock } from '../clock.js';
import { cleanServerText, HostedMcpError } from '../errors.js';
import { LIMITS } from '../limits.js';
import type { ClientAuthenticator } from './client-auth.js';
import { type Dpop, type DpopKey, ProofSite } from './dpop.js';
import type { MetadataSource, ServerMetadata } from './metadata.js';
import { elapsedSince, momentOf } from './moment.js';
import { MAX_RETRY_AFTER_MS } from './options.js';
import { problemOf } from './problem.js';
import type { Secret } from './secret.js';
import { isLoopback, retryAfterMs, type TokenHttp, type TokenHttpReply } from './token-fetch.js';
import {
  type AskedFor,
  failedOutcome,
  normalisedReply,
  own,
  type Presentation,
  parseObject,
  readToken,
  type TokenOutcome,
  unusable,
} from './token-reply.js';
import { type RevokedToken, revokeTokens } from './token-revocation.js';

export type { IssuedRule, IssuedToken, Presentation, TokenOutcome } from './token-reply.js';

/** A code to be exchanged (RFC 6749, 4.1.3; RFC 7636). It is good once, and so is the request. */
export interface CodeExchange {
  /** The redirect URI, with the query that the authorization server added. */
  readonly callback: URL;
  readonly verifier: Secret;
  readonly state: string;
}

export interface TokenRequest {
  readonly refreshToken?: Secret | undefined;
  /** Instead of a refresh token. */
  readonly presented?: Presentation | undefined;
  /** Instead of either. */
  readonly code?: CodeExchange | undefined;
  readonly scope?: string | undefined;
  readonly resource?: string | undefined;
  readonly timeoutMs: number;
  readonly mayLeave?: (() => boolean) | undefined;
}

export interface TokenEndpointOptions {
  /** Undefined where the client names itself in what it presents only. */
  readonly clientId: string | undefined;
  readonly auth: ClientAuthenticator;
  readonly metadata: Pick<MetadataSource, 'get'>;
  readonly http: TokenHttp;
  readonly clock: Clock;
  /** Tokens are bound to its key. */
  readonly dpop?: Dpop | undefined;
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
  'access_denied',
]);

/** Parameters of a token request that must not stand in an error. */
const SECRET_PARAMETERS = [
  'refresh_token',
  'client_secret',
  'client_assertion',
  'subject_token',
  'actor_token',
  'assertion',
  'code',
  'code_verifier',
] as const;
/** openid-client wants a name; it is not sent. */
const UNNAMED = 'unnamed';

/** Thrown through openid-client and caught again here; carries nothing. */
class Captured extends Error {
  override readonly name = 'Captured';
}

export class TokenEndpoint {
  readonly #options: TokenEndpointOptions;
  readonly #site: ProofSite;

  constructor(options: TokenEndpointOptions) {
    this.#options = options;
    this.#site = new ProofSite(options.clock);
  }

  /** Metadata, modules and dispatcher, so that a request can leave at once. Throws as `MetadataSource.get`. */
  async prepare(): Promise<void> {
    const { metadata, http, dpop } = this.#options;
    await Promise.all([
      metadata.get(),
      http.prepare(),
      import('openid-client'),
      dpop === undefined ? undefined : import('jose'),
    ]);
  }

  /**
   * Exchanges a `code`, presents what is `presented`, refreshes where `refreshToken` is given, else asks with client
   * credentials. Never rejects. Where the server wants a nonce in the proof, or refuses its date, the same is asked once
   * more, as another request with another proof (RFC 9449, 8): it was refused unread.
   */
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
    const { clock, dpop } = this.#options;
    const key = dpop?.obtainKey();
    const started = momentOf(clock);
    const mended = new Set<string>();
    for (;;) {
      const timeoutMs = request.timeoutMs - elapsedSince(started, clock);
      const outcome = await this.#ask({ ...request, timeoutMs }, metadata, key);
      const error = outcome.kind === 'refused' ? outcome.oauthError : undefined;
      if (key === undefined || error === undefined || mended.has(error)) return outcome;
      mended.add(error);
      const isMended = error === 'use_dpop_nonce' ? this.#site.hasNonce : this.#isDated(error);
      if (!isMended || elapsedSince(started, clock) >= request.timeoutMs) return outcome;
    }
  }

  #isDated(error: string): boolean {
    return error === 'invalid_dpop_proof' && this.#site.correctClock();
  }

  async #ask(
    request: TokenRequest,
    metadata: ServerMetadata,
    dpop: DpopKey | undefined,
  ): Promise<TokenOutcome> {
    const openid = await import('openid-client');
    const { presented, code } = request;
    let captured: TokenOutcome | undefined;
    try {
      const { clientId, auth, http, clock } = this.#options;
      const config = new openid.Configuration(
        serverOf(metadata),
        clientId ?? UNNAMED,
        undefined,
        clientId === undefined ? () => {} : await auth.forServer(openid, metadata),
      );
      // Its timer is one no fake time moves; ours is in `TokenHttp.send`.
      config.timeout = 0;
      const endpoint = new URL(metadata.tokenEndpoint);
      if (isLoopback(endpoint)) openid.allowInsecureRequests(config);
      config[openid.customFetch] = async (url, init) => {
        const body = String(init.body ?? '');
        // Ours, not openid-client's: it would not see the answers that are captured here.
        const proof = dpop && (await this.#site.prove(dpop, { method: 'POST', url: new URL(url) }));
        const result = await http.send({
          method: 'POST',
          url,
          headers: proof === undefined ? init.headers : { ...init.headers, dpop: proof },
          body,
          timeoutMs: request.timeoutMs,
          maxBytes: LIMITS.tokenResponseBytes,
          mayLeave: request.mayLeave,
        });
        if (result.kind === 'held-back') captured = result;
        else if (result.kind === 'failed') captured = failedOutcome(result);
        else {
          const { reply } = result;
          this.#site.heard({ dpopNonce: reply.header('dpop-nonce'), date: reply.header('date') });
          const sentAtMs = Date.parse(reply.header('date') ?? '');
          const asked = {
            presented,
            dpop,
            host: endpoint.host,
            atMs: Number.isNaN(sentAtMs) ? clock.now() : Math.min(clock.now(), sentAtMs),
            keepsRefreshToken: request.refreshToken !== undefined || code !== undefined,
          };
          captured = this.#read(reply, body, [init.headers.authorization, proof], asked);
        }
        if (captured.kind !== 'token') throw new Captured();
        return normalisedReply(captured);
      };
      const parameters: Record<string, string> = {};
      if (request.scope !== undefined && request.scope !== '') parameters.scope = request.scope;
      if (request.resource !== undefined && request.resource !== '') parameters.resource = request.resource;
      if (code !== undefined) {
        // RFC 6749, 4.1.3: the scope was asked for with the code.
        const { scope: _, ...others } = parameters;
        const checks = { pkceCodeVerifier: code.verifier.reveal(), expectedState: code.state };
        await openid.authorizationCodeGrant(config, code.callback, checks, others);
      } else if (presented !== undefined) {
        Object.assign(parameters, presented.parameters);
        for (const [name, secret] of Object.entries(presented.secrets)) parameters[name] = secret.reveal();
        await openid.genericGrantRequest(config, presented.grantType, parameters);
      } else if (request.refreshToken === undefined) await openid.clientCredentialsGrant(config, parameters);
      else await openid.refreshTokenGrant(config, request.refreshToken.reveal(), parameters);
    } catch (error) {
      if (captured === undefined) return unasked(error, code !== undefined);
      if (captured.kind === 'token')
        return unusable('an answer that is no valid token reply', captured.refreshToken);
    }
    return captured ?? unusable('nothing', undefined);
  }

  /** RFC 7009. Throws as `MetadataSource.get`, and `ERR_TOKEN_ENDPOINT` where the issuer did not take them. */
  async revoke(tokens: readonly RevokedToken[], timeoutMs: number): Promise<'revoked' | 'unsupported'> {
    const metadata = await this.#options.metadata.get();
    return await revokeTokens({ ...this.#options, metadata, timeoutMs }, tokens);
  }

  async close(): Promise<void> {
    await this.#options.http.close();
  }

  /** What a complete answer means. */
  #read(
    reply: TokenHttpReply,
    requestBody: string,
    headers: readonly (string | undefined)[],
    asked: AskedFor,
  ): TokenOutcome {
    const retryMs = retryAfterMs(reply, this.#options.clock.now(), MAX_RETRY_AFTER_MS);
    const body = parseObject(reply.text);
    const serverText = () => this.#safeText(reply.text, requestBody, headers);
    const error = body === undefined ? undefined : own(body, 'error');
    // Some serialisers write what is not there as null or "".
    const isError = error !== undefined && error !== null && error !== '';
    if (reply.status >= 200 && reply.status < 300 && body !== undefined && !isError) {
      return readToken(body, asked);
    }
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
  #safeText(text: string, requestBody: string, headers: readonly (string | undefined)[]): string {
    const form = new URLSearchParams(requestBody);
    const secrets = [
      ...this.#options.auth.secrets.map((secret) => secret.reveal()),
      ...headers.map((value) => value?.replace(/^Basic /, '') ?? null),
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
    safe = safe.replace(/(token[\\"']*\s*[:=]\s*[\\"']*)[^"'\\&\s,}]+/gi, '$1[redacted]');
    return cleanServerText(safe);
  }
}

/** The metadata that openid-client judges by. */
function serverOf(metadata: ServerMetadata & { readonly issParameterSupported?: boolean | undefined }) {
  const { issuer, tokenEndpoint, issParameterSupported } = metadata;
  return {
    issuer,
    token_endpoint: tokenEndpoint,
    ...(issParameterSupported !== undefined && {
      authorization_response_iss_parameter_supported: issParameterSupported,
    }),
  };
}

/** Before the request: a key that cannot sign, an address that cannot be, an authorization response that is none or another's. */
function unasked(error: unknown, isCode: boolean): TokenOutcome {
  // The guard over discovered addresses: openid-client wraps what its fetch throws.
  const refusal = HostedMcpError.from(error);
  if (refusal !== undefined) {
    return { kind: 'refused', problem: problemOf(refusal, { code: 'ERR_DISCOVERY', what: refusal.message }) };
  }
  const { name, code, error: said } = error as { name?: unknown; code?: unknown; error?: unknown };
  // Of a foreign error no more: a callback's parameters may hang on it.
  const cause = {
    name: typeof name === 'string' ? name : 'Error',
    ...(typeof code === 'string' && { code }),
  };
  if (isCode && typeof code === 'string' && code.startsWith('OAUTH_')) {
    const known = typeof said === 'string' && KNOWN_ERRORS.has(said) ? said : undefined;
    return {
      kind: 'refused',
      oauthError: known ?? 'other',
      problem: {
        code: 'ERR_CREDENTIAL_REJECTED',
        what: `The authorization response brings no code that can be used${known === undefined ? '' : ` (${known})`}`,
        fields: { reason: known ?? 'authorization_response', cause },
      },
    };
  }
  return {
    kind: 'refused',
    problem: {
      code: 'ERR_CREDENTIAL_SOURCE',
      what: 'The token request could not be made',
      fields: { cause },
    },
  };
}
