/**
 * Bytes of event streams, and bodies under content codings.
 */

import * as zlib from 'node:zlib';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import type { ExchangeFailure } from '../../src/http/exchange.js';
import { UndiciExchange } from '../../src/http/undici-exchange.js';
import { isResumableId, lastEventIdHeader, type SseEvent, SseReader } from '../../src/streams/sse-reader.js';
import { type Fuzz, must } from './kit.js';

type Report = SseEvent | { retry: number } | { failed: string };

function read(chunks: readonly Uint8Array[], lineBytes: number): Report[] {
  const reports: Report[] = [];
  const reader = new SseReader(
    {
      event: (event) => reports.push(event),
      retry: (ms) => reports.push({ retry: ms }),
      failed: (reason) => reports.push({ failed: reason }),
    },
    { lineBytes },
  );
  for (const chunk of chunks) reader.push(chunk);
  reader.end();
  return reports;
}

function cutAt(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const at = [0, ...[...cuts].sort((one, other) => one - other), bytes.length];
  return at.slice(1).map((end, index) => bytes.slice(at[index], end));
}

/** The standard's algorithm on whole text, with this library's two additions: id-only events, and a bound on `retry`. */
function reference(bytes: Uint8Array): Report[] {
  const lines = new TextDecoder().decode(bytes).split(/\r\n|\n|\r/);
  // What no line end follows is not a line yet.
  lines.pop();
  const reports: Report[] = [];
  let data: string | undefined;
  let id: string | undefined;
  let event: string | undefined;
  for (const line of lines) {
    if (line === '') {
      if (data !== undefined || id !== undefined) {
        const report: SseEvent = { data: data ?? '' };
        if (id !== undefined) report.id = id;
        if (event !== undefined) report.event = event;
        reports.push(report);
      }
      data = undefined;
      id = undefined;
      event = undefined;
      continue;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') data = data === undefined ? value : `${data}\n${value}`;
    else if (field === 'id' && !value.includes('\0')) id = value;
    else if (field === 'event') event = value === '' ? undefined : value;
    else if (field === 'retry' && /^\d+$/.test(value))
      reports.push({ retry: Math.min(Number(value), 60_000) });
  }
  return reports;
}

const PIECES = [
  'data: ',
  'data:',
  'data',
  'id: 7',
  'id:',
  'id',
  'event: message',
  'event:',
  'retry: 10',
  'retry: 9999999999',
  'retry: -1',
  ':',
  ': comment',
  '\n',
  '\n\n',
  '\r',
  '\r\n',
  '\r\n\r\n',
  '\ufeff',
  '\0',
  '{"a":1}',
  'é',
  '😀',
  ' ',
  'dat',
];
const someBytes = fc.oneof(
  {
    weight: 5,
    arbitrary: fc
      .array(fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...PIECES) }, fc.string({ maxLength: 3 })))
      .map((parts) => new Uint8Array(Buffer.from(parts.join('')))),
  },
  {
    weight: 1,
    arbitrary: fc.uint8Array({ maxLength: 40 }),
  },
  {
    weight: 1,
    arbitrary: fc
      .array(fc.constantFrom(0x0a, 0x0d, 0x3a, 0x20, 0x64, 0xef, 0xbb, 0xbf, 0xf0, 0x9f, 0), {
        maxLength: 40,
      })
      .map((list) => Uint8Array.from(list)),
  },
);
/** Two bytes of payload for each of overhead, or everything in one go. */
const limit = fc.constantFrom(1, 4, 8, 16, 1_000_000);

const same = (one: readonly Report[], other: readonly Report[], what: string) => {
  const [left, right] = [JSON.stringify(one), JSON.stringify(other)];
  must(left === right, `${what}: ${left} is ${right}`);
};

/** Over the limit the moment of failing may differ by what had already been told, never by what follows. */
function checkBounds(reports: readonly Report[], lineBytes: number): void {
  const failures = reports.filter((report) => 'failed' in report).length;
  must(failures <= 1, 'a stream fails at most once');
  must(failures === 0 || 'failed' in (reports.at(-1) as Report), 'nothing is told after the failure');
  for (const report of reports) {
    if ('data' in report)
      must(Buffer.byteLength(report.data) <= Math.max(3 * lineBytes, 3), 'data are bounded');
    if ('id' in report && report.id !== undefined && isResumableId(report.id))
      must(/^[\t\x20-\x7e\x80-\xff]+$/.test(lastEventIdHeader(report.id)), 'a cursor can be sent back');
  }
}

const CODERS = {
  gzip: gzipSync,
  'x-gzip': gzipSync,
  deflate: deflateSync,
  raw: deflateRawSync,
  br: brotliCompressSync,
  identity: (bytes: Uint8Array) => bytes,
} as const;
type Coder = keyof typeof CODERS;

interface Body {
  readonly payload: Uint8Array;
  readonly coders: readonly Coder[];
  readonly said: string | undefined;
  readonly cuts: readonly number[];
  readonly keep: number;
  readonly flip: number | undefined;
  readonly end: 'end' | 'error';
}

const MAX_BYTES = 4_096;

