/**
 * How long a stream that is to come back by itself waits before it is opened again.
 *
 * Guarantees that thousands of streams cut in one instant do not come back in one, that a server's `retry:`
 * is respected, and that a server which ends each stream at once is left in peace. Never gives up: that is
 * for whoever reads the answer.
 */
import { type Clock, fullJitter } from '../clock.js';

/** Gaps before reopening a stream that carried nothing although each open succeeded. */
const EMPTY_GAPS_MS = [50, 500, 2_000, 5_000, 15_000, 30_000] as const;
/** Gaps while the server, or something before it, still holds the place of the stream that was cut. */
const TAKEN_GAPS_MS = [250, 500, 1_000, 2_000, 5_000, 10_000] as const;
/** The first reopening spreads out a little when thousands of streams are cut at once. */
const FIRST_JITTER_MS = 20;
/** Jitter on a delay that the server asked for only adds. */
const RETRY_JITTER_MS = 100;
/** A stream that lived so long was cut by something on the way, not ended at once by a server that has nothing to say. */
export const LIVED_MS = 2_000;
const FIRST_BACKOFF_MS = 500;
const LEAST_BACKOFF_MS = 250;

/** After a stream that was open. `empty`: how many in a row, this one included, brought nothing. */
export function reopenGapMs(clock: Clock, empty: number, retryMs: number | undefined, maxMs: number): number {
  const random = clock.random?.() ?? Math.random();
  const asked = retryMs === undefined ? 0 : retryMs + random * RETRY_JITTER_MS;
  if (empty === 0) return Math.max(asked, random * FIRST_JITTER_MS);
  return Math.max(asked, Math.min(stepOf(EMPTY_GAPS_MS, empty), maxMs) * (1 + random / 10));
}

/** After a try that brought no stream: full jitter above the least, so that no two herds meet on it. */
export function backOffMs(clock: Clock, failures: number, maxMs: number): number {
  const leastMs = Math.min(LEAST_BACKOFF_MS, maxMs);
  return leastMs + fullJitter(clock, failures, FIRST_BACKOFF_MS, maxMs) * (1 - leastMs / maxMs);
}

/** After a try that was refused because the last stream still counts as open. `times`: in a row, this one included. */
export function takenGapMs(clock: Clock, times: number): number {
  return stepOf(TAKEN_GAPS_MS, times) * (1 + (clock.random?.() ?? Math.random()) / 10);
}

function stepOf(steps: readonly number[], count: number): number {
  return steps[Math.min(Math.max(count, 1), steps.length) - 1] ?? 0;
}
