/**
 * What servers say of their limits, in heads and in errors.
 */
import fc from 'fast-check';
import { retryAfterMs } from '../../src/credentials/token-fetch.js';
import { parseRetryAfter, retryAfterOf } from '../../src/rate-limit/retry-after.js';
import { pauseOfError, rateLimitPolicy, serverPause } from '../../src/rate-limit/server-hints.js';
import { parseStructuredField } from '../../src/rate-limit/structured-field.js';
import { type Fuzz, jsonWith, must, pieces } from './kit.js';

const NOW_MS = 1_767_225_600_000;
const DATES = [
  'Thu, 01 Jan 2026 00:00:10 GMT',
  'Thursday, 01-Jan-26 00:00:10 GMT',
  'Thu Jan  1 00:00:10 2026',
  'Wed, 31 Feb 2026 00:00:00 GMT',
  'Thu, 01 Jan 9999 23:59:60 GMT',
];
const number = fc.oneof(
  fc.constantFrom(
    '0',
    '1',
    '-1',
    '+1',
    '1.5',
    '1e9',
    '9999999999',
    '99999999999',
    '1767225610',
    '1767225610000',
    '',
    ' 1 ',
  ),
  fc.integer().map(String),
);
const retryAfter = fc.oneof(number, fc.constantFrom(...DATES), pieces([...DATES, ',', ' ', 'GMT', '1']));
const field = pieces([
  '"default"',
  '"a"',
  ';r=0',
  ';r=5',
  ';t=30',
  ';t=-1',
  ';q=100',
  ';w=60',
  ';qu="content-bytes"',
  ';qu="concurrent-requests"',
  ';pk=:cGs=:',
  'limit=10',
  'remaining=0',
  'reset=5',
  '100',
  ';w=10',
  ', ',
  ',',
  ';',
  '=',
  '"',
  '\\',
  ' ',
  '@1767225610',
  '?1',
  '1.25',
  '999999999999999',
  '9999999999999999',
]);
const many = <T>(each: fc.Arbitrary<T>) => fc.oneof(each, fc.array(each, { minLength: 1, maxLength: 3 }));
const head = fc.record({
  status: fc.constantFrom(200, 429, 429, 503, 404, 301),
  headers: fc.record(
    {
      'retry-after': many(retryAfter),
      date: many(fc.oneof(fc.constantFrom(...DATES), retryAfter)),
      ratelimit: many(field),
      'ratelimit-policy': many(field),
      'ratelimit-limit': many(fc.oneof(number, field)),
      'ratelimit-remaining': many(number),
      'ratelimit-reset': many(number),
      'x-ratelimit-limit': many(number),
      'x-ratelimit-remaining': many(number),
      'x-ratelimit-reset': many(number),
    },
    { requiredKeys: [] },
  ),
});

const spans = fc.constantFrom<unknown[]>(1, '1', 1e308, -1, -0, 0.5, Number.POSITIVE_INFINITY, null, {}, [1]);
const rateLimited = fc.oneof(
  fc.record({
    code: fc.constantFrom(-32023, -32023, 429),
    data: fc.record({ retryAfter: spans, retryAfterMs: spans }, { requiredKeys: [] }),
  }),
  jsonWith(['code', 'data', 'retryAfter', 'retryAfterMs', 'message'], [-32023, 1, '1', 1e308, -0, 0.5]),
);

function mustBeATime(ms: number | undefined, what: string): void {
  must(
    ms === undefined || (Number.isFinite(ms) && ms >= 0 && !Object.is(ms, -0)),
    `${what} is a time: ${ms}`,
  );
}

export const LIMIT_FIELDS: readonly Fuzz[] = [
  {
    name: 'rate limit fields: any head gives a finite pause or none',
    share: 16,
    property: () =>
      fc.property(head, (given) => {
        const pause = serverPause(given, NOW_MS);
        mustBeATime(pause?.pauseMs, 'a pause');
        for (const limit of rateLimitPolicy(given, NOW_MS)) {
          mustBeATime(limit.windowMs, 'a window');
          mustBeATime(limit.resetMs, 'a reset');
          mustBeATime(limit.limit, 'a limit');
          mustBeATime(limit.remaining, 'a rest');
          must(/^[\x20-\x7e]{0,64}$/.test(limit.name ?? ''), 'a name is short and visible');
        }
        mustBeATime(retryAfterOf(given, NOW_MS), 'Retry-After');
      }),
  },
  {
    name: 'Retry-After: any value is a time or nothing, also of a token endpoint',
    share: 16,
    property: () =>
      fc.property(retryAfter, fc.option(retryAfter, { nil: undefined }), (value, date) => {
        mustBeATime(parseRetryAfter(value, date, NOW_MS), 'Retry-After');
        const header = (name: string) =>
          name === 'retry-after' ? value : name === 'date' ? date : undefined;
        const capped = retryAfterMs({ status: 503, text: '', header } as never, NOW_MS, 60_000);
        mustBeATime(capped, 'its pause');
        must((capped ?? 0) <= 60_000, 'it is capped');
      }),
  },
  {
    name: 'structured fields: any text is read whole or not at all',
    share: 8,
    property: () =>
      fc.property(many(field), (given) => {
        for (const { key, value, parameters } of parseStructuredField(given) ?? []) {
          must(key === undefined || /^[a-z*][a-z0-9_.*-]*$/.test(key), 'a key is one');
          for (const each of [value, ...parameters.values()])
            must(typeof each !== 'number' || Number.isFinite(each), 'numbers are finite');
        }
      }),
  },
  {
    name: 'JSON-RPC errors "rate limited": any data give a time or nothing',
    share: 4,
    property: () => fc.property(rateLimited, (error) => mustBeATime(pauseOfError(error), 'a pause')),
  },
];
