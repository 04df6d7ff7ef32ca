import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import type { ResponseHead } from '../../../src/http/exchange.js';
import { pauseOfError, rateLimitPolicy, serverPause } from '../../../src/rate-limit/server-hints.js';

const NOW = Date.parse('2026-01-01T00:00:00Z');
/** What the server calls midnight is ten minutes past for us. */
const SKEWED = 'Wed, 31 Dec 2025 23:50:00 GMT';
const SKEWED_SECONDS = Date.parse(SKEWED) / 1000;

type Headers = ResponseHead['headers'];
const pause = (status: number, headers: Headers) => serverPause({ status, headers }, NOW);
const from = (name: 'retry-after' | 'ratelimit' | 'x-ratelimit', pauseMs: number) => ({
  pauseMs,
  from: name,
});

describe('a refusal by 429', () => {
  it.each<[string, Headers, ReturnType<typeof pause>]>([
    ['nothing', {}, undefined],
    ['seconds', { 'retry-after': '7' }, from('retry-after', 7_000)],
    ['no seconds at all', { 'retry-after': '0' }, from('retry-after', 0)],
    [
      'a date, by a clock that is ten minutes behind',
      { 'retry-after': 'Wed, 31 Dec 2025 23:50:07 GMT', date: SKEWED },
      from('retry-after', 7_000),
    ],
    ['thirty years: for the caller to clamp', { 'retry-after': '1000000000' }, from('retry-after', 1e12)],
    [
      'Retry-After before all others',
      {
        'retry-after': '7',
        ratelimit: '"a";r=0;t=60',
        'x-ratelimit-remaining': '0',
        'x-ratelimit-reset': '9',
      },
      from('retry-after', 7_000),
    ],
    [
      'a broken Retry-After, then RateLimit',
      { 'retry-after': '-1', ratelimit: '"a";r=0;t=60' },
      from('ratelimit', 60_000),
    ],
    [
      'two Retry-After that disagree, then RateLimit',
      { 'retry-after': ['5', '6'], ratelimit: '"a";r=0;t=60' },
      from('ratelimit', 60_000),
    ],

    ['draft 10', { ratelimit: '"default";r=0;t=30' }, from('ratelimit', 30_000)],
    ['draft 08, as a token', { ratelimit: 'default;r=0;t=30' }, from('ratelimit', 30_000)],
    [
      'spaces, partition key',
      { ratelimit: '"100-in-1min"; r=0; t=30; pk=:YWI=:' },
      from('ratelimit', 30_000),
    ],
    [
      'several policies: the longest of those that are used up',
      { ratelimit: '"s";r=0;t=1, "m";r=0;t=40, "h";r=12;t=3000' },
      from('ratelimit', 40_000),
    ],
    [
      'several policies in several lines',
      { ratelimit: ['"s";r=0;t=50', '"m";r=0;t=40'] },
      from('ratelimit', 50_000),
    ],
    ['thirty years in t', { ratelimit: '"a";r=0;t=1000000000' }, from('ratelimit', 1e12)],
    [
      'concurrency',
      {
        ratelimit: '"c";r=0;t=5',
        'ratelimit-policy': '"c";q=10;qu="concurrent-requests"',
      },
      from('ratelimit', 5_000),
    ],
    ['nothing said of what is left', { ratelimit: '"a";t=30' }, from('ratelimit', 30_000)],
    ['something left', { ratelimit: '"a";r=1;t=30' }, undefined],
    ['an end that is now says nothing', { ratelimit: '"a";r=0;t=0' }, undefined],
    ['no end', { ratelimit: '"a";r=0' }, undefined],
    ['negative', { ratelimit: '"a";r=0;t=-30' }, undefined],
    ['broken anywhere is broken', { ratelimit: '"a";r=0;t=30, "b' }, undefined],
    ['a fraction is no integer', { ratelimit: '"a";r=0;t=30.5' }, undefined],
    ['text is no integer', { ratelimit: '"a";r=0;t="30"' }, undefined],
    ['too many digits', { ratelimit: '"a";r=0;t=99999999999' }, undefined],
    ['one policy, two stories', { ratelimit: '"a";r=0;t=30, "a";r=0;t=40' }, undefined],
    [
      'one policy, two stories, and another',
      {
        ratelimit: ['"a";r=0;t=30', '"b";r=0;t=3', '"a";r=9;t=40'],
      },
      from('ratelimit', 3_000),
    ],
    ['one policy, told twice', { ratelimit: ['"a";r=0;t=30', '"a";r=0;t=30'] }, from('ratelimit', 30_000)],
    [
      'one policy in two partitions',
      { ratelimit: '"a";r=0;t=30;pk=:MQ==:, "a";r=0;t=40;pk=:Mg==:' },
      from('ratelimit', 40_000),
    ],

    ['draft 07', { ratelimit: 'limit=100, remaining=0, reset=30' }, from('ratelimit', 30_000)],
    ['draft 07, something left', { ratelimit: 'limit=100, remaining=2, reset=30' }, undefined],
    ['draft 07, negative', { ratelimit: 'limit=100, remaining=0, reset=-30' }, undefined],
    [
      'draft 07, in three lines',
      { ratelimit: ['limit=100', 'remaining=0', 'reset=30'] },
      from('ratelimit', 30_000),
    ],
    ['draft 07, two stories', { ratelimit: 'remaining=0, reset=30, reset=40' }, undefined],

    [
      'draft 06',
      { 'ratelimit-limit': '100', 'ratelimit-remaining': '0', 'ratelimit-reset': '30' },
      from('ratelimit', 30_000),
    ],
    ['draft 06, only the end', { 'ratelimit-reset': '30' }, from('ratelimit', 30_000)],
    ['draft 06, something left', { 'ratelimit-remaining': '2', 'ratelimit-reset': '30' }, undefined],
    [
      'draft 06, with an instant, as some do',
      {
        'ratelimit-remaining': '0',
        'ratelimit-reset': String(SKEWED_SECONDS + 30),
        date: SKEWED,
      },
      from('ratelimit', 30_000),
    ],

    ['X-, a span', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '30' }, from('x-ratelimit', 30_000)],
    [
      'X-, a span with a fraction',
      { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '0.25' },
      from('x-ratelimit', 250),
    ],
    [
      'X-, the longest span',
      { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '999999999' },
      from('x-ratelimit', 999_999_999_000),
    ],
    [
      'X-, epoch seconds by our clock',
      {
        'x-ratelimit-remaining': '0',
        'x-ratelimit-reset': String(NOW / 1000 + 30),
      },
      from('x-ratelimit', 30_000),
    ],
    [
      'X-, epoch seconds by the server’s clock',
      {
        'x-ratelimit-remaining': '0',
        'x-ratelimit-reset': String(SKEWED_SECONDS + 30),
        date: SKEWED,
      },
      from('x-ratelimit', 30_000),
    ],
    [
      'X-, epoch seconds with a fraction',
      {
        'x-ratelimit-remaining': '0',
        'x-ratelimit-reset': `${SKEWED_SECONDS + 30}.5`,
        date: SKEWED,
      },
      from('x-ratelimit', 30_500),
    ],
    [
      'X-, epoch milliseconds by the server’s clock',
      {
        'x-ratelimit-remaining': '0',
        'x-ratelimit-reset': String(SKEWED_SECONDS * 1000 + 1_234),
        date: SKEWED,
      },
      from('x-ratelimit', 1_234),
    ],
    [
      'X-, an instant that has passed',
      { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '1000000000' },
      undefined,
    ],
    [
      'X-, microseconds',
      { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(NOW * 1000 + 5) },
      undefined,
    ],
    [
      'X-, below nothing is as good as nothing said',
      { 'x-ratelimit-remaining': '-3', 'x-ratelimit-reset': '30' },
      from('x-ratelimit', 30_000),
    ],
    ['X-, something left', { 'x-ratelimit-remaining': '3', 'x-ratelimit-reset': '30' }, undefined],
    ['X-, words', { 'x-ratelimit-remaining': 'none', 'x-ratelimit-reset': 'soon' }, undefined],
    ['X-, negative', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '-30' }, undefined],
    [
      'X-, twice the same',
      { 'x-ratelimit-remaining': ['0', '0'], 'x-ratelimit-reset': '30, 30' },
      from('x-ratelimit', 30_000),
    ],
    ['X-, two ends', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': ['30', '40'] }, undefined],
    [
      'X-, behind a RateLimit with something left',
      {
        ratelimit: '"a";r=5;t=10',
        'x-ratelimit-remaining': '0',
        'x-ratelimit-reset': '30',
      },
      from('x-ratelimit', 30_000),
    ],
  ])('%s', (_name, headers, expected) => {
    expect(pause(429, headers)).toEqual(expected);
  });
});

