/**
 * The ends of callers' times, on one timer for all calls of a connection.
 *
 * Guarantees that a call whose time is up is told of it at that time, and that a connection without calls keeps no
 * process alive. A call costs no timer of its own: most end long before.
 */
import type { Clock, Timer } from '../clock.js';
import type { Call, Ledger } from './ledger.js';

export class Deadlines {
  readonly #clock: Clock;
  readonly #calls: Pick<Ledger, 'all'>;
  #timer: Timer | undefined;
  /** When the timer runs, on the monotonic clock. */
  #dueMs = Number.POSITIVE_INFINITY;
  /** Calls that wait for the timer. */
  #waiting = 0;

  constructor(clock: Clock, calls: Pick<Ledger, 'all'>) {
    this.#clock = clock;
    this.#calls = calls;
  }

  /** `call` keeps its time here, from now on. */
  add(call: Call): void {
    this.#waiting += 1;
    this.moved(call);
    if (this.#waiting === 1) this.#timer?.ref?.();
  }

  /** Its time has changed, or runs again. */
  moved({ deadlineMs }: Pick<Call, 'deadlineMs'>): void {
    if (deadlineMs < this.#dueMs) this.#arm(deadlineMs);
  }

  remove(): void {
    this.#waiting -= 1;
    if (this.#waiting > 0) return;
    // Cleared, it would be made anew for the next call.
    if (this.#timer?.unref === undefined) this.close();
    else this.#timer.unref();
  }

  close(): void {
    this.#timer?.clear();
    this.#timer = undefined;
    this.#dueMs = Number.POSITIVE_INFINITY;
  }

  #arm(dueMs: number): void {
    this.#timer?.clear();
    this.#dueMs = dueMs;
    this.#timer = this.#clock.setTimeout(() => this.#due(), Math.max(0, dueMs - this.#clock.monotonic()));
    if (this.#waiting === 0) this.#timer.unref?.();
  }

  #due(): void {
    this.#timer = undefined;
    this.#dueMs = Number.POSITIVE_INFINITY;
    const nowMs = this.#clock.monotonic();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const call of this.#calls.all()) {
      if (!call.keepsTime) continue;
      if (call.deadlineMs <= nowMs) call.timeIsUp();
      else if (call.deadlineMs < nextMs) nextMs = call.deadlineMs;
    }
    // Whoever was told may have made another call.
    if (nextMs < this.#dueMs) this.#arm(nextMs);
  }
}
