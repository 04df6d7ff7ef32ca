import { describe, expect, it } from 'vitest';
import { type HostedClient, HostedTransport } from '../../../src/client.js';
import type { ScriptedReply, ToolCallContext } from '../../../src/testing/index.js';
import { connectStock } from '../../wire/stock.js';
import { advanceUntil } from '../../wire/streams.js';
import { closeLater, connect, failureOf, machine, type Scene, startServer } from '../../wire/support.js';

/** A call whose stream was cut before its answer (`outcome` is still to come); the tool goes on until `open()`. */
async function cutCall(scene: Scene, client: HostedClient, timeout = 20_000) {
  const call = client.callTool({ name: 'gated' }, { timeout });
  const outcome = call.then(
    (result) => ({ result }),
    (error: unknown) => ({ error }),
  );
  await scene.clock.settle();
  scene.server.cutStreams();
  return { outcome };
}

async function start() {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const scene = await startServer({
    eventStore: true,
    answer: 'sse',
    tools: [
      {
        name: 'gated',
        handler: async (_args: unknown, _call: ToolCallContext) => {
          await opened;
          return 'done';
        },
      },
    ],
  });
  const client = await connect(scene);
  return { scene, client, open };
}

const calls = (scene: Scene) => scene.server.log.filter((entry) => entry.rpcMethod === 'tools/call').length;

describe('a call whose response stream was cut', () => {
  it('is answered on the stream that was taken up again; it was sent once', async () => {
    const { scene, client, open } = await start();
    const { outcome } = await cutCall(scene, client);
    await scene.clock.advance(1_000);
    scene.server.cutStreams();
    await scene.clock.advance(1_000);
    open();
    await advanceUntil(scene, outcome, 10_000);

    expect(await outcome).toMatchObject({ result: { content: [{ text: 'done' }] } });
    expect([calls(scene), scene.server.counts.executions]).toEqual([1, { gated: 1 }]);
  });

  // Each of these would, as the answer to the call itself, say that nothing ran, or even send it again.
  it.each([
    ['a challenge, twice', { status: 401, headers: { 'www-authenticate': 'Bearer error="invalid_token"' } }],
    [
      'a 404 of the session layer',
      {
        status: 404,
        headers: { 'content-type': 'application/json' },
        body: { jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } },
      },
    ],
    ['a limit', { status: 429, headers: { 'retry-after': '1' } }],
    ['a 405', { status: 405 }],
    [
      'a want of scope',
      { status: 403, headers: { 'www-authenticate': 'Bearer error="insufficient_scope"' } },
    ],
    [
      'a 400 without id',
      { status: 400, body: { jsonrpc: '2.0', id: null, error: { code: -32000, message: 'session' } } },
    ],
  ])('%s to the GET that asks for its answer says nothing about the call', async (_name, reply) => {
    const { scene, client, open } = await start();
    scene.server.reply({ http: 'GET', resume: true }, reply);

    const { outcome } = await cutCall(scene, client);
    await scene.clock.advance(30_000);
    open();

    const { error } = (await outcome) as { error: unknown };
    expect(await failureOf(Promise.reject(error))).toMatchObject({ executed: 'unknown', retryable: false });
    await scene.clock.advance(5_000);
    expect([calls(scene), scene.server.counts.executions]).toEqual([1, { gated: 1 }]);
  });

  it('a server that is away when its answer is asked for says nothing either', async () => {
    const { scene, client, open } = await start();
    const { outcome } = await cutCall(scene, client);
    await scene.server.close();
    await scene.clock.advance(30_000);
    open();

    expect(await outcome).toMatchObject({ error: { executed: 'unknown', retryable: false } });
    expect(calls(scene)).toBe(1);
  });
});

