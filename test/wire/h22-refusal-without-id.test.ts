import { describe, expect, it } from 'vitest';
import { call, connectStock, SDKS } from './stock.js';
import { connect, echo, failureOf, startServer } from './support.js';

const NO_SESSION = { code: -32000, message: 'Bad Request: No valid session ID provided' };
const UNNAMED = { jsonrpc: '2.0', error: NO_SESSION };
const POST = { http: 'POST' } as const;

/** After the DELETE everything under the old id is refused so; the new `initialize` works. */
const BODIES = [
  ['JSON without an id', { status: 400, body: UNNAMED }, 400],
  ['JSON with id null', { status: 400, body: { ...UNNAMED, id: null } }, 400],
  [
    'without an id and without the word',
    { status: 400, body: { jsonrpc: '2.0', error: { code: -32000, message: 'Bad Request' } } },
    400,
  ],
  [
    'a text type around JSON',
    { status: 400, headers: { 'content-type': 'text/plain' }, body: JSON.stringify(UNNAMED) },
    400,
  ],
  ['a list of one', { status: 400, body: [UNNAMED] }, 400],
  ['403', { status: 403, body: UNNAMED }, 403],
] as const;

describe('H22 somebody else deletes the session, and the refusal has no id', () => {
  for (const [name, reply, status] of BODIES) {
    it(`${name}: one ping decides, one initialize, nothing replayed`, async () => {
      const scene = await startServer();
      const { server } = scene;
      const client = await connect(scene);
      await echo(client, 'before');
      server.replyOnce({ ...POST, method: 'tools/call' }, reply);
      server.replyOnce({ ...POST, method: 'ping' }, reply);

      const failure = await failureOf(echo(client, 'lost'));

      expect(failure).toMatchObject({ code: 'ERR_SESSION_LOST', executed: false, retryable: true, status });
      await echo(client, 'after');
      expect(server.counts).toMatchObject({
        initializes: 2,
        pings: 1,
        executionsById: { before: 1, after: 1 },
      });
      const calls = server.log.filter((entry) => entry.rpcMethod === 'tools/call');
      expect(calls.map((entry) => entry.sessionLabel)).toEqual(['session#1', 'session#1', 'session#2']);
    });
  }

  it('its other 400s look alike: where the ping is answered, the session stays', async () => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene);
    server.replyOnce({ ...POST, method: 'tools/call' }, { status: 400, body: UNNAMED });

    const failure = await failureOf(echo(client, 'bad'));

    expect(failure).toMatchObject({ code: 'ERR_HTTP_STATUS', executed: 'unknown', status: 400 });
    await echo(client, 'good');
    expect(server.counts).toMatchObject({ initializes: 1, pings: 1, executionsById: { good: 1 } });
  });

  it('a read that meets it is answered on the new session, without the caller hearing of it', async () => {
    const scene = await startServer({ sessionLostStatus: 400 });
    const { server } = scene;
    const client = await connect(scene);
    server.dropSessions();

    const { tools } = await client.listTools();

    expect(tools.length).toBeGreaterThan(0);
    expect(server.counts).toMatchObject({ initializes: 2, pings: 1 });
    expect(server.log.filter((entry) => entry.rpcMethod === 'tools/list')).toHaveLength(2);
  });

  for (const sdk of SDKS) {
    it(`a real DELETE under the stock ${sdk} Client: one ping, one initialize, nothing replayed`, async () => {
      const scene = await startServer({ sessionLostStatus: 400 });
      const { server } = scene;
      const { client, transport } = await connectStock(scene, sdk);
      await fetch(server.url, {
        method: 'DELETE',
        headers: {
          'mcp-session-id': transport.sessionId ?? '',
          authorization: `Bearer ${server.issueToken()}`,
        },
      });

      const failure = await failureOf(call(client, 'lost'));

      expect(failure).toMatchObject({ code: 'ERR_SESSION_LOST', executed: false });
      await call(client, 'after');
      expect(server.counts).toMatchObject({ deletes: 1, initializes: 2, pings: 1 });
      expect(server.counts.executionsById).toEqual({ after: 1 });
    });
  }
});
