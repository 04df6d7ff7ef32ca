import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import type { ScriptedChunk } from '../../src/testing/index.js';
import {
  advanceUntil,
  CALL,
  cursors,
  GET,
  gaps,
  gatedTool,
  gets,
  listening,
  outcomeOf,
  startStreams,
} from './streams.js';
import { connect, echo, failureOf } from './support.js';

const KIB = 1_024;
const MAX = { http: { maxMessageBytes: 64 * KIB } };
const notice = (data: unknown) =>
  `data: ${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data } })}\n\n`;
/** More than a limit of 64 KiB, in pieces, and no line end in it. */
const endless = (start: string): ScriptedChunk[] => [
  start,
  ...Array.from({ length: 40 }, () => 'x'.repeat(2 * KIB)),
];

const ENDLESS: readonly (readonly [string, ScriptedChunk[]])[] = [
  ['data', endless('data: ')],
  ['a comment', endless(': ')],
  ['an unknown field', endless('x')],
  ['an id', endless('id: ')],
  ['data lines of one event', Array.from({ length: 80 }, () => `data: ${'x'.repeat(KIB)}\n`)],
];

describe('a stream that never ends a line', () => {
  for (const [name, chunks] of ENDLESS) {
    it(`${name}, listen stream: given up at the limit, said, opened again with growing gaps; calls run`, async () => {
      const scene = await startStreams();
      const { server, clock } = scene;
      server.reply(GET, { chunks: [...chunks, { pauseMs: 600_000 }] });
      const { client, events, errors } = await listening(scene, MAX);
      await clock.advance(10_000);
      expect(server.counts.listens).toBeLessThanOrEqual(5);
      await echo(client, 'a');
      expect(events.filter(({ type }) => type === 'stream-unavailable')[0]).toMatchObject({ final: false });
      expect(Math.max(...gaps(scene))).toBeGreaterThan(1_000);
      expect(errors).toEqual([]);
      expect(server.counts).toMatchObject({ initializes: 1, executionsById: { a: 1 } });
    });

    it(`${name}, a call’s stream: a typed error at once, the outcome unknown`, async () => {
      const scene = await startStreams();
      const { server } = scene;
      const client = await connect(scene, { streams: { listen: false }, ...MAX });
      server.replyOnce(CALL, { tool: 'run', chunks: [...chunks, { pauseMs: 600_000 }] });
      const failure = await failureOf(echo(client, 'a'));
      expect(failure).toMatchObject({ code: 'ERR_MESSAGE_TOO_LARGE', executed: 'unknown', retryable: false });
      await echo(client, 'b');
      expect(server.counts.executionsById).toEqual({ a: 1, b: 1 });
    });

    it(`${name}, a resumed stream: the same`, async () => {
      const { tool } = gatedTool();
      const scene = await startStreams({ tools: [tool], answer: 'sse', eventStore: true });
      const { server, clock } = scene;
      const client = await connect(scene, { streams: { listen: false }, ...MAX });
      const outcome = outcomeOf(client.callTool({ name: 'gated' }));
      await clock.settle();
      server.reply(GET, { chunks: [...chunks, { pauseMs: 600_000 }] });
      server.cutStreams();
      await advanceUntil(scene, outcome, 5_000);
      expect(await outcome).toMatchObject({ error: { code: 'ERR_MESSAGE_TOO_LARGE', executed: 'unknown' } });
      expect(gets(scene)).toHaveLength(1);
    });
  }
});

it('a flood that comes late is no better: gaps grow', async () => {
  const scene = await startStreams();
  const { server, clock } = scene;
  server.reply(GET, {
    chunks: [': hello\n', { pauseMs: 3_000 }, ...endless('data: '), { pauseMs: 600_000 }],
  });
  await listening(scene, MAX);
  await clock.advance(60_000);
  expect(server.counts.listens).toBeLessThanOrEqual(7);
  expect(Math.max(...gaps(scene))).toBeGreaterThan(15_000);
});

