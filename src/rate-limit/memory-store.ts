/**
 * Buckets in this process's memory.
 *
 * Guarantees at most `limit` grants in every window of `keptIntervalMs`, wherever it begins, by an exact log of
 * grants on the monotonic clock; a grant costs the same whatever the limit. Buckets that are empty are dropped.
 * Never speeds up after a pause: for one window grants keep the rule's own spacing.
 */
import { type Clock, systemClock } from '../clock.js';
import { GrantLog } from './grant-log.js';
import {
  ENDS_BY_ITSELF,
  keptIntervalMs,
  type RateLimitStore,
  type Rule,
  type StoreAtHand,
  TAKE_NOW,
  type Taken,
  type TakeOptions,
} from './types.js';

/** Shared with other copies of this library: their stores are local, too. */
const LOCAL = Symbol.for('mcp-holdfast.localRateLimitStore');

/**
 * A rate-limit store for one process. Connections that are given the same one share its buckets.
 *
 * @example
 * const store = memoryRateLimitStore();
 * new HostedTransport(url, { credentials, rateLimit: { limit: 60, intervalMs: 60_000, store } });
 */
export function memoryRateLimitStore(options: { clock?: Clock | undefined } = {}): RateLimitStore {
  return new MemoryRateLimitStore(options.clock ?? systemClock());
}

/** Does this store serve one process only? */
export function isLocalStore(store: RateLimitStore): boolean {
  return LOCAL in store;
}

interface Log {
  readonly keptMs: number;
  readonly grants: GrantLog;
}

interface PauseMark {
  untilMs: number;
  /** After the pause: before this instant nothing is granted. */
  nextMs: number;
}

class MemoryRateLimitStore implements StoreAtHand {
  readonly [LOCAL] = true;
  readonly [ENDS_BY_ITSELF] = true;
  readonly #clock: Clock;
  readonly #logs = new Map<string, Log>();
  readonly #pauses = new Map<string, PauseMark>();
  #longestMs = 0;
  #nextSweepMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async take(key: string, rules: readonly Rule[], options: TakeOptions = {}): Promise<Taken> {
    options.signal?.throwIfAborted();
    return this[TAKE_NOW](key, rules);
  }

  [TAKE_NOW](key: string, rules: readonly Rule[]): Taken {
    const nowMs = this.#clock.monotonic();
    const taken = this.#take(key, rules, nowMs);
    if (nowMs >= this.#nextSweepMs) this.#sweep(nowMs);
    return taken;
  }

  #take(key: string, rules: readonly Rule[], nowMs: number): Taken {
    const logs: Log[] = [];
    let untilMs = nowMs;
    let used = 0;
    let fullest = -1;
    for (const rule of rules) {
      const log = this.#log(rule.key ?? key, rule.intervalMs);
      // Two rules may share one log; a grant stands in it once.
      if (!logs.includes(log)) logs.push(log);
      log.grants.forget(nowMs - log.keptMs);
      const { size } = log.grants;
      // Not the oldest where the limit was lowered: so many have to go first.
      const blocking = log.grants.oldest(size - rule.limit);
      if (size >= rule.limit && blocking !== undefined) untilMs = Math.max(untilMs, blocking + log.keptMs);
      if (size / rule.limit > fullest) {
        fullest = size / rule.limit;
        used = size;
      }
    }
    const marks = this.#pauses.size === 0 ? [] : this.#marks(key, rules, nowMs);
    for (const mark of marks) untilMs = Math.max(untilMs, mark.nextMs);
    if (untilMs > nowMs) return { askAgainInMs: untilMs - nowMs, used };
    for (const log of logs) log.grants.push(nowMs);
    const spacingMs = rules[0] === undefined ? 0 : rules[0].intervalMs / rules[0].limit;
    for (const mark of marks) mark.nextMs = nowMs + spacingMs;
    return { grantedInMs: 0, used: used + 1 };
  }

  async pause(key: string, forMs: number, options: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    options.signal?.throwIfAborted();
    const untilMs = this.#clock.monotonic() + forMs;
    const mark = this.#pauses.get(key);
    if (mark === undefined) this.#pauses.set(key, { untilMs, nextMs: untilMs });
    else if (untilMs > mark.untilMs) {
      mark.untilMs = untilMs;
      mark.nextMs = Math.max(mark.nextMs, untilMs);
    }
  }

  async close(): Promise<void> {
    this.#logs.clear();
    this.#pauses.clear();
  }

  /** How many buckets and pauses are remembered. */
  get size(): number {
    return this.#logs.size + this.#pauses.size;
  }

  /** By interval, not by limit: a limit that is changed goes on with what was granted under the old one. */
  #log(key: string, intervalMs: number): Log {
    const id = `${intervalMs} ${key}`;
    let log = this.#logs.get(id);
    if (log === undefined) {
      log = { keptMs: keptIntervalMs({ limit: 1, intervalMs }), grants: new GrantLog() };
      this.#longestMs = Math.max(this.#longestMs, log.keptMs);
      this.#logs.set(id, log);
    }
    return log;
  }

  /** The pauses, running or just over, that these grants have to heed. */
  #marks(key: string, rules: readonly Rule[], nowMs: number): PauseMark[] {
    const pacedMs = rules[0]?.intervalMs ?? 0;
    const keys = new Set([key, ...rules.map((rule) => rule.key ?? key)]);
    return [...keys]
      .map((each) => this.#pauses.get(each))
      .filter((mark) => mark !== undefined && nowMs < mark.untilMs + pacedMs) as PauseMark[];
  }

  /** Once a window, so that a grant does not pay for it. */
  #sweep(nowMs: number): void {
    this.#nextSweepMs = nowMs + this.#longestMs;
    for (const [id, { grants, keptMs }] of this.#logs) {
      grants.forget(nowMs - keptMs);
      if (grants.size === 0) this.#logs.delete(id);
    }
    for (const [key, mark] of this.#pauses) {
      if (nowMs >= mark.untilMs + this.#longestMs) this.#pauses.delete(key);
    }
  }
}
