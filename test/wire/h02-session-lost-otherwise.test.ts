import { describe, expect, it } from 'vitest';
import type { HostedServer } from '../../src/testing/index.js';
import { call, connectStock, SDKS } from './stock.js';
import { connect, echo, failureOf, startServer } from './support.js';

const NO_SESSION = { code: -32000, message: 'Bad Request: No valid session ID provided' };
const JSON_TYPE = { 'content-type': 'application/json' };
const refusal = (error: object) => ({ jsonrpc: '2.0', error, id: null });

/** How the dead session refuses the call, how it refuses the ping, and what is known of the call. */
const SPELLINGS = [
  { name: 'its own 400', ping: 400, executed: false },
  { name: 'its own 401 without a challenge', ping: 401, executed: false },
  { name: 'its own 403', ping: 403, executed: false },
  { name: 'its own 200 with an error', ping: 200, executed: false },
  {
    name: '500 with an error about the session',
    reply: { status: 500, body: refusal({ code: -32603, message: 'Unknown session' }) },
    ping: 404,
    executed: false,
  },
  {
    name: '503 with an error in another language',
    reply: { status: 503, body: refusal({ code: -32000, message: 'Sitzung abgelaufen' }) },
    ping: 400,
    executed: false,
  },
  {
    name: '200 with an error in an event stream',
    reply: {
      chunks: [`event: message\ndata: ${JSON.stringify(refusal(NO_SESSION))}\n\n`],
    },
    ping: 200,
    executed: false,
  },
  {
    name: '400 in plain text',
    reply: { status: 400, headers: { 'content-type': 'text/plain' }, body: 'Invalid or missing session ID' },
    ping: 400,
    executed: 'unknown',
  },
  {
    name: '400 with JSON that is no JSON-RPC',
    reply: { status: 400, headers: JSON_TYPE, body: { error: 'session expired' } },
    ping: 404,
    executed: 'unknown',
  },
] as const;

function expectOneRecovery(server: HostedServer, executed: Record<string, number>): void {
  expect(server.counts.executionsById).toEqual(executed);
  expect(server.counts.initializes).toBe(2);
  expect(server.counts.pings).toBe(1);
  const handshakes = server.log.filter((entry) => entry.rpcMethod === 'initialize');
  expect(handshakes.at(-1)?.headers['mcp-session-id']).toBeUndefined();
  expect(handshakes.at(-1)?.headers['mcp-protocol-version']).toBeUndefined();
  const announced = server.log.filter((entry) => entry.rpcMethod === 'notifications/initialized');
  expect(announced.map((entry) => entry.sessionLabel)).toEqual(['session#1', 'session#2']);
  const calls = server.log.filter((entry) => entry.rpcMethod === 'tools/call');
  expect(calls.map((entry) => entry.sessionLabel)).toEqual(['session#1', 'session#1', 'session#2']);
}

describe('H02 a session lost with another signal than 404', () => {
  for (const spelling of SPELLINGS) {
    it(`${spelling.name}: one ping, one initialize, no resend, a typed error, the next call works`, async () => {
      const scene = await startServer();
      const { server } = scene;
      const client = await connect(scene);
      await echo(client, 'before');
      server.set({ sessionLostStatus: spelling.ping });
      server.dropSessions();
      if ('reply' in spelling) server.replyOnce({ http: 'POST', method: 'tools/call' }, spelling.reply);

      const failure = await failureOf(echo(client, 'lost'));

      expect(failure).toMatchObject({
        code: 'ERR_SESSION_LOST',
        executed: spelling.executed,
        retryable: spelling.executed === false,
      });
      await echo(client, 'after');
      expectOneRecovery(server, { before: 1, after: 1 });
    });
  }

  for (const sdk of SDKS) {
    it(`under the stock ${sdk} Client: the same, with our own error`, async () => {
      const scene = await startServer({ sessionLostStatus: 400 });
      const { server } = scene;
      const { client, transport } = await connectStock(scene, sdk);
      const first = transport.sessionId;
      await call(client, 'before');
      server.dropSessions();

      const failure = await failureOf(call(client, 'lost'));

      expect(failure).toMatchObject({ code: 'ERR_SESSION_LOST', executed: false, status: 400 });
      await call(client, 'after');
      expectOneRecovery(server, { before: 1, after: 1 });
      expect(transport.sessionId).not.toBe(first);
    });
  }

  it('twenty callers meet it together: one ping, one initialize, nobody is sent twice', async () => {
    const scene = await startServer({ sessionLostStatus: 400 });
    const { server } = scene;
    const client = await connect(scene);
    server.dropSessions();

    const outcomes = await Promise.allSettled(Array.from({ length: 20 }, (_, i) => echo(client, `c${i}`)));

    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') {
        expect(outcome.reason).toMatchObject({ code: 'ERR_SESSION_LOST', executed: false });
      }
    }
    expect(outcomes.some((outcome) => outcome.status === 'rejected')).toBe(true);
    expect(server.counts.initializes).toBe(2);
    expect(server.counts.pings).toBe(1);
    expect(server.log.filter((entry) => entry.rpcMethod === 'tools/call')).toHaveLength(20);
    await echo(client, 'after');
    expect(server.counts.executionsById.after).toBe(1);
  });
});
