/**
 * What cuts and gaps say of the way, put to use.
 *
 * Guarantees that a limit is told once when it is known, beside the agent's own longest gap, and that unused
 * sockets are kept no longer than the way keeps them. Never changes how a call travels.
 */
import type { Emitter } from '../events.js';
import type { HttpClient } from '../http/exchange.js';
import { type Cut, IdleLimits } from '../streams/idle-limits.js';
import type { Stats } from './stats.js';
import type { ConnectionEvents } from './types.js';

export interface IdleLearningParts {
  readonly emitter: Emitter<ConnectionEvents>;
  readonly stats: Stats;
  readonly http: HttpClient;
  readonly keepAliveTimeoutMs: number;
  /** What the app knows of the way from the start. */
  readonly idleLimitMs: number | undefined;
}

export class IdleLearning {
  readonly #parts: IdleLearningParts;
  readonly #limits = new IdleLimits();
  #warnedMs = 0;

  constructor(parts: IdleLearningParts) {
    this.#parts = parts;
    if (parts.idleLimitMs !== undefined) parts.stats.idleLimitMs = parts.idleLimitMs;
  }

  cut(cut: Cut): void {
    const { emitter, stats, http, keepAliveTimeoutMs } = this.#parts;
    const learned = this.#limits.record(cut);
    if (learned === undefined) return;
    emitter.emit('idle-limit-learned', learned);
    if (learned.kind === 'idle') {
      stats.idleLimitMs = learned.limitMs;
      const usableMs = this.#limits.usableMs ?? 0;
      // The app's own number holds as a floor; 0 means that it wants no socket kept at all.
      if (keepAliveTimeoutMs > 0) http.keepSocketsFor(Math.max(keepAliveTimeoutMs, usableMs));
    }
    this.#warn();
  }

  /** The time between two calls of the agent. */
  gap(ms: number): void {
    if (ms <= this.#parts.stats.longestIdleGapMs) return;
    this.#parts.stats.longestIdleGapMs = ms;
    this.#warn();
  }

  #warn(): void {
    const { emitter, stats } = this.#parts;
    const { idleLimitMs, longestIdleGapMs } = stats;
    if (idleLimitMs === undefined || longestIdleGapMs <= idleLimitMs) return;
    // Once, and again when it has become half as bad again.
    if (longestIdleGapMs < this.#warnedMs * 1.5) return;
    this.#warnedMs = longestIdleGapMs;
    emitter.emit('idle-risk', { longestIdleGapMs, idleLimitMs });
  }
}
