/**
 * Time, as one injectable thing.
 *
 * Guarantees that every timer and every reading of a clock in this library can be moved by a test: all of
 * `src/` comes here. The default wraps the globals at call time, so that global fake timers work too.
 * Never uses `AbortSignal.timeout` or `node:timers/promises`, which no fake time moves.
 */
import type { Disposer } from './disposer.js';

export interface Timer {
  clear(): void;
  /** Whether it keeps the process alive, where there is such a thing: it can be said again and again. */
  ref?(): void;
  unref?(): void;
}

/** Where the library reads time and sets timers. `manualClock()` of `mcp-holdfast/testing` is one. */
export interface Clock {
  /** Wall clock, milliseconds since the epoch. */
  now(): number;
  /** Milliseconds on a clock that is never set back. */
  monotonic(): number;
  /** `background` timers do not keep the process alive. Delays above 2^31-1 ms are cut to it. */
  setTimeout(fn: () => void, ms: number, options?: { background?: boolean | undefined }): Timer;
  /** Held while traffic is under way, so that a manual clock knows when all is quiet. */
  track?(): Disposer;
  /** Source of jitter, in [0, 1). */
  random?(): number;
}

/** The longest delay that Node's timers take; anything longer would fire at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** The real clock. */
export function systemClock(): Clock {
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    random: () => Math.random(),
    setTimeout(fn, ms, options) {
      const handle = setTimeout(fn, Math.min(Math.max(ms, 0), MAX_TIMER_MS));
      if (options?.background === true) handle.unref?.();
      return new SystemTimer(handle);
    },
  };
}

class SystemTimer implements Timer {
  readonly #handle: ReturnType<typeof setTimeout>;

  constructor(handle: ReturnType<typeof setTimeout>) {
    this.#handle = handle;
  }
  clear(): void {
    clearTimeout(this.#handle);
  }
  ref(): void {
    this.#handle.ref?.();
  }
  unref(): void {
    this.#handle.unref?.();
  }
}

/** When all that is due now has run. */
export function inNextTurn(fn: () => void): void {
  if (typeof setImmediate === 'function') setImmediate(fn);
  else systemClock().setTimeout(fn, 0);
}

/** Waits `ms`; rejects with the signal's reason when that ends first. No timer or listener is left behind. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(signal.reason);
      return;
    }
    const onAbort = () => {
      timer.clear();
      reject(signal?.reason);
    };
    const timer = clock.setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** Settles as `promise` does, unless the signal ends first: then rejects with its reason and lets `promise` run on. */
export function untilAborted<T>(promise: Promise<T>, signal?: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      promise.catch(() => {});
      reject(signal.reason);
      return;
    }
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    const settled = () => signal.removeEventListener('abort', onAbort);
    promise.then(
      (value) => {
        settled();
        resolve(value);
      },
      (error) => {
        settled();
        reject(error);
      },
    );
  });
}

/** Full jitter (AWS's term): a random delay between 0 and the exponentially growing ceiling. */
export function fullJitter(clock: Clock, attempt: number, baseMs: number, maxMs: number): number {
  const ceiling = Math.min(maxMs, baseMs * 2 ** Math.min(attempt, 30));
  return (clock.random?.() ?? Math.random()) * ceiling;
}
