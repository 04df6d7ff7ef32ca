import { describe, expect, it } from 'vitest';
import type { HostedClient } from '../../../src/client.js';
import type { ToolCallContext } from '../../../src/testing/index.js';
import { connect, failureOf, type Scene, startServer } from '../../wire/support.js';

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
    await scene.clock.advance(1_000);

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
