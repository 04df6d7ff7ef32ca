import { describe, expect, it } from 'vitest';
import { memoryRateLimitStore, type RateLimitStore } from '../../src/index.js';
import type { HostedServerOptions } from '../../src/testing/index.js';
import { AUTO, connect as connectModern, echo as echoModern, modern } from '../faces/modern.js';
import { connectFace, FACES, type Face } from './faces.js';
import { advanceUntil, gatedTool, listening, outcomeOf, startStreams } from './streams.js';
import { connect, type Scene, startServer } from './support.js';

/** A bucket that counts what was taken from it, and never runs dry. */
function counted(scene: Scene) {
  const inner = memoryRateLimitStore({ clock: scene.clock });
  const count = { granted: 0 };
  const store: RateLimitStore = {
    pause: inner.pause.bind(inner),
    async take(...asked) {
      const taken = await inner.take(...asked);
      if ('grantedInMs' in taken) count.granted += 1;
      return taken;
    },
  };
  const rateLimit = { limit: 1_000_000, intervalMs: 1_000, key: 'k', store, replicas: 1 };
  return { count, rateLimit };
}

/** Requests to the endpoint, as the server saw them: tokens and metadata are asked for elsewhere. */
const seen = ({ server }: Scene) =>
  server.log.filter(({ path }) => !/token|well-known|authorize/.test(path)).length;

describe('every request to the endpoint pays', () => {
  const storm = async (scene: Scene, face: Face) => {
    const { server, clock } = scene;
    const { count, rateLimit } = counted(scene);
    const caller = await connectFace(face, scene, { rateLimit });
    for (let n = 0; n < 3; n += 1) await caller.echo(`a${n}`);
    server.cutStreams();
    await clock.advance(40_000);
    server.dropSessions();
    await caller.echo('lost').catch(() => {});
    await clock.advance(1_000);
    await caller.echo('found');
    server.expireTokens();
    await caller.echo('refused').catch(() => {});
    await clock.advance(70_000);
    await caller.echo('renewed');
    server.throttle(2_000);
    const limited = outcomeOf(caller.echo('limited'));
    await clock.advance(4_000);
    await limited;
    await caller.connection.close();
    await clock.settle();
    return count.granted;
  };

  const servers: readonly (readonly [string, HostedServerOptions])[] = [
    ['sessions', {}],
    ['sessions bound to their token', { bindSession: 'token' }],
    ['no sessions', { sessions: false }],
    ['HTTP+SSE', { transport: 'legacy-sse' }],
  ];
  for (const [name, options] of servers) {
    for (const face of FACES) {
      it(`${name}, ${face}: handshakes, probes, calls, streams, recoveries`, async () => {
        const scene = await startServer(options);
        const granted = await storm(scene, face);
        expect(granted).toBe(seen(scene));
        expect(granted).toBeGreaterThan(8);
      });
    }
  }

  it('protocol 2026-07-28: discovery, calls, the subscription that comes back', async () => {
    const scene = await modern();
    const { server, clock } = scene;
    const { count, rateLimit } = counted(scene);
    const listChanged = { tools: { autoRefresh: true, debounceMs: 0, onChanged: () => {} } };
    const { client } = await connectModern(scene, {
      transport: { rateLimit },
      client: { ...AUTO, listChanged },
    });
    await echoModern(client, 'a');
    server.cutStreams();
    await clock.advance(10_000);
    server.expireTokens();
    await echoModern(client, 'b').catch(() => {});
    await clock.advance(70_000);
    await echoModern(client, 'c');
    expect(server.counts.subscriptions).toBeGreaterThan(1);
    expect(count.granted).toBe(seen(scene));
  });

  it('answers that are asked for again, cancels, set-up calls', async () => {
    const { tool, open } = gatedTool();
    const scene = await startStreams({ tools: [tool], answer: 'sse', eventStore: true });
    const { server, clock } = scene;
    const { count, rateLimit } = counted(scene);
    const session = {
      onEstablished: async (setup: { request(method: string): Promise<unknown> }) => {
        await setup.request('tools/list');
      },
    };
    const { client } = await listening(scene, { rateLimit, session });
    const resumed = outcomeOf(client.callTool({ name: 'gated' }, undefined, { timeout: 100_000 }));
    await clock.settle();
    server.cutStreams();
    await clock.advance(2_000);
    const abort = new AbortController();
    const given = outcomeOf(client.callTool({ name: 'gated' }, undefined, { signal: abort.signal }));
    await clock.settle();
    abort.abort();
    await given;
    open();
    await advanceUntil(scene, resumed, 10_000);
    expect(await resumed).toHaveProperty('result');
    await client.close();
    expect(count.granted).toBe(seen(scene));
    const methods = server.log.map(({ http, rpcMethod }) => rpcMethod ?? http);
    expect(methods).toEqual(
      expect.arrayContaining(['GET', 'DELETE', 'notifications/cancelled', 'tools/list']),
    );
  });

  it('one that is not granted is not sent: DELETE at the end waits for nobody', async () => {
    const scene = await startServer();
    const store = memoryRateLimitStore({ clock: scene.clock });
    const client = await connect(scene, { rateLimit: { limit: 2, intervalMs: 10_000, store } });
    await client.close();
    expect(scene.server.log.filter(({ path }) => path === '/mcp').map(({ http }) => http)).toEqual([
      'POST',
      'POST',
    ]);
  });
});