describe('other statuses', () => {
  it('503 with Retry-After is one, too; what is left must be said there', () => {
    expect(pause(503, { 'retry-after': '7' })).toEqual(from('retry-after', 7_000));
    expect(pause(503, { 'x-ratelimit-reset': '30' })).toBeUndefined();
    expect(pause(503, { ratelimit: '"a";t=30' })).toBeUndefined();
    expect(pause(503, { ratelimit: '"a";r=0;t=30' })).toEqual(from('ratelimit', 30_000));
  });

  it.each([200, 202, 301, 400, 401, 403, 404, 413, 500, 502, 504])(
    '%i: Retry-After means something else',
    (status) => {
      expect(pause(status, { 'retry-after': '7' })).toBeUndefined();
    },
  );

  it.each([200, 202, 204, 403, 404, 500])(
    '%i: a quota that is used up stands for the next request',
    (status) => {
      expect(pause(status, { ratelimit: '"a";r=0;t=30' })).toEqual(from('ratelimit', 30_000));
      expect(pause(status, { ratelimit: 'limit=9, remaining=0, reset=30' })).toEqual(
        from('ratelimit', 30_000),
      );
      expect(pause(status, { 'ratelimit-remaining': '0', 'ratelimit-reset': '30' })).toEqual(
        from('ratelimit', 30_000),
      );
      expect(pause(status, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '30' })).toEqual(
        from('x-ratelimit', 30_000),
      );
    },
  );

  it.each<[string, Headers]>([
    [
      'something is left',
      { ratelimit: '"a";r=1;t=30', 'x-ratelimit-remaining': '1', 'x-ratelimit-reset': '30' },
    ],
    ['not said what is left', { ratelimit: '"a";t=30', 'ratelimit-reset': '30', 'x-ratelimit-reset': '30' }],
    ['what is left is nonsense', { 'x-ratelimit-remaining': '-1', 'x-ratelimit-reset': '30' }],
    ['no end', { ratelimit: '"a";r=0', 'x-ratelimit-remaining': '0' }],
    [
      'an end that is now',
      { ratelimit: '"a";r=0;t=0', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '0' },
    ],
    [
      'places that are free again with this answer',
      { ratelimit: '"c";r=0;t=30', 'ratelimit-policy': '"c";q=10;qu="concurrent-requests", "m";q=60;w=60' },
    ],
  ])('200: no pause where %s', (_name, headers) => {
    expect(pause(200, headers)).toBeUndefined();
  });

  it('200: a quota beside one of concurrency counts', () => {
    const headers = {
      ratelimit: '"c";r=0;t=90, "m";r=0;t=30',
      'ratelimit-policy': '"c";q=10;qu="concurrent-requests", "m";q=60;w=60',
    };
    expect(pause(200, headers)).toEqual(from('ratelimit', 30_000));
  });
});