describe('where there is no hope the caller is told at once', () => {
  const page: ScriptedReply = {
    status: 404,
    headers: { 'content-type': 'text/html' },
    body: '<html>404</html>',
  };
  const inMcp = (status: number, message: string, code = -32000): ScriptedReply => ({
    status,
    body: { jsonrpc: '2.0', id: null, error: { code, message } },
  });

  it.each([
    ['404 with a page', page, 'ERR_OUTCOME_UNKNOWN'],
    ['404 method not found', inMcp(404, 'Method not found', -32601), 'ERR_OUTCOME_UNKNOWN'],
    ['404 in words of MCP', inMcp(404, 'Session not found', -32001), 'ERR_SESSION_LOST'],
    ['405', { status: 405 }, 'ERR_OUTCOME_UNKNOWN'],
    ['400, the event is not kept', inMcp(400, 'Invalid event ID format'), 'ERR_OUTCOME_UNKNOWN'],
    ['400, in words about the session, which lives', inMcp(400, 'Session busy'), 'ERR_OUTCOME_UNKNOWN'],
    ['501', { status: 501 }, 'ERR_OUTCOME_UNKNOWN'],
    ['200 that is no stream', { status: 200, body: 'hello' }, 'ERR_PROTOCOL'],
  ] as [string, ScriptedReply, string][])('%s', async (_name, reply, code) => {
    const { scene, client } = await start();
    scene.server.reply({ http: 'GET' }, reply);
    const { outcome } = await cutCall(scene, client);
    // What a store asks for by itself.
    await advanceUntil(scene, outcome, 2_000);
    const { error } = (await outcome) as { error: unknown };
    expect(await failureOf(Promise.reject(error))).toMatchObject({
      code,
      executed: 'unknown',
      retryable: false,
    });
    expect([calls(scene), scene.server.counts.executions]).toEqual([1, { gated: 1 }]);
    expect(scene.server.counts.resumes).toBe(1);
  });

  it('a session that is gone: lost, and the next call runs on another', async () => {
    const { scene, client, open } = await start();
    const { outcome } = await cutCall(scene, client);
    scene.server.dropSessions();
    await advanceUntil(scene, outcome, 2_000);
    expect(await outcome).toMatchObject({ error: { code: 'ERR_SESSION_LOST', executed: 'unknown' } });
    open();
    await client.callTool({ name: 'gated' });
    expect(scene.server.counts).toMatchObject({ executions: { gated: 2 }, initializes: 2 });
  });

  it('without a cursor: no clock is moved', async () => {
    const { scene, client } = await start();
    scene.server.set({ eventStore: false });
    const { outcome } = await cutCall(scene, client);
    await scene.clock.settle();
    expect(await outcome).toMatchObject({ error: { code: 'ERR_OUTCOME_UNKNOWN', executed: 'unknown' } });
    expect(scene.server.counts).toMatchObject({ resumes: 0, executions: { gated: 1 } });
  });

  it('a read is asked again instead', async () => {
    const { scene, client } = await start();
    scene.server.replyOnce({ method: 'tools/list' }, { chunks: ['id: 1\ndata:\n\n'] });
    scene.server.reply({ http: 'GET' }, { status: 405 });
    const listed = client.listTools();
    await scene.clock.advance(3_000);
    expect((await listed).tools).toHaveLength(1);
  });
});

