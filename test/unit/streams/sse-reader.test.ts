import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LIMITS } from '../../../src/limits.js';
import {
  isResumableId,
  lastEventIdHeader,
  type SseEvent,
  type SseLimits,
  SseReader,
} from '../../../src/streams/sse-reader.js';

type Report = SseEvent | { retry: number } | { failed: string };

function reading(limits?: SseLimits) {
  const reports: Report[] = [];
  const reader = new SseReader(
    {
      event: (event) => reports.push(event),
      retry: (ms) => reports.push({ retry: ms }),
      failed: (reason) => reports.push({ failed: reason }),
    },
    limits,
  );
  return { reader, reports };
}

const bytesOf = (text: string | Uint8Array) =>
  typeof text === 'string' ? new TextEncoder().encode(text) : text;

/** Reads in pieces of the given sizes; what is left comes as the last one. */
function read(stream: string | Uint8Array, sizes: readonly number[] = [], limits?: SseLimits): Report[] {
  const { reader, reports } = reading(limits);
  const bytes = bytesOf(stream);
  let at = 0;
  for (const size of sizes) {
    reader.push(bytes.slice(at, at + size));
    at += size;
  }
  reader.push(bytes.slice(at));
  reader.end();
  return reports;
}

const bytewise = (stream: string | Uint8Array, limits?: SseLimits) =>
  read(stream, new Array(bytesOf(stream).length).fill(1), limits);

const concat = (...parts: (string | readonly number[])[]) =>
  Uint8Array.from(parts.flatMap((part) => (typeof part === 'string' ? [...bytesOf(part)] : [...part])));

test('reads one answer', () => {
  expect(read('event: message\nid: 7\ndata: {"jsonrpc":"2.0"}\n\n')).toEqual([
    { event: 'message', id: '7', data: '{"jsonrpc":"2.0"}' },
  ]);
});

test.each([
  ['several data lines', 'data: a\ndata:b\ndata:  c\n\n', [{ data: 'a\nb\n c' }]],
  ['data without a colon', 'data\ndata\n\n', [{ data: '\n' }]],
  ['CR', 'data: a\rid: 1\r\rdata: b\r\r', [{ data: 'a', id: '1' }, { data: 'b' }]],
  ['CRLF', 'data: a\r\ndata: b\r\n\r\n', [{ data: 'a\nb' }]],
  ['mixed line ends', 'data: a\r\ndata: b\rdata: c\n\r\n', [{ data: 'a\nb\nc' }]],
  ['LF CR is two line ends', 'data: a\n\rdata: b\n\n', [{ data: 'a' }, { data: 'b' }]],
  ['comments', ': hello\n:\ndata: a\n: in between\ndata: b\n\n:end\n', [{ data: 'a\nb' }]],
  ['an id with empty data', 'id: 1\ndata:\n\n', [{ id: '1', data: '' }]],
  ['an id without data', 'id: 1\n\ndata: x\n\n', [{ id: '1', data: '' }, { data: 'x' }]],
  ['an id without data, in CR', 'id: 1\r\rdata: x\r\r', [{ id: '1', data: '' }, { data: 'x' }]],
  ['a type and an id without data', 'event: e\nid: 1\n\n', [{ event: 'e', id: '1', data: '' }]],
  ['an empty id', 'id\ndata: x\n\n', [{ id: '', data: 'x' }]],
  ['a type without data', 'event: e\n\ndata: x\n\n', [{ data: 'x' }]],
  ['an id with NUL', 'id: a\0b\ndata: x\n\nid: a\0b\n\ndata: y\n\n', [{ data: 'x' }, { data: 'y' }]],
  ['an id with NUL leaves an earlier one', 'id: a\nid: b\0\ndata: x\n\n', [{ id: 'a', data: 'x' }]],
  ['an unfinished event', 'data: a\n\ndata: b\n', [{ data: 'a' }]],
  ['an unfinished line', 'data: a\n\ndata: b', [{ data: 'a' }]],
  [
    'unknown fields',
    'foo: 1\ndatum: 2\nidentity: 3\nevents\n data: 4\nData: 5\ndata: x\n\n',
    [{ data: 'x' }],
  ],
  ['retry', 'retry: 1500\nretry:20\n\n', [{ retry: 1500 }, { retry: 20 }]],
  [
    'retry that is no plain number',
    'retry\nretry:\nretry: -1\nretry: 1.5\nretry: 1e3\nretry:  1\nretry: ٣\n\n',
    [],
  ],
  ['retry of days', 'retry: 86400000\n\n', [{ retry: LIMITS.retryFieldMs }]],
  ['retry beyond every number', `retry: ${'9'.repeat(400)}\n\n`, [{ retry: LIMITS.retryFieldMs }]],
  ['a byte order mark', '\uFEFFdata: a\n\n', [{ data: 'a' }]],
  ['a byte order mark before a comment', '\uFEFF: c\ndata: a\n\n', [{ data: 'a' }]],
  ['a byte order mark and nothing else', '\uFEFF', []],
  ['a second byte order mark', '\uFEFF\uFEFFdata: a\n\ndata: \uFEFFb\n\n', [{ data: '\uFEFFb' }]],
  ['what looks like a mark in Latin-1', 'ï»¿data: a\n\ndata: b\n\n', [{ data: 'b' }]],
  ['characters of two to four bytes', 'id: é\ndata: €𝄞\n\n', [{ id: 'é', data: '€𝄞' }]],
  ['NUL in data', 'data: a\0b\n\n', [{ data: 'a\0b' }]],
  ['line separators that are none', 'data: a\u2028b\u0085c\vd\n\n', [{ data: 'a\u2028b\u0085c\vd' }]],
  ['blank lines only', '\n\r\n\r\n\n', []],
])('%s, in one piece and byte by byte', (_name, stream, expected) => {
  expect(read(stream)).toEqual(expected);
  expect(bytewise(stream)).toEqual(expected);
});

