import { describe, expect, it } from 'vitest';
import { connectFace, FACES } from './faces.js';
import { gets, listening, startStreams, tell } from './streams.js';
import { echo } from './support.js';

const LIMIT_MS = 60_000;
const GAP_MS = 74_000;
const SHAPES = ['fin', 'eof', 'reset', 'status'] as const;

describe('H12 an intermediary cuts the idle listen stream while the agent thinks', () => {
  for (const cutShape of SHAPES) {
    for (const face of FACES) {
      it(`${cutShape}, ${face}: the call after the gap succeeds on the same session`, async () => {
        const scene = await startStreams({ idleCutMs: LIMIT_MS, cutShape });
        const { server, clock } = scene;
        const caller = await connectFace(face, scene, { streams: { listen: true } });
        await clock.settle();
        expect(server.counts.listens).toBe(1);

        await clock.advance(GAP_MS);
        await caller.echo('after');

        expect(server.counts.executionsById).toEqual({ after: 1 });
        expect(server.counts).toMatchObject({ initializes: 1, tokenRequests: 1, deletes: 0, pings: 0 });
        // After the pages of a gateway three more.
        expect(server.counts.listens).toBe(cutShape === 'status' ? 5 : 2);
        expect(gets(scene).at(-1)?.status).toBe(200);
        expect(server.counts.streamsOpen).toBe(1);
        expect(caller.connection.state).toBe('ready');
      });
    }
  }

  it.each([undefined, true] as const)(
    'ten minutes, a notification half a second after each cut, event store: %s: none is lost',
    async (eventStore) => {
      const scene = await startStreams({ idleCutMs: LIMIT_MS, eventStore });
      const { server, clock } = scene;
      const { client, heard, errors, events } = await listening(scene);

      const told: number[] = [];
      for (let n = 1; n <= 9; n += 1) {
        await clock.advance(LIMIT_MS + 500);
        tell(scene, n);
        told.push(n);
        await clock.advance(500);
        await echo(client, `call-${n}`);
      }

      expect(heard).toEqual(told);
      expect(errors).toEqual([]);
      expect(server.counts).toMatchObject({ initializes: 1, streamsOpen: 1 });
      expect(Object.values(server.counts.executionsById)).toEqual(told.map(() => 1));
      expect(server.counts.listens).toBeLessThanOrEqual(11);
      const blind = events
        .filter(({ type }) => type === 'stream-reopened')
        .map(({ gapMs }) => gapMs as number);
      expect(blind).toHaveLength(9);
      // A server with a store asks for 100 ms itself.
      expect(Math.max(...blind)).toBeLessThanOrEqual(eventStore === true ? 200 : 20);
    },
  );

  it('each cut, each return and each gap is told once, with its age', async () => {
    const scene = await startStreams({ idleCutMs: LIMIT_MS, eventStore: true });
    const { clock } = scene;
    const { events } = await listening(scene);
    await clock.advance(LIMIT_MS + 300);
    tell(scene, 'a cursor');
    await clock.advance(LIMIT_MS + 300);

    expect(events).toMatchObject([
      { type: 'stream-cut', session: 1, ageMs: LIMIT_MS, idleMs: LIMIT_MS },
      { type: 'stream-reopened', session: 1, resumed: true },
      { type: 'stream-cut', session: 1, idleMs: LIMIT_MS },
      { type: 'stream-reopened', session: 1, resumed: true },
    ]);
  });

  it('a server that keeps its stream alive is cut never', async () => {
    const scene = await startStreams({ idleCutMs: LIMIT_MS, heartbeatMs: 15_000 });
    const { server, clock } = scene;
    const { client, events } = await listening(scene);
    await clock.advance(600_000);
    await echo(client, 'after');
    expect(server.counts).toMatchObject({ listens: 1, initializes: 1 });
    expect(events).toEqual([]);
  });

  it('a head that comes with the first event only: the gateway’s page after its limit is a cut', async () => {
    const scene = await startStreams({ idleCutMs: LIMIT_MS });
    const { server, clock } = scene;
    server.reply({ http: 'GET' }, { silence: true }, { times: 3 });
    const { client, heard } = await listening(scene);
    await clock.advance(3 * LIMIT_MS + 200);
    tell(scene, 'heard');
    await clock.advance(100);
    expect(gets(scene).map(({ status }) => status)).toEqual([504, 504, 504, 200]);
    expect(heard).toEqual(['heard']);
    await echo(client, 'after');
    expect(server.counts).toMatchObject({ initializes: 1, executionsById: { after: 1 } });
  });

  it('is not opened again because of a refresh', async () => {
    const scene = await startStreams({ tokenLifetimeMs: 60_000 });
    const { server, clock } = scene;
    const { client } = await listening(scene);
    for (let n = 0; n < 10; n += 1) {
      await clock.advance(30_000);
      await echo(client, `call-${n}`);
    }
    expect(server.counts.tokenRequests).toBeGreaterThan(3);
    expect(server.counts).toMatchObject({ listens: 1, streamsOpen: 1, initializes: 1 });
  });
});
