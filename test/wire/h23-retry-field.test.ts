import { describe, expect, it } from 'vitest';
import { gatedTool, gets, listening, outcomeOf, startStreams, tell } from './streams.js';

const RETRY_MS = 500;
/** Jitter on what a server asks for only adds, and little. */
const LATEST_MS = 200;

async function cutCall(retryFieldMs: number | undefined, listen: boolean) {
  const { tool, open } = gatedTool();
  const scene = await startStreams({ tools: [tool], answer: 'sse', eventStore: true, retryFieldMs });
  const { client } = await listening(scene, { streams: { listen } });
  const outcome = outcomeOf(client.callTool({ name: 'gated' }, { timeout: 300_000 }));
  await scene.clock.settle();
  scene.server.reset();
  return { scene, outcome, open };
}

describe('H23 a server ends a call’s stream and says when to ask again', () => {
  for (const listen of [false, true]) {
    it(`listening: ${listen}: one GET after that time, with the cursor, and none after it`, async () => {
      const { scene, outcome, open } = await cutCall(RETRY_MS, listen);
      const { server, clock } = scene;
      // Only the call's stream ends: the listen stream is opened again in its own time.
      const cutAt = clock.now();
      server.cutStreams('eof');
      open();
      await clock.advance(10_000);

      expect(await outcome).toMatchObject({ result: { content: [{ text: 'done' }] } });
      const resumed = gets(scene).filter(({ headers }) => headers['last-event-id'] !== undefined);
      expect(gets(scene)).toHaveLength(listen ? 2 : 1);
      expect(resumed).toHaveLength(listen ? 2 : 1);
      for (const { at } of resumed) {
        expect(at - cutAt).toBeGreaterThanOrEqual(RETRY_MS);
        expect(at - cutAt).toBeLessThanOrEqual(RETRY_MS + LATEST_MS);
      }
      expect(server.counts.initializes).toBe(0);
    });
  }

  it.each([1_000, 3_000, 20_000])(
    'polling at %d ms: never sooner, hardly later, for as long as it takes',
    async (ms) => {
      const { scene, outcome, open } = await cutCall(ms, false);
      const { server, clock } = scene;
      let cutAt = 0;
      for (let n = 0; n < 12; n += 1) {
        cutAt = clock.now();
        server.cutStreams('eof');
        await clock.advance(ms + LATEST_MS);
        const at = gets(scene).at(-1)?.at ?? 0;
        expect(gets(scene)).toHaveLength(n + 1);
        expect(at - cutAt).toBeGreaterThanOrEqual(ms);
        if (ms * n > 30_000) break;
      }
      open();
      await clock.settle();
      expect(await outcome).toMatchObject({ result: { content: [{ text: 'done' }] } });
    },
  );

  it('holds for tries in vain, too, and until the server says another', async () => {
    const { scene, outcome, open } = await cutCall(2_000, true);
    const { server, clock } = scene;
    server.reply({ http: 'GET' }, { status: 503 }, { times: 4 });
    server.cutStreams('eof');
    await clock.advance(20_000);
    const waits = gets(scene).map(({ at }) => at);
    expect(waits.length).toBeGreaterThanOrEqual(6);
    // Two streams, two tries each: no two GETs of one stream closer than what was asked for.
    for (let index = 2; index < waits.length; index += 1)
      expect((waits[index] ?? 0) - (waits[index - 2] ?? 0)).toBeGreaterThan(1_000);
    open();
    tell(scene, 'x');
    await clock.settle();
    expect(await outcome).toMatchObject({ result: { content: [{ text: 'done' }] } });
  });
});
