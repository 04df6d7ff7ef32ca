import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterEach, describe, expect, test } from 'vitest';
import {
  type HostedServer,
  type HostedServerOptions,
  manualClock,
  type ToolCallContext,
} from '../../../src/testing/index.js';
import { initialize, messageOf, messages, readUntil, request, start } from './support.js';

const VERSION = '2026-07-28';
const MODERN: HostedServerOptions = { protocolVersion: VERSION, auth: false };
const ENVELOPE = {
  'io.modelcontextprotocol/protocolVersion': VERSION,
  'io.modelcontextprotocol/clientInfo': { name: 'plain', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

const open: Client[] = [];
afterEach(async () => {
  for (const client of open.splice(0)) await client.close();
});

/** A request of this revision, with envelope and headers. */
function post(
  server: HostedServer,
  method: string,
  params: Record<string, unknown> = {},
  o: { headers?: Record<string, string>; meta?: object; signal?: AbortSignal } = {},
): Promise<Response> {
  const name = params.name ?? params.uri;
  return fetch(server.url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': VERSION,
      'mcp-method': method,
      ...(typeof name === 'string' ? { 'mcp-name': name } : {}),
      ...o.headers,
    },
    body: JSON.stringify(request(method, { ...params, _meta: { ...ENVELOPE, ...o.meta } })),
    ...(o.signal === undefined ? {} : { signal: o.signal }),
  });
}

async function stock(server: HostedServer, options: object = {}): Promise<Client> {
  const client = new Client(
    { name: 'stock', version: '1' },
    { versionNegotiation: { mode: 'auto' }, ...options },
  );
  open.push(client);
  await client.connect(new StreamableHTTPClientTransport(new URL(server.url)));
  return client;
}

describe('SDK v2’s Client, negotiating', () => {
  test('discovers, lists and calls, without handshake, session or GET', async () => {
    const server = await start(MODERN);
    const client = await stock(server);
    expect(client.getNegotiatedProtocolVersion()).toBe(VERSION);
    expect(client.getServerVersion()).toMatchObject({ name: 'mcp-holdfast-simulator' });
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['echo', 'add', 'slow', 'fail']);
    const result = await client.callTool({ name: 'add', arguments: { a: 2, b: 3 } });
    expect(result.content).toEqual([{ type: 'text', text: '5' }]);
    expect((await client.callTool({ name: 'fail', arguments: {} })).isError).toBe(true);
    await expect(client.callTool({ name: 'none', arguments: {} })).rejects.toMatchObject({ code: -32602 });
    expect(await client.listResources()).toMatchObject({ resources: [{ uri: 'memo://welcome' }] });
    expect((await client.readResource({ uri: 'memo://welcome' })).contents).toHaveLength(1);
    expect(server.counts).toMatchObject({
      initializes: 0,
      gets: 0,
      deletes: 0,
      executions: { add: 1, fail: 1 },
    });
    expect(server.log.every(({ headers }) => headers['mcp-session-id'] === undefined)).toBe(true);
  });

  test('progress comes on the stream of the call', async () => {
    const server = await start(MODERN);
    const client = await stock(server);
    const seen: number[] = [];
    await client.callTool(
      { name: 'slow', arguments: { ms: 5 } },
      { onprogress: ({ progress }) => seen.push(progress) },
    );
    expect(seen).toEqual([0, 50, 100]);
  });

  test('listens on a POST, is told what it asked for, and not that the stream was cut', async () => {
    const server = await start(MODERN);
    const client = await stock(server);
    const heard: string[] = [];
    const told = new Promise<void>((resolve) => {
      client.setNotificationHandler('notifications/tools/list_changed', () => {
        heard.push('tools');
        resolve();
      });
    });
    client.setNotificationHandler('notifications/prompts/list_changed', () => void heard.push('prompts'));
    const subscription = await client.listen({ toolsListChanged: true });
    expect(subscription.honoredFilter).toEqual({ toolsListChanged: true });
    server.notify('notifications/prompts/list_changed');
    server.notify('notifications/tools/list_changed');
    await told;
    expect(heard).toEqual(['tools']);
    server.cutStreams();
    expect(await subscription.closed).toBe('remote');
    expect(server.counts).toMatchObject({ subscriptions: 1, streamsOpen: 0, gets: 0 });
    const second = await client.listen({ toolsListChanged: true });
    expect(server.counts).toMatchObject({ subscriptions: 2, streamsOpen: 1 });
    await second.close();
    await expect.poll(() => server.counts.streamsOpen).toBe(0);
  });

  test('falls back to the handshake where the server is of before', async () => {
    const server = await start({ auth: false });
    const client = await stock(server);
    expect(client.getNegotiatedProtocolVersion()).toBe('2025-11-25');
    expect(server.counts.initializes).toBe(1);
  });
});