test('invalid bytes become the replacement character', () => {
  const stream = concat('data: a', [0xff], 'b', [0xe2, 0x82], '\n\n', 'data: ', [0xf0, 0x9d], '\r\n\r\n');
  const expected = [{ data: 'a\uFFFDb\uFFFD' }, { data: '\uFFFD' }];
  expect(read(stream)).toEqual(expected);
  expect(bytewise(stream)).toEqual(expected);
});

test('a CR at the very end ends the line at once', () => {
  const { reader, reports } = reading();
  reader.push(bytesOf('data: a\r\r'));
  expect(reports).toEqual([{ data: 'a' }]);
  reader.push(bytesOf('\ndata: b\r\r'));
  expect(reports).toEqual([{ data: 'a' }, { data: 'b' }]);
});

test('an event is reported with the byte that ends it', () => {
  const { reader, reports } = reading();
  for (const byte of bytesOf('data: a\n')) reader.push(Uint8Array.of(byte));
  expect(reports).toEqual([]);
  reader.push(Uint8Array.of(10));
  expect(reports).toEqual([{ data: 'a' }]);
});

test('the chunk may be used again by whoever gave it', () => {
  const { reader, reports } = reading();
  const chunk = bytesOf('data: ab');
  reader.push(chunk);
  chunk.fill(0);
  reader.push(bytesOf('\n\n'));
  expect(reports).toEqual([{ data: 'ab' }]);
});

test('a view into a larger buffer is read within its borders', () => {
  const { reader, reports } = reading();
  reader.push(Buffer.from('xx\n\ndata: a\n\ndata: b\n\n').subarray(4, 13));
  expect(reports).toEqual([{ data: 'a' }]);
});

// Weighted towards what splits badly: line ends, marks, long characters, bytes that are no UTF-8.
const piece = fc.oneof(
  fc.constantFrom(
    '\n',
    '\r',
    '\r\n',
    '\n\n',
    ':',
    ': c\n',
    'data',
    'data:',
    'data: ',
    'id: ',
    'id',
    'event: ',
    'retry: ',
  ),
  fc.constantFrom('\uFEFF', '\0', 'é', '€', '𝄞', ' ', '7', 'data: x\n\n', 'id: 1\n\n', 'retry: 5\r'),
  fc.string({ maxLength: 8 }),
);
const stream = fc
  .array(
    fc.oneof({ weight: 9, arbitrary: piece }, { weight: 1, arbitrary: fc.uint8Array({ maxLength: 3 }) }),
    {
      maxLength: 40,
    },
  )
  .map((pieces) => concat(...pieces.map((part) => (typeof part === 'string' ? part : [...part]))));
const sizes = fc.array(fc.integer({ min: 0, max: 12 }), { maxLength: 60 });

test('all chunkings of a stream give the same events', () => {
  fc.assert(
    fc.property(stream, sizes, (bytes, pieces) => {
      const whole = read(bytes);
      expect(read(bytes, pieces)).toEqual(whole);
      expect(bytewise(bytes)).toEqual(whole);
    }),
    { numRuns: 500 },
  );
});

