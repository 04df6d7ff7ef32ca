/**
 * How deadlines are nested along a relay.
 *
 * Guarantees that whoever was given a time takes less for itself, and gives no more than that to the next: so the
 * innermost one that waits is the first to end, and its error has time to travel. Never reads a clock.
 */

/** For the way back of an error over one hop; a queue and two processes are passed in less. */
export const MARGIN_MS = 500;
/** Of short times no more than a tenth. */
const MARGIN_FRACTION = 0.1;

/** Milliseconds that one hop takes for itself, of those it was given. */
export function ownTime(
  givenMs: number,
  { marginMs = MARGIN_MS, timeoutMs }: { marginMs?: number | undefined; timeoutMs?: number | undefined },
): number {
  const given = Number.isFinite(givenMs) ? Math.max(0, givenMs) : Number.MAX_SAFE_INTEGER;
  const own = given - Math.min(marginMs, given * MARGIN_FRACTION);
  return timeoutMs === undefined ? own : Math.min(own, timeoutMs);
}
