/**
 * A bucket of one store as all callers of this process use it.
 *
 * Guarantees that they go in one order (urgency, then first come), that the store is asked for the whole line by
 * one question at a time, that nothing goes into a pause, and that who certainly cannot go in time is refused at
 * once. Never holds a token back for somebody who has gone.
 */
import { type Clock, sleep, type Timer } from '../clock.js';
import { Emitter } from '../events.js';
import { isLocalStore } from './memory-store.js';
import { Pause } from './pause.js';
import { waitExceeded } from './refusal.js';
import { type DegradedReason, type LinkAnswer, StoreLink } from './store-link.js';
import type { Urgency } from './toll.js';
import { keptIntervalMs, type RateLimitStore, type Rule } from './types.js';
import { type Waiter, WaitingLine } from './waiting-line.js';

export interface BucketOptions {
  readonly clock: Clock;
  readonly store: RateLimitStore;
  readonly key: string;
  readonly rules: readonly Rule[];
  readonly replicas: number;
  readonly onStoreDown: 'local-share' | 'closed' | 'open';
}

export interface BucketEvents {
  paused: { readonly forMs: number };
  degraded: { readonly reason: DegradedReason };
  restored: Record<string, never>;
}

export interface AcquireRequest {
  readonly urgency: Urgency;
  /** On the monotonic clock. */
  readonly untilMs: number;
  /** Made only where there is something to wait for. */
  signal(): AbortSignal;
  onWait(forMs: number): void;
}

/** Calls beyond it would not go for a long time; who sends so many should hear of it. */
const MAX_WAITING = 1_000;
/** Replicas that were told to come at one instant. */
const JITTER = 0.05;
const MAX_JITTER_MS = 100;
/** After a token from the line, so that a replica that wakes late finds some left. */
const MAX_GAP_MS = 100;
/** Grants in a row that came too late to be used. */
const MOST_LATE = 4;
/** A store that always says "at once" must not stop the process. */
const LEAST_NAP_MS = 1;

export class Bucket {
  readonly events = new Emitter<BucketEvents>();
  readonly #clock: Clock;
  readonly #rules: readonly { readonly limit: number; readonly keptMs: number }[];
  readonly #isShared: boolean;
  readonly #isRemote: boolean;
  readonly #gapMs: number;
  /** A grant that is used later than this crowds the server's window. */
  readonly goodForMs: number;
  readonly #pause: Pause;
  readonly #link: StoreLink;
  readonly #line: WaitingLine;
  /** When the store wants to be asked again. */
  #nextAskMs = 0;
  /** No token before this instant, whatever happens. */
  #notBeforeMs = 0;
  #isServing = false;
  /** Ends what is done for the line, when nobody stands in it any more. */
  #forLine = new AbortController();
  #wake: (() => void) | undefined;
  #users = 0;
  #unusedSinceMs: number;

