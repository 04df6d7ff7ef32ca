/**
 * The pause that a server asked for.
 *
 * Guarantees that it is never made shorter, and never longer than the configured ceiling, whatever the server
 * says. Never sets a timer.
 */
import type { Clock } from '../clock.js';

export class Pause {
  readonly #clock: Clock;
  readonly #maxMs: number;
  #untilMs = 0;

  constructor(clock: Clock, maxMs: number) {
    this.#clock = clock;
    this.#maxMs = maxMs;
  }

  /** Milliseconds left; 0 when traffic may flow. */
  get remainingMs(): number {
    return this.#untilMs === 0 ? 0 : Math.max(0, this.#untilMs - this.#clock.monotonic());
  }

  /** Starts a pause or makes the running one longer; gives what is now left of it. */
  extend(forMs: number): number {
    this.#untilMs = Math.max(this.#untilMs, this.#clock.monotonic() + Math.min(forMs, this.#maxMs));
    return this.remainingMs;
  }
}
