import { describe, expect, it } from 'vitest';
import type { HostedServerOptions, ToolCallContext } from '../../src/testing/index.js';
import { connectFace } from './faces.js';
import { advanceUntil, CALL, cursors, GET, gatedTool, gets, outcomeOf, startStreams } from './streams.js';
import { connect, failureOf } from './support.js';

/** Tells its progress each second, or nothing, and answers at the end. */
const operation = {
  name: 'operation',
  handler: async ({ ms, silent }: Record<string, unknown>, call: ToolCallContext) => {
    for (let n = 1; n <= Number(ms) / 1_000; n += 1) {
      await call.wait(1_000);
      if (silent !== true) call.progress(n);
    }
    return `done after ${ms} ms`;
  },
};

async function start(options: HostedServerOptions = {}) {
  const scene = await startStreams({
    tools: [operation],
    answer: 'sse',
    eventStore: 'deaf',
    ...options,
  });
  return { scene, client: await connect(scene, { streams: { listen: false } }) };
}

describe('H21 a resumed stream brings old events and then goes silent', () => {
  it('is asked for again; the answer arrives, each progress once, the tool ran once', async () => {
    const { scene, client } = await start();
    const { server, clock } = scene;
    const progress: number[] = [];
    const outcome = outcomeOf(
      client.callTool(
        { name: 'operation', arguments: { ms: 12_000 } },
        { onprogress: ({ progress: n }) => progress.push(n) },
      ),
    );
    await clock.advance(1_500);
    server.cutStreams();
    await advanceUntil(scene, outcome, 25_000);

    expect(await outcome).toMatchObject({ result: { content: [{ text: 'done after 12000 ms' }] } });
    expect(progress).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    expect(server.counts).toMatchObject({ executions: { operation: 1 }, initializes: 1 });
    expect(server.log.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(1);
    expect(server.counts.resumes).toBeLessThanOrEqual(5);
  });

  it.each([
    ['a tool that tells nothing', { silent: true, ms: 40_000 }, {}],
    ['comments that keep the deaf stream alive', { silent: true, ms: 40_000 }, { heartbeatMs: 15_000 }],
    ['comments at every second', { silent: true, ms: 40_000 }, { heartbeatMs: 1_000 }],
    ['cut again while it is silent', { silent: true, ms: 40_000 }, { idleCutMs: 9_000 }],
  ] as const)('%s: answered well within its time', async (_name, args, options) => {
    const { scene, client } = await start(options);
    const { server, clock } = scene;
    const outcome = outcomeOf(client.callTool({ name: 'operation', arguments: args }, { timeout: 120_000 }));
    await clock.advance(1_000);
    server.cutStreams();
    await advanceUntil(scene, outcome, 80_000);
    expect(await outcome).toMatchObject({ result: { content: [{ text: 'done after 40000 ms' }] } });
    expect(server.counts).toMatchObject({ executions: { operation: 1 }, initializes: 1 });
    expect(server.counts.resumes).toBeLessThan(20);
  });

  it('two at once: each gets its own answer and not the other’s', async () => {
    const { scene, client } = await start();
    const { server, clock } = scene;
    const call = (ms: number) =>
      outcomeOf(client.callTool({ name: 'operation', arguments: { ms, silent: true } }));
    const [long, short] = [call(9_000), call(3_000)];
    await clock.advance(1_000);
    server.cutStreams();
    await advanceUntil(scene, Promise.all([long, short]), 60_000);
    expect(await short).toMatchObject({ result: { content: [{ text: 'done after 3000 ms' }] } });
    expect(await long).toMatchObject({ result: { content: [{ text: 'done after 9000 ms' }] } });
    expect(server.counts.executions).toEqual({ operation: 2 });
  });

  it.each(['v1', 'v2'] as const)('%s: the same', async (face) => {
    const { tool, open } = gatedTool();
    const { scene } = await start({ tools: [{ ...tool, name: 'echo' }] });
    const { server, clock } = scene;
    const caller = await connectFace(face, scene, { streams: { listen: false } });
    const outcome = outcomeOf(caller.echo('a'));
    await clock.settle();
    server.cutStreams();
    await clock.advance(3_000);
    open();
    await advanceUntil(scene, outcome, 30_000);
    expect(await outcome).toMatchObject({ result: { content: [{ text: 'done' }] } });
    expect(server.counts.executionsById).toEqual({ a: 1 });
  });

  it('a store that replays from the beginning: nothing is told twice', async () => {
    const { scene, client } = await start();
    const { server, clock } = scene;
    const progress: number[] = [];
    const outcome = outcomeOf(
      client.callTool(
        { name: 'operation', arguments: { ms: 30_000 } },
        { onprogress: ({ progress: n }) => progress.push(n) },
      ),
    );
    await clock.settle();
    const sent = server.log.find(({ rpcMethod }) => rpcMethod === 'tools/call');
    const event = (n: number, message: object) =>
      `id: e${n}\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`;
    const step = (n: number) =>
      event(n, {
        method: 'notifications/progress',
        params: { progress: 100 + n, progressToken: sent?.rpcId },
      });
    const foreign = event(4, { id: 'another', result: { content: [] } });
    const answer = event(2, { id: sent?.rpcId, result: { content: [{ type: 'text', text: 'found' }] } });
    server.replyOnce(GET, { chunks: [step(1), step(2)] });
    server.replyOnce(GET, { chunks: [step(1), step(2), step(3), foreign] });
    // An id that was used before does not make an answer that is still owed an old one.
    server.replyOnce(GET, { chunks: [step(1), step(2), step(3), foreign, answer] });
    server.cutStreams();
    await advanceUntil(scene, outcome, 20_000);
    expect(await outcome).toMatchObject({ result: { content: [{ text: 'found' }] } });
    expect(progress).toEqual([101, 102, 103]);
    expect(server.counts.executions).toEqual({ operation: 1 });
  });

  it('an honest stream that is only silent is not given up: the answer comes on it, at once', async () => {
    const { tool, open } = gatedTool();
    const { scene, client } = await start({ eventStore: true, tools: [tool] });
    const { server, clock } = scene;
    const outcome = outcomeOf(client.callTool({ name: 'gated' }, { timeout: 300_000 }));
    await clock.settle();
    server.cutStreams();
    await clock.advance(70_000);
    expect(gets(scene).filter(({ status }) => status === 200)).toHaveLength(1);
    expect(gets(scene).filter(({ status }) => status === 409).length).toBeGreaterThan(2);
    open();
    await clock.settle();
    expect(await outcome).toMatchObject({ result: { content: [{ text: 'done' }] } });
    expect(server.counts.executions).toEqual({ gated: 1 });
  });

  it('a stream whose bytes go nowhere is found out once the server has answered on it', async () => {
    const { tool, open } = gatedTool();
    const { scene, client } = await start({ eventStore: true, tools: [tool] });
    const { server, clock } = scene;
    const outcome = outcomeOf(client.callTool({ name: 'gated' }, { timeout: 300_000 }));
    await clock.settle();
    server.set({ silentDropMs: 1_000, abortNotPropagated: { forMs: 20_000 } });
    server.cutStreams();
    await clock.advance(40_000);
    open();
    await clock.advance(1_000);
    server.set({ silentDropMs: undefined });
    await advanceUntil(scene, outcome, 40_000);
    expect(await outcome).toMatchObject({ result: { content: [{ text: 'done' }] } });
    expect(server.counts).toMatchObject({ executions: { gated: 1 }, initializes: 1 });
  });

  it('is bounded where no answer ever comes, and ends with the caller’s time', async () => {
    const { tool } = gatedTool();
    const { scene, client } = await start({ tools: [tool] });
    const { server, clock } = scene;
    const outcome = outcomeOf(client.callTool({ name: 'gated' }, { timeout: 3_600_000 }));
    await clock.settle();
    server.cutStreams();
    await clock.advance(3_599_000);
    expect(server.counts.resumes).toBeLessThanOrEqual(13);
    await clock.advance(1_000);
    const { error } = (await outcome) as { error: unknown };
    expect(await failureOf(Promise.reject(error))).toMatchObject({
      code: 'ERR_TIMEOUT',
      executed: 'unknown',
    });
    await clock.settle();
    expect(server.counts).toMatchObject({ streamsOpen: 0, executions: { gated: 1 } });
    expect(server.log.at(-1)?.rpcMethod).toBe('notifications/cancelled');
    expect(clock.pendingTimers).toBeLessThanOrEqual(1);
  });

  it('the last event seen is the cursor, however often it was cut', async () => {
    const { scene, client } = await start({ eventStore: true });
    const { server, clock } = scene;
    const outcome = outcomeOf(
      client.callTool({ name: 'operation', arguments: { ms: 10_000 } }, { timeout: 60_000 }),
    );
    for (let cut = 0; cut < 5; cut += 1) {
      await clock.advance(1_500);
      server.cutStreams();
    }
    // Nothing came in between: the cursor is not forgotten.
    await clock.advance(20);
    server.cutStreams();
    await advanceUntil(scene, outcome, 30_000);
    expect(await outcome).toMatchObject({ result: { content: [{ text: 'done after 10000 ms' }] } });
    const sent = cursors(scene).map((cursor) => Number(cursor?.split('_')[1]));
    expect(sent).toEqual(sent.toSorted((one, other) => one - other));
    expect(sent.every((n) => n >= 1)).toBe(true);
    expect(server.counts).toMatchObject({ executions: { operation: 1 } });
    expect(
      server.log.filter(({ http, rpcMethod }) => http === CALL.http && rpcMethod === CALL.method),
    ).toHaveLength(1);
  });
});