describe('invalid UTF-8', () => {
  const broken = (before: string, after: string) =>
    Buffer.concat([
      Buffer.from(before),
      Buffer.from([0xc3, 0x28, 0xff, 0xed, 0xa0, 0x80]),
      Buffer.from(after),
    ]);

  it('in a notification: replaced, the stream goes on', async () => {
    const scene = await startStreams();
    const { server, clock } = scene;
    const [before = '', after = ''] = notice('<>').split('<>');
    server.replyOnce(GET, {
      chunks: [broken(`${before}<`, `>${after}`), notice('next'), { pauseMs: 5_000 }],
    });
    const { heard, errors } = await listening(scene);
    await clock.settle();
    expect(heard).toHaveLength(2);
    expect(heard[0]).toMatch(/^<\ufffd\(\ufffd+>$/);
    expect(heard[1]).toBe('next');
    expect(errors).toEqual([]);
  });

  it('in an id: what is sent back is well-formed', async () => {
    const scene = await startStreams();
    const { server, clock } = scene;
    server.replyOnce(GET, { chunks: [broken('id: a', 'b\ndata:\n\n'), { pauseMs: 5_000 }] });
    await listening(scene);
    await clock.advance(6_000);
    expect(cursors(scene)[1]).toMatch(/^a\ufffd\(\ufffd+b$/);
  });

  it('in a comment, a field name, a retry: ignored', async () => {
    const scene = await startStreams();
    const { server, clock } = scene;
    server.replyOnce(GET, {
      chunks: [
        broken(':', '\n'),
        broken('da', 'ta: x\n'),
        broken('retry: 5', '\n'),
        notice('heard'),
        { pauseMs: 5_000 },
      ],
    });
    const { heard } = await listening(scene);
    await clock.advance(5_100);
    expect(heard).toEqual(['heard']);
    expect(server.counts.listens).toBe(2);
  });
});

describe('retry: beyond all reason', () => {
  it.each(['1000000000000', '9'.repeat(400)])('%s: a minute at most, listen stream', async (field) => {
    const scene = await startStreams();
    const { server, clock } = scene;
    server.replyOnce(GET, { chunks: [`retry: ${field}\n\n`, { pauseMs: 5_000 }] });
    await listening(scene);
    await clock.advance(64_900);
    expect(server.counts.listens).toBe(1);
    await clock.advance(400);
    expect(server.counts.listens).toBe(2);
  });

  it('a call’s stream: its answer is still asked for within its time, or the caller is told', async () => {
    const { tool, open } = gatedTool();
    const scene = await startStreams({ tools: [tool], answer: 'sse', eventStore: true, retryFieldMs: 1e12 });
    const { server, clock } = scene;
    const { client } = await listening(scene, { streams: { listen: false } });
    const patient = outcomeOf(client.callTool({ name: 'gated' }, { timeout: 90_000 }));
    const hasty = outcomeOf(client.callTool({ name: 'gated' }, { timeout: 30_000 }));
    await clock.settle();
    server.cutStreams();
    open();
    await advanceUntil(scene, Promise.all([patient, hasty]), 80_000);
    expect(await patient).toMatchObject({ result: { content: [{ text: 'done' }] } });
    expect(await hasty).toMatchObject({ error: { code: 'ERR_TIMEOUT', executed: 'unknown' } });
    expect(server.counts.executions).toEqual({ gated: 2 });
  });

  it('-1 and 0 are no reason to hurry', async () => {
    for (const retryFieldMs of [-1, 0]) {
      const scene = await startStreams({ retryFieldMs });
      const { clock, server } = scene;
      await listening(scene);
      for (let n = 0; n < 20; n += 1) {
        server.cutStreams();
        await clock.advance(1);
      }
      await clock.advance(1_000);
      expect(server.counts.listens).toBeLessThanOrEqual(6);
    }
  });
});

describe('comments without end', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const held = () => {
    collect();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
  const COMMENT = Buffer.from(`: ${'x'.repeat(1_022)}\n`.repeat(128));
  const PIECES = 1_024;

  it(`${(COMMENT.length * PIECES) / KIB / KIB} MiB on both kinds of stream: nothing of them is kept, what follows is heard`, async () => {
    const scene = await startStreams();
    const { server, clock } = scene;
    const flood = Array.from({ length: PIECES }, (): ScriptedChunk[] => [COMMENT, { pauseMs: 1 }]).flat();
    server.replyOnce(GET, { chunks: [...flood, notice('heard'), { pauseMs: 60_000 }] });
    server.replyOnce(CALL, { tool: 'run', chunks: [...flood, { pauseMs: 60_000 }] });
    const { client, heard } = await listening(scene);
    const outcome = outcomeOf(echo(client, 'a'));
    await clock.settle();
    const before = held();
    let most = 0;
    for (let step = 0; step < 8; step += 1) {
      await clock.advance(PIECES / 8);
      most = Math.max(most, held() - before);
    }
    await clock.advance(10);
    expect(heard).toEqual(['heard']);
    // What is under way in this process at that moment counts, too.
    expect(most).toBeLessThan(32 * KIB * KIB);
    await clock.advance(60_000);
    expect(await outcome).toMatchObject({ error: { code: 'ERR_TIMEOUT', executed: 'unknown' } });
    expect(server.counts.executionsById).toEqual({ a: 1 });
  });
});
