/**
 * Where an issuer's token endpoint is (RFC 8414, OpenID Connect Discovery).
 *
 * Guarantees that only the locations derived from the configured issuer are asked, that the document names
 * that very issuer, and that the endpoint found is https (or loopback where the issuer is). Never follows a
 * redirect, never asks the MCP server: where a secret goes is the app's word.
 */
import type { Clock } from '../clock.js';
import { cleanServerText, HostedMcpError } from '../errors.js';
import { LIMITS } from '../limits.js';
import { MAX_RETRY_AFTER_MS } from './options.js';
import { isLoopback, isSafeEndpoint, retryAfterMs, type TokenHttp } from './token-fetch.js';

export interface ServerMetadata {
  readonly issuer: string;
  readonly tokenEndpoint: string;
  /** `token_endpoint_auth_methods_supported`; undefined where the server does not say. */
  readonly authMethods?: readonly string[] | undefined;
}

/** Where metadata of `issuer` may be, in the order MCP prescribes: OAuth inserted, OpenID inserted, OpenID appended. */
export function metadataLocations(issuer: string): string[] {
  const url = new URL(issuer);
  const path = url.pathname.replace(/\/$/, '');
  const locations = [
    `${url.origin}/.well-known/oauth-authorization-server${path}`,
    `${url.origin}/.well-known/openid-configuration${path}`,
  ];
  if (path !== '') locations.push(`${url.origin}${path}/.well-known/openid-configuration`);
  return locations;
}

export interface MetadataOptions {
  readonly issuer: string | undefined;
  readonly tokenEndpoint: string | undefined;
  readonly http: TokenHttp;
  readonly clock: Clock;
  readonly timeoutMs: number;
}

/** The metadata of one provider: asked for once, kept after success. */
export class MetadataSource {
  readonly #options: MetadataOptions;
  #found: Promise<ServerMetadata> | undefined;

  constructor(options: MetadataOptions) {
    this.#options = options;
  }

  /** Throws `ERR_DISCOVERY` (the configuration is wrong) or `ERR_TOKEN_ENDPOINT` (the issuer is down). */
  get(): Promise<ServerMetadata> {
    this.#found ??= this.#find().catch((error) => {
      this.#found = undefined;
      throw error;
    });
    return this.#found;
  }

  async #find(): Promise<ServerMetadata> {
    const { issuer, tokenEndpoint } = this.#options;
    // RFC 7523, 3: the token endpoint's address identifies the server where no issuer is known.
    if (tokenEndpoint !== undefined) return { issuer: tokenEndpoint, tokenEndpoint };
    if (issuer === undefined) throw misconfigured('Neither an issuer nor a token endpoint is configured');
    for (const location of metadataLocations(issuer)) {
      const document = await this.#read(location);
      if (document !== undefined) return checkedMetadata(document, issuer);
    }
    throw misconfigured('The issuer publishes no authorization metadata at the well-known locations');
  }

  /** The document, or undefined where this location has none. */
  async #read(url: string): Promise<object | undefined> {
    const { http, clock, timeoutMs } = this.#options;
    const result = await http.send({
      method: 'GET',
      url,
      headers: { accept: 'application/json' },
      timeoutMs,
      maxBytes: LIMITS.discoveryBytes,
    });
    if (result.kind === 'failed') {
      if (result.reason === 'too-large') throw misconfigured('The authorization metadata are too large');
      throw issuerDown({ cause: result.cause, reason: result.reason });
    }
    if (result.kind === 'held-back') throw issuerDown({});
    const { reply } = result;
    if (reply.status === 429 || reply.status >= 500) {
      throw issuerDown({
        status: reply.status,
        retryAfterMs: retryAfterMs(reply, clock.now(), MAX_RETRY_AFTER_MS),
        serverText: cleanServerText(reply.text),
      });
    }
    if (reply.status >= 300 && reply.status < 400) {
      throw misconfigured('The issuer redirects its authorization metadata; configure the final address');
    }
    if (reply.status !== 200) return undefined;
    try {
      const value: unknown = JSON.parse(reply.text);
      return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
    } catch {
      // A single-page app answers every unknown path with its start page.
      return undefined;
    }
  }
}

function checkedMetadata(document: object, issuer: string): ServerMetadata {
  const own = (name: string): unknown =>
    Object.hasOwn(document, name) ? (document as Record<string, unknown>)[name] : undefined;
  const named = own('issuer');
  if (typeof named !== 'string' || !sameIssuer(named, issuer)) {
    throw misconfigured('The authorization metadata name another issuer');
  }
  const tokenEndpoint = own('token_endpoint');
  const url =
    typeof tokenEndpoint === 'string' && URL.canParse(tokenEndpoint) ? new URL(tokenEndpoint) : undefined;
  if (url === undefined) throw misconfigured('The authorization metadata name no token endpoint');
  if (!isSafeEndpoint(url) || (isLoopback(url) && !isLoopback(new URL(issuer)))) {
    throw misconfigured('The authorization metadata name a token endpoint that is not https');
  }
  const methods = own('token_endpoint_auth_methods_supported');
  return {
    issuer: named,
    tokenEndpoint: url.href,
    ...(Array.isArray(methods) ? { authMethods: methods.filter((m) => typeof m === 'string') } : {}),
  };
}

/** Exactly equal (RFC 8414, 3.3), save that a bare origin with and without its slash is one URL (RFC 3986, 6.2.3). */
function sameIssuer(named: string, configured: string): boolean {
  return named === configured || withoutRootSlash(named) === withoutRootSlash(configured);
}

function withoutRootSlash(issuer: string): string {
  return /^https?:\/\/[^/]+\/$/.test(issuer) ? issuer.slice(0, -1) : issuer;
}

function misconfigured(what: string): HostedMcpError {
  return new HostedMcpError('ERR_DISCOVERY', what);
}

function issuerDown(fields: {
  status?: number;
  retryAfterMs?: number | undefined;
  reason?: string;
  serverText?: string;
  cause?: unknown;
}): HostedMcpError {
  return new HostedMcpError('ERR_TOKEN_ENDPOINT', 'The issuer did not give its authorization metadata', {
    ...fields,
    retryable: true,
  });
}
