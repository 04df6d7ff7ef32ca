/**
 * A user's consent for the bridge: asked for in the system browser when the server first wants a credential, kept in
 * files of this user.
 *
 * Guarantees one consent at a time on this machine for one server, however many hosts launch a bridge to it: whoever
 * has the redirect's port asks, the others wait and take up what was granted. The port is open during a consent only,
 * and is the same each time, so that a client is registered once. Never writes a token or a code anywhere but into the store.
 */
import { createHash } from 'node:crypto';
import { type Clock, sleep } from '../../clock.js';
import {
  type AuthorizationCodeOptions,
  authorizationCodeGrant,
  type ClientIdentity,
  fileCredentialStore,
} from '../../credentials/index.js';
import type {
  AcquireOptions,
  Credential,
  CredentialEvent,
  CredentialProvider,
} from '../../credentials/provider.js';
import { type Disposer, disposer } from '../../disposer.js';
import { codeOf, HostedMcpError } from '../../errors.js';
import type { HttpFetch } from '../../http/exchange.js';
import { openBrowser } from '../../loopback/browser.js';
import { type LoopbackRedirect, loopbackRedirect } from '../../loopback/index.js';

export interface LoginOptions {
  readonly url: URL;
  /** The folder of the store. */
  readonly store: string;
  readonly port: number | undefined;
  readonly client: ClientIdentity | undefined;
  readonly issuer: string | undefined;
  readonly scope: string | undefined;
  readonly clock: Clock;
  readonly fetch: HttpFetch | undefined;
  say(level: 'info' | 'warn', event: string, message: string): void;
}

/** What a person may take for a password, a second factor and a consent page. */
export const CONSENT_MS = 300_000;
/** The kernel gives a port free the moment that its owner ends, however it ends. */
const POLL_MS = 500;
/** From the end of the other's wait to its token in the store: one request to the token endpoint. */
const EXCHANGE_MS = 2_000;
/** Below the range from which Linux, macOS and Windows give ports to connections. */
const PORTS = Object.freeze({ first: 20_000, count: 10_000 });

/** The same for one server on every run; not all authorization servers take any port of a loopback address. */
export function portFor(url: URL): number {
  const digest = createHash('sha256').update(`${url.origin}${url.pathname}`).digest();
  return PORTS.first + (digest.readUInt32BE(0) % PORTS.count);
}

/** Throws a `TypeError` naming the option that cannot be used. */
export function loginCredential(options: LoginOptions): CredentialProvider {
  return new Login(options);
}

class Login implements CredentialProvider {
  readonly id: string;
  readonly #options: LoginOptions;
  readonly #inner: CredentialProvider;
  readonly #port: number;
  readonly #closing = new AbortController();
  /** Open, and not used yet. */
  #redirect: LoopbackRedirect | undefined;
  #opening: Promise<boolean> | undefined;

  constructor(options: LoginOptions) {
    this.#options = options;
    this.#port = options.port ?? portFor(options.url);
    const { client, issuer, scope, clock, fetch, store } = options;
    const grant: AuthorizationCodeOptions = {
      redirectUri: `http://127.0.0.1:${this.#port}/callback`,
      onRedirect: (url) => this.#onRedirect(url),
      store: fileCredentialStore(store),
      subject: 'user of this machine',
      clock,
      client,
      issuer,
      scope,
      fetch,
    };
    this.#inner = authorizationCodeGrant(grant);
    this.id = this.#inner.id;
  }

  async acquire(target: URL, options: AcquireOptions = {}): Promise<Credential> {
    // Nothing was held and something is wanted: a consent is due, and before it perhaps a registration.
    const isFirst = options.rejected?.generation === 0;
    if (!isFirst) return await this.#inner.acquire(target, options);
    await this.#hold(options.signal);
    const redirect = this.#redirect;
    try {
      return await this.#inner.acquire(target, options);
    } finally {
      // Taken up from the store: nobody has to be asked.
      if (redirect !== undefined && redirect === this.#redirect) {
        this.#redirect = undefined;
        await redirect.close();
      }
    }
  }

  onEvent(listener: (event: CredentialEvent) => void): Disposer {
    return this.#inner.onEvent?.(listener) ?? disposer(() => {});
  }

  async close(options?: { drainMs?: number | undefined }): Promise<void> {
    this.#closing.abort();
    await this.#inner.close?.(options);
    await this.#redirect?.close();
  }

  async #onRedirect(url: URL): Promise<URL> {
    if (this.#redirect === undefined && (await this.#hold(this.#closing.signal))) {
      // Another had a consent meanwhile: what it got is in the store.
      throw new HostedMcpError('ERR_REAUTHORIZATION_REQUIRED', 'The user was asked by another process', {
        reason: 'elsewhere',
        retryable: true,
      });
    }
    const redirect = this.#redirect;
    this.#redirect = undefined;
    if (redirect === undefined) throw new HostedMcpError('ERR_CLOSED', 'The bridge ends');
    this.#options.say('info', 'consent', 'The user is asked for consent, in the browser.');
    return await redirect.onRedirect(url);
  }

  /** Opens the port, waiting for whoever has it. Whether there was a wait. */
  #hold(signal: AbortSignal | undefined): Promise<boolean> {
    if (this.#redirect !== undefined) return Promise.resolve(false);
    this.#opening ??= this.#open(signal).finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  async #open(signal: AbortSignal | undefined): Promise<boolean> {
    const { clock, say } = this.#options;
    const untilMs = clock.monotonic() + CONSENT_MS;
    for (let waited = false; ; waited = true) {
      try {
        this.#redirect = await loopbackRedirect({
          port: this.#port,
          timeoutMs: CONSENT_MS,
          clock,
          signal: this.#closing.signal,
          open: (url) => this.#show(url),
        });
      } catch (error) {
        const cause = (error as { cause?: unknown }).cause;
        if (codeOf(cause) !== 'EADDRINUSE' || clock.monotonic() >= untilMs) throw error;
        if (!waited) {
          const what = `Port ${this.#port} is in use, by the consent of another bridge perhaps: waiting. If it is for something else, give another with --port.`;
          say('warn', 'consent-waits', what);
        }
        await sleep(clock, POLL_MS, signal);
        continue;
      }
      if (waited) await sleep(clock, EXCHANGE_MS, signal);
      return waited;
    }
  }

  async #show(url: URL): Promise<void> {
    try {
      await openBrowser(url);
    } catch {
      // Nobody but a person at this machine can use it: what comes back goes to its loopback interface.
      const what = `No browser could be opened. To authorize, open ${url.href}`;
      this.#options.say('warn', 'consent-address', what);
    }
  }
}