describe('the published limits', () => {
  const policy = (headers: Headers) => rateLimitPolicy({ status: 200, headers }, NOW);

  it.each<[string, Headers, ReturnType<typeof policy>]>([
    ['none', {}, []],
    [
      'draft 10',
      {
        'ratelimit-policy': '"burst";q=100;w=60, "daily";q=1000;w=86400',
        ratelimit: '"daily";r=400;t=7200',
      },
      [
        { from: 'ratelimit', name: 'burst', limit: 100, windowMs: 60_000 },
        {
          from: 'ratelimit',
          name: 'daily',
          limit: 1_000,
          windowMs: 86_400_000,
          remaining: 400,
          resetMs: 7_200_000,
        },
      ],
    ],
    [
      'a state without a policy, a unit',
      { 'ratelimit-policy': '"b";q=65535;qu="content-bytes";w=10', ratelimit: 'other;r=1;t=2' },
      [
        { from: 'ratelimit', name: 'b', limit: 65_535, windowMs: 10_000, unit: 'content-bytes' },
        { from: 'ratelimit', name: 'other', remaining: 1, resetMs: 2_000 },
      ],
    ],
    [
      'draft 07',
      { 'ratelimit-policy': '10;w=1, 50;w=60', ratelimit: 'limit=50, remaining=3, reset=12' },
      [
        { from: 'ratelimit', limit: 10, windowMs: 1_000 },
        { from: 'ratelimit', limit: 50, windowMs: 60_000, remaining: 3, resetMs: 12_000 },
      ],
    ],
    [
      'draft 02, policies behind the limit',
      { 'ratelimit-limit': '10, 10;w=1, 50;w=60', 'ratelimit-remaining': '4', 'ratelimit-reset': '1' },
      [
        { from: 'ratelimit', limit: 10, windowMs: 1_000, remaining: 4, resetMs: 1_000 },
        { from: 'ratelimit', limit: 50, windowMs: 60_000 },
      ],
    ],
    [
      'both families',
      {
        'ratelimit-limit': '60',
        'ratelimit-remaining': '59',
        'x-ratelimit-limit': '5000',
        'x-ratelimit-remaining': '4999',
        'x-ratelimit-reset': String(NOW / 1000 + 3600),
      },
      [
        { from: 'ratelimit', limit: 60, remaining: 59 },
        { from: 'x-ratelimit', limit: 5_000, remaining: 4_999, resetMs: 3_600_000 },
      ],
    ],
    [
      'nonsense, field by field',
      {
        'ratelimit-policy': '"a";q=-1;w=60, "b";q=5;w=0, "c";w=60, "d',
        'x-ratelimit-limit': 'many',
        'x-ratelimit-remaining': '3',
        'x-ratelimit-reset': 'soon',
      },
      [{ from: 'x-ratelimit', remaining: 3 }],
    ],
    [
      'a window of nothing is none',
      { 'ratelimit-policy': '"b";q=5;w=0, "c";w=60' },
      [{ from: 'ratelimit', name: 'b', limit: 5 }],
    ],
  ])('%s', (_name, headers, expected) => {
    expect(policy(headers)).toEqual(expected);
  });

  it('a name is shown up to 64 characters', () => {
    const [limit] = policy({ 'ratelimit-policy': `"${'n'.repeat(1_000)}";q=1;qu="${'u'.repeat(1_000)}"` });
    expect([limit?.name?.length, limit?.unit?.length]).toEqual([64, 64]);
  });
});

