import { describe, expect, it } from 'vitest';
import { parseRetryAfter } from '../../../src/rate-limit/retry-after.js';

const NOW = Date.parse('2026-01-01T00:00:00Z');
const DATE = 'Thu, 01 Jan 2026 00:00:00 GMT';

describe('parseRetryAfter', () => {
  it.each([
    ['seconds', '120', undefined, 120_000],
    ['zero', '0', undefined, 0],
    ['blanks around', ' 5 ', undefined, 5_000],
    ['a date', 'Thu, 01 Jan 2026 00:00:30 GMT', undefined, 30_000],
    ['a date in the past', 'Wed, 31 Dec 2025 23:59:00 GMT', undefined, 0],
    [
      'a date, by the server’s own clock',
      'Thu, 01 Jan 2026 01:00:30 GMT',
      'Thu, 01 Jan 2026 01:00:00 GMT',
      30_000,
    ],
    ['a date, beside a Date that is none', 'Thu, 01 Jan 2026 00:00:30 GMT', 'soon', 30_000],
    ['an obsolete date', 'Thursday, 01-Jan-26 00:00:10 GMT', DATE, 10_000],
    ['asctime', 'Thu Jan  1 00:00:10 2026 GMT', DATE, 10_000],
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
    ['2026-01-01T00:00:30Z'],
    ['99999999999'],
    ['Thu, 99 Jan 2026 00:00:30 GMT'],
    ['5, 10'],
  ])('takes %j for none', (value) => {
    expect(parseRetryAfter(value, DATE, NOW)).toBeUndefined();
  });
});