describe('the wire', () => {
  test('what is gone is refused: handshake, ping, GET, DELETE', async () => {
    const server = await start(MODERN);
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    const shaken = await fetch(server.url, {
      method: 'POST',
      headers,
      body: JSON.stringify(initialize('2025-11-25')),
    });
    expect([shaken.status, (await messageOf(shaken)).error.code]).toEqual([404, -32601]);
    for (const method of ['initialize', 'ping', 'logging/setLevel', 'resources/subscribe']) {
      const refused = await post(server, method);
      expect([refused.status, (await messageOf(refused)).error.code]).toEqual([404, -32601]);
    }
    for (const method of ['GET', 'DELETE']) {
      const refused = await fetch(server.url, { method, headers });
      expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'POST']);
    }
  });

  test.each([
    [-32022, { meta: { 'io.modelcontextprotocol/protocolVersion': '2025-11-25' } }],
    [-32602, { meta: { 'io.modelcontextprotocol/clientInfo': undefined } }],
    [-32020, { headers: { 'mcp-method': 'tools/list' } }],
    [-32020, { headers: { 'mcp-name': 'other' } }],
    [-32020, { headers: { 'mcp-protocol-version': '2025-11-25' } }],
  ])('400 and %d, and nothing runs: %j', async (code, o) => {
    const server = await start(MODERN);
    const refused = await post(server, 'tools/call', { name: 'echo' }, o);
    const { error, id } = await messageOf(refused);
    expect([refused.status, error.code, id]).toEqual([400, code, expect.any(Number)]);
    if (code === -32022) expect(error.data).toMatchObject({ supported: [VERSION] });
    expect(server.counts.executions).toEqual({});
  });

  test('a name that is no header value comes coded', async () => {
    const server = await start({ ...MODERN, tools: [{ name: 'größe', handler: () => 'ok' }] });
    const coded = `=?base64?${Buffer.from('größe').toString('base64')}?=`;
    const answer = await post(server, 'tools/call', { name: 'größe' }, { headers: { 'mcp-name': coded } });
    expect((await messageOf(answer)).result).toMatchObject({ resultType: 'complete' });
  });

  test('every result says that it is complete, lists how long they hold', async () => {
    const server = await start(MODERN);
    const { result } = await messageOf(await post(server, 'tools/list'));
    expect(result).toMatchObject({
      resultType: 'complete',
      ttlMs: 0,
      cacheScope: 'private',
      _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'mcp-holdfast-simulator' } },
    });
  });

  test('a subscription is acknowledged first, and every notification names it', async () => {
    const server = await start(MODERN);
    const filter = { resourceSubscriptions: ['memo://welcome'] };
    const stream = await post(server, 'subscriptions/listen', { notifications: filter });
    server.notify('notifications/resources/updated', { uri: 'memo://other' });
    server.notify('notifications/resources/updated', { uri: 'memo://welcome' });
    const [first, second] = messages(
      await readUntil(stream, (text) => text.includes('"memo://welcome"}') || text.split('data:').length > 2),
    );
    const id = first.params._meta['io.modelcontextprotocol/subscriptionId'];
    expect(first).toMatchObject({
      method: 'notifications/subscriptions/acknowledged',
      params: { notifications: filter },
    });
    expect(second.params).toEqual({
      uri: 'memo://welcome',
      _meta: { 'io.modelcontextprotocol/subscriptionId': id },
    });
  });

  test('a call is cancelled by closing its stream, not by a cut', async () => {
    const aborted: string[] = [];
    const clock = manualClock();
    const tools = [
      {
        name: 'long',
        handler: async (args: Record<string, unknown>, call: ToolCallContext) => {
          call.signal.addEventListener('abort', () => aborted.push(String(args.as)));
          await call.wait(10_000);
        },
      },
    ];
    const server = await start({ ...MODERN, answer: 'sse', clock, tools });
    const cut = await post(server, 'tools/call', { name: 'long', arguments: { as: 'cut' } });
    server.cutStreams();
    await expect(cut.text()).rejects.toThrow();
    const leaving = new AbortController();
    const args = { name: 'long', arguments: { as: 'left' } };
    await post(server, 'tools/call', args, { signal: leaving.signal });
    leaving.abort();
    await expect.poll(() => aborted).toEqual(['left']);
    await clock.advance(10_000);
    expect(aborted).toEqual(['left']);
    expect(server.counts.executions).toEqual({ long: 2 });
  });

  test('limits of the way hold for subscriptions, and carry no event ids', async () => {
    const clock = manualClock();
    const server = await start({ ...MODERN, clock, idleCutMs: 60_000, cutShape: 'status', eventStore: true });
    const listen = () => post(server, 'subscriptions/listen', { notifications: { toolsListChanged: true } });
    const end = (await listen()).text().catch((error) => error.cause.code);
    await clock.advance(60_000);
    expect(await end).toBe('UND_ERR_SOCKET');
    const statuses = [];
    for (let n = 0; n < 4; n += 1) statuses.push((await listen()).status);
    expect(statuses).toEqual([502, 503, 504, 200]);
    const call = await post(
      server,
      'tools/call',
      { name: 'slow', arguments: { ms: 1 } },
      { meta: { progressToken: 1 } },
    );
    const body = call.text();
    await clock.advance(1);
    expect(messages(await body)).toHaveLength(4);
    expect(await body).not.toContain('id: ');
  });

  test('a tool cannot ask the client', async () => {
    const tools = [
      { name: 'ask', handler: (_: unknown, call: ToolCallContext) => call.request('roots/list') },
    ];
    const server = await start({ ...MODERN, tools, answer: 'sse' });
    const { result } = await messageOf(await post(server, 'tools/call', { name: 'ask' }));
    expect(result.isError).toBe(true);
  });

  test('tokens, limits and scripts hold as elsewhere', async () => {
    const server = await start({ ...MODERN, auth: true });
    expect((await post(server, 'tools/list')).status).toBe(401);
    const headers = { authorization: `Bearer ${server.issueToken()}` };
    expect((await post(server, 'tools/list', {}, { headers })).status).toBe(200);
    server.replyOnce({ method: 'server/discover' }, { tool: 'run', cut: 'fin' });
    await expect(post(server, 'server/discover', {}, { headers })).rejects.toThrow();
    server.replyOnce({ tool: 'echo' }, { tool: 'run', status: 503 });
    expect((await post(server, 'tools/call', { name: 'echo' }, { headers })).status).toBe(503);
    server.throttle(1_000);
    expect((await post(server, 'tools/list', {}, { headers })).status).toBe(429);
    expect(server.counts.executions).toEqual({ echo: 1 });
  });
});
