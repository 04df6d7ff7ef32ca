/**
 * The rate limit as one connection sees it.
 *
 * Guarantees that nobody who has nothing to wait for loses a turn, that a pause which the server asked for is
 * kept with or without a limit of our own, and that `close()` ends this connection's waits alone and leaves no
 * timer behind. Never sends anything.
 */
import { type Clock, sleep } from '../clock.js';
import type { Disposer } from '../disposer.js';
import { HostedMcpError } from '../errors.js';
import { type Bucket, useBucket } from './bucket.js';
import type { ResolvedRateLimit } from './options.js';
import { Pause } from './pause.js';
import { waitExceeded } from './refusal.js';
import type { DegradedReason } from './store-link.js';
import type { PayOptions, Toll, Urgency } from './toll.js';

export interface LimiterEvents {
  /** A request has to wait, for so long at the least. */
  'rate-wait': { readonly key: string; readonly forMs: number };
  'rate-paused': { readonly key: string; readonly forMs: number };
  'rate-degraded': { readonly key: string; readonly reason: DegradedReason };
  'rate-restored': { readonly key: string };
}

interface LimiterParts {
  readonly clock: Clock;
  tell<E extends keyof LimiterEvents>(event: E, payload: LimiterEvents[E]): void;
}

export class Limiter implements Toll {
  readonly #options: ResolvedRateLimit;
  readonly #parts: LimiterParts;
  readonly #bucket: Bucket | undefined;
  /** Where there is no bucket. */
  readonly #pause: Pause;
  readonly #listeners: readonly Disposer[];
  /** Those that wait: ended by their own signal, or by `close()`. */
  readonly #waits = new Set<AbortController>();
  #isClosed = false;

  constructor(options: ResolvedRateLimit, parts: LimiterParts) {
    this.#options = options;
    this.#parts = parts;
    const { clock, tell } = parts;
    const { store, key } = options;
    this.#pause = new Pause(clock, options.maxPauseMs);
    this.#bucket = store === undefined ? undefined : useBucket({ ...options, store, clock });
    const events = this.#bucket?.events;
    this.#listeners =
      events === undefined
        ? []
        : [
            events.on('paused', ({ forMs }) => tell('rate-paused', { key, forMs })),
            events.on('degraded', ({ reason }) => tell('rate-degraded', { key, reason })),
            events.on('restored', () => tell('rate-restored', { key })),
          ];
  }

  get pausedMs(): number {
    if (!this.#options.respectServer) return 0;
    return (this.#bucket ?? { pausedMs: this.#pause.remainingMs }).pausedMs;
  }

  /** How long a payment holds: a request that leaves later crowds the server's window. */
  get goodForMs(): number {
    return this.#bucket?.goodForMs ?? Number.POSITIVE_INFINITY;
  }

  /**
   * Undefined: it may leave now. Gives the instant from which the payment counts, on the monotonic clock. Rejects with
   * ERR_RATE_WAIT_EXCEEDED, ERR_STORE_UNAVAILABLE or the signal's reason.
   */
  pay(urgency: Urgency, options: PayOptions = {}): Promise<number> | undefined {
    if (this.#isClosed) return Promise.reject(closedError());
    const bucket = this.#bucket;
    if (bucket === undefined) return this.pausedMs === 0 ? undefined : this.#wait(urgency, options);
    const hasGone = typeof options.signal === 'object' && options.signal.aborted;
    return !hasGone && bucket.acquireNow() ? undefined : this.#wait(urgency, options);
  }

  /** The server wants nothing for so long. Gives what is left of the pause. */
  pause(forMs: number): number {
    const { respectServer, maxPauseMs, key } = this.#options;
    if (!respectServer || this.#isClosed) return 0;
    if (this.#bucket !== undefined) return this.#bucket.pause(Math.min(forMs, maxPauseMs));
    const left = this.#pause.extend(forMs);
    this.#parts.tell('rate-paused', { key, forMs: left });
    return left;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const listener of this.#listeners) listener.dispose();
    for (const wait of this.#waits) wait.abort(closedError());
    this.#bucket?.leave();
  }

  async #wait(urgency: Urgency, options: PayOptions): Promise<number> {
    const { clock, tell } = this.#parts;
    const { maxWaitMs, key } = this.#options;
    const untilMs = Math.min(options.untilMs ?? Number.POSITIVE_INFINITY, clock.monotonic() + maxWaitMs);
    const given = options.signal;
    let outer = typeof given === 'function' ? undefined : given;
    outer?.throwIfAborted();
    let ending: AbortController | undefined;
    const onAbort = () => ending?.abort(outer?.reason);
    // Most go at once and never need it.
    const signal = () => {
      if (ending !== undefined) return ending.signal;
      if (typeof given === 'function') outer = given();
      ending = new AbortController();
      this.#waits.add(ending);
      if (this.#isClosed) ending.abort(closedError());
      if (outer?.aborted === true) onAbort();
      else outer?.addEventListener('abort', onAbort, { once: true });
      return ending.signal;
    };
    const onWait = (forMs: number) => tell('rate-wait', { key, forMs });
    try {
      const goAtMs =
        this.#bucket === undefined
          ? await this.#waitOutPause(untilMs, signal(), onWait)
          : await this.#bucket.acquire({ urgency, untilMs, signal, onWait });
      if (this.#isClosed) throw closedError();
      return goAtMs;
    } finally {
      outer?.removeEventListener('abort', onAbort);
      if (ending !== undefined) this.#waits.delete(ending);
    }
  }

  async #waitOutPause(
    untilMs: number,
    signal: AbortSignal,
    onWait: (forMs: number) => void,
  ): Promise<number> {
    const { clock } = this.#parts;
    for (let left = this.pausedMs; left > 0; left = this.pausedMs) {
      if (clock.monotonic() + left > untilMs) throw waitExceeded(left, 'paused');
      onWait(left);
      await sleep(clock, left, signal);
    }
    return clock.monotonic();
  }
}

function closedError(): HostedMcpError {
  return new HostedMcpError('ERR_CLOSED', 'The connection was ended here');
}
