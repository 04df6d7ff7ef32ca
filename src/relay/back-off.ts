/**
 * When a process that ended by itself may be started again.
 *
 * Guarantees that the gaps grow from crash to crash up to a bound, and that a process which has lived for a while
 * begins anew. Never sets a timer.
 */
import type { Clock } from '../clock.js';

/** One that has lived so long was no crash loop. */
const STABLE_MS = 10_000;

export class BackOff {
  readonly #clock: Clock;
  readonly #baseMs: number;
  readonly #maxMs: number;
  #crashes = 0;
  #untilMs = 0;
  #startedMs = 0;

  constructor(clock: Clock, baseMs: number, maxMs: number) {
    this.#clock = clock;
    this.#baseMs = baseMs;
    this.#maxMs = maxMs;
  }

  /** Milliseconds until the next start; 0: now. */
  get leftMs(): number {
    return Math.max(0, this.#untilMs - this.#clock.monotonic());
  }

  started(): void {
    this.#startedMs = this.#clock.monotonic();
  }

  crashed(): void {
    const now = this.#clock.monotonic();
    if (now - this.#startedMs >= STABLE_MS) this.#crashes = 0;
    this.#untilMs = now + Math.min(this.#maxMs, this.#baseMs * 2 ** Math.min(this.#crashes, 30));
    this.#crashes += 1;
  }
}
