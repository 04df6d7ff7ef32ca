/**
 * One user's consent: the browser on one side, the callback on the other.
 *
 * Guarantees that `onRedirect` settles once, with the first callback that carries the `state` of its authorization URL
 * or with a typed error, and that by then no socket, timer or listener is left. Never lets a request that does not
 * carry the `state` end the wait, and never puts a code or a state into an error's words: the authorization URL is a
 * field of its own, left out where an error is logged whole.
 */
import type { Timer } from '../clock.js';
import { HostedMcpError } from '../errors.js';
import { checkAuthorizationUrl } from './authorization-url.js';
import { openBrowser } from './browser.js';
import { Listener } from './listener.js';
import { type LoopbackOptions, type ResolvedLoopbackOptions, resolveLoopbackOptions } from './options.js';

export interface LoopbackRedirect {
  /** Of the form `http://127.0.0.1:49152/callback`. */
  readonly redirectUri: string;
  /**
   * Opens the authorization URL in the user's browser and resolves with the whole URL of the callback, be it with a
   * code or with the server's refusal. Once only. Throws, besides `TypeError` for a URL without a `state` or with
   * another redirect URI: `ERR_DISCOVERY` (not an address to open), `ERR_REAUTHORIZATION_REQUIRED` (no browser, or
   * nobody came back in time; `authorizationUrl` is for the user), `ERR_ABORTED`, `ERR_CLOSED`.
   */
  onRedirect(url: URL): Promise<URL>;
  /** Ends the wait, if there is one, with `ERR_CLOSED`. Never rejects. */
  close(): Promise<void>;
}

/**
 * Listens on 127.0.0.1 for the redirect of one authorization (RFC 8252 section 7.3). Until `onRedirect` is called this
 * does not keep the process alive. Throws `TypeError` for a bad option, `ERR_CREDENTIAL_SOURCE` for a port that is
 * taken, `ERR_ABORTED`.
 *
 * @example
 * const { redirectUri, onRedirect } = await loopbackRedirect();
 * const callback = await onRedirect(authorizationUrl);
 */
export async function loopbackRedirect(options?: LoopbackOptions | undefined): Promise<LoopbackRedirect> {
  const resolved = resolveLoopbackOptions(options);
  if (resolved.signal?.aborted === true) throw abortedError();
  const wait = new Wait(resolved);
  const listener = await Listener.start({ ...resolved, take: (callback) => wait.take(callback) });
  if (!wait.begin(listener)) {
    await listener.close();
    throw abortedError();
  }
  return Object.freeze({
    redirectUri: listener.redirectUri,
    // Not methods of a class: they are handed on one by one.
    onRedirect: async (url: URL) => wait.onRedirect(url),
    close: () => wait.close(),
  });
}

type Phase =
  | { readonly is: 'ready' }
  | {
      readonly is: 'waiting';
      readonly state: string;
      readonly timer: Timer;
      readonly resolve: (callback: URL) => void;
      readonly reject: (error: HostedMcpError) => void;
    }
  | { readonly is: 'ended'; readonly reason: () => HostedMcpError };

class Wait {
  readonly #options: ResolvedLoopbackOptions;
  readonly #onAbort = () => this.#fail(abortedError);
  #listener: Listener | undefined;
  #phase: Phase = { is: 'ready' };

  constructor(options: ResolvedLoopbackOptions) {
    this.#options = options;
  }

  /** `false`: the signal has ended meanwhile. */
  begin(listener: Listener): boolean {
    const { signal } = this.#options;
    if (signal?.aborted === true) return false;
    this.#listener = listener;
    signal?.addEventListener('abort', this.#onAbort, { once: true });
    return true;
  }

  onRedirect(given: URL): Promise<URL> {
    const listener = this.#listener;
    if (this.#phase.is === 'ended') throw this.#phase.reason();
    if (listener === undefined || this.#phase.is === 'waiting') throw usedError();
    const { url, state } = checkAuthorizationUrl(given, listener.redirectUri);
    const callback = new Promise<URL>((resolve, reject) => {
      const timer = this.#options.clock.setTimeout(() => {
        this.#fail(() => userError('Nobody came back from the browser in the time allowed', url));
      }, this.#options.timeoutMs);
      this.#phase = { is: 'waiting', state, timer, resolve, reject };
    });
    listener.hold();
    void this.#open(url);
    return callback;
  }

  /** Whether this is the callback that is waited for: then it is the outcome. */
  take(callback: URL): boolean {
    const phase = this.#phase;
    if (phase.is !== 'waiting') return false;
    const [state, ...more] = callback.searchParams.getAll('state');
    if (state !== phase.state || more.length > 0) return false;
    this.#end(usedError);
    // The listener closes itself when the browser has its answer.
    void this.#listener?.closed.then(() => phase.resolve(callback));
    return true;
  }

  async close(): Promise<void> {
    this.#fail(closedError);
    await this.#listener?.close();
  }

  async #open(url: URL): Promise<void> {
    try {
      await (this.#options.open ?? openBrowser)(new URL(url));
    } catch (cause) {
      const what = 'No browser could be opened; the address for the user is in authorizationUrl';
      this.#fail(() => userError(what, url, cause));
    }
  }

  #fail(reason: () => HostedMcpError): void {
    const phase = this.#phase;
    if (phase.is === 'ended') return;
    this.#end(phase.is === 'waiting' ? usedError : reason);
    void this.#listener?.close().then(() => {
      if (phase.is === 'waiting') phase.reject(reason());
    });
  }

  /** The one way out of every phase; nothing that it leaves behind can call back. */
  #end(reason: () => HostedMcpError): void {
    if (this.#phase.is === 'waiting') this.#phase.timer.clear();
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
    this.#phase = { is: 'ended', reason };
  }
}

/** A person can still go there, and the app can hand in the address at which that ends. */
function userError(what: string, url: URL, cause?: unknown): HostedMcpError {
  const error = new HostedMcpError('ERR_REAUTHORIZATION_REQUIRED', what, { cause });
  // It holds the state: for the user's browser, not for whatever logs an error whole.
  Object.defineProperty(error, 'authorizationUrl', {
    value: url.href,
    enumerable: false,
    configurable: true,
  });
  return error;
}

function abortedError(): HostedMcpError {
  return new HostedMcpError('ERR_ABORTED', 'The app gave up waiting for the user');
}

function closedError(): HostedMcpError {
  return new HostedMcpError('ERR_CLOSED', 'The redirect helper was closed');
}

function usedError(): HostedMcpError {
  return new HostedMcpError(
    'ERR_CLOSED',
    'A redirect helper serves one authorization, and this one had its own: make a new one for each',
  );
}
