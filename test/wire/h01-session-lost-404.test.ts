import { describe, expect, it } from 'vitest';
import { connect, echo, failureOf, startServer } from './support.js';

const LOSSES = [
  ['404 with id null', { code: -32001, message: 'Session not found' }, null],
  ['404 in another language', { code: -32600, message: 'Sitzung unbekannt' }, null],
] as const;

describe('H01 a session lost with 404', () => {
  for (const [name, error, id] of LOSSES) {
    it(`${name}: one initialize, no resend, a typed error, the next call works`, async () => {
      const scene = await startServer();
      const { server } = scene;
      const client = await connect(scene);
      await echo(client, 'before');
      server.dropSessions();
      server.replyOnce(
        { http: 'POST', method: 'tools/call' },
        { status: 404, headers: { 'content-type': 'application/json' }, body: { jsonrpc: '2.0', error, id } },
      );

      const failure = await failureOf(echo(client, 'lost'));

      expect(failure).toMatchObject({
        code: 'ERR_SESSION_LOST',
        executed: false,
        retryable: true,
        status: 404,
      });
      await echo(client, 'after');
      expect(server.counts.executionsById).toEqual({ before: 1, after: 1 });
      expect(server.counts.initializes).toBe(2);
      const handshake = server.log.filter((entry) => entry.rpcMethod === 'initialize').at(-1);
      expect(handshake?.headers['mcp-session-id']).toBeUndefined();
      expect(handshake?.headers['mcp-protocol-version']).toBeUndefined();
      expect(server.log.filter((entry) => entry.rpcMethod === 'notifications/initialized')).toHaveLength(2);
    });
  }

  it('an HTML page with 404: the outcome is unknown, the old session is given up only for a new one', async () => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene);
    server.replyOnce(
      { http: 'POST', method: 'tools/call' },
      { status: 404, headers: { 'content-type': 'text/html' }, body: '<html>no such route</html>' },
    );

    const failure = await failureOf(echo(client, 'lost'));

    expect(failure).toMatchObject({ code: 'ERR_SESSION_LOST', executed: 'unknown', retryable: false });
    await echo(client, 'after');
    expect(server.counts.executionsById).toEqual({ after: 1 });
    expect(server.counts.initializes).toBe(2);
  });
});