/** What a sink hears of one body; resolves at its end. */
function exchanged(body: Body): Promise<{ bytes: Uint8Array; failure: ExchangeFailure | undefined }> {
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = [];
    let isOver = false;
    const over = (failure: ExchangeFailure | undefined) => {
      if (isOver) reject(new Error('an exchange ended twice'));
      isOver = true;
      // Whatever comes after the end has a turn to come.
      setImmediate(() => resolve({ bytes: Buffer.concat(chunks), failure }));
    };
    const exchange = new UndiciExchange(
      { method: 'GET', url: new URL('https://example.com/'), headers: {} },
      {
        head: () => {},
        data: (chunk) => {
          if (isOver) reject(new Error('data after the end'));
          chunks.push(chunk);
        },
        end: () => over(undefined),
        fail: over,
      },
      { exchangeEnded: () => {}, addressOf: ({ origin, pathname }: URL) => ({ origin, path: pathname }) },
      MAX_BYTES,
    );
    let coded = body.payload;
    for (const coder of body.coders) coded = CODERS[coder](coded);
    coded = Uint8Array.from(coded.subarray(0, Math.ceil(coded.length * body.keep)));
    if (body.flip !== undefined && coded.length > 0) {
      const at = body.flip % coded.length;
      coded[at] = (coded[at] ?? 0) ^ 0x55;
    }
    const controller = { abort: () => {}, pause: () => {}, resume: () => {} };
    const dispatcher = {
      dispatch(_options: unknown, handler: UndiciExchange) {
        handler.onRequestStart(controller as never);
        handler.onResponseStart(
          controller as never,
          200,
          body.said === undefined ? {} : { 'content-encoding': body.said },
        );
        for (const chunk of cutAt(
          coded,
          body.cuts.map((cut) => cut % (coded.length + 1)),
        ))
          handler.onResponseData(controller as never, chunk);
        if (body.end === 'end') handler.onResponseEnd();
        else handler.onResponseError(undefined, Object.assign(new Error(''), { code: 'ECONNRESET' }));
        return true;
      },
    };
    exchange.dispatch(dispatcher, zlib, false);
  });
}

export const STREAMS: readonly Fuzz[] = [
  {
    name: 'event stream: every chunking of a short one reads alike',
    share: 4,
    property: () =>
      fc.property(
        someBytes.map((bytes) => bytes.subarray(0, 7)),
        limit,
        (bytes, lineBytes) => {
          const whole = read([bytes], lineBytes);
          for (let mask = 0; mask < 2 ** Math.max(0, bytes.length - 1); mask += 1) {
            const cuts = [1, 2, 3, 4, 5, 6].filter((at) => at < bytes.length && (mask >> (at - 1)) & 1);
            same(read(cutAt(bytes, cuts), lineBytes), whole, 'a chunking');
          }
        },
      ),
  },
  {
    name: 'event stream: any chunking of a long one reads alike, and as the standard says',
    share: 20,
    property: () =>
      fc.property(
        someBytes,
        fc.array(fc.nat({ max: 200 }), { maxLength: 8 }),
        limit,
        (bytes, cuts, lineBytes) => {
          const whole = read([bytes], lineBytes);
          const chunks = cutAt(
            bytes,
            cuts.map((cut) => cut % (bytes.length + 1)),
          );
          same(read(chunks, lineBytes), whole, 'a chunking');
          same(
            read(
              [...bytes].map((byte) => Uint8Array.of(byte)),
              lineBytes,
            ),
            whole,
            'byte by byte',
          );
          checkBounds(whole, lineBytes);
          if (lineBytes > 1_000) same(whole, reference(bytes), 'by the standard');
        },
      ),
  },
  {
    name: 'bodies under content codings: one end, and never more than allowed',
    share: 1,
    property: () =>
      fc.asyncProperty(
        fc.record({
          payload: fc.oneof(
            fc.uint8Array({ maxLength: 300 }),
            fc.constantFrom(0, 5_000, 300_000).map((length) => new Uint8Array(length)),
          ),
          coders: fc.array(fc.constantFrom<Coder[]>(...(Object.keys(CODERS) as Coder[])), { maxLength: 3 }),
          said: fc.oneof(
            fc.constantFrom(
              undefined,
              'gzip',
              'br',
              'deflate',
              'gzip, br',
              'zstd',
              '',
              ' , ',
              'GZIP',
              'gzip,gzip,gzip,gzip',
            ),
            fc.constant('as it is'),
          ),
          cuts: fc.array(fc.nat({ max: 5_000 }), { maxLength: 5 }),
          keep: fc.constantFrom(1, 1, 0.9, 0.5, 0),
          flip: fc.option(fc.nat({ max: 300 }), { nil: undefined }),
          end: fc.constantFrom('end' as const, 'end' as const, 'error' as const),
        }),
        async (given) => {
          const truth = given.coders.map((coder) => (coder === 'raw' ? 'deflate' : coder)).join(', ');
          const body = given.said === 'as it is' ? { ...given, said: truth } : given;
          const { bytes, failure } = await exchanged(body);
          must(bytes.length <= MAX_BYTES, 'no more comes out than is allowed');
          const isWhole = body.keep === 1 && body.flip === undefined && body.end === 'end';
          if (!isWhole || body.said !== truth) return;
          must(
            body.payload.length > MAX_BYTES ? failure?.kind === 'too-large' : failure === undefined,
            `a sound body ends well: ${JSON.stringify(failure)}`,
          );
          if (failure === undefined) must(Buffer.from(body.payload).equals(bytes), 'it is what was coded');
        },
      ),
  },
];
