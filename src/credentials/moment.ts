/**
 * Moments on both clocks, and the time since one.
 *
 * Guarantees that neither a wall clock that is set back nor a monotonic clock that stood still with the machine
 * makes anything younger than it is.
 */
import type { Clock } from '../clock.js';

/** A moment on both clocks. */
export interface Moment {
  readonly atMs: number;
  readonly monotonicMs: number;
}

export function momentOf(clock: Clock): Moment {
  return { atMs: clock.now(), monotonicMs: clock.monotonic() };
}

/** Time since `moment` on whichever clock says more. */
export function elapsedSince(moment: Moment, clock: Clock): number {
  return Math.max(0, clock.now() - moment.atMs, clock.monotonic() - moment.monotonicMs);
}