describe('JSON-RPC error -32023', () => {
  it.each<[unknown, number | undefined]>([
    [{ code: -32023, message: '', data: { retryAfterMs: 1_500 } }, 1_500],
    [{ code: -32023, message: '', data: { retryAfterMs: 0 } }, 0],
    [{ code: -32023, message: '', data: { retryAfterMs: 0.2 } }, 1],
    [{ code: -32023, message: '', data: { retryAfter: 3 } }, 3_000],
    [{ code: -32023, message: '', data: { retryAfter: 0.5 } }, 500],
    [{ code: -32023, message: '', data: { retryAfterMs: 10, retryAfter: 3 } }, 10],
    [{ code: -32023, message: '', data: { retryAfterMs: -1, retryAfter: 3 } }, 3_000],
    [{ code: -32023, message: '', data: { retryAfterMs: 1e12 } }, 1e12],
    [{ code: -32023, message: '', data: { retryAfterMs: 1e300 } }, undefined],
    [{ code: -32023, message: '', data: { retryAfterMs: Number.POSITIVE_INFINITY } }, undefined],
    [{ code: -32023, message: '', data: { retryAfterMs: Number.NaN } }, undefined],
    [{ code: -32023, message: '', data: { retryAfterMs: '10' } }, undefined],
    [{ code: -32023, message: '', data: Object.create({ retryAfterMs: 10 }) }, undefined],
    [{ code: -32023, message: '', data: [10] }, undefined],
    [{ code: -32023, message: '', data: null }, undefined],
    [{ code: -32023, message: '' }, undefined],
    [{ code: -32000, message: '', data: { retryAfterMs: 10 } }, undefined],
    [{ code: '-32023', message: '', data: { retryAfterMs: 10 } }, undefined],
    [undefined, undefined],
    [null, undefined],
    ['-32023', undefined],
  ])('%j', (error, expected) => {
    expect(pauseOfError(error)).toBe(expected);
  });

  it('knows no minus zero', () => {
    expect(pauseOfError({ code: -32023, data: { retryAfterMs: JSON.parse('-0') } })).toBe(0);
  });
});

