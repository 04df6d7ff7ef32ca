import { describe, expect, it } from 'vitest';
import type { ScriptedRequest } from '../../src/testing/index.js';
import { call, connectStock, SDKS } from './stock.js';
import { connect, echo, failureOf, startServer } from './support.js';

const CALL = { http: 'POST', method: 'tools/call' } as const;

const ownError = (code: number, message: string) => (request: ScriptedRequest) => ({
  jsonrpc: '2.0',
  id: request.message?.id,
  error: { code, message },
});

/** Errors of a server that still has the session, each with the id of the request. */
const ERRORS = [
  ['400, invalid params', 400, -32602, 'Invalid params: q is required', 0],
  ['422, invalid params', 422, -32602, 'q fehlt', 0],
  ['500, internal error', 500, -32603, 'Internal error', 0],
  ['404, unknown method', 404, -32601, 'Method not found', 0],
  ['404, unknown tool', 404, -32602, 'Unknown tool: q', 0],
  ['200, invalid params', 200, -32602, 'Invalid params: q is required', 0],
  ['400, a parameter with an unlucky name', 400, -32602, 'session_id is required', 1],
] as const;

describe('H03 an error under a session that is still good', () => {
  for (const [name, status, code, message, pings] of ERRORS) {
    it(`${name}: passes through, the session stays`, async () => {
      const scene = await startServer();
      const { server } = scene;
      const client = await connect(scene);
      server.replyOnce(CALL, { tool: 'run', status, body: ownError(code, message) });

      await expect(echo(client, 'bad')).rejects.toMatchObject({
        code,
        message: expect.stringContaining(message),
      });

      await echo(client, 'good');
      expect(server.counts.executionsById).toEqual({ bad: 1, good: 1 });
      expect(server.counts.initializes).toBe(1);
      expect(server.counts.pings).toBe(pings);
      const calls = server.log.filter((entry) => entry.rpcMethod === 'tools/call');
      expect(calls.map((entry) => entry.sessionLabel)).toEqual(['session#1', 'session#1']);
    });
  }

  it('in an event stream under 200: passes through, the session stays', async () => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene);
    const body = ownError(-32602, 'Invalid params: q is required');
    server.replyOnce(CALL, {
      tool: 'run',
      chunks: (request) => [`event: message\ndata: ${JSON.stringify(body(request))}\n\n`],
    });

    await expect(echo(client, 'bad')).rejects.toMatchObject({ code: -32602 });

    await echo(client, 'good');
    expect(server.counts).toMatchObject({ initializes: 1, pings: 0, executionsById: { bad: 1, good: 1 } });
  });

  for (const [name, body] of [
    ['an error without an id', { jsonrpc: '2.0', error: { code: -32602, message: 'Invalid params' } }],
    ['no JSON-RPC at all', { message: 'q is required' }],
  ] as const) {
    it(`400 with ${name}: one ping acquits the session, the outcome is unknown`, async () => {
      const scene = await startServer();
      const { server } = scene;
      const client = await connect(scene);
      server.replyOnce(CALL, { status: 400, body });

      const failure = await failureOf(echo(client, 'bad'));

      expect(failure).toMatchObject({ code: 'ERR_HTTP_STATUS', executed: 'unknown', status: 400 });
      await echo(client, 'good');
      expect(server.counts).toMatchObject({ initializes: 1, pings: 1, executionsById: { good: 1 } });
    });
  }

  for (const sdk of SDKS) {
    it(`under the stock ${sdk} Client: the SDK's own error, the session stays`, async () => {
      const scene = await startServer();
      const { server } = scene;
      const { client } = await connectStock(scene, sdk);
      server.replyOnce(CALL, { status: 400, body: ownError(-32602, 'Invalid params: q is required') });

      await expect(call(client, 'bad')).rejects.toMatchObject({ code: -32602 });

      await call(client, 'good');
      expect(server.counts).toMatchObject({ initializes: 1, pings: 0, executionsById: { good: 1 } });
    });
  }

  it('a model that gets a parameter wrong ten times in a row keeps its session, and sees its own error', async () => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene);
    const scripted = server.reply(CALL, {
      status: 400,
      body: ownError(-32602, 'Invalid params: q is required'),
    });

    for (let i = 0; i < 10; i += 1) {
      await expect(echo(client, `bad${i}`)).rejects.toMatchObject({ code: -32602 });
      await scene.clock.advance(3_000);
    }

    scripted.dispose();
    await echo(client, 'good');
    expect(server.counts.executionsById).toEqual({ good: 1 });
    expect(server.counts.initializes).toBe(1);
    expect(server.counts.pings).toBeLessThanOrEqual(5);
  });
});
