import { describe, expect, it } from 'vitest';
import { advanceUntil, GET, gaps, gatedTool, gets, listening, outcomeOf, startStreams } from './streams.js';
import { echo } from './support.js';

const FIELDS = ['0', '-1', '00', '1', 'soon', '1e3', ''] as const;

describe('H24 retry: 0 on a stream that ends at once, for ever', () => {
  for (const field of FIELDS) {
    it(`listen stream, retry: ${field}: no hot loop, gaps grow`, async () => {
      const scene = await startStreams();
      const { server, clock } = scene;
      server.reply(GET, { chunks: [`id: 7\nretry: ${field}\ndata:\n\n`] });
      const { client } = await listening(scene);
      await clock.advance(10_000);
      expect(server.counts.listens).toBeLessThanOrEqual(5);
      await clock.advance(3_600_000);
      await echo(client, 'a');
      expect(server.counts.listens).toBeLessThanOrEqual(130);
      expect(Math.min(...gaps(scene).slice(6))).toBeGreaterThanOrEqual(30_000);
      expect(server.counts).toMatchObject({ initializes: 1, executionsById: { a: 1 } });
    });

    it(`a call’s stream, retry: ${field}: the same, and the answer is still found`, async () => {
      const { tool, open } = gatedTool();
      const scene = await startStreams({ tools: [tool], answer: 'sse', eventStore: true });
      const { server, clock } = scene;
      const { client } = await listening(scene, { streams: { listen: false } });
      const outcome = outcomeOf(client.callTool({ name: 'gated' }, { timeout: 200_000 }));
      await clock.settle();
      const scripted = server.reply(GET, { chunks: [`retry: ${field}\n\n: nothing yet\n\n`] });
      server.cutStreams();
      await clock.advance(60_000);
      expect(gets(scene).length).toBeLessThanOrEqual(20);
      expect(gets(scene).length).toBeGreaterThan(8);
      scripted.dispose();
      open();
      await advanceUntil(scene, outcome, 12_000);
      expect(await outcome).toMatchObject({ result: { content: [{ text: 'done' }] } });
      expect(server.counts.executions).toEqual({ gated: 1 });
    });
  }

  it('a new id each time is no reason to hurry', async () => {
    const scene = await startStreams();
    const { server, clock } = scene;
    let id = 0;
    server.reply(GET, { chunks: () => [`retry: 0\nid: ${++id}\ndata:\n\n`] });
    await listening(scene);
    await clock.advance(10_000);
    expect(server.counts.listens).toBeLessThanOrEqual(5);
  });
});
