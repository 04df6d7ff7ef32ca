/**
 * An app's own `OAuthClientProvider` (of an SDK) as a credential: its storage and its way to the user stay in use.
 *
 * Guarantees that its tokens are read at every use, that a refusal costs one refresh however many calls meet it, that a
 * rotated pair is saved before it is served, that a token which is alive is served whatever a refresh ahead of its end
 * comes to, and that the first authorization server found is the one that gets its client's secret. Never opens a browser
 * itself, and never exchanges a code twice.
 */
import type { Clock } from '../../clock.js';
import type { Disposer } from '../../disposer.js';
import { HostedMcpError } from '../../errors.js';
import type { OAuthClientProviderLike } from '../bridge.js';
import { type ClientAuthenticator, clientAuthenticator } from '../client-auth.js';
import { CredentialEvents } from '../credential-events.js';
import type { ServerMetadata } from '../metadata.js';
import { elapsedSince, type Moment, momentOf } from '../moment.js';
import { type ResolvedRefreshPolicy, tokenTimes } from '../options.js';
import { problemError } from '../problem.js';
import type {
  AcquireOptions,
  Credential,
  CredentialEvent,
  CredentialProvider,
  Rejection,
} from '../provider.js';
import { isScope } from '../scopes.js';
import { Secret } from '../secret.js';
import { type Reading, SourceProvider } from '../sources/source-provider.js';
import { type IssuedToken, TokenEndpoint, type TokenOutcome } from '../token-endpoint.js';
import { checkedToken } from '../token-value.js';
import { ANONYMOUS } from './anonymous.js';
import { authorizationRequest } from './authorization-request.js';
import { type Callback, checkCallback, only, readCallback, refused } from './callback.js';
import { methodFor } from './client-identity.js';
import { movedError } from './consent.js';
import type { DiscoveredServer } from './discovered-server.js';
import type { Discovery } from './discovery.js';
import { checkedEndpoint, exchangeError } from './flow.js';
import { asked, NO_TOKEN } from './foreign.js';
import { textIn } from './record.js';
import { applicationType, registerClient } from './registration.js';

/** Members that only newer SDKs' providers have. */
interface MoreOfProvider {
  clientMetadataUrl?: string | undefined;
  state?(): string | Promise<string>;
  saveClientInformation?(information: unknown): void | Promise<void>;
  invalidateCredentials?(what: 'tokens' | 'client'): void | Promise<void>;
}

export interface ClientProviderParts {
  readonly id: string;
  readonly provider: OAuthClientProviderLike & MoreOfProvider;
  readonly discovery: Discovery;
  readonly policy: ResolvedRefreshPolicy;
  readonly clock: Clock;
}

type Fields = Record<string, unknown>;

export class ClientProviderCredential implements CredentialProvider {
  readonly id: string;
  readonly #parts: ClientProviderParts;
  readonly #source: SourceProvider;
  readonly #events = new CredentialEvents();
  #rejection: Rejection | undefined;
  #server: DiscoveredServer | undefined;
  #served: Secret | undefined;
  /** A refresh ahead of time that failed is not tried again before. */
  #notBeforeMs = 0;
  /** A refresh token that was refused ahead of time: of no use when the time has come either. */
  #spent: Secret | undefined;
  /** Of a token that was had here: when it came, and how long it lives. */
  #had: { readonly token: Secret; readonly started: Moment; readonly lifetimeMs: number } | undefined;

