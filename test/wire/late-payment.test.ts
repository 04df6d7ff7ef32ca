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

/** `answersAfterMs`: the store has counted a token so long before it is heard of. */
async function start(delays: number[], answersAfterMs: number[] = []) {
  const scene = await startServer({ tokenLifetimeMs: 3_600_000 });
  const store = memoryRateLimitStore({ clock: scene.clock });
  let granted = Number.NEGATIVE_INFINITY;
  const counting = {
    pause: store.pause.bind(store),
    async take(...asked: Parameters<typeof store.take>) {
      const taken = await store.take(...asked);
      const afterMs = granted < 0 ? 0 : (answersAfterMs.shift() ?? 0);
      if (afterMs > 0) await new Promise<void>((resolve) => scene.clock.setTimeout(resolve, afterMs));
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

  it('counts from when the store counted it: heard of late and sent late is too late, each alone is not', async () => {
    const { scene, client, granted } = await start([700], [700]);
    const call = echo(client, 'a');
    await scene.clock.advance(3_000);
    await call;
    expect(granted()).toBe(2);
    expect(scene.server.counts.executionsById).toEqual({ a: 1 });
  });

  it.each([
    ['heard of late', [], [700]],
    ['sent late', [700], []],
  ])('is used where it is %s alone', async (_, delays, answersAfterMs) => {
    const { scene, client, granted } = await start(delays, answersAfterMs);
    const call = echo(client, 'a');
    await scene.clock.advance(3_000);
    await call;
    expect(granted()).toBe(1);
  });

  it('where the store always answers late, the call goes all the same', async () => {
    const { scene, client, granted } = await start(Array(5).fill(700), Array(5).fill(1_100));
    const call = echo(client, 'a');
    await scene.clock.advance(20_000);
    await call;
    expect(granted()).toBe(5);
    expect(scene.server.counts.executionsById).toEqual({ a: 1 });
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