test('all chunkings of a stream fail at the same place', () => {
  fc.assert(
    fc.property(stream, sizes, fc.integer({ min: 1, max: 20 }), (bytes, pieces, lineBytes) => {
      const whole = read(bytes, [], { lineBytes });
      expect(read(bytes, pieces, { lineBytes })).toEqual(whole);
      expect(bytewise(bytes, { lineBytes })).toEqual(whole);
    }),
    { numRuns: 500 },
  );
});

test('reads what the standard reads', () => {
  fc.assert(
    fc.property(stream, sizes, (bytes, pieces) => {
      expect(read(bytes, pieces)).toEqual(byTheStandard(bytes));
    }),
    { numRuns: 500 },
  );
});

/** WHATWG HTML 9.2.6, word for word and slow; an event with only an id is reported, which there moves the last id. */
function byTheStandard(bytes: Uint8Array): Report[] {
  const reports: Report[] = [];
  let data: string[] = [];
  let id: string | undefined;
  let type = '';
  const lines = new TextDecoder().decode(bytes).split(/\r\n|\r|\n/);
  for (const line of lines.slice(0, -1)) {
    const [, field, value = ''] = /^([^:]*)(?:: ?([\s\S]*))?$/.exec(line) as unknown as [
      string,
      string,
      string?,
    ];
    if (line === '') {
      if (data.length > 0 || id !== undefined) {
        reports.push({
          data: data.join('\n'),
          ...(id === undefined ? {} : { id }),
          ...(type === '' ? {} : { event: type }),
        });
      }
      data = [];
      id = undefined;
      type = '';
    } else if (field === 'data') data.push(value);
    else if (field === 'event') type = value;
    else if (field === 'id' && !value.includes('\0')) id = value;
    else if (field === 'retry' && /^[0-9]+$/.test(value)) {
      reports.push({ retry: Math.min(Number(value), LIMITS.retryFieldMs) });
    }
  }
  return reports;
}

test('a line of just the limit passes, one byte more does not', () => {
  const limits = { lineBytes: 16 };
  expect(read(`data: ${'x'.repeat(10)}\n\n`, [], limits)).toEqual([{ data: 'x'.repeat(10) }]);
  expect(read(`data: ${'x'.repeat(11)}\n\n`, [], limits)).toEqual([{ failed: 'line-too-long' }]);
  expect(read(`\uFEFFdata: ${'x'.repeat(10)}\n\n`, [], limits)).toEqual([{ data: 'x'.repeat(10) }]);
});

test('a line that does not end fails as soon as it is too long', () => {
  const { reader, reports } = reading({ lineBytes: 16 });
  reader.push(bytesOf('data: a\n\ndata: 0123456789'));
  reader.push(bytesOf('0'));
  expect(reports).toEqual([{ data: 'a' }, { failed: 'line-too-long' }]);
});

test('many small data lines are together one event that can be too large', () => {
  expect(read('data: 1\n'.repeat(3), [], { lineBytes: 20 })).toEqual([{ failed: 'event-too-large' }]);
  expect(read('data: 1\ndata: 2\n\n'.repeat(3), [], { lineBytes: 20 })).toHaveLength(3);
});

test('a limit is counted in bytes, not in characters', () => {
  expect(read(`data: ${'€'.repeat(4)}\n\n`, [], { lineBytes: 16 })).toEqual([{ failed: 'line-too-long' }]);
});

test('after a failure nothing is reported, whatever comes', () => {
  const { reader, reports } = reading({ lineBytes: 16 });
  reader.push(bytesOf(`data: ${'x'.repeat(20)}\n\ndata: a\n\n`));
  reader.push(bytesOf(`\n\ndata: b\n\nretry: 1\n${'x'.repeat(40)}`));
  reader.end();
  expect(reports).toEqual([{ failed: 'line-too-long' }]);
});

test('the default limit is that of a message', () => {
  const { reader, reports } = reading();
  const chunk = new Uint8Array(1024 * 1024).fill(120);
  for (let i = 0; i < 17; i++) reader.push(chunk);
  expect(reports).toEqual([{ failed: 'line-too-long' }]);
});

test('nothing is reported after end(), not even from within the same chunk', () => {
  const events: SseEvent[] = [];
  const reader = new SseReader({
    event: (event) => {
      events.push(event);
      reader.end();
    },
    retry: () => expect.unreachable(),
    failed: () => expect.unreachable(),
  });
  reader.push(bytesOf('data: a\n\ndata: b\n\nretry: 1\nid: 1\n\n'));
  reader.push(bytesOf('data: c\n\n'));
  expect(events).toEqual([{ data: 'a' }]);
});

