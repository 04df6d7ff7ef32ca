/**
 * From and to the SDKs' own interfaces for credentials.
 *
 * Guarantees that an SDK's provider is read at every acquire, and that our provider behind an SDK's interface
 * makes one renewal per refusal. Never opens a browser: what needs a person ends with
 * `ERR_REAUTHORIZATION_REQUIRED`. Imports no SDK.
 */
import { type Clock, systemClock } from '../clock.js';
import { HostedMcpError } from '../errors.js';
import type { HttpFetch } from '../http/exchange.js';
import type { Callback } from './authorization/callback.js';
import { ClientProviderCredential } from './authorization/client-provider.js';
import { Discovery } from './authorization/discovery.js';
import { asked } from './authorization/foreign.js';
import { resolveRefreshPolicy } from './options.js';
import type { Problem } from './problem.js';
import type { CredentialProvider } from './provider.js';
import { type Reading, SourceProvider } from './sources/source-provider.js';
import { checkedToken } from './token-value.js';

/** The part of `OAuthClientProvider` that is used; SDK v1's, v2's and AI SDK's fit. */
export interface OAuthClientProviderLike {
  readonly redirectUrl: string | URL | undefined;
  readonly clientMetadata: { redirect_uris: string[] };
  // biome-ignore-start lint/suspicious/noExplicitAny: the SDKs' own types differ from each other.
  tokens(): any;
  saveTokens(tokens: any): void | Promise<void>;
  clientInformation(): any;
  // biome-ignore-end lint/suspicious/noExplicitAny: see above.
  redirectToAuthorization(url: URL): void | Promise<void>;
  saveCodeVerifier(verifier: string): void | Promise<void>;
  codeVerifier(): string | Promise<string>;
}

/** SDK v2's `AuthProvider`. */
export interface AuthProviderLike {
  token(): Promise<string | undefined>;
  // biome-ignore lint/suspicious/noExplicitAny: the context's type belongs to the SDK.
  onUnauthorized?(context: any): Promise<void>;
}

const REAUTHORIZE: Problem = Object.freeze({
  code: 'ERR_REAUTHORIZATION_REQUIRED' as const,
  what: 'The authorization provider has no usable token',
  fields: { reason: 'no_token' },
});

/**
 * An SDK's `OAuthClientProvider` or `AuthProvider` as a source of credentials. Its tokens are read at every acquire.
 *
 * An `OAuthClientProvider` keeps its storage and its way to the user: after a refusal the token is refreshed once for all
 * callers and saved with `saveTokens`; where that is impossible the user is sent away by `redirectToAuthorization`, and
 * `acquire` throws `ERR_REAUTHORIZATION_REQUIRED`. `finishAuth(callback, target)` takes what comes back. Its client's
 * secret goes to the authorization server that the MCP server names first, as with the SDK's own transport; it is not
 * sent to another one later. An `AuthProvider` with `onUnauthorized` is told of a refusal and read again.
 */
export function fromOAuthClientProvider(
  provider: OAuthClientProviderLike | AuthProviderLike,
  options: {
    id?: string | undefined;
    clock?: Clock | undefined;
    /** Used instead of undici for token and metadata requests. */
    fetch?: HttpFetch | undefined;
  } = {},
): CredentialProvider & { finishAuth?(callback: Callback, target?: URL | undefined): Promise<void> } {
  const source = provider as Partial<OAuthClientProviderLike & AuthProviderLike>;
  const isAuthProvider = typeof source.token === 'function';
  if (!isAuthProvider && typeof source.tokens !== 'function') {
    throw new TypeError('provider must have the method tokens or token');
  }
  const id = options.id ?? 'sdk-auth-provider';
  const clock = options.clock ?? systemClock();
  if (!isAuthProvider) {
    const policy = resolveRefreshPolicy(undefined);
    const { fetch } = options;
    const timeoutMs = policy.tokenTimeoutMs;
    return new ClientProviderCredential({
      id,
      provider: provider as OAuthClientProviderLike,
      discovery: new Discovery({ id, store: undefined, clock, fetch, timeoutMs }),
      policy,
      clock,
    });
  }
  return new SourceProvider({
    id,
    clock,
    header: 'authorization',
    prefix: 'Bearer ',
    onUnchanged: source.onUnauthorized === undefined ? undefined : REAUTHORIZE,
    read: ({ target, rejected }) => readAuthProvider(provider as AuthProviderLike, target, rejected),
  });
}

