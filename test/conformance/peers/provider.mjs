/**
 * What an app writes to be authorized through the SDKs' own transports: a provider that keeps everything in memory, and
 * a loop around each request.
 */
import { CLIENT_DOCUMENT, followRedirect, REDIRECT_URI } from '../scenarios.mjs';

/** Tries of one request, the first included. */
const TRIES = 3;

export class MemoryProvider {
  redirectUrl = REDIRECT_URI;
  /** Where the last redirect led. */
  callback;
  #client;
  #tokens;
  #verifier;

  constructor({ entry, context }) {
    if (entry.identity === 'document') this.clientMetadataUrl = CLIENT_DOCUMENT;
    if (entry.identity === 'registered')
      this.#client = { client_id: context.client_id, client_secret: context.client_secret };
  }
  get clientMetadata() {
    return {
      client_name: 'conformance-peer',
      redirect_uris: [REDIRECT_URI],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
    };
  }
  clientInformation() {
    return this.#client;
  }
  saveClientInformation(client) {
    this.#client = client;
  }
  tokens() {
    return this.#tokens;
  }
  saveTokens(tokens) {
    this.#tokens = tokens;
  }
  saveCodeVerifier(verifier) {
    this.#verifier = verifier;
  }
  codeVerifier() {
    return this.#verifier;
  }
  async redirectToAuthorization(url) {
    this.callback = (await followRedirect(url)).searchParams;
  }
}

/** Workload identity: the assertion takes the place of a code. */
export class AssertionProvider extends MemoryProvider {
  redirectUrl = undefined;
  #context;

  constructor(told) {
    super({ entry: { identity: 'registered' }, context: told.context });
    this.#context = told.context;
  }
  get clientMetadata() {
    return { ...super.clientMetadata, redirect_uris: [], token_endpoint_auth_method: 'none' };
  }
  prepareTokenRequest(scope) {
    return new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion: this.#context.valid_jwt,
      ...(scope && { scope }),
    });
  }
}

/**
 * Goes on after an authorization, as long as there are tries left. `finishAuth` gets the callback's parameters;
 * `isUnauthorized` knows the SDK's error.
 */
export async function authorized(request, { provider, finishAuth, isUnauthorized }) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await request();
    } catch (error) {
      if (!isUnauthorized(error) || provider.callback === undefined || tries >= TRIES) throw error;
      const { callback } = provider;
      provider.callback = undefined;
      await finishAuth(callback);
    }
  }
}

/** The Client with that loop around each of the requests that the scenarios make. */
export function withAuthorization(client, options) {
  const around =
    (name) =>
    (...args) =>
      authorized(() => client[name](...args), options);
  return { listTools: around('listTools'), callTool: around('callTool') };
}