describe('while the answer is asked for', () => {
  it('a server that is away for half the caller’s time is waited for', async () => {
    const { scene, client, open } = await start();
    const { outcome } = await cutCall(scene, client, 60_000);
    const scripted = scene.server.reply({ http: 'GET' }, { status: 503 });
    await scene.clock.advance(30_000);
    scripted.dispose();
    open();
    await advanceUntil(scene, outcome, 20_000);
    expect(await outcome).toMatchObject({ result: { content: [{ text: 'done' }] } });
    expect(scene.server.counts.resumes).toBeLessThan(25);
  });

  it('a token endpoint that is away for a while is waited for', async () => {
    const { scene, client, open } = await start();
    const { outcome } = await cutCall(scene, client, 120_000);
    scene.server.expireTokens();
    scene.server.failTokenEndpoint({ status: 503 });
    await scene.clock.advance(20_000);
    scene.server.restoreTokenEndpoint();
    open();
    await advanceUntil(scene, outcome, 60_000);
    expect(await outcome).toMatchObject({ result: { content: [{ text: 'done' }] } });
    expect([calls(scene), scene.server.counts.executions]).toEqual([1, { gated: 1 }]);
  });

  it.each(['v1', 'v2'] as const)('%s, whose time we do not know: cut every minute for five', async (face) => {
    const { scene, open } = await start();
    const { server, clock } = scene;
    server.set({ idleCutMs: 60_000 });
    const { client } = await connectStock(scene, face);
    const result = (client as { callTool(params: object, ...rest: unknown[]): Promise<unknown> }).callTool(
      { name: 'gated' },
      ...(face === 'v2' ? [{ timeout: 3_600_000 }] : [undefined, { timeout: 3_600_000 }]),
    );
    await clock.advance(301_000);
    open();
    await advanceUntil(scene, result, 20_000);
    expect(await result).toMatchObject({ content: [{ text: 'done' }] });
    expect([calls(scene), server.counts.executions]).toEqual([1, { gated: 1 }]);
  });

  it('a source of credentials that gives none any more is not waited for without end', async () => {
    const { scene } = await start();
    const inner = machine(scene);
    let isSilent = false;
    const never = new Promise<never>(() => {});
    const transport = new HostedTransport(scene.server.url, {
      clock: scene.clock,
      credentials: {
        id: 'own',
        acquire: (target, options) => (isSilent ? never : inner.acquire(target, options)),
      },
    });
    closeLater(() => transport.close());
    await transport.start();
    const ask = (id: number, method: string, params: object) =>
      transport.send({ jsonrpc: '2.0', id, method, params });
    await ask(1, 'initialize', {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'a', version: '1' },
    });
    await transport.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
    const call = failureOf(ask(2, 'tools/call', { name: 'gated', arguments: {} }));
    await scene.clock.settle();
    isSilent = true;
    scene.server.cutStreams();
    await scene.clock.advance(60_000);
    expect(await call).toMatchObject({ code: 'ERR_OUTCOME_UNKNOWN', executed: 'unknown' });
  });

  it('a limit of the server holds for calls, too', async () => {
    const { scene, client, open } = await start();
    scene.server.replyOnce({ http: 'GET' }, { status: 429, headers: { 'retry-after': '10' } });
    const { outcome } = await cutCall(scene, client, 60_000);
    open();
    await scene.clock.advance(1_000);
    const before = scene.server.counts.requests;
    const other = client.callTool({ name: 'gated' });
    await scene.clock.advance(8_000);
    expect(scene.server.counts.requests).toBe(before);
    await advanceUntil(scene, Promise.all([other, outcome]), 20_000);
    await other;
    expect(await outcome).toMatchObject({ result: { content: [{ text: 'done' }] } });
  });

  it.each(['while its stream is open', 'between two tries', 'while silence is answered'])(
    'a caller who gives up, %s: the stream is closed, the server told, nothing is left',
    async (when) => {
      const { scene, client } = await start();
      const { server, clock } = scene;
      if (when === 'between two tries') server.reply({ http: 'GET' }, { status: 503 });
      const giving = new AbortController();
      const outcome = client.callTool({ name: 'gated' }, { signal: giving.signal, timeout: 600_000 }).then(
        () => ({}),
        (error: unknown) => ({ error }),
      );
      await clock.settle();
      server.cutStreams();
      await clock.advance(2_000);
      if (when === 'while silence is answered') {
        server.replyOnce({ http: 'GET' }, { silence: true });
        await advanceUntil(scene, () => server.counts.resumes === 2, 20_000);
        expect(server.counts.resumes).toBe(2);
      }
      giving.abort();
      await clock.settle();
      expect(await outcome).toMatchObject({ error: { code: 'ERR_ABORTED', executed: 'unknown' } });
      expect(server.counts.streamsOpen).toBe(0);
      const { resumes } = server.counts;
      await clock.advance(120_000);
      expect(server.counts.resumes).toBe(resumes);
      expect(server.log.filter(({ rpcMethod }) => rpcMethod === 'notifications/cancelled')).toHaveLength(1);
      await client.close();
      expect(clock.pendingTimers).toBeLessThanOrEqual(1);
    },
  );
});
