/**
 * Tells a server that loses a session now and then from one that cannot keep any.
 *
 * Guarantees that the verdict rests on usefulness, not on speed: an agent that calls every twenty seconds
 * trips it as surely as one that calls at once. Planned replacements never count.
 */
import type { Clock } from '../clock.js';

const LOST_USELESS_IN_ROW = 3;
const REMEMBERED = 10;
const LOST_OF_REMEMBERED = 5;
const REMEMBERED_FOR_MS = 10 * 60_000;
const FIRST_REST_MS = 5_000;
const LONGEST_REST_MS = 5 * 60_000;

export class Breaker {
  readonly #clock: Clock;
  #losses: number[] = [];
  #uselessInRow = 0;
  #trips = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A session was lost by the server's doing. Gives the rest in milliseconds when that was one too many. */
  lost(answered: number): number | undefined {
    const now = this.#clock.monotonic();
    this.#forget(now);
    this.#losses = [...this.#losses, now].slice(-REMEMBERED);
    this.#uselessInRow = answered === 0 ? this.#uselessInRow + 1 : 0;
    if (this.#uselessInRow < LOST_USELESS_IN_ROW && this.#losses.length < LOST_OF_REMEMBERED)
      return undefined;
    this.#trips += 1;
    // One more useless session after the rest is enough to rest again, for longer.
    this.#uselessInRow = LOST_USELESS_IN_ROW - 1;
    this.#losses = this.#losses.slice(-(LOST_OF_REMEMBERED - 1));
    return Math.min(LONGEST_REST_MS, FIRST_REST_MS * 2 ** (this.#trips - 1));
  }

  /** A session has answered a call: it is of use. */
  useful(): void {
    this.#uselessInRow = 0;
    this.#forget(this.#clock.monotonic());
  }

  #forget(now: number): void {
    this.#losses = this.#losses.filter((at) => now - at <= REMEMBERED_FOR_MS);
    // Nothing for so long: whatever it was is over, and the next rest is a short one again.
    if (this.#losses.length === 0) this.#trips = 0;
  }
}
