import { describe, expect, it } from 'vitest';
import type { ScriptedReply } from '../../src/testing/index.js';
import {
  advanceUntil,
  GET,
  gaps,
  gatedTool,
  gets,
  listening,
  outcomeOf,
  startStreams,
  tell,
} from './streams.js';
import { echo } from './support.js';

const RPC = { jsonrpc: '2.0', id: null };
const TAKEN: readonly (readonly [string, ScriptedReply])[] = [
  ['409', { status: 409, body: { ...RPC, error: { code: -32000, message: 'Conflict' } } }],
  ['409 with a page', { status: 409, headers: { 'content-type': 'text/html' }, body: '<html>409</html>' }],
  ['409 without a body', { status: 409 }],
  ['400 in words of a Go server', { status: 400, body: 'session already exists' }],
  [
    '400 in words of a .NET server',
    {
      status: 400,
      body: {
        ...RPC,
        error: { code: -32000, message: 'Bad Request: This server does not support multiple GET requests.' },
      },
    },
  ],
];
const FOR_MS = 120_000;

describe('H15 after a cut the place of the stream is not free yet', () => {
  for (const [name, reply] of TAKEN) {
    it(`${name} for two minutes: calls run on the session, said once, the stream comes back`, async () => {
      const { tool, open } = gatedTool();
      const scene = await startStreams({ tools: [tool, { name: 'echo' }] });
      const { server, clock } = scene;
      const { client, events, errors, heard } = await listening(scene);
      const pending = client.callTool({ name: 'gated' }, { timeout: 600_000 });
      await clock.advance(30_000);
      const scripted = server.reply(GET, reply);
      server.cutStreams();
      await clock.advance(1_000);
      await echo(client, 'meanwhile');
      await clock.advance(FOR_MS - 1_000);
      scripted.dispose();
      await clock.advance(11_000);
      tell(scene, 'heard');
      await clock.settle();
      open();
      await pending;

      expect(heard).toEqual(['heard']);
      expect(events.map(({ type }) => type)).toEqual([
        'stream-cut',
        'stream-unavailable',
        'stream-reopened',
        'stream-gap',
      ]);
      expect(events[1]).toMatchObject({ final: false, session: 1 });
      expect(events[2]).toMatchObject({ resumed: false });
      expect(errors).toEqual([]);
      expect(server.counts).toMatchObject({ initializes: 1, pings: 0, deletes: 0, streamsOpen: 1 });
      expect(server.counts.executionsById).toEqual({ meanwhile: 1 });
      expect(server.counts.executions).toEqual({ gated: 1, echo: 1 });
      const steps = [250, 500, 1_000, 2_000, 5_000];
      const waits = gaps(scene).slice(1);
      for (const [index, wait] of waits.entries()) {
        expect(wait).toBeGreaterThanOrEqual(steps[index] ?? 10_000);
        expect(wait).toBeLessThanOrEqual((steps[index] ?? 10_000) * 1.11);
      }
      expect(gets(scene).length).toBeLessThanOrEqual(20);
    });
  }

  it.each(['fin', 'eof', 'reset', 'status'] as const)(
    'behind a proxy that tells the server nothing of a client that left, cut by %s',
    async (cutShape) => {
      const scene = await startStreams({ abortNotPropagated: { forMs: 60_000 } });
      const { server, clock } = scene;
      const { client, heard, events } = await listening(scene);
      await clock.advance(5_000);
      server.cutStreams(cutShape);
      await clock.advance(30_000);
      await echo(client, 'meanwhile');
      expect(gets(scene).filter(({ status }) => status === 409).length).toBeGreaterThan(3);
      await clock.advance(45_000);
      tell(scene, 'heard');
      await clock.settle();
      expect(heard).toEqual(['heard']);
      expect(server.counts).toMatchObject({ initializes: 1, executionsById: { meanwhile: 1 } });
      expect(events.filter(({ type }) => type === 'stream-unavailable')).toHaveLength(1);
    },
  );

  it('for good: asked every ten seconds, never a new session', async () => {
    const scene = await startStreams();
    const { server, clock } = scene;
    const { client } = await listening(scene);
    server.reply(GET, { status: 409 });
    server.cutStreams();
    await clock.advance(3_600_000);
    await echo(client, 'after');
    expect(server.counts).toMatchObject({ initializes: 1, executionsById: { after: 1 } });
    expect(server.counts.listens).toBeLessThanOrEqual(370);
    expect(server.counts.listens).toBeGreaterThan(300);
  });

  it('with a cursor, and the cursor is kept', async () => {
    const scene = await startStreams({ eventStore: true, abortNotPropagated: { forMs: 20_000 } });
    const { server, clock } = scene;
    const { heard, events } = await listening(scene);
    tell(scene, 'before');
    await clock.settle();
    server.cutStreams();
    tell(scene, 'unseen');
    await clock.advance(40_000);
    expect(heard).toEqual(['before', 'unseen']);
    expect(
      gets(scene)
        .slice(1)
        .every(({ headers }) => headers['last-event-id'] !== undefined),
    ).toBe(true);
    expect(events.at(-1)).toMatchObject({ type: 'stream-reopened', resumed: true });
  });

  it('a call’s own stream waits for its place in the same way', async () => {
    const { tool, open } = gatedTool();
    const scene = await startStreams({
      tools: [tool],
      answer: 'sse',
      eventStore: true,
      abortNotPropagated: { forMs: 8_000 },
    });
    const { server, clock } = scene;
    const { client } = await listening(scene, { streams: { listen: false } });
    const outcome = outcomeOf(client.callTool({ name: 'gated' }));
    await clock.settle();
    server.cutStreams();
    await clock.advance(3_000);
    open();
    await advanceUntil(scene, outcome, 15_000);
    expect(await outcome).toMatchObject({ result: { content: [{ text: 'done' }] } });
    expect(server.counts).toMatchObject({ executions: { gated: 1 }, initializes: 1 });
    expect(gets(scene).filter(({ status }) => status === 409).length).toBeGreaterThan(2);
  });
});