test('a sink that throws ends the reading, with its own error', () => {
  const failure = new Error('of the sink');
  let calls = 0;
  const reader = new SseReader({
    event: () => {
      calls++;
      throw failure;
    },
    retry: () => {},
    failed: () => {},
  });
  expect(() => reader.push(bytesOf('data: a\n\ndata: b\n\n'))).toThrow(failure);
  reader.push(bytesOf('data: c\n\n'));
  expect(calls).toBe(1);
});

test('comments are free: any amount of them passes through one event', () => {
  const { reader, reports } = reading({ lineBytes: 64 });
  const comments = bytesOf(`:${' keep-alive'.repeat(4)}\n`.repeat(20_000));
  reader.push(bytesOf('data: a\n'));
  for (let i = 0; i < 20; i++) reader.push(comments);
  reader.push(bytesOf('data: b\n\n'));
  expect(reports).toEqual([{ data: 'a\nb' }]);
});

test('a comment line is kept nowhere, and is too long at the limit', () => {
  const { reader, reports } = reading();
  const chunk = new Uint8Array(1024 * 1024).fill(58);
  const before = process.memoryUsage().arrayBuffers;
  for (let i = 0; i < 15; i++) reader.push(chunk);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(4 * chunk.length);
  reader.push(bytesOf('\ndata: a\n\n'));
  for (let i = 0; i < 17; i++) reader.push(chunk);
  expect(reports).toEqual([{ data: 'a' }, { failed: 'line-too-long' }]);
});

/** Milliseconds of CPU, so that a busy machine makes no difference, to read the stream that `make(n)` gives, n lines or bytes long. */
function timeOf(make: (n: number) => Uint8Array, n: number, chunk = 64 * 1024): number {
  const bytes = make(n);
  let best = Number.POSITIVE_INFINITY;
  for (let run = 0; run < 3; run++) {
    const { reader } = reading();
    const start = process.cpuUsage();
    for (let at = 0; at < bytes.length; at += chunk) reader.push(bytes.subarray(at, at + chunk));
    reader.end();
    const { user, system } = process.cpuUsage(start);
    best = Math.min(best, (user + system) / 1000);
  }
  return best;
}

test.each<[string, (n: number) => string, number, number?]>([
  ['one long line', (n) => `data: ${'x'.repeat(n)}\n\n`, 500_000],
  ['one long line in tiny chunks', (n) => `data: ${'x'.repeat(n)}\n\n`, 100_000, 3],
  ['many data lines', (n) => `${'data: x\n'.repeat(n)}\n`, 50_000],
  ['many events', (n) => 'id: 1\ndata: x\n\n'.repeat(n), 30_000],
  ['LF lines before one CR, in one chunk', (n) => `${'data: x\n'.repeat(n)}\r`, 50_000, 2 ** 30],
  ['CR lines before one LF, in one chunk', (n) => `${'data: x\r'.repeat(n)}\n`, 50_000, 2 ** 30],
  ['CRLF', (n) => 'data: x\r\n\r\n'.repeat(n), 30_000],
  ['fields nobody knows', (n) => 'x\nretry: x\n'.repeat(n), 30_000],
  ['blank lines', (n) => '\n'.repeat(n), 200_000],
])('time grows linearly: %s', (_name, make, n, chunk) => {
  const bytes = (count: number) => bytesOf(make(count));
  timeOf(bytes, n, chunk);
  const once = timeOf(bytes, n, chunk);
  // Eightfold input: 8 when linear, 64 when quadratic.
  expect(timeOf(bytes, 8 * n, chunk)).toBeLessThan(24 * Math.max(once, 1));
});

test.each([
  ['1', true],
  ['a b/c=+é€𝄞', true],
  ['x'.repeat(1024), true],
  ['é'.repeat(512), true],
  ['', false],
  ['x'.repeat(1025), false],
  ['é'.repeat(513), false],
  ['a\0b', false],
  ['a\rb', false],
  ['a\nb', false],
  ['a\x01b', false],
  ['a\x7f', false],
  [' a', false],
  ['a\t', false],
])('isResumableId %#', (id, expected) => {
  expect(isResumableId(id)).toBe(expected);
});

test('an id goes into the header as its UTF-8 bytes', () => {
  expect(lastEventIdHeader('abc-1')).toBe('abc-1');
  expect(lastEventIdHeader('é€')).toBe('\u00c3\u00a9\u00e2\u0082\u00ac');
  expect(Buffer.from(lastEventIdHeader('né€𝄞'), 'latin1').toString('utf8')).toBe('né€𝄞');
});
