import { describe, expect, it } from 'vitest';
import { memoryRateLimitStore } from '../../src/index.js';
import { connectOver, stockClient } from './stock.js';
import { outcomeOf } from './streams.js';
import { connect, echo, failureOf, startServer } from './support.js';

/** A bucket with so many requests left in this minute. */
async function scarce(left: number) {
  const scene = await startServer({ tokenLifetimeMs: 3_600_000 });
  const store = memoryRateLimitStore({ clock: scene.clock });
  const rateLimit = { limit: 10, intervalMs: 60_000, key: 'shared', store };
  for (let n = 10; n > left; n -= 1) await store.take('shared', [{ limit: 10, intervalMs: 60_000 }]);
  return { scene, rateLimit, store };
}

describe('H25 a call waits in the bucket longer than its caller has time', () => {
  it('HostedClient: refused at once with the time it would have taken; nothing reaches the wire', async () => {
    const { scene, rateLimit } = await scarce(3);
    const { server, clock } = scene;
    const client = await connect(scene, { rateLimit });
    await echo(client, 'last');
    await clock.advance(5_000);
    const { requests } = server.counts;

    const failure = await failureOf(echo(client, 'late', { timeout: 20_000 }));
    expect(failure).toMatchObject({
      code: 'ERR_RATE_WAIT_EXCEEDED',
      executed: false,
      retryable: true,
      retryAfterMs: 61_200 - 5_000,
    });
    await clock.advance(120_000);
    expect(server.counts).toMatchObject({ requests, executionsById: { last: 1 } });
    expect(server.log.some(({ rpcMethod }) => rpcMethod === 'notifications/cancelled')).toBe(false);
  });

  it.each(['v1', 'v2'] as const)(
    '%s: its own timer ends it; neither call nor cancel is sent',
    async (version) => {
      const { scene, rateLimit } = await scarce(4);
      const { server, clock } = scene;
      const client = stockClient(version);
      await connectOver(scene, client, { rateLimit, streams: { listen: false } });
      await clock.advance(30_000);
      const { requests } = server.counts;
      const abort = new AbortController();
      const call = (text: string) => {
        const params = { name: 'echo', arguments: { text } };
        const { signal } = abort;
        // The two take their options in another place.
        const call = client.callTool as (...args: unknown[]) => Promise<unknown>;
        return call.apply(client, version === 'v1' ? [params, undefined, { signal }] : [params, { signal }]);
      };
      await call('last');
      await call('last, too');
      const outcome = outcomeOf(call('late'));
      await clock.settle();
      abort.abort();
      expect(await outcome).toHaveProperty('error');
      await clock.advance(120_000);
      expect(server.counts.requests).toBe(requests + 2);
      expect(server.log.some(({ rpcMethod }) => rpcMethod === 'notifications/cancelled')).toBe(false);
    },
  );

  it('who has the time waits for the next window, is told of it, and is answered', async () => {
    const { scene, rateLimit } = await scarce(3);
    const { server, clock } = scene;
    const client = await connect(scene, { rateLimit });
    const waits: unknown[] = [];
    client.connection.on('rate-wait', (event) => waits.push(event));
    await echo(client, 'last');
    await clock.advance(30_000);
    const late = echo(client, 'late', { timeout: 50_000 });
    await clock.advance(40_000);
    await late;
    expect(server.counts.executionsById).toEqual({ last: 1, late: 1 });
    expect(waits).toEqual([{ key: expect.any(String), forMs: expect.closeTo(31_200, -2) }]);
    expect(client.connection.stats.waits.rate).toMatchObject({ count: 1 });
  });

  it('a recovery goes first, and who is aborted leaves nothing behind', async () => {
    const { scene, rateLimit } = await scarce(3);
    const { server, clock } = scene;
    const client = await connect(scene, { rateLimit });
    await echo(client, 'last');
    server.dropSessions();
    await clock.advance(30_000);
    const abort = new AbortController();
    const given = failureOf(echo(client, 'given up', { signal: abort.signal, timeout: 50_000 }));
    const calls = ['x', 'y'].map((id) => outcomeOf(echo(client, id, { timeout: 50_000 })));
    await clock.advance(1_000);
    abort.abort();
    expect(await given).toMatchObject({ code: 'ERR_ABORTED', executed: false });
    await clock.advance(45_000);
    expect(await Promise.all(calls)).toMatchObject([
      { error: { code: 'ERR_SESSION_LOST', executed: false } },
      { result: {} },
    ]);
    const sent = server.log
      .filter(({ rpcMethod }) => rpcMethod !== undefined)
      .map(({ rpcMethod }) => rpcMethod);
    // One call finds the session gone; the handshake goes ahead of the other.
    expect(sent.slice(-4)).toEqual(['tools/call', 'initialize', 'notifications/initialized', 'tools/call']);
    expect(server.counts.executionsById).not.toHaveProperty('given up');
  });
});
