/**
 * How the cost of reading grows with what is read: input that is meant to be slow, in three sizes.
 *
 * Costs are the CPU time of this process, not time on a wall, and what counts is their ratio: four times the input may
 * cost up to `MOST` times as much; what grows with the square costs sixteen times.
 */

import { parseServersConfig } from '../../src/client.js';
import { parseChallenges } from '../../src/connection/challenge.js';
import {
  diffContracts,
  formatDiff,
  formatSnapshot,
  makeSnapshot,
  parseSnapshot,
} from '../../src/contract/index.js';
import { scanJson } from '../../src/contract/json-scan.js';
import { readCallback } from '../../src/credentials/authorization/callback.js';
import { checkedToken, jwtTimes } from '../../src/credentials/token-value.js';
import { cleanServerText } from '../../src/errors.js';
import { parseCodings } from '../../src/http/decode.js';
import { CookieJar } from '../../src/http/headers.js';
import { rateLimitPolicy, serverPause } from '../../src/rate-limit/server-hints.js';
import { parseStructuredField } from '../../src/rate-limit/structured-field.js';
import { Redactor } from '../../src/redactor.js';
import { placeholderProblem } from '../../src/servers/placeholders.js';
import { SseReader } from '../../src/streams/sse-reader.js';

export interface Growth {
  readonly name: string;
  /** The smallest size; the others are twice and four times it. */
  readonly size: number;
  /** Made outside of what is measured. */
  make(size: number): () => unknown;
}

export const MOST = 10;
/** Shorter work is repeated until it takes so long. */
const LEAST_MICROSECONDS = 1_000;
const ROUNDS = 2;
/** A busy machine may spoil one measurement, not each of them. */
const TRIES = 5;

/** What four times the input costs, as a multiple; the best of some tries. */
export function growthOf({ size, make }: Growth, tries = TRIES): number {
  let best = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < tries && best > MOST; attempt += 1) {
    const [one, , four] = costs(make, size);
    best = Math.min(best, (four as number) / (one as number));
  }
  return best;
}

function costs(make: Growth['make'], size: number): number[] {
  const works = [size, 2 * size, 4 * size].map((each) => make(each));
  const first = works[0] as () => unknown;
  let times = 1;
  while (cpu(first, times) < LEAST_MICROSECONDS && times < 4_096) times *= 2;
  return works.map((work) => {
    let least = Number.POSITIVE_INFINITY;
    for (let round = 0; round < ROUNDS; round += 1) least = Math.min(least, cpu(work, times));
    return Math.max(1, least);
  });
}

function cpu(work: () => unknown, times: number): number {
  const before = process.cpuUsage();
  for (let n = 0; n < times; n += 1) work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

const SINK = { event: () => {}, retry: () => {}, failed: () => {} };
const TOLD = { lineBytes: 1 << 30 };

function stream(name: string, unit: string, size: number, chunkBytes?: number): Growth {
  return {
    name: `event stream: ${name}`,
    size,
    make(count) {
      const bytes = new Uint8Array(Buffer.from(unit.repeat(count)));
      const length = chunkBytes ?? bytes.length;
      return () => {
        const reader = new SseReader(SINK, TOLD);
        for (let at = 0; at < bytes.length; at += length) reader.push(bytes.subarray(at, at + length));
        reader.end();
      };
    },
  };
}

function text(
  name: string,
  size: number,
  build: (count: number) => string,
  read: (given: string) => unknown,
): Growth {
  return {
    name,
    size,
    make(count) {
      const given = build(count);
      return () => {
        try {
          read(given);
        } catch (error) {
          if (error instanceof RangeError) throw error;
        }
      };
    },
  };
}

/** Within the 8 KiB that are read of it. */
const challenge = (name: string, build: (count: number) => string) =>
  text(
    `challenge: ${name}`,
    2_000,
    (count) => build(count).slice(0, count),
    (given) => parseChallenges([given]),
  );
const field = (name: string, build: (count: number) => string) =>
  text(
    `structured field: ${name}`,
    2_000,
    (count) => build(count).slice(0, count),
    (given) => {
      parseStructuredField(given);
      const head = { status: 429, headers: { ratelimit: given, 'ratelimit-policy': given } };
      serverPause(head, 0);
      rateLimitPolicy(head, 0);
    },
  );

const EMPTY = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  serverInfo: {},
  takenAt: '2026-01-01T00:00:00.000Z',
};
type Tool = Record<string, unknown> & { name: string };
const tools = (count: number, tool: (at: number) => Tool) =>
  makeSnapshot({ ...EMPTY, tools: Array.from({ length: count }, (_, at) => tool(at)) });
