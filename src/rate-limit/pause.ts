/**
 * The pause that a server asked for.
 *
 * Guarantees that nothing goes to the endpoint while it lasts, and that a caller who cannot wait so long
 * is told at once. Never longer than the configured ceiling, whatever the server says.
 */
import type { Clock } from '../clock.js';

/** A 429 that does not say how long. */
const PAUSE_WITHOUT_HINT_MS = 1_000;

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
  extend(forMs = PAUSE_WITHOUT_HINT_MS): number {
    this.#untilMs = Math.max(this.#untilMs, this.#clock.monotonic() + Math.min(forMs, this.#maxMs));
    return this.remainingMs;
  }
}
