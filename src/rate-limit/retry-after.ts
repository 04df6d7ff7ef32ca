/**
 * `Retry-After` (RFC 9110 section 10.2.3): seconds, or a date read against the answer's own `Date`, so
 * that two clocks which disagree do no harm. Nonsense counts as absent.
 */
export function parseRetryAfter(
  value: string | undefined,
  date: string | undefined,
  nowMs: number,
): number | undefined {
  if (value === undefined) return undefined;
  const text = value.trim();
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1000;
  if (!/^[A-Za-z]{3,9},? /.test(text)) return undefined;
  const until = Date.parse(text);
  if (Number.isNaN(until)) return undefined;
  const sentAt = date === undefined ? Number.NaN : Date.parse(date);
  return Math.max(0, until - (Number.isNaN(sentAt) ? nowMs : sentAt));
}