const WORDS = 'reads a file of the disk and gives what is in it as text'.split(' ');
const describe = (at: number) =>
  WORDS.map((word, index) => (index === at % WORDS.length ? `${word}${at}` : word)).join(' ');

function compared(name: string, size: number, from: (at: number) => Tool, to: (at: number) => Tool): Growth {
  return {
    name: `contracts: ${name}`,
    size,
    make(count) {
      const [one, other] = [tools(count, from), tools(count, to)];
      return () => formatDiff(diffContracts(one, other));
    },
  };
}

const schemaOf = (at: number) => ({ type: 'object', properties: { [`p${at}`]: { type: 'string' } } });

export const GROWTH: readonly Growth[] = [
  stream('one event of many data lines', 'data: x\n', 20_000),
  stream('CR alone', '\r', 60_000),
  stream('CR and LF the wrong way round', '\n\r', 40_000),
  stream('line ends of all kinds', 'data: a\r\ndata: b\rdata: c\n\n', 8_000),
  stream('comments', ': x\n', 30_000),
  stream('fields that nobody knows', 'nonsense: x\n', 20_000),
  stream('ids alone', 'id: 1\n\n', 10_000),
  stream('retry', 'retry: 5\n', 10_000),
  stream('events without an end', 'event: a\nid: 1\n', 10_000),
  stream('one line, byte by byte', 'x', 16_000, 1),
  stream('one line of data, byte by byte', 'data: xxx', 2_000, 1),
  stream('a comment, byte by byte', ':', 16_000, 1),
  stream('many events, in small pieces', 'data: x\n\n', 5_000, 3),
  challenge('schemes', (count) => 'a '.repeat(count)),
  challenge('parameters', (count) => `Bearer ${'a=b,'.repeat(count)}`),
  challenge('a string that does not end', (count) => `Bearer a="${'\\"'.repeat(count)}`),
  challenge('blanks', (count) => `a${' '.repeat(count)}b`),
  challenge('schemes between blanks', (count) => `a${' '.repeat(40)}`.repeat(count)),
  challenge('equals signs', (count) => `Basic ${'a='.repeat(count / 4)}${'='.repeat(count)} x`),
  challenge('commas', (count) => ','.repeat(count)),
  challenge('tokens of padding', (count) => `Basic ${'a'.repeat(count / 2)}${'='.repeat(count / 2)} x`),
  field('members', (count) => '"a";r=0;t=1, '.repeat(count)),
  field('parameters', (count) => `"a"${';a'.repeat(count)}`),
  field('a string that does not end', (count) => `"${'\\"'.repeat(count)}`),
  field('blanks', (count) => `a;${' '.repeat(count)}`),
  field('members of one name', (count) => 'a=0, '.repeat(count)),
  text(
    'a head with many copies of a field',
    1_000,
    (count) => '1,'.repeat(count),
    (given) =>
      serverPause(
        { status: 429, headers: { 'retry-after': given.split(','), 'x-ratelimit-reset': given } },
        0,
      ),
  ),
  text('content codings', 4_000, (count) => 'gzip ,'.repeat(count), parseCodings),
  text(
    'cookies',
    500,
    (count) => `a=b${';'.repeat(count)}`,
    (given) => {
      const jar = new CookieJar({ now: () => 0 });
      jar.store({ status: 200, headers: { 'set-cookie': Array.from({ length: 50 }, () => given) } });
      return jar.header(new URL('https://example.com/'));
    },
  ),
  text('token: dots', 20_000, (count) => '.'.repeat(count), jwtTimes),
  text(
    'token: blanks',
    40_000,
    (count) => `${' '.repeat(count)}x${' '.repeat(count)}`,
    (given) => checkedToken(given, 'It'),
  ),
  text('callback', 3_500, (count) => `?${'&%'.repeat(count / 2)}`, readCallback),
  text("server's text: escape sequences", 20_000, (count) => '\u001b]'.repeat(count), cleanServerText),
  text('JSON: open brackets', 20_000, (count) => '['.repeat(count), scanJson),
  text('JSON: numbers', 10_000, (count) => `[${'1234567890.5e1,'.repeat(count)}`, scanJson),
  text('JSON: one long number', 40_000, (count) => `[${'1'.repeat(count)},`, scanJson),
  text('JSON: escapes', 10_000, (count) => `"${'\\u0041'.repeat(count)}`, scanJson),
  text(
    'JSON: keys',
    4_000,
    (count) => `{${Array.from({ length: count }, (_, at) => `"k${at}":1`).join()}}`,
    scanJson,
  ),
  text('placeholders', 4_000, (count) => `${'$'}{A:-`.repeat(count), placeholderProblem),
  text('placeholders that end', 4_000, (count) => `${'$'}{A:-}`.repeat(count), placeholderProblem),
  text(
    'configuration: servers',
    400,
    (count) =>
      JSON.stringify(
        Object.fromEntries(
          Array.from({ length: count }, (_, at) => [`s${at}`, { command: 'x', args: ['a'] }]),
        ),
      ),
    parseServersConfig,
  ),
  text(
    'configuration: the fault in the last of many servers',
    400,
    (count) =>
      JSON.stringify(
        Object.fromEntries(
          Array.from({ length: count }, (_, at) => [`s${at}`, at < count - 1 ? { command: 'x' } : {}]),
        ),
      ),
    parseServersConfig,
  ),
  text(
    'configuration: lines before the fault',
    20_000,
    (count) => `{${'\n'.repeat(count)}x`,
    parseServersConfig,
  ),
  text(
    'snapshot: tools',
    100,
    (count) => formatSnapshot(tools(count, (at) => ({ name: `t${at}`, inputSchema: schemaOf(at) }))),
    parseSnapshot,
  ),
  text(
    'snapshot: one large schema',
    200,
    (count) =>
      formatSnapshot(
        tools(1, () => ({
          name: 't',
          inputSchema: {
            properties: Object.fromEntries(
              Array.from({ length: count }, (_, at) => [`p${at}`, { type: 'string' }]),
            ),
          },
        })),
      ),
    parseSnapshot,
  ),
  text(
    'snapshot: levels, too many of them',
    20_000,
    (count) => `{"holdfast":1,"tools":${'['.repeat(count)}${']'.repeat(count)}}`,
    parseSnapshot,
  ),
  text(
    'snapshot: a long text',
    10_000,
    (count) => formatSnapshot(tools(1, () => ({ name: 't', description: '\u202e"\\'.repeat(count) }))),
    parseSnapshot,
  ),
  compared(
    'all tools renamed',
    60,
    (at) => ({ name: `a${at}`, inputSchema: schemaOf(at) }),
    (at) => ({ name: `b${at}`, inputSchema: schemaOf(at) }),
  ),
  compared(
    'all tools renamed, all alike',
    30,
    (at) => ({ name: `a${at}`, description: describe(at), inputSchema: {} }),
    (at) => ({ name: `b${at}`, description: describe(at + 1), inputSchema: {} }),
  ),
  compared(
    'all descriptions changed',
    30,
    (at) => ({ name: `a${at}`, description: describe(at) }),
    (at) => ({ name: `a${at}`, description: describe(at + 1) }),
  ),
  {
    name: 'contracts: a schema of many properties, all changed',
    size: 80,
    make(count) {
      const properties = (type: string) =>
        Object.fromEntries(Array.from({ length: count }, (_, at) => [`p${at}`, { type, enum: [at, type] }]));
      const [one, other] = ['string', 'number'].map((type) =>
        tools(1, () => ({ name: 't', inputSchema: { type: 'object', properties: properties(type) } })),
      );
      return () => formatDiff(diffContracts(one as never, other as never));
    },
  },
  {
    name: 'contracts: lists of alternatives, in another order',
    size: 60,
    make(count) {
      const list = Array.from({ length: count }, (_, at) => ({
        type: 'object',
        properties: { [`p${at}`]: { const: at } },
      }));
      const [one, other] = [list, [...list].reverse()].map((anyOf) =>
        tools(1, () => ({ name: 't', inputSchema: { anyOf } })),
      );
      return () => formatDiff(diffContracts(one as never, other as never));
    },
  },
  {
    name: 'contracts: long texts, changed throughout',
    size: 4_000,
    make(count) {
      const words = (suffix: string) => Array.from({ length: count }, (_, at) => `w${at}${suffix}`).join(' ');
      const [one, other] = ['a', 'b'].map((suffix) =>
        tools(1, () => ({ name: 't', description: words(suffix) })),
      );
      return () => formatDiff(diffContracts(one as never, other as never));
    },
  },
  {
    name: 'redactor: text full of beginnings of a secret',
    size: 20_000,
    make(count) {
      const redactor = new Redactor();
      redactor.add('aaaaaaaaaaaaaaaaaaaaaaaaaaab');
      const given = 'a'.repeat(count);
      return () => redactor.text(given);
    },
  },
  {
    name: 'redactor: text full of a secret that overlaps itself',
    size: 20_000,
    make(count) {
      const redactor = new Redactor();
      redactor.add('aaaaaaaa');
      const given = 'a'.repeat(count);
      return () => redactor.text(given);
    },
  },
];
