import { describe, expect, it } from 'vitest';
import { HostedClient } from '../../src/client.js';
import { legacy, slow } from './legacy.js';
import { connectOver, stockClient } from './stock.js';
import { connect, echo, failureOf, machine, startServer } from './support.js';

describe('ping', () => {
  it('every 25 s of silence, by which a limit of 60 s is never met', async () => {
    const scene = await legacy({ idleCutMs: 60_000 });
    const { server, clock } = scene;
    const client = await connect(scene);

    await clock.advance(24_900);
    const early = server.counts.pings;
    await clock.advance(100);
    expect([early, server.counts.pings]).toEqual([0, 1]);
    await clock.advance(225_000);

    expect(server.counts.pings).toBe(10);
    await echo(client, 'a');
    expect(server.counts).toMatchObject({ gets: 1, streamsOpen: 1, executionsById: { a: 1 } });
  });

  it('without it, such a limit does cut', async () => {
    const scene = await legacy({ idleCutMs: 60_000 });
    await connect(scene, { streams: { legacyPingIntervalMs: 0 } });
    await scene.clock.advance(61_000);
    expect(scene.server.counts).toMatchObject({ pings: 0, gets: 2 });
  });

  it('twice as often as a limit that is known', async () => {
    const scene = await legacy({ idleCutMs: 20_000 });
    await connect(scene, { streams: { idleLimitMs: 20_000 } });
    await scene.clock.advance(200_000);
    expect(scene.server.counts).toMatchObject({ gets: 1, pings: 20 });
  });

  it('a limit below the interval is learned from three cuts', async () => {
    const scene = await legacy({ idleCutMs: 20_000 });
    const client = await connect(scene);
    await scene.clock.advance(60_000);
    expect(scene.server.counts.gets).toBe(4);
    expect(client.connection.stats.idleLimitMs).toBe(20_000);
    await scene.clock.advance(600_000);
    expect(scene.server.counts).toMatchObject({ gets: 4, streamsOpen: 1 });
  });

  it('none while the server says something', async () => {
    const scene = await legacy({ heartbeatMs: 15_000 });
    const client = await connect(scene);
    await scene.clock.advance(120_000);
    expect(scene.server.counts.pings).toBe(0);
    scene.server.set({ heartbeatMs: undefined });
    for (let i = 0; i < 6; i += 1) {
      await echo(client, `c${i}`);
      await scene.clock.advance(20_000);
    }
    expect(scene.server.counts.pings).toBe(0);
  });

  it('while a long call is silent, whose answer would be lost with the stream', async () => {
    const scene = await legacy({ idleCutMs: 60_000 });
    const client = await connect(scene);
    const answered = slow(client, 'long', 210_000);
    await scene.clock.advance(210_000);
    expect((await answered).content).toEqual([{ type: 'text', text: 'waited 210000 ms' }]);
    expect(scene.server.counts).toMatchObject({ gets: 1, executionsById: { long: 1 } });
    expect(scene.server.counts.pings).toBeGreaterThan(6);
  });

  it('refused, because the session is gone: the next call finds another', async () => {
    const scene = await legacy();
    const { server, clock } = scene;
    const client = await connect(scene);
    await echo(client, 'a');
    server.dropSessions();
    await clock.advance(25_000);
    server.reset();
    await echo(client, 'b');
    expect(server.counts).toMatchObject({ executionsById: { b: 1 }, initializes: 0 });
    expect(client.connection.session?.number).toBe(2);
    await clock.advance(10_000);
    expect(server.counts.streamsOpen).toBe(1);
  });

  it('never on Streamable HTTP', async () => {
    const scene = await startServer({ tokenLifetimeMs: 3_600_000 });
    await connect(scene);
    await scene.clock.advance(300_000);
    expect(scene.server.counts.pings).toBe(0);
  });

  it.each([-1, Number.NaN, 'often'])('legacyPingIntervalMs %s is refused by name', (legacyPingIntervalMs) => {
    const options = { url: 'https://example.com/sse', streams: { legacyPingIntervalMs } };
    expect(() => new HostedClient({ name: 'x', version: '1' }, options as never)).toThrow(
      /streams\.legacyPingIntervalMs/,
    );
  });
});

describe('the end', () => {
  it('close() leaves no timer and no stream, and deletes nothing', async () => {
    const scene = await legacy();
    const { server, clock } = scene;
    const client = await connect(scene, { credentials: server.issueToken() });
    await echo(client, 'a');
    const before = server.counts.requests;
    await client.close();
    await clock.settle();
    expect(clock.pendingTimers).toBe(0);
    expect(server.counts).toMatchObject({ streamsOpen: 0, deletes: 0, requests: before });
    expect(client.connection.state).toBe('closed');
  });

  it.each([true, false])('close() of a HostedTransport ends the stream as well (fetch: %s)', async (own) => {
    const scene = await legacy();
    const client = stockClient('v1');
    await connectOver(scene, client, {
      credentials: scene.server.issueToken(),
      ...(own && { http: { fetch: (url, init) => fetch(url, init) } }),
    });
    await client.close();
    await expect.poll(() => scene.server.counts.streamsOpen).toBe(0);
    expect(scene.clock.pendingTimers).toBe(0);
  });

  it('over a fetch of the app: the same', async () => {
    const scene = await legacy();
    const client = await connect(scene, {
      credentials: scene.server.issueToken(),
      http: { fetch: (url, init) => fetch(url, init) },
    });
    await echo(client, 'a');
    await client.close();
    await scene.clock.settle();
    await expect.poll(() => scene.server.counts.streamsOpen).toBe(0);
    expect(scene.clock.pendingTimers).toBe(0);
  });

  it('close() while the endpoint is awaited', async () => {
    const scene = await legacy();
    scene.server.reply({ http: 'GET' }, { chunks: [': hi\n\n', { pauseMs: 1e9 }] });
    const client = new HostedClient(
      { name: 'test', version: '1.0.0' },
      { url: scene.server.url, credentials: machine(scene), clock: scene.clock },
    );
    const failed = failureOf(client.connect());
    await scene.clock.settle();
    expect(scene.server.counts.gets).toBe(1);
    await client.close();
    expect(await failed).toMatchObject({ code: 'ERR_CLOSED' });
  });

  it('session.idleTimeoutMs ends the stream, and the next call opens a session again', async () => {
    const scene = await legacy();
    const { server, clock } = scene;
    const client = await connect(scene, { session: { idleTimeoutMs: 60_000 } });
    await echo(client, 'a');
    await clock.advance(60_000);
    expect(client.connection.state).toBe('idle');
    expect(server.counts).toMatchObject({ streamsOpen: 0, deletes: 0 });
    const pings = server.counts.pings;
    await clock.advance(300_000);
    expect(server.counts.pings).toBe(pings);
    await echo(client, 'b');
    expect(server.counts).toMatchObject({ executionsById: { a: 1, b: 1 }, gets: 2, streamsOpen: 1 });
  });

  it('a set-up that fails ends the stream of its session', async () => {
    const scene = await legacy();
    const { server, clock } = scene;
    const connecting = failureOf(
      connect(scene, {
        session: {
          onEstablished: () => {
            throw new Error('no project');
          },
        },
      }),
    );
    await clock.advance(10_000);
    expect(await connecting).toMatchObject({ code: 'ERR_SESSION_UNSTABLE' });
    expect(server.counts).toMatchObject({ gets: 2, streamsOpen: 0, deletes: 0 });
  });
});
