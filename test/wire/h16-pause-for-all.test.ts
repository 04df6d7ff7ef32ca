import { describe, expect, it } from 'vitest';
import { HostedClient } from '../../src/client.js';
import { type HostedOptions, memoryRateLimitStore } from '../../src/index.js';
import type { ScriptedReply } from '../../src/testing/index.js';
import { closeLater, connect, echo, failureOf, machine, type Scene, startServer } from './support.js';

const REFUSED: ScriptedReply = { status: 429, headers: { 'retry-after': '2' }, body: '' };
/** What a grant may still lie ahead when the pause begins. */
const HORIZON_MS = 250;

/** Three clients of one machine that share a bucket of 60 a minute. */
async function fleet(scene: Scene, options: Partial<HostedOptions> = {}) {
  const store = memoryRateLimitStore({ clock: scene.clock });
  const rateLimit = { limit: 60, intervalMs: 60_000, store };
  const given = { credentials: machine(scene), rateLimit, ...options };
  const clients = [];
  for (let n = 0; n < 3; n += 1) clients.push(await connect(scene, given));
  const [a, b, c] = clients as [HostedClient, HostedClient, HostedClient];
  return { a, b, c, given };
}

describe('H16 a 429 with Retry-After pauses every holder of the credential', () => {
  it.each([
    ['seconds', REFUSED],
    ['RateLimit fields', { status: 429, headers: { ratelimit: '"minute";r=0;t=2' }, body: '' }],
    ['a JSON-RPC error', { status: 429, headers: { 'retry-after': '2' }, body: limited(2_000) }],
    ['503', { status: 503, headers: { 'retry-after': '2' }, body: '' }],
  ] as const)(
    '%s: nothing from any of the three, handshakes included; then all goes through',
    async (name, reply) => {
      const scene = await startServer();
      const { server, clock } = scene;
      const { a, b, c, given } = await fleet(scene);
      server.reset();
      server.replyOnce({ method: 'tools/call' }, { tool: 'skip', ...reply });

      const refused = echo(a, 'a').then(
        () => 'answered',
        ({ code }: { code: string }) => code,
      );
      await clock.settle();
      const begun = server.log.length;
      const newcomer = new HostedClient(
        { name: 'test', version: '1.0.0' },
        { url: server.url, clock, ...given },
      );
      closeLater(() => newcomer.close());
      const others = [echo(b, 'b'), c.listTools(), newcomer.connect()];
      await clock.advance(1_990);
      expect(server.log.slice(begun).filter(({ path }) => path === '/mcp')).toEqual([]);

      await clock.advance(20_000);
      await Promise.all(others);
      // A 503 may have come from behind the tool: that call is not sent again.
      expect(await refused).toBe(name === '503' ? 'ERR_HTTP_STATUS' : 'answered');
      expect(server.counts.executionsById).toEqual(name === '503' ? { b: 1 } : { a: 1, b: 1 });
      const after = server.log.slice(begun).filter(({ path }) => path === '/mcp');
      expect(Math.min(...after.map(({ at }) => at)) - (server.log[0]?.at ?? 0)).toBeGreaterThanOrEqual(
        2_000 - HORIZON_MS,
      );
    },
  );

  it('a refusal that does not say how long: longer from one to the next, and what is retried is bounded', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const { a, b } = await fleet(scene);
    const pauses: number[] = [];
    a.connection.on('rate-paused', ({ forMs }) => pauses.push(forMs));
    const refusals = server.reply({ method: 'tools/call' }, { tool: 'skip', status: 429, body: '' });
    const begun = server.log.length;
    const codes = [a, b].map((client, n) => failureOf(echo(client, `c${n}`)));
    await clock.advance(200_000);
    for (const failure of await Promise.all(codes))
      expect(failure).toMatchObject({ code: 'ERR_RATE_LIMITED', executed: false, status: 429 });
    const sent = server.log.slice(begun).filter(({ rpcMethod }) => rpcMethod === 'tools/call');
    expect(sent).toHaveLength(4);
    expect(pauses).not.toEqual([]);
    expect(Math.min(...pauses)).toBeGreaterThan(0);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(30_000);
    const [first, second] = sent.map(({ at }) => at);
    expect((second ?? 0) - (first ?? 0)).toBeGreaterThanOrEqual(0);
    refusals.dispose();
    await Promise.all([echo(b, 'later'), clock.advance(60_000)]);
    expect(server.counts.executionsById).toEqual({ later: 1 });
  });

  it('an answered call that says nothing is left pauses them, too', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const { a, b } = await fleet(scene);
    server.set({ rateLimit: { limit: 1, intervalMs: 4_000, per: 'credential', headers: 'ratelimit' } });
    await echo(a, 'a');
    const other = echo(b, 'b');
    await clock.advance(3_900);
    expect(server.counts.executionsById).toEqual({ a: 1 });
    await clock.advance(10_000);
    await other;
    expect(server.counts).toMatchObject({ executionsById: { a: 1, b: 1 }, rejectedByLimit: 0 });
  });

  it('after the pause they come one by one, not in a burst', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const { a, b, c } = await fleet(scene);
    server.reset();
    server.replyOnce({ method: 'tools/call' }, REFUSED);
    const calls = Promise.all(
      Array.from({ length: 12 }, (_, n) => echo([a, b, c][n % 3] as HostedClient, `call-${n}`)),
    );
    await clock.advance(2_400);
    const early = server.log.filter(({ rpcMethod }) => rpcMethod === 'tools/call').length;
    await clock.advance(20_000);
    await calls;
    expect(Object.values(server.counts.executionsById)).toEqual(Array(12).fill(1));
    const sent = server.log.filter(({ rpcMethod }) => rpcMethod === 'tools/call').slice(early);
    const gaps = sent.slice(1).map(({ at }, n) => at - (sent[n]?.at ?? 0));
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(1_000);
  });

  it('a pause longer than anybody has time: all are told at once, nothing is sent', async () => {
    const scene = await startServer();
    const { server } = scene;
    const { a, b } = await fleet(scene, { retry: { resendOn429: 'never' } });
    server.reset();
    server.replyOnce({ method: 'tools/call' }, { status: 429, headers: { 'retry-after': '120' }, body: '' });
    for (const [client, id] of [[a, 'a'] as const, [b, 'b'] as const]) {
      expect(await failureOf(echo(client, id))).toMatchObject({
        code: 'ERR_RATE_LIMITED',
        executed: false,
        retryable: true,
        retryAfterMs: expect.closeTo(120_000, -2),
      });
    }
    expect(server.counts).toMatchObject({ requests: 1, executionsById: {} });
  });

  it('respectServer false: the pause is not kept', async () => {
    const scene = await startServer();
    const store = memoryRateLimitStore({ clock: scene.clock });
    const rateLimit = { limit: 60, intervalMs: 60_000, store, respectServer: false };
    const { a, b } = await fleet(scene, { rateLimit });
    scene.server.replyOnce({ method: 'tools/call' }, REFUSED);
    expect(await failureOf(echo(a, 'a'))).toMatchObject({ code: 'ERR_RATE_LIMITED', executed: false });
    await echo(b, 'b');
    expect(scene.server.counts.executionsById).toEqual({ b: 1 });
  });
});

function limited(retryAfterMs: number) {
  return { jsonrpc: '2.0', id: null, error: { code: -32023, message: 'slow down', data: { retryAfterMs } } };
}