  constructor(parts: ClientProviderParts) {
    this.id = parts.id;
    this.#parts = parts;
    this.#source = new SourceProvider({
      id: parts.id,
      clock: parts.clock,
      header: 'authorization',
      prefix: 'Bearer ',
      onUnchanged: { code: 'ERR_REAUTHORIZATION_REQUIRED', what: NO_TOKEN, fields: { reason: 'no_token' } },
      read: ({ target, rejected }) => this.#read(target, rejected),
    });
    this.#source.onEvent((event) => this.#events.emit(event));
  }

  async acquire(target: URL, options: AcquireOptions = {}): Promise<Credential> {
    const { rejected } = options;
    this.#parts.discovery.bind(target);
    if (rejected !== undefined) this.#rejection = rejected;
    // Without a token the server says first what it wants, as it does with the SDKs' own transports.
    if (rejected === undefined && (await this.#tokens()) === undefined) return ANONYMOUS;
    return await this.#source.acquire(target, options);
  }

  onEvent(listener: (event: CredentialEvent) => void): Disposer {
    return this.#events.add(listener);
  }

  /** As the SDK's transports do it: a bare code will do, though the whole callback tells more. */
  async finishAuth(callback: Callback, target?: URL | undefined): Promise<void> {
    if (target === undefined) throw new TypeError('finishAuth() needs the address of the MCP server');
    const { provider, discovery, policy, clock } = this.#parts;
    discovery.bind(target);
    const parameters = isBareCode(callback)
      ? new URLSearchParams({ code: callback as string })
      : readCallback(callback);
    const { server, metadata } = await this.#found(target);
    if (!isBareCode(callback)) checkCallback(parameters, metadata);
    const code = only(parameters, 'code');
    if (code === undefined || provider.redirectUrl === undefined) {
      throw refused('The callback carries no code', 'no_code');
    }
    const verifier = new Secret(await asked(async () => await provider.codeVerifier()));
    const endpoint = await this.#endpoint(server, await this.#client(metadata));
    // What a state is for the app has checked; openid-client wants one that fits.
    parameters.set('state', parameters.get('state') ?? 'unchecked');
    if (!parameters.has('iss') && metadata.issParameterSupported === true) {
      parameters.set('iss', metadata.issuer);
    }
    const address = new URL(provider.redirectUrl);
    address.search = parameters.toString();
    await endpoint.prepare();
    const started = momentOf(clock);
    const outcome = await endpoint.request({
      code: { callback: address, verifier, state: parameters.get('state') as string },
      resource: resourceOf(server, target),
      timeoutMs: policy.tokenTimeoutMs,
    });
    if (outcome.kind !== 'token') throw exchangeError(outcome);
    await this.#save(outcome, started, undefined);
  }

  async close(): Promise<void> {
    await this.#source.close();
    await this.#parts.discovery.http.close();
  }

  async #read(target: URL, rejected: boolean): Promise<Reading> {
    const value = await this.#value(target, rejected);
    this.#served = new Secret(value);
    return { value, freshForMs: 0 };
  }

  async #value(target: URL, rejected: boolean): Promise<string> {
    const tokens = await this.#tokens();
    const refreshToken = textIn(tokens ?? {}, 'refresh_token');
    const given = tokens?.access_token;
    // Somebody else, the app itself perhaps, may have put another one there.
    const isRefused = rejected && given === this.#served?.reveal();
    const isNeeded = isRefused || given === undefined;
    if (refreshToken !== undefined && (isNeeded || this.#isDue(given, refreshToken))) {
      const value = isNeeded
        ? await this.#refresh(target, refreshToken)
        : await this.#refreshAhead(target, refreshToken);
      if (value !== undefined) return value;
    }
    if (isNeeded) await this.#sendUser(target);
    return checkedToken(given, 'The authorization provider');
  }

  /** Undefined where the refresh token is no good any more. */
  async #refresh(target: URL, refreshToken: string): Promise<string | undefined> {
    const { outcome, started } =
      this.#spent?.reveal() === refreshToken ? REFUSED : await this.#ask(target, refreshToken);
    if (outcome.kind === 'token') return await this.#save(outcome, started, refreshToken);
    if (outcome.kind === 'refused' && outcome.oauthError === 'invalid_grant') {
      await asked(async () => await this.#parts.provider.invalidateCredentials?.('tokens'));
      return undefined;
    }
    if (outcome.kind === 'held-back')
      throw new HostedMcpError('ERR_TOKEN_ENDPOINT', 'No token was asked for');
    throw problemError(outcome.problem);
  }

  /** Undefined where nothing came of it: the token of before is alive, and will do for a while. */
  async #refreshAhead(target: URL, refreshToken: string): Promise<string | undefined> {
    const { clock } = this.#parts;
    this.#notBeforeMs = clock.monotonic() + RETRY_MS;
    const asking = this.#ask(target, refreshToken).catch((error: unknown) => {
      if (HostedMcpError.isInstance(error)) return undefined;
      throw error;
    });
    const { outcome, started } = (await asking) ?? {};
    if (outcome?.kind === 'token') return await this.#save(outcome, started ?? momentOf(clock), refreshToken);
    const isSpent = outcome?.kind === 'refused' && outcome.oauthError === 'invalid_grant';
    if (isSpent) this.#spent = new Secret(refreshToken);
    return undefined;
  }

  async #ask(target: URL, refreshToken: string): Promise<{ outcome: TokenOutcome; started: Moment }> {
    const { policy, clock } = this.#parts;
    const { server, metadata } = await this.#found(target);
    const endpoint = await this.#endpoint(server, await this.#client(metadata));
    await endpoint.prepare();
    const started = momentOf(clock);
    const outcome = await endpoint.request({
      refreshToken: new Secret(refreshToken),
      resource: resourceOf(server, target),
      timeoutMs: policy.tokenTimeoutMs,
    });
    return { outcome, started };
  }

  /** Sends the user away. Throws what says so. */
  async #sendUser(target: URL): Promise<never> {
    const { provider } = this.#parts;
    if (provider.redirectUrl === undefined) throw refused(NO_TOKEN, 'no_token');
    const rejection = this.#rejection;
    const { server, metadata } = await this.#found(target);
    const endpoint = checkedEndpoint(metadata);
    const client = await this.#client(metadata);
    const challenged = rejection?.scope;
    const listed = (server.scopesSupported ?? []).join(' ');
    const own = textIn(provider.clientMetadata as unknown as Fields, 'scope');
    const { url, verifier } = await authorizationRequest({
      endpoint,
      clientId: client.id,
      redirectUri: String(provider.redirectUrl),
      resource: resourceOf(server, target),
      scope: [challenged, listed, own].find((scope) => scope !== undefined && isScope(scope)),
      state: await asked(async () => await provider.state?.()),
    });
    await asked(async () => {
      await provider.saveCodeVerifier(verifier.reveal());
      await provider.redirectToAuthorization(url);
    });
    throw new HostedMcpError('ERR_REAUTHORIZATION_REQUIRED', 'A user has to authorize this client', {
      reason: 'no_token',
      authorizationUrl: url.href,
    });
  }

  async #found(target: URL): Promise<{ server: DiscoveredServer; metadata: ServerMetadata }> {
    const { discovery } = this.#parts;
    const known = this.#server;
    const server = await discovery.server(target, this.#rejection, known?.issuer);
    if (known !== undefined && known.issuer !== server.issuer) {
      const move = { previous: known.issuer, current: server.issuer };
      this.#events.emit({ type: 'server-changed', id: this.id, ...move });
      throw movedError();
    }
    this.#server = server;
    return { server, metadata: await discovery.metadataOf(server).get() };
  }

  async #client(metadata: ServerMetadata): Promise<{ id: string; auth: ClientAuthenticator }> {
    const { provider, discovery, policy, clock } = this.#parts;
    let information = fieldsOf(await asked(async () => await provider.clientInformation()));
    if (information === undefined) {
      const { clientMetadataUrl } = provider;
      if (clientMetadataUrl !== undefined && metadata.clientIdMetadataDocumentSupported === true) {
        information = { client_id: clientMetadataUrl };
      } else if (metadata.registrationEndpoint !== undefined) {
        const own = provider.clientMetadata as unknown as Fields;
        information = await registerClient({
          endpoint: metadata.registrationEndpoint,
          metadata: {
            token_endpoint_auth_method: methodFor(metadata.authMethods),
            application_type: applicationType(String(provider.redirectUrl)),
            ...own,
          },
          http: discovery.http,
          clock,
          timeoutMs: policy.tokenTimeoutMs,
        });
      } else throw refused('The provider has no client id for this authorization server', 'no_client');
      await asked(async () => await provider.saveClientInformation?.(information));
    }
    const id = textIn(information, 'client_id');
    if (id === undefined)
      throw refused('The provider has no client id for this authorization server', 'no_client');
    const clientSecret = textIn(information, 'client_secret');
    const named = textIn(information, 'token_endpoint_auth_method');
    const method = named === 'client_secret_post' || named === 'client_secret_basic' ? named : undefined;
    const isPublic = clientSecret === undefined || named === 'none';
    return { id, auth: clientAuthenticator(isPublic ? {} : { clientSecret, method }) };
  }

  async #endpoint(
    server: DiscoveredServer,
    client: { id: string; auth: ClientAuthenticator },
  ): Promise<TokenEndpoint> {
    const { discovery, clock } = this.#parts;
    const metadata = discovery.metadataOf(server);
    return new TokenEndpoint({
      clientId: client.id,
      auth: client.auth,
      metadata,
      http: discovery.http,
      clock,
    });
  }

  /** RFC 6749, 6: a reply without a refresh token leaves the old one in force. */
  async #save(issued: IssuedToken, started: Moment, refreshToken: string | undefined): Promise<string> {
    const value = issued.accessToken.reveal();
    const refresh = issued.refreshToken?.reveal() ?? refreshToken;
    const { expiresInMs, scope } = issued;
    this.#had = {
      token: issued.accessToken,
      started,
      lifetimeMs: expiresInMs ?? this.#parts.policy.assumedLifetimeMs,
    };
    await asked(
      async () =>
        await this.#parts.provider.saveTokens({
          access_token: value,
          token_type: 'Bearer',
          ...(expiresInMs === undefined ? {} : { expires_in: Math.floor(expiresInMs / 1_000) }),
          ...(refresh === undefined ? {} : { refresh_token: refresh }),
          ...(scope === undefined ? {} : { scope }),
        }),
    );
    return value;
  }

  /** A token of a provider's own making has no birthday: only those that were had here are known to be due. */
  #isDue(token: unknown, refreshToken: string): boolean {
    const had = this.#had;
    if (had === undefined || had.token.reveal() !== token) return false;
    if (this.#spent?.reveal() === refreshToken) return false;
    if (this.#parts.clock.monotonic() < this.#notBeforeMs) return false;
    const { softAfterMs } = tokenTimes(had.lifetimeMs, this.#parts.policy, 0);
    return elapsedSince(had.started, this.#parts.clock) >= softAfterMs;
  }

  async #tokens(): Promise<Fields | undefined> {
    const tokens = fieldsOf(await asked(async () => await this.#parts.provider.tokens()));
    return tokens === undefined || textIn(tokens, 'access_token') === undefined ? undefined : tokens;
  }
}

const RETRY_MS = 30_000;
/** What was said of that refresh token already. */
const REFUSED = {
  outcome: {
    kind: 'refused',
    oauthError: 'invalid_grant',
    problem: { code: 'ERR_CREDENTIAL_REJECTED', what: NO_TOKEN },
  },
  started: { atMs: 0, monotonicMs: 0 },
} as const;

function resourceOf(server: DiscoveredServer, target: URL): string {
  return server.resource ?? target.href;
}

/** What the SDK's own `finishAuth(code)` takes; a code may end in `==`. */
function isBareCode(callback: Callback): boolean {
  return typeof callback === 'string' && !/:\/\/|^\?|(^|[?&])(code|error|state)=/.test(callback);
}

function fieldsOf(value: unknown): Fields | undefined {
  return typeof value === 'object' && value !== null ? (value as Fields) : undefined;
}
