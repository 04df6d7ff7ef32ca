/**
 * `Retry-After` (RFC 9110 section 10.2.3): seconds, or a date read against the answer's own `Date`, so
 * that two clocks which disagree do no harm.
 *
 * Guarantees a whole number of milliseconds, 0 or more. Never guesses: nonsense, and values that
 * contradict each other, count as absent.
 */
import type { ResponseHead } from '../http/exchange.js';

/** Ten digits, three centuries: what is longer is no time to wait. It is for the caller to have a lower ceiling. */
export const MAX_SECONDS = 9_999_999_999;
/** Characters of a value, or copies of it: more is a flood. */
const MAX_COPIES_LENGTH = 1_024;

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const TIME = '(\\d{2}):(\\d{2}):(\\d{2})';
const IMF_FIXDATE = new RegExp(`^[A-Z][a-z]{2}, (\\d{1,2}) ([A-Z][a-z]{2}) (\\d{4}) ${TIME} (?:GMT|UTC)$`);
const RFC_850 = new RegExp(`^[A-Z][a-z]{5,8}, (\\d{2})-([A-Z][a-z]{2})-(\\d{2}) ${TIME} (?:GMT|UTC)$`);
const ASCTIME = new RegExp(`^[A-Z][a-z]{2} ([A-Z][a-z]{2}) ([ \\d]\\d) ${TIME} (\\d{4})(?: GMT)?$`);

export function parseRetryAfter(
  value: string | undefined,
  date: string | undefined,
  nowMs: number,
): number | undefined {
  if (value === undefined) return undefined;
  const text = value.trim();
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1000;
  const until = parseHttpDate(text, nowMs);
  if (until === undefined) return undefined;
  return Math.max(0, Math.ceil(until - (parseHttpDate(date, nowMs) ?? nowMs)));
}

/** The same for a whole head, where fields may have been repeated. */
export function retryAfterOf(head: ResponseHead, nowMs: number): number | undefined {
  const value = soleValue(head.headers['retry-after']);
  return value === undefined ? undefined : parseRetryAfter(value, soleValue(head.headers.date), nowMs);
}

/** What a head's instants are to be read against: the sender's own clock, where it tells the time. */
export function senderNow(head: ResponseHead, nowMs: number): number {
  return parseHttpDate(soleValue(head.headers.date), nowMs) ?? nowMs;
}

/**
 * A field's value, however often it was sent; nothing where the copies disagree. A `fetch` joins copies with
 * commas, which numbers do not have.
 */
export function soleValue(value: string | readonly string[] | undefined): string | undefined {
  if (value === undefined || value.length > MAX_COPIES_LENGTH) return undefined;
  const isOne = typeof value === 'string' && !(value.includes(',') && /^\s*\d/.test(value));
  if (isOne) return value.trim();
  const copies = (typeof value === 'string' ? value.split(',') : value).map((copy) => copy.trim());
  return copies.every((copy) => copy === copies[0]) ? copies[0] : undefined;
}

/** An HTTP date in any of its three forms (RFC 9110 section 5.6.7), as epoch milliseconds. All of them mean UTC. */
function parseHttpDate(text: string | undefined, nowMs: number): number | undefined {
  if (text === undefined) return undefined;
  const fixed = IMF_FIXDATE.exec(text);
  if (fixed !== null) return instant(fixed[3], fixed[2], fixed[1], fixed.slice(4));
  const asctime = ASCTIME.exec(text);
  if (asctime !== null) return instant(asctime[6], asctime[1], asctime[2], asctime.slice(3, 6));
  const short = RFC_850.exec(text);
  if (short === null) return undefined;
  // Two digits mean a year that is at most 50 years ahead.
  const thisYear = new Date(nowMs).getUTCFullYear();
  const year = thisYear - (thisYear % 100) + Number(short[3]);
  return instant(year > thisYear + 50 ? year - 100 : year, short[2], short[1], short.slice(4));
}

function instant(
  year: string | number | undefined,
  monthName: string | undefined,
  day: string | undefined,
  time: readonly string[],
): number | undefined {
  const month = MONTHS.indexOf(monthName ?? '');
  const [hours = 0, minutes = 0, seconds = 0] = time.map(Number);
  // A leap second is 60.
  if (month < 0 || hours > 23 || minutes > 59 || seconds > 60) return undefined;
  const midnight = new Date(Date.UTC(Number(year), month, Number(day)));
  // There is no 31st of April.
  if (midnight.getUTCDate() !== Number(day)) return undefined;
  return midnight.getTime() + ((hours * 60 + minutes) * 60 + seconds) * 1000;
}
