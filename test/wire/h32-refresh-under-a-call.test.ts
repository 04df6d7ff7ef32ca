import { describe, expect, it } from 'vitest';
import { call, connectStock, SDKS, type StockClient } from './stock.js';
import { connect, failureOf, type Scene, startServer } from './support.js';

/** Before the soft point of a token of 60 s (45 s, at most 1.5 s earlier by jitter). */
const BEFORE_SOFT_MS = 43_000;
const OPTIONS = { bindSession: 'token', answer: 'sse' } as const;
const QUIET = { streams: { listen: false } } as const;

const slow = (client: unknown, callId: string, ms = 3_000) =>
  call(client as StockClient, callId, 'slow', { ms });

const pairsOf = ({ server }: Scene, method: string) =>
  server.log
    .filter((entry) => entry.rpcMethod === method || entry.http === method)
    .map((entry) => `${entry.sessionLabel} ${entry.tokenLabel}`);

/** Lets the slow call begin, then the soft point pass: the token is renewed and a second session opened. */
async function refreshDuring(scene: Scene): Promise<void> {
  const { server, clock } = scene;
  await clock.settle();
  expect(server.counts.executions.slow).toBe(1);
  await clock.advance(2_500);
  expect(server.counts.tokenRequests).toBe(2);
}

describe('H32 the token is refreshed while a call is under way on a session bound to it', () => {
  it('by the background: both calls complete, once each; the old session is deleted when it is drained', async () => {
    const scene = await startServer(OPTIONS);
    const { server, clock } = scene;
    const client = await connect(scene, QUIET);
    await clock.advance(BEFORE_SOFT_MS);
    const long = slow(client, 'long');
    await refreshDuring(scene);

    await call(client as StockClient, 'short');
    expect(server.counts).toMatchObject({ initializes: 2, deletes: 0 });
    await clock.advance(1_000);

    expect(await long).toMatchObject({ content: [{ type: 'text', text: 'waited 3000 ms' }] });
    await clock.settle();
    expect(server.counts.executionsById).toEqual({ long: 1, short: 1 });
    expect(pairsOf(scene, 'tools/call')).toEqual(['session#1 token#1', 'session#2 token#2']);
    expect(pairsOf(scene, 'DELETE')).toEqual(['session#1 token#1']);
    expect(server.log.filter((entry) => entry.http === 'DELETE').map((entry) => entry.status)).toEqual([200]);
  });

  for (const sdk of SDKS) {
    it(`by another call after the soft point, under the stock ${sdk} Client: the same`, async () => {
      const scene = await startServer({ ...OPTIONS, sessionLostStatus: 401, challenge: 'none' });
      const { server, clock } = scene;
      const { client } = await connectStock(scene, sdk);
      await clock.advance(BEFORE_SOFT_MS);
      const long = slow(client, 'long');
      await refreshDuring(scene);
      const others = [call(client, 'a'), call(client, 'b'), call(client, 'c')];
      await Promise.all(others);
      await clock.advance(1_000);

      await long;
      await clock.settle();
      expect(server.counts).toMatchObject({ initializes: 2, deletes: 1, tokenRequests: 2 });
      expect(server.counts.executionsById).toEqual({ long: 1, a: 1, b: 1, c: 1 });
      expect(pairsOf(scene, 'DELETE')).toEqual(['session#1 token#1']);
    });
  }

  it('the call takes longer than a grace, and is answered as plain JSON: the same', async () => {
    const scene = await startServer({ bindSession: 'token', answer: 'json' });
    const { server, clock } = scene;
    const client = await connect(scene, QUIET);
    await clock.advance(BEFORE_SOFT_MS);
    const long = slow(client, 'long', 14_000);
    await refreshDuring(scene);
    await clock.advance(12_000);

    await long;
    await clock.settle();
    expect(server.counts).toMatchObject({ initializes: 2, deletes: 1 });
    expect(server.counts.executionsById).toEqual({ long: 1 });
  });

  it('cancelling it goes to the session and the token it is under', async () => {
    const scene = await startServer(OPTIONS);
    const { server, clock } = scene;
    const client = await connect(scene, QUIET);
    await clock.advance(BEFORE_SOFT_MS);
    const caller = new AbortController();
    const long = failureOf(
      client.callTool(
        { name: 'slow', arguments: { ms: 30_000 }, _meta: { 'mcp-holdfast/callId': 'long' } },
        { signal: caller.signal },
      ),
    );
    await refreshDuring(scene);

    caller.abort();
    expect(await long).toMatchObject({ code: 'ERR_ABORTED', executed: 'unknown' });
    await clock.settle();

    const cancels = server.log.filter((entry) => entry.rpcMethod === 'notifications/cancelled');
    expect(cancels.map(({ sessionLabel, tokenLabel, status }) => [sessionLabel, tokenLabel, status])).toEqual(
      [['session#1', 'token#1', 202]],
    );
    expect(pairsOf(scene, 'DELETE')).toEqual(['session#1 token#1']);
  });

  it('cancelling it while the new session is being opened: still the session and the token it is under', async () => {
    const scene = await startServer(OPTIONS);
    const { server, clock } = scene;
    const client = await connect(scene, QUIET);
    server.replyOnce(
      { http: 'POST', method: 'initialize' },
      {
        tool: 'run',
        chunks: (request) => [{ pauseMs: 5_000 }, `data: ${JSON.stringify(request.answer)}\n\n`],
      },
    );
    await clock.advance(BEFORE_SOFT_MS);
    const caller = new AbortController();
    const long = failureOf(
      client.callTool({ name: 'slow', arguments: { ms: 30_000 } }, { signal: caller.signal }),
    );
    await refreshDuring(scene);
    const replaced = client.connection.once('session-replaced');
    const lost: string[] = [];
    client.connection.on('session-lost', ({ reason }) => lost.push(reason));

    caller.abort();
    expect(await long).toMatchObject({ code: 'ERR_ABORTED', executed: 'unknown' });
    await clock.advance(5_000);
    await replaced;
    await clock.settle();

    const cancels = server.log.filter((entry) => entry.rpcMethod === 'notifications/cancelled');
    expect(cancels.map(({ sessionLabel, tokenLabel, status }) => [sessionLabel, tokenLabel, status])).toEqual(
      [['session#1', 'token#1', 202]],
    );
    expect(lost).toEqual([]);
    expect(server.counts.initializes).toBe(2);
  });

  it('its stream is cut after the refresh: taken up again under the old token, the tool ran once', async () => {
    const scene = await startServer({ ...OPTIONS, eventStore: true });
    const { server, clock } = scene;
    const client = await connect(scene, QUIET);
    await clock.advance(BEFORE_SOFT_MS);
    const long = slow(client, 'long');
    await refreshDuring(scene);

    server.cutStreams();
    await clock.advance(2_000);

    expect(await long).toMatchObject({ content: [{ type: 'text', text: 'waited 3000 ms' }] });
    await clock.settle();
    expect(server.counts.executionsById).toEqual({ long: 1 });
    const resumes = server.log.filter((entry) => entry.headers['last-event-id'] !== undefined);
    expect(resumes.length).toBeGreaterThan(0);
    for (const entry of resumes) {
      expect([entry.sessionLabel, entry.tokenLabel]).toEqual(['session#1', 'token#1']);
    }
    expect(pairsOf(scene, 'DELETE')).toEqual(['session#1 token#1']);
  });

  it('it outlives its token: it ends soon after that, typed, and the old session is let go', async () => {
    const scene = await startServer(OPTIONS);
    const { server, clock } = scene;
    const client = await connect(scene, QUIET);
    await clock.advance(BEFORE_SOFT_MS);
    const long = failureOf(
      client.callTool(
        { name: 'slow', arguments: { ms: 600_000 }, _meta: { 'mcp-holdfast/callId': 'long' } },
        { timeout: 900_000 },
      ),
    );
    await refreshDuring(scene);

    // The token ends at 60 s, the grace 5 s after it.
    await clock.advance(60_000 + 5_000 - BEFORE_SOFT_MS - 2_500);

    expect(await long).toMatchObject({ code: 'ERR_SESSION_LOST', executed: 'unknown', retryable: false });
    await call(client as StockClient, 'after');
    expect(server.counts.executionsById).toEqual({ long: 1, after: 1 });
    expect(server.counts.initializes).toBe(2);
  });
});
