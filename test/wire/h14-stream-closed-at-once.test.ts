import { describe, expect, it } from 'vitest';
import type { ScriptedReply } from '../../src/testing/index.js';
import { connectFace } from './faces.js';
import { GET, gaps, gets, listening, startStreams } from './streams.js';
import { echo } from './support.js';

const EMPTY: readonly (readonly [string, ScriptedReply])[] = [
  ['nothing, a clean end', { chunks: [] }],
  ['a comment, a clean end', { chunks: [': welcome\n\n'] }],
  ['an event without data, with an id', { chunks: ['id: 1\ndata:\n\n'] }],
  ['a head, then closed', { cut: 'fin', afterBytes: 0 }],
  ['a head, then reset', { cut: 'reset', afterBytes: 0 }],
  ['a life of one second', { chunks: [': welcome\n\n', { pauseMs: 1_000 }] }],
];
const NOTICE =
  'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n\n';

describe('H14 a server that ends each listen stream at once', () => {
  for (const [name, reply] of EMPTY) {
    it(`${name}: gaps grow, calls run`, async () => {
      const scene = await startStreams();
      const { server, clock } = scene;
      server.reply(GET, reply);
      const { client, errors, events } = await listening(scene);
      await clock.advance(10_000);
      expect(server.counts.listens).toBeLessThanOrEqual(5);
      expect(server.counts.listens).toBeGreaterThanOrEqual(3);
      await echo(client, 'a');
      await clock.advance(600_000);
      await echo(client, 'b');

      const waits = gaps(scene);
      // Jitter only adds, and less than one step is from the next.
      expect(waits).toEqual(
        waits
          .slice(0, 6)
          .toSorted((one, other) => one - other)
          .concat(waits.slice(6)),
      );
      for (const wait of waits.slice(6)) expect(wait).toBeGreaterThanOrEqual(30_000);
      expect(server.counts.executionsById).toEqual({ a: 1, b: 1 });
      expect(server.counts).toMatchObject({ initializes: 1, pings: 0, tokenRequests: 1 });
      expect(errors).toEqual([]);
      const told = events.filter(({ type }) => type === 'stream-cut').length;
      expect(told).toBe(gets(scene).length);
    });
  }

  it.each(['v1', 'v2'] as const)('%s: the same', async (face) => {
    const scene = await startStreams();
    const { server, clock } = scene;
    server.reply(GET, { chunks: [] });
    const caller = await connectFace(face, scene);
    await clock.advance(10_000);
    expect(server.counts.listens).toBeLessThanOrEqual(5);
    await caller.echo('a');
    expect(server.counts.executionsById).toEqual({ a: 1 });
    expect(server.counts.initializes).toBe(1);
  });

  it('one that says something each time is asked more often, not as fast as it can', async () => {
    const scene = await startStreams();
    const { server, clock } = scene;
    server.reply(GET, { chunks: [NOTICE] });
    const { heard } = await listening(scene);
    await clock.advance(60_000);
    const waits = gaps(scene);
    expect(waits[0]).toBeLessThanOrEqual(20);
    for (const wait of waits.slice(3)) expect(wait).toBeGreaterThanOrEqual(2_000);
    expect(waits.length).toBeGreaterThan(20);
    expect(heard).toHaveLength(server.counts.listens);
  });

  it('a stream that lived is opened again at once, and the next one that ends at once begins anew', async () => {
    const scene = await startStreams();
    const { server, clock } = scene;
    server.reply(GET, { chunks: [] }, { times: 4 });
    const { events } = await listening(scene);
    await clock.advance(20_000);
    expect(server.counts.streamsOpen).toBe(1);
    server.reply(GET, { chunks: [] }, { times: 1 });
    server.cutStreams();
    await clock.advance(100);
    const waits = gaps(scene);
    expect(waits.at(-2)).toBeGreaterThan(5_000);
    expect(waits.at(-1)).toBeLessThan(60);
    expect(server.counts.streamsOpen).toBe(1);
    expect(events.at(-1)).toMatchObject({ type: 'stream-gap' });
  });

  it('the app’s own bound holds', async () => {
    const scene = await startStreams();
    const { server, clock } = scene;
    server.reply(GET, { chunks: [] });
    await listening(scene, { streams: { reopenMaxDelayMs: 1_000 } });
    await clock.advance(60_000);
    expect(Math.max(...gaps(scene))).toBeLessThanOrEqual(1_100);
  });
});