const NAMES = [
  'retry-after',
  'date',
  'ratelimit',
  'ratelimit-policy',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
];
/** Text made of what such fields are made of, so that a good part of it parses. */
const piece = fc.constantFrom(
  ...[
    '"a"',
    'a',
    '"',
    ';',
    ',',
    '=',
    ' ',
    'r=0',
    ';r=0;t=5',
    't=',
    '0',
    '1',
    '-1',
    '99999999999',
    '1e9',
    '1.5',
  ],
  ...[
    'limit=9',
    'remaining=0',
    'reset=5',
    ':',
    ':YQ==:',
    '?1',
    '@5',
    '\\',
    'GMT',
    'Thu, 01 Jan 2026 00:00:05 GMT',
  ],
  ...['NaN', 'Infinity', '\u00e9', '\n', '1767225605', '1767225605000'],
);
const text = fc.oneof(
  fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join('')),
  fc.string(),
  fc.double().map(String),
  fc.integer().map(String),
);
const headers = fc.dictionary(fc.constantFrom(...NAMES), fc.oneof(text, fc.array(text, { maxLength: 3 })), {
  maxKeys: NAMES.length,
});
const isSpan = (ms: number | undefined) =>
  ms === undefined || (Number.isInteger(ms) && !Object.is(ms, -0) && ms >= 0);

test('whatever is sent: no exception, no negative, no fraction, nothing infinite', () => {
  let pauses = 0;
  let limits = 0;
  const property = fc.property(fc.constantFrom(200, 202, 403, 429, 503), headers, (status, given) => {
    const found = pause(status, given);
    pauses += found === undefined ? 0 : 1;
    expect(isSpan(found?.pauseMs)).toBe(true);
    for (const limit of rateLimitPolicy({ status, headers: given }, NOW)) {
      limits += 1;
      for (const value of [limit.limit, limit.remaining, limit.resetMs, limit.windowMs]) {
        expect(isSpan(value)).toBe(true);
      }
    }
  });
  fc.assert(property, { numRuns: 5_000 });
  // The inputs are not all refused at the door.
  expect(pauses).toBeGreaterThan(100);
  expect(limits).toBeGreaterThan(100);
});

test('whatever an error carries', () => {
  fc.assert(
    fc.property(fc.anything(), fc.anything(), fc.anything(), (ms, seconds, other) => {
      const data = { retryAfterMs: ms, retryAfter: seconds };
      for (const error of [other, { code: -32023, data: other }, { code: -32023, data }]) {
        expect(isSpan(pauseOfError(error))).toBe(true);
      }
    }),
  );
});

test('a list of policies in any order gives the longest that is used up', () => {
  const item = fc.record({ r: fc.integer({ min: 0, max: 2 }), t: fc.integer({ min: 0, max: 9_999 }) });
  fc.assert(
    fc.property(fc.array(item, { minLength: 1, maxLength: 40 }), fc.boolean(), (items, inLines) => {
      const lines = items.map(({ r, t }, at) => `"policy ${at}";r=${r};t=${t}`);
      const longest = Math.max(0, ...items.filter(({ r }) => r === 0).map(({ t }) => t * 1_000));
      const ratelimit = inLines ? lines : lines.join(',');
      expect(pause(200, { ratelimit })?.pauseMs ?? 0).toBe(longest);
    }),
  );
});

test.each([
  ['quotes', '"'],
  ['escapes', '"\\'],
  ['keys', 'a'],
  ['items', '"a";r=0;t=1,'],
  ['items that grow', undefined],
  ['commas', '1,'],
  ['digits', '9'],
  ['blanks', ' '],
  ['dates', 'Thu, 01 Jan 2026 00:00:05 GMT, '],
])('a flood of %s is over in no time', (_name, unit) => {
  const flood =
    unit === undefined
      ? Array.from({ length: 500 }, (_, at) => `p${at};r=0;t=${at}`).join(',')
      : unit.repeat(8_000 / unit.length);
  const long = (unit ?? flood).repeat(1_000_000 / (unit ?? flood).length);
  for (const value of [flood, long, Array.from({ length: 1_000 }, () => flood)]) {
    const given = Object.fromEntries(NAMES.map((name) => [name, value]));
    for (const status of [200, 429]) {
      // A step for each pair of characters would be 10^12 of them: the test would not end.
      expect(isSpan(pause(status, given)?.pauseMs)).toBe(true);
      expect(rateLimitPolicy({ status, headers: given }, NOW).length).toBeLessThan(5_000);
    }
  }
});
