/**
 * What the simulator tells a manual clock: whether a request is being worked on.
 *
 * Guarantees that the hold of a request is let go while the server waits for the clock or for the client,
 * and for good when the request is done. Never holds a clock that does not ask for it.
 */
import { type Clock, sleep } from '../clock.js';
import type { Disposer } from '../disposer.js';

/** Holds a manual clock while traffic is under way, and lets go of it while the server itself waits. */
export class TrafficHold {
  readonly #clock: Clock;
  #hold: Disposer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#hold = clock.track?.();
  }

  release(): void {
    this.#hold?.dispose();
    this.#hold = undefined;
  }

  /** Waits for something that only time or the client can bring. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.release();
    try {
      return await work();
    } finally {
      this.#hold ??= this.#clock.track?.();
    }
  }

  wait(ms: number, signal: AbortSignal): Promise<void> {
    return this.during(() => sleep(this.#clock, ms, signal));
  }
}