async function readAuthProvider(
  provider: AuthProviderLike,
  target: URL,
  rejected: boolean,
): Promise<Reading> {
  if (rejected && provider.onUnauthorized !== undefined) {
    const response = new Response(null, { status: 401, headers: { 'www-authenticate': 'Bearer' } });
    await asked(async () => {
      await provider.onUnauthorized?.({ response, serverUrl: target, fetchFn: globalThis.fetch });
    });
  }
  const token: unknown = await asked(async () => await provider.token());
  if (token === undefined || token === null || token === '') throw reauthorize();
  return { value: checkedToken(token, 'The authorization provider'), freshForMs: 0 };
}

function reauthorize(cause?: unknown): HostedMcpError {
  return new HostedMcpError(REAUTHORIZE.code, REAUTHORIZE.what, { ...REAUTHORIZE.fields, cause });
}

/**
 * Our provider for a framework that takes an `OAuthClientProvider` (SDK v1, AI SDK, LangChain). The SDK asks
 * for tokens before each request; after a refusal it tries to send a person to the authorization page, which
 * throws `ERR_REAUTHORIZATION_REQUIRED` here and makes the next `tokens()` renew the credential.
 */
export function toOAuthClientProvider(
  provider: CredentialProvider,
  url: string | URL,
): {
  readonly redirectUrl: string;
  readonly clientMetadata: { redirect_uris: string[] };
  clientInformation(): { client_id: string };
  tokens(): Promise<{ access_token: string; token_type: string } | undefined>;
  saveTokens(): void;
  redirectToAuthorization(url: URL): void;
  saveCodeVerifier(): void;
  codeVerifier(): string;
} {
  const handed = new HandedTokens(provider, new URL(url));
  // Never called: an address that no browser resolves (RFC 6761).
  const redirectUrl = 'https://redirect.invalid/';
  return {
    redirectUrl,
    clientMetadata: { redirect_uris: [redirectUrl] },
    clientInformation: () => ({ client_id: 'mcp-holdfast' }),
    async tokens() {
      return { access_token: await handed.next(), token_type: 'Bearer' };
    },
    saveTokens() {},
    redirectToAuthorization() {
      handed.refused();
      throw new HostedMcpError(
        'ERR_REAUTHORIZATION_REQUIRED',
        'The server refused the credential; it is renewed at the next use',
        { reason: 'rejected' },
      );
    },
    saveCodeVerifier() {},
    codeVerifier: () => '',
  };
}

/** Our provider for SDK v2's `authProvider`. */
export function toAuthProvider(
  provider: CredentialProvider,
  url: string | URL,
): { token(): Promise<string | undefined>; onUnauthorized(context: unknown): Promise<void> } {
  const handed = new HandedTokens(provider, new URL(url));
  return {
    token: () => handed.next(),
    async onUnauthorized() {
      handed.refused();
      await handed.next();
    },
  };
}

/** Remembers which generation went out last: the SDKs' interfaces do not say which token was refused. */
class HandedTokens {
  readonly #provider: CredentialProvider;
  readonly #url: URL;
  #generation: number | undefined;
  #isRefused = false;

  constructor(provider: CredentialProvider, url: URL) {
    this.#provider = provider;
    this.#url = url;
  }

  refused(): void {
    this.#isRefused = this.#generation !== undefined;
  }

  async next(): Promise<string> {
    const generation = this.#generation;
    const rejected = this.#isRefused && generation !== undefined ? { generation, status: 401 } : undefined;
    this.#isRefused = false;
    const credential = await this.#provider.acquire(new URL(this.#url), { rejected });
    this.#generation = credential.generation;
    const headers = await credential.headers({ method: 'POST', url: new URL(this.#url) });
    const value = /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1];
    if (value === undefined) {
      throw new HostedMcpError('ERR_CREDENTIAL_SOURCE', 'This credential is no bearer token');
    }
    return value;
  }
}
