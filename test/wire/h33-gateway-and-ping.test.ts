import { describe, expect, it } from 'vitest';
import type { HostedMcpError } from '../../src/index.js';
import type { HostedServer, ScriptedReply, ScriptedRequest } from '../../src/testing/index.js';
import { call, connectStock, SDKS, type StockClient } from './stock.js';
import { connect, echo, failureOf, startServer } from './support.js';

const CALL = { http: 'POST', method: 'tools/call' } as const;
const PING = { http: 'POST', method: 'ping' } as const;
const HTML = { 'content-type': 'text/html' };
const refused = (status: number): ScriptedReply => ({
  status,
  body: { jsonrpc: '2.0', error: { code: -32000, message: 'Bad Request' }, id: null },
});
const pong: ScriptedReply = {
  status: 200,
  body: (request: ScriptedRequest) => ({ jsonrpc: '2.0', id: request.message?.id, result: {} }),
};

/** Ten mistakes of a model, each answered by a good call or not, three seconds apart. */
async function mistakes(
  scene: { server: HostedServer; clock: { advance(ms: number): Promise<void> } },
  client: StockClient,
  between: boolean,
) {
  const failures: HostedMcpError[] = [];
  for (let i = 0; i < 10; i += 1) {
    scene.server.replyOnce(CALL, refused(400));
    failures.push(await failureOf(call(client, `bad${i}`)));
    if (between) await call(client, `good${i}`);
    await scene.clock.advance(6_000);
  }
  return failures;
}

describe('H33 a gateway that has its own mind about ping', () => {
  for (const [name, reply] of [
    ['404 with an HTML page', { status: 404, headers: HTML, body: '<html>no such route</html>' }],
    ['404 with JSON', { status: 404, body: { error: 'not found' } }],
    ['403 with a page', { status: 403, headers: HTML, body: '<html>method not allowed here</html>' }],
    ['400 with an error', refused(400)],
  ] as const) {
    for (const between of [true, false]) {
      it(`refuses it with ${name} on healthy sessions, ${between ? 'good calls between the bad' : 'bad calls only'}: no endless re-initializing`, async () => {
        const scene = await startServer();
        const { server } = scene;
        const client = await connect(scene);
        server.reply(PING, reply);

        const failures = await mistakes(scene, client as StockClient, between);

        // The first doubt costs one session; from then on it is known that pings say nothing.
        expect(server.counts.initializes).toBeLessThanOrEqual(3);
        expect(server.counts.pings).toBeLessThanOrEqual(3);
        await echo(client, 'last');
        expect(client.connection.state).toBe('ready');
        expect(failures.at(-1)).toMatchObject({ code: 'ERR_HTTP_STATUS', executed: 'unknown', status: 400 });
        expect(server.counts.executionsById.last).toBe(1);
      });
    }
  }

  it('refuses it at every change of token: the session is replaced twice at most', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const client = await connect(scene);
    server.reply(PING, { status: 404, headers: HTML, body: '<html>no such route</html>' });

    for (let i = 0; i < 10; i += 1) {
      await clock.advance(50_000);
      await echo(client, `c${i}`);
    }

    expect(server.counts.tokenRequests).toBeGreaterThanOrEqual(10);
    expect(server.counts.initializes).toBeLessThanOrEqual(3);
    expect(server.counts.pings).toBeLessThanOrEqual(3);
    expect(Object.values(server.counts.executionsById)).toEqual(Array(10).fill(1));
  });

  for (const [name, reply] of [
    [
      '-32601',
      {
        status: 404,
        body: (r: ScriptedRequest) => ({
          jsonrpc: '2.0',
          id: r.message?.id,
          error: { code: -32601, message: 'Method not found' },
        }),
      },
    ],
    ['405', { status: 405, headers: HTML, body: '' }],
    ['429', { status: 429, headers: { 'retry-after': '1' }, body: '' }],
    ['502', { status: 502, headers: HTML, body: '<html>' }],
    ['a cut', { cut: 'reset' }],
  ] as const) {
    it(`answers it with ${name}: undecided, the session stays`, async () => {
      const scene = await startServer();
      const { server, clock } = scene;
      const client = await connect(scene);
      server.reply(PING, reply);
      server.replyOnce(CALL, refused(400));

      const failure = await failureOf(echo(client, 'bad'));

      expect(failure).toMatchObject({ code: 'ERR_HTTP_STATUS', executed: 'unknown' });
      // A 429 pauses everything for its second.
      await Promise.all([echo(client, 'good'), clock.advance(1_000)]);
      expect(server.counts).toMatchObject({ initializes: 1, pings: 1, executionsById: { good: 1 } });
    });
  }

  it('never answers it: the session stays, and the caller hears within the bound', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const client = await connect(scene);
    server.reply(PING, { silence: true });
    server.replyOnce(CALL, refused(400));

    const failed = failureOf(echo(client, 'bad'));
    await clock.advance(5_000);

    expect(await failed).toMatchObject({ code: 'ERR_HTTP_STATUS', executed: 'unknown' });
    await echo(client, 'good');
    expect(server.counts).toMatchObject({ initializes: 1, executionsById: { good: 1 } });
  });

  for (const status of [400, 403, 401, 200] as const) {
    it(`answers it itself on dead sessions, calls get ${status}: replaced after three suspects in a row`, async () => {
      const scene = await startServer({ sessionLostStatus: status, challenge: 'none' });
      const { server, clock } = scene;
      const client = await connect(scene);
      await echo(client, 'before');
      server.reply(PING, pong);
      server.dropSessions();

      const codes: string[] = [];
      for (let i = 0; i < 3; i += 1) {
        codes.push((await failureOf(echo(client, `dead${i}`))).code);
        await clock.advance(20_000);
      }

      expect(codes.at(-1)).toBe('ERR_SESSION_LOST');
      await echo(client, 'after');
      expect(server.counts.initializes).toBe(2);
      expect(server.counts.executionsById).toEqual({ before: 1, after: 1 });
    });
  }

  it('dead sessions whose errors carry the id of the request: the same', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const client = await connect(scene);
    server.reply(PING, pong);
    const scripted = server.reply(CALL, {
      status: 400,
      body: (request: ScriptedRequest) => ({
        jsonrpc: '2.0',
        id: request.message?.id,
        error: { code: -32000, message: 'Bad Request: No valid session ID provided' },
      }),
    });
    for (let i = 0; i < 3; i += 1) {
      await expect(echo(client, `dead${i}`)).rejects.toThrow();
      await clock.advance(20_000);
    }
    scripted.dispose();

    await echo(client, 'after');
    expect(server.counts.initializes).toBe(2);
    expect(server.counts.executionsById).toEqual({ after: 1 });
  });

  for (const sdk of SDKS) {
    it(`under the stock ${sdk} Client: a gateway that answers ping for a dead session`, async () => {
      const scene = await startServer({ sessionLostStatus: 400 });
      const { server, clock } = scene;
      const { client } = await connectStock(scene, sdk);
      server.reply(PING, pong);
      server.dropSessions();
      const failures: HostedMcpError[] = [];
      for (let i = 0; i < 3; i += 1) {
        failures.push(await failureOf(call(client, `dead${i}`)));
        await clock.advance(20_000);
      }

      await call(client, 'after');

      expect(failures.at(-1)).toMatchObject({ code: 'ERR_SESSION_LOST', executed: false });
      expect(server.counts.initializes).toBe(2);
      expect(server.counts.executionsById).toEqual({ after: 1 });
    });
  }
});