  constructor({ clock, store, key, rules, replicas, onStoreDown }: BucketOptions) {
    this.#clock = clock;
    this.#rules = rules.map((rule) => ({ limit: rule.limit, keptMs: keptIntervalMs(rule) }));
    this.#isShared = replicas > 1;
    this.#isRemote = !isLocalStore(store);
    const gaps = rules.map(({ limit, intervalMs }) => intervalMs / (2 * limit));
    this.#gapMs = this.#isShared ? Math.min(MAX_GAP_MS, ...gaps) : 0;
    this.goodForMs = Math.min(...rules.map((rule) => keptIntervalMs(rule) - rule.intervalMs));
    this.#pause = new Pause(clock, Number.POSITIVE_INFINITY);
    this.#line = new WaitingLine(clock, () => {
      this.#forLine.abort();
      this.#wake?.();
    });
    this.#link = new StoreLink({
      clock,
      store,
      key,
      rules,
      replicas,
      onStoreDown,
      pausedMs: () => this.pausedMs,
      onDegraded: (reason) => this.events.emit('degraded', { reason }),
      onRestored: () => this.events.emit('restored', {}),
      onReturn: () => {
        this.#nextAskMs = 0;
        this.#wake?.();
      },
    });
    this.#unusedSinceMs = clock.monotonic();
  }

  /** Milliseconds left of the pause that the server asked for. */
  get pausedMs(): number {
    return this.#pause.remainingMs;
  }

  /** How many wait. */
  get waiting(): number {
    return this.#line.length;
  }

  /** Nothing would be missed if it were made anew. */
  get isForgettable(): boolean {
    const unusedMs = this.#clock.monotonic() - this.#unusedSinceMs;
    return this.#users === 0 && this.pausedMs === 0 && unusedMs >= this.#link.longestMs;
  }

  use(): void {
    this.#users += 1;
  }

  /** The last to go ends what is done in the background. */
  leave(): void {
    this.#users -= 1;
    if (this.#users > 0) return;
    this.#unusedSinceMs = this.#clock.monotonic();
    this.#link.stop();
  }

  /** Whether a token could be had without waiting for anything: then it is taken. */
  acquireNow(): boolean {
    if (this.#line.length > 0 || this.pausedMs > 0) return false;
    const taken = this.#link.takeNow();
    return taken !== undefined && 'grantedInMs' in taken;
  }

  /**
   * Gives the instant of the token, on the monotonic clock: it may have passed. Rejects with ERR_RATE_WAIT_EXCEEDED,
   * ERR_STORE_UNAVAILABLE (`onStoreDown: 'closed'`) or the signal's reason.
   */
  async acquire(request: AcquireRequest): Promise<number> {
    for (let late = 0; ; late += 1) {
      if (this.#line.length === 0 && this.pausedMs === 0) {
        const signal = this.#isRemote ? request.signal() : undefined;
        const answer = await this.#link.take(signal);
        if ('grantedInMs' in answer) {
          const goAtMs = answer.givenAtMs + answer.grantedInMs;
          if (answer.grantedInMs > 0) await sleep(this.#clock, answer.grantedInMs, request.signal());
          if (this.#isGood(goAtMs, late)) return this.#instantOf(goAtMs);
          continue;
        }
        this.#askAgain(answer);
      }
      const goAtMs = await this.#wait(request);
      if (this.pausedMs === 0) return goAtMs;
    }
  }

  /** Nobody goes for so long, here at once, and with the store in no replica. Gives what is left of the pause. */
  pause(forMs: number): number {
    const before = this.pausedMs;
    const left = this.#pause.extend(forMs);
    if (left > before) {
      this.#link.pause();
      this.#refuseHopeless();
    }
    this.events.emit('paused', { forMs: left });
    return left;
  }

  async #wait({ urgency, untilMs, signal, onWait }: AcquireRequest): Promise<number> {
    const waitMs = this.#leastWaitMs(this.#line.ahead(urgency));
    // An answer that the server waits for, or a cancel, cannot be asked for later.
    if (this.#line.length >= MAX_WAITING && urgency !== 'reply') throw waitExceeded(waitMs, 'line_full');
    if (this.#isHopeless(waitMs, untilMs)) throw this.#exceeded(waitMs);
    const waiter = this.#line.join(urgency, untilMs, signal());
    const timer = this.#timerFor(waiter);
    onWait(waitMs);
    void this.#serve();
    try {
      return await waiter.promise;
    } finally {
      timer?.clear();
    }
  }

  #timerFor(waiter: Waiter): Timer | undefined {
    if (waiter.untilMs === Number.POSITIVE_INFINITY) return undefined;
    return this.#clock.setTimeout(() => {
      const ahead = Math.max(0, this.#line.inOrder().indexOf(waiter));
      waiter.leave(this.#exceeded(this.#leastWaitMs(ahead)));
    }, waiter.untilMs - this.#clock.monotonic());
  }

  /** Gets tokens for the line until nobody stands in it. */
  async #serve(): Promise<void> {
    if (this.#isServing) return;
    this.#isServing = true;
    for (let late = 0; this.#line.length > 0; ) {
      if (this.#forLine.signal.aborted) this.#forLine = new AbortController();
      const napMs = Math.max(this.#nextAskMs - this.#clock.monotonic(), this.pausedMs);
      if (napMs > 0) {
        await this.#nap(Math.min(napMs, this.#link.look()));
        continue;
      }
      let answer: LinkAnswer;
      try {
        answer = await this.#link.take(this.#forLine.signal);
      } catch (error) {
        if (!this.#forLine.signal.aborted) for (const waiter of this.#line.inOrder()) waiter.leave(error);
        continue;
      }
      if ('askAgainInMs' in answer) {
        this.#askAgain(answer);
        this.#refuseHopeless();
        continue;
      }
      const goAtMs = answer.givenAtMs + answer.grantedInMs;
      for (let left = answer.grantedInMs; left > 0; left = goAtMs - this.#clock.monotonic()) {
        if (this.#forLine.signal.aborted) break;
        await this.#nap(left);
      }
      // They have all gone: whoever has come since is not to go before the token's time.
      if (this.#forLine.signal.aborted) continue;
      const isGood = this.#isGood(goAtMs, late);
      late = isGood ? 0 : late + 1;
      if (!isGood) continue;
      await this.#line.hand(this.#instantOf(goAtMs));
      if (this.#gapMs > 0 && this.#line.length > 0) await this.#nap(this.#gapMs);
    }
    this.#isServing = false;
  }

  /** Ends early when the line is empty, or the store is back. */
  #nap(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        timer.clear();
        this.#wake = undefined;
        resolve();
      };
      const timer = this.#clock.setTimeout(end, Math.max(LEAST_NAP_MS, Math.ceil(ms)));
      this.#wake = end;
    });
  }

  /**
   * Not in a pause that began meanwhile, and not so late (a process that stood still) that the server would take
   * it for one of the next window. After some that were, one is taken: this process may always be so.
   */
  #isGood(goAtMs: number, late: number): boolean {
    if (this.pausedMs > 0) return false;
    return late >= MOST_LATE || this.#clock.monotonic() - goAtMs <= this.goodForMs;
  }

  /** One that is taken late all the same is as good as new: else it would be given back again on its way. */
  #instantOf(goAtMs: number): number {
    const nowMs = this.#clock.monotonic();
    return nowMs - goAtMs <= this.goodForMs ? Math.min(goAtMs, nowMs) : nowMs;
  }

  #askAgain(answer: Extract<LinkAnswer, { askAgainInMs: number }>): void {
    const nowMs = this.#clock.monotonic();
    const { askAgainInMs, isCertain } = answer;
    const random = this.#clock.random?.() ?? Math.random();
    const jitterMs = this.#isShared ? Math.min(askAgainInMs * JITTER, MAX_JITTER_MS) * random : 0;
    this.#nextAskMs = nowMs + Math.max(LEAST_NAP_MS, askAgainInMs) + jitterMs;
    this.#notBeforeMs = isCertain ? nowMs + askAgainInMs : 0;
  }

  /** With so many ahead: a window's limit may go at the first instant, the next one's a window later. */
  #leastWaitMs(ahead: number): number {
    const firstMs = Math.max(0, this.#notBeforeMs - this.#clock.monotonic(), this.pausedMs);
    return firstMs + Math.max(...this.#rules.map(({ limit, keptMs }) => Math.floor(ahead / limit) * keptMs));
  }

  #isHopeless(waitMs: number, untilMs: number): boolean {
    return this.#clock.monotonic() + waitMs >= untilMs;
  }

  #refuseHopeless(): void {
    let ahead = 0;
    for (const waiter of this.#line.inOrder()) {
      const waitMs = this.#leastWaitMs(ahead);
      if (this.#isHopeless(waitMs, waiter.untilMs)) waiter.leave(this.#exceeded(waitMs));
      else ahead += 1;
    }
  }

  #exceeded(waitMs: number): Error {
    const isPause = this.pausedMs > 0 && this.pausedMs >= this.#notBeforeMs - this.#clock.monotonic();
    return waitExceeded(waitMs, isPause ? 'paused' : 'limit');
  }
}

/**
 * The buckets in use, by store. A table of what belongs to the store objects, not state of the module: nothing in
 * it outlives its store, and a second copy of this library would only mean a second line.
 */
const buckets = new WeakMap<RateLimitStore, Map<string, Bucket>>();

/** The one bucket of this process for the store, key and rules; to be left after use. */
export function useBucket(options: BucketOptions): Bucket {
  const { store, key, rules, replicas, onStoreDown } = options;
  const inUse = buckets.get(store) ?? new Map<string, Bucket>();
  buckets.set(store, inUse);
  for (const [id, bucket] of inUse) if (bucket.isForgettable) inUse.delete(id);
  const id = JSON.stringify([key, rules, replicas, onStoreDown]);
  const bucket = inUse.get(id) ?? new Bucket(options);
  inUse.set(id, bucket);
  bucket.use();
  return bucket;
}
