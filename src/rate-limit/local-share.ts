/**
 * What one replica may grant by itself while the shared count is not to be had.
 *
 * Guarantees that replicas which all keep to it stay inside the limit together: each has a fixed share of every
 * window, its own grants from before the outage counted, and in the first window no more than its part of what
 * the store had left. Never asks a store; never grants more than the share for having been idle.
 */
import { GrantLog } from './grant-log.js';
import { keptIntervalMs, type Rule } from './types.js';

interface Share {
  readonly limit: number;
  readonly keptMs: number;
  /** Own grants in a window. */
  readonly count: number;
}

/** The first window of an outage: what was granted before it still counts at the server. */
interface FirstWindow {
  readonly sinceMs: number;
  /** By rule: own grants until that window has passed. */
  readonly counts: readonly number[];
}

export class LocalShare {
  readonly #shares: readonly Share[];
  readonly #longestMs: number;
  /** By the fastest rule: a day's limit need not come in drops. */
  readonly #gapMs: number;
  readonly #replicas: number;
  /** All own grants, those of the store as well. */
  readonly #own: GrantLog;
  #firstWindow: FirstWindow | undefined;

  constructor(rules: readonly Rule[], replicas: number) {
    this.#replicas = replicas;
    this.#shares = rules.map((rule) => {
      const keptMs = keptIntervalMs(rule);
      const count = Math.max(1, Math.floor(rule.limit / replicas));
      return { limit: rule.limit, keptMs, count };
    });
    this.#gapMs = Math.min(...this.#shares.map(({ keptMs, count }) => keptMs / count));
    this.#longestMs = Math.max(...this.#shares.map(({ keptMs }) => keptMs));
    this.#own = new GrantLog(Math.max(...rules.map(({ limit }) => limit)));
  }

  get longestMs(): number {
    return this.#longestMs;
  }

  /** An own grant, by the store or by this share. */
  record(atMs: number): void {
    this.#own.push(atMs);
  }

  /** Own grants in the longest window, as milliseconds ago. */
  ownAgoMs(nowMs: number): number[] {
    this.#own.forget(nowMs - this.#longestMs);
    return this.#own.agoMs(nowMs);
  }

  /** The shared count is lost. `used`: what the store last said, where that still holds. */
  begin(nowMs: number, used: number | undefined): void {
    const counts = this.#shares.map(({ limit, keptMs }) => {
      // The store speaks of the fullest rule alone: of several rules each may be fuller than it says.
      const unknown = used === undefined || this.#shares.length > 1;
      const floor = Math.max(this.#own.countAfter(nowMs - keptMs), unknown ? limit / 2 : 0);
      const before = Math.min(limit, Math.max(used ?? 0, floor));
      return Math.floor((limit - before) / this.#replicas);
    });
    this.#firstWindow = { sinceMs: nowMs, counts };
  }

  /** Milliseconds until the share has a grant left; 0: now. Takes nothing. */
  waitMs(nowMs: number): number {
    let untilMs = nowMs;
    const hold = (atMs: number | undefined, forMs: number) => {
      if (atMs !== undefined) untilMs = Math.max(untilMs, atMs + forMs);
    };
    hold(this.#own.newest(0), this.#gapMs);
    this.#shares.forEach(({ count, keptMs }, index) => {
      hold(this.#own.newest(count - 1), keptMs);
      if (this.#isSpent(index, nowMs)) hold(this.#firstWindow?.sinceMs, keptMs);
    });
    return untilMs - nowMs;
  }

  #isSpent(index: number, nowMs: number): boolean {
    const { sinceMs, counts } = this.#firstWindow ?? { sinceMs: 0, counts: [] };
    const count = counts[index];
    const share = this.#shares[index];
    if (count === undefined || share === undefined || nowMs >= sinceMs + share.keptMs) return false;
    if (count === 0) return true;
    const last = this.#own.newest(count - 1);
    return last !== undefined && last >= sinceMs;
  }
}
