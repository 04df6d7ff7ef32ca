import { afterEach, describe, expect, it } from 'vitest';
import { parseRetryAfter, retryAfterOf } from '../../../src/rate-limit/retry-after.js';

const NOW = Date.parse('2026-01-01T00:00:00Z');
const DATE = 'Thu, 01 Jan 2026 00:00:00 GMT';

const zone = process.env.TZ;
afterEach(() => {
  if (zone === undefined) delete process.env.TZ;
  else process.env.TZ = zone;
});

describe('parseRetryAfter', () => {
  it.each([
    ['seconds', '120', undefined, 120_000],
    ['zero', '0', undefined, 0],
    ['leading zeros', '007', undefined, 7_000],
    ['blanks around', ' 5 ', undefined, 5_000],
    ['a thousand million seconds', '1000000000', undefined, 1e12],
    ['a date', 'Thu, 01 Jan 2026 00:00:30 GMT', undefined, 30_000],
    ['a date in the past', 'Wed, 31 Dec 2025 23:59:00 GMT', undefined, 0],
    [
      'a date, by the server’s own clock',
      'Thu, 01 Jan 2026 01:00:30 GMT',
      'Thu, 01 Jan 2026 01:00:00 GMT',
      30_000,
    ],
    [
      'a date of a server that lives in 1970',
      'Thu, 01 Jan 1970 00:02:00 GMT',
      'Thu, 01 Jan 1970 00:01:00 GMT',
      60_000,
    ],
    ['a date, beside a Date that is none', 'Thu, 01 Jan 2026 00:00:30 GMT', 'soon', 30_000],
    ['a date, beside a Date in another zone', 'Thu, 01 Jan 2026 00:00:30 GMT', '2026-01-01 CET', 30_000],
    ['an obsolete date', 'Thursday, 01-Jan-26 00:00:10 GMT', DATE, 10_000],
    ['an obsolete date of the last century', 'Sunday, 06-Nov-94 08:49:37 GMT', DATE, 0],
    ['asctime', 'Thu Jan  1 00:00:10 2026', DATE, 10_000],
    ['asctime with a zone', 'Thu Jan  1 00:00:10 2026 GMT', DATE, 10_000],
    ['a leap second', 'Wed, 31 Dec 2025 23:59:60 GMT', 'Wed, 31 Dec 2025 23:59:00 GMT', 60_000],
    [
      'the day after a leap day',
      'Fri, 29 Feb 2028 00:00:00 GMT',
      'Mon, 28 Feb 2028 00:00:00 GMT',
      86_400_000,
    ],
  ])('reads %s', (_name, value, date, expected) => {
    expect(parseRetryAfter(value, date, NOW)).toBe(expected);
  });

  it.each([
    [undefined],
    [''],
    ['-1'],
    ['1.5'],
    ['1e3'],
    ['0x10'],
    ['soon'],
    ['NaN'],
    ['Infinity'],
    ['2026-01-01T00:00:30Z'],
    ['99999999999'],
    ['Thu, 99 Jan 2026 00:00:30 GMT'],
    ['Thu, 31 Apr 2026 00:00:30 GMT'],
    ['Thu, 00 Jan 2026 00:00:30 GMT'],
    ['Thu, 01 Jan 2026 24:00:30 GMT'],
    ['Thu, 01 Jan 2026 00:00:30 CET'],
    ['Thu, 01 Jan 2026 00:00:30'],
    // `Date.parse` makes a day of the year 2001 of it, which would be no wait at all.
    ['Mon, 5'],
    ['5, 10'],
    ['９'],
  ])('takes %j for none', (value) => {
    expect(parseRetryAfter(value, DATE, NOW)).toBeUndefined();
  });

  it.each(['Pacific/Auckland', 'America/Los_Angeles'])('a date means UTC, also in %s', (timeZone) => {
    process.env.TZ = timeZone;
    for (const date of ['Thu Jan  1 00:00:10 2026', 'Thursday, 01-Jan-26 00:00:10 GMT']) {
      expect(parseRetryAfter(date, undefined, NOW)).toBe(10_000);
    }
  });
});

describe('a head with Retry-After', () => {
  const of = (value: string | string[], date?: string | string[]) =>
    retryAfterOf(
      { status: 429, headers: { 'retry-after': value, ...(date === undefined ? {} : { date }) } },
      NOW,
    );

  it.each([
    ['once', '5', 5_000],
    ['twice the same', ['5', '5'], 5_000],
    ['twice the same, as fetch joins it', '5, 5', 5_000],
    ['twice the same but for blanks', ['5', ' 5 '], 5_000],
    ['two that disagree', ['5', '10'], undefined],
    ['two that disagree, as fetch joins them', '5, 10', undefined],
    ['a number and a date', ['5', 'Thu, 01 Jan 2026 00:00:05 GMT'], undefined],
    ['none at all, as an array', [], undefined],
  ])('%s', (_name, value, expected) => {
    expect(of(value)).toBe(expected);
  });

  it('is read against our own clock where its Date fields disagree', () => {
    const later = 'Thu, 01 Jan 2026 00:00:30 GMT';
    expect(of(later, ['Thu, 01 Jan 2026 00:00:10 GMT', 'Thu, 01 Jan 2026 00:00:20 GMT'])).toBe(30_000);
    expect(of(later, 'Thu, 01 Jan 2026 00:00:10 GMT')).toBe(20_000);
  });
});
