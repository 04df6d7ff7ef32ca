/**
 * A promise with an end, on the injected clock.
 *
 * Guarantees that a wait ends at its time, at the signal, or with the promise, whichever is first, and that
 * no timer or listener is left behind. Never stops the work itself: that goes on for others.
 */
import { type Clock, untilAborted } from '../clock.js';

/** A timer that is so late did not run for want of this process. */
const STALL_MS = 10;

/** Settles as `promise` does unless `ms` pass or the signal ends first; then rejects with what `onTimeout` makes, or the signal's reason. */
export function within<T>(
  clock: Clock,
  promise: Promise<T>,
  ms: number,
  onTimeout: () => unknown,
  signal?: AbortSignal | undefined,
  background?: boolean | undefined,
): Promise<T> {
  return untilAborted(
    new Promise<T>((resolve, reject) => {
      const dueMs = clock.monotonic() + ms;
      let timer = clock.setTimeout(
        () => {
          const lateMs = clock.monotonic() - dueMs;
          if (lateMs <= STALL_MS) return reject(onTimeout());
          // For so long this process stood still, and what it waits for may be here, unread.
          timer = clock.setTimeout(() => reject(onTimeout()), Math.min(lateMs, ms), { background });
        },
        ms,
        { background },
      );
      const stop = () => {
        timer.clear();
        signal?.removeEventListener('abort', stop);
      };
      signal?.addEventListener('abort', stop, { once: true });
      promise.then(
        (value) => {
          stop();
          resolve(value);
        },
        (error) => {
          stop();
          reject(error);
        },
      );
    }),
    signal,
  );
}
