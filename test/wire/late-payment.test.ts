import { Agent, type Dispatcher } from 'undici';
import { describe, expect, it } from 'vitest';
import { memoryRateLimitStore } from '../../src/index.js';
import { closeLater, connect, echo, type Scene, startServer } from './support.js';

/** A way on which so many requests, from the call on, take their time to find a connection. */
function slow({ clock }: Scene, delays: number[]) {
  const agent = new Agent();
  closeLater(() => agent.close());
  return {
    dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler) {
      const isCall = String(options.body).includes('tools/call');
      const delayMs = isCall ? (delays.shift() ?? 0) : 0;
      if (delayMs === 0) return agent.dispatch(options, handler);
      clock.setTimeout(() => agent.dispatch(options, handler), delayMs);
      return true;
    },
  };
}

async function start(delays: number[]) {
  const scene = await startServer({ tokenLifetimeMs: 3_600_000 });
  const store = memoryRateLimitStore({ clock: scene.clock });
  let granted = 0;
  const counting = {
    pause: store.pause.bind(store),
    async take(...asked: Parameters<typeof store.take>) {
      const taken = await store.take(...asked);
      if ('grantedInMs' in taken) granted += 1;
      return taken;
    },
  };
  const rateLimit = { limit: 10, intervalMs: 60_000, key: 'k', replicas: 1, store: counting };
  const client = await connect(scene, { rateLimit, http: { dispatcher: slow(scene, delays) } });
  granted = 0;
  return { scene, client, granted: () => granted };
}

describe('a payment that has become too old before the request leaves', () => {
  it('is not used: the call pays again, and leaves once', async () => {
    const { scene, client, granted } = await start([5_000]);
    const call = echo(client, 'a');
    await scene.clock.advance(6_000);
    await call;
    expect(granted()).toBe(2);
    expect(scene.server.counts.executionsById).toEqual({ a: 1 });
    expect(scene.server.log.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(1);
  });

  it('a little later is good enough', async () => {
    const { scene, client, granted } = await start([500]);
    const call = echo(client, 'a');
    await scene.clock.advance(1_000);
    await call;
    expect(granted()).toBe(1);
  });

  it('where it is always so, the call goes all the same', async () => {
    const { scene, client, granted } = await start(Array(9).fill(5_000));
    const call = echo(client, 'a');
    await scene.clock.advance(40_000);
    await call;
    expect(granted()).toBe(5);
    expect(scene.server.counts.executionsById).toEqual({ a: 1 });
  });

  it('without a limit nothing is held back', async () => {
    const scene = await startServer({ tokenLifetimeMs: 3_600_000 });
    const client = await connect(scene, { http: { dispatcher: slow(scene, [30_000]) } });
    const call = echo(client, 'a');
    await scene.clock.advance(31_000);
    await call;
    expect(scene.server.counts.executionsById).toEqual({ a: 1 });
  });
});
