import { describe, expect, it } from 'vitest';
import { HostedClient } from '../../src/client.js';
import type { ScriptedHeaders, ScriptedRequest } from '../../src/testing/index.js';
import { call, connectStock, SDKS } from './stock.js';
import { closeLater, connect, echo, failureOf, machine, type Scene, startServer } from './support.js';

const CALL = { http: 'POST', method: 'tools/call' } as const;
const INITIALIZE = { http: 'POST', method: 'initialize' } as const;
const OTHER = { 'mcp-session-id': 'somebody-else' };

const sessionsOf = ({ server }: Scene, method: string) =>
  server.log.filter((entry) => entry.rpcMethod === method).map((entry) => entry.sessionLabel);

const ownError = (request: ScriptedRequest) => ({
  jsonrpc: '2.0',
  id: request.message?.id,
  error: { code: -32602, message: 'Invalid params' },
});

const unconnected = (scene: Scene) => {
  const client = new HostedClient(
    { name: 'test', version: '1.0.0' },
    { url: scene.server.url, credentials: machine(scene), clock: scene.clock },
  );
  closeLater(() => client.close());
  return client;
};

/** `initialize` runs; its answer carries the header so. */
const initializedWith = (headers: (id: string) => ScriptedHeaders) =>
  ({
    tool: 'run',
    status: 200,
    headers: (request: ScriptedRequest) => headers(request.sessionId ?? ''),
    body: (request: ScriptedRequest) => request.answer ?? {},
  }) as const;

describe('H26 a session id where none belongs, or twice', () => {
  it.each([
    ['an error with the id of the request', { status: 400, headers: OTHER, body: ownError }],
    [
      'an error without an id',
      { status: 400, headers: OTHER, body: { jsonrpc: '2.0', error: { code: -32600, message: 'no' } } },
    ],
    [
      '503 from a gateway',
      { status: 503, headers: { ...OTHER, 'content-type': 'text/html' }, body: '<html>' },
    ],
    ['429', { status: 429, headers: OTHER, body: '' }],
    [
      'an answer that is fine',
      { tool: 'run', status: 200, headers: OTHER, body: (request: ScriptedRequest) => request.answer ?? {} },
    ],
  ] as const)('on %s to a call: not adopted', async (_name, reply) => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene, { retry: { resendOn429: 'never' } });
    server.replyOnce(CALL, reply);

    await echo(client, 'odd').catch(() => {});
    await scene.clock.advance(2_000);
    await echo(client, 'after');

    expect(sessionsOf(scene, 'tools/call')).toEqual(['session#1', 'session#1']);
    expect(server.counts).toMatchObject({ initializes: 1, executionsById: { after: 1 } });
  });

  it('on an `initialize` that fails: not adopted, and the next one carries none', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    server.replyOnce(INITIALIZE, { status: 503, headers: OTHER, body: 'Service Unavailable' });
    const client = unconnected(scene);

    const connecting = client.connect();
    await clock.advance(5_000);
    await connecting;
    await echo(client, 'after');

    expect(sessionsOf(scene, 'initialize')).toEqual([undefined, 'session#1']);
    expect(server.log.every((entry) => !entry.sessionLabel?.startsWith('unknown'))).toBe(true);
    expect(server.counts).toMatchObject({ initializes: 2, executionsById: { after: 1 } });
  });

  it.each([
    ['two headers alike', (id: string) => ({ 'mcp-session-id': [id, id] })],
    ['one header, the id in it twice', (id: string) => ({ 'mcp-session-id': `${id}, ${id}` })],
    ['one header, twice without a space', (id: string) => ({ 'mcp-session-id': `${id},${id}` })],
  ])('%s: counts once', async (_name, headers) => {
    const scene = await startServer();
    const { server } = scene;
    server.replyOnce(INITIALIZE, initializedWith(headers));
    const client = unconnected(scene);

    await client.connect();
    await echo(client, 'one');

    expect(sessionsOf(scene, 'notifications/initialized')).toEqual(['session#1']);
    expect(sessionsOf(scene, 'tools/call')).toEqual(['session#1']);
    expect(server.counts).toMatchObject({ initializes: 1, executionsById: { one: 1 } });
  });

  it.each([
    ['two different ids in two headers', (id: string) => ({ 'mcp-session-id': [id, 'other'] })],
    ['two different ids in one header', (id: string) => ({ 'mcp-session-id': `other, ${id}` })],
    ['an id with a space in it', (id: string) => ({ 'mcp-session-id': `${id} x` })],
    ['an id of 2,000 characters', () => ({ 'mcp-session-id': 'x'.repeat(2_000) })],
    ['an empty id', () => ({ 'mcp-session-id': '' })],
  ])('%s: refused, and nothing is ever sent back', async (_name, headers) => {
    const scene = await startServer();
    const { server } = scene;
    server.replyOnce(INITIALIZE, initializedWith(headers));
    const client = unconnected(scene);

    const failure = await failureOf(client.connect());

    expect(failure).toMatchObject({ code: 'ERR_PROTOCOL', executed: false });
    expect(server.log.filter((entry) => entry.headers['mcp-session-id'] !== undefined)).toHaveLength(0);
    await client.connect();
    await echo(client, 'after');
    expect(server.counts).toMatchObject({ initializes: 2, executionsById: { after: 1 } });
  });

  for (const sdk of SDKS) {
    it(`under the stock ${sdk} Client: \`transport.sessionId\` stays what \`initialize\` gave`, async () => {
      const scene = await startServer();
      const { server } = scene;
      server.replyOnce(
        INITIALIZE,
        initializedWith((id) => ({ 'mcp-session-id': [id, id] })),
      );
      const { client, transport } = await connectStock(scene, sdk);
      const given = transport.sessionId;
      server.replyOnce(CALL, { status: 400, headers: OTHER, body: ownError });

      await expect(call(client, 'odd')).rejects.toMatchObject({ code: -32602 });
      await call(client, 'after');

      expect(given).not.toContain(',');
      expect(transport.sessionId).toBe(given);
      expect(sessionsOf(scene, 'tools/call')).toEqual(['session#1', 'session#1']);
    });
  }
});
