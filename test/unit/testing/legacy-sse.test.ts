import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { expect, test } from 'vitest';
import {
  type HostedServer,
  type HostedServerOptions,
  manualClock,
  type ToolCallContext,
} from '../../../src/testing/index.js';
import { initialize, messages, peerOf, readUntil, request, start, toolCall } from './support.js';

const LEGACY: HostedServerOptions = { transport: 'legacy-sse', auth: false };

/** An open stream, read event by event. */
async function openStream(server: HostedServer, headers: Record<string, string> = {}) {
  const response = await fetch(server.url, { headers: { accept: 'text/event-stream', ...headers } });
  const first = await readUntil(response, (text) => text.endsWith('\n\n'));
  const endpoint = /^event: endpoint\ndata: (\S+)\n\n$/.exec(first)?.[1] ?? '';
  const post = (message: object) =>
    fetch(new URL(endpoint, server.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(message),
    });
  const next = async () => messages(await readUntil(response, (text) => text.endsWith('\n\n')))[0];
  const ask = async (message: object) => {
    const answered = next();
    const { status } = await post(message);
    return { status, message: await answered };
  };
  return { response, endpoint, post, next, ask };
}

async function handshake(server: HostedServer) {
  const stream = await openStream(server);
  await stream.ask(initialize('2024-11-05'));
  await stream.post({ jsonrpc: '2.0', method: 'notifications/initialized' });
  return stream;
}

test('the stream says where to post, and carries every answer', async () => {
  const server = await start(LEGACY);
  expect(new URL(server.url).pathname).toBe('/sse');
  const stream = await openStream(server);
  expect(stream.endpoint).toMatch(/^\/messages\?sessionId=[0-9a-f-]{36}$/);
  const shaken = await stream.ask(initialize('2024-11-05'));
  expect(shaken).toMatchObject({ status: 202, message: { result: { protocolVersion: '2024-11-05' } } });
  const call = await stream.ask(toolCall('echo', { text: 'x' }));
  expect(call.message.result.content[0].text).toBe('x');
  server.notify('notifications/tools/list_changed');
  expect(await stream.next()).toEqual({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
  expect(server.counts).toMatchObject({ gets: 1, listens: 0, initializes: 1, streamsOpen: 1 });
  const log = JSON.stringify(server.log);
  expect(log).not.toContain(stream.endpoint.split('=')[1]);
  expect(server.log.map(({ path, sessionLabel }) => `${path} ${sessionLabel}`)).toEqual([
    '/sse session#1',
    '/messages session#1',
    '/messages session#1',
  ]);
});

test.each([404, 405, 400] as const)('Streamable HTTP is refused with %d', async (legacyRefusalStatus) => {
  const server = await start({ ...LEGACY, legacyRefusalStatus });
  const origin = new URL(server.url).origin;
  const body = JSON.stringify(initialize('2025-11-25'));
  for (const [method, path] of [
    ['POST', '/sse'],
    ['POST', '/mcp'],
    ['GET', '/mcp'],
  ]) {
    const refused = await fetch(origin + path, { method: method!, ...(method === 'POST' ? { body } : {}) });
    expect(refused.status).toBe(legacyRefusalStatus);
  }
  expect(server.counts.initializes).toBe(2);
});

test('another endpoint is announced as it is given', async () => {
  const server = await start({ ...LEGACY, legacyEndpoint: 'https://elsewhere.example/in?a=b' });
  const { endpoint } = await openStream(server);
  expect(endpoint).toMatch(/^https:\/\/elsewhere\.example\/in\?a=b&sessionId=/);
});

test('a cut loses the session, and the next one must shake hands again', async () => {
  const server = await start(LEGACY);
  const first = await handshake(server);
  server.cutStreams();
  await expect(first.next()).rejects.toThrow();
  expect((await first.post(toolCall('echo'))).status).toBe(404);
  const second = await openStream(server);
  const refused = await second.ask(toolCall('echo'));
  expect(refused).toMatchObject({ status: 202, message: { error: { code: -32602 } } });
  expect((await second.ask(request('ping'))).message.result).toEqual({});
  await second.ask(initialize('2024-11-05'));
  expect((await second.ask(toolCall('echo', { text: 'y' }))).message.result.content[0].text).toBe('y');
  expect(server.counts.executions).toEqual({ echo: 1 });
});

test('an answer that comes after the cut is lost; the tool ran', async () => {
  const clock = manualClock();
  const server = await start({ ...LEGACY, clock, idleCutMs: 60_000 });
  const stream = await handshake(server);
  expect((await stream.post(toolCall('slow', { ms: 74_000 }))).status).toBe(202);
  const cut = expect(stream.next()).rejects.toThrow();
  await clock.advance(60_000);
  await cut;
  await clock.advance(14_000);
  expect(server.counts).toMatchObject({ executions: { slow: 1 }, streamsOpen: 0 });
});

test('a ping is answered on the stream, and so keeps it open', async () => {
  const clock = manualClock();
  const server = await start({ ...LEGACY, clock, idleCutMs: 60_000 });
  const stream = await handshake(server);
  for (let n = 0; n < 5; n += 1) {
    await clock.advance(50_000);
    expect((await stream.ask(request('ping'))).message.result).toEqual({});
  }
  expect(server.counts).toMatchObject({ gets: 1, pings: 5, streamsOpen: 1 });
});

test('with aborts not propagated the old session outlives its stream', async () => {
  const server = await start({ ...LEGACY, abortNotPropagated: true });
  const stream = await handshake(server);
  server.cutStreams();
  expect((await stream.post(toolCall('echo'))).status).toBe(202);
  server.releaseStreams();
  expect((await stream.post(toolCall('echo'))).status).toBe(404);
});

test('tokens, limits, dropped sessions and scripts hold as elsewhere', async () => {
  const server = await start({ ...LEGACY, auth: true, bindSession: 'token' });
  const refused = await peerOf(server).get();
  expect(refused.status).toBe(401);
  expect(refused.headers.get('www-authenticate')).toContain('/.well-known/oauth-protected-resource/sse"');
  const metadata = await fetch(`${server.issuer}/.well-known/oauth-protected-resource/sse`);
  expect(await metadata.json()).toMatchObject({ resource: server.url });

  const stream = await openStream(server, { authorization: `Bearer ${server.issueToken()}` });
  await stream.ask(initialize('2024-11-05'));
  server.replyOnce({ tool: 'echo' }, { tool: 'run', status: 401, body: {} });
  expect((await stream.post(toolCall('echo'))).status).toBe(401);
  server.replyOnce({ tool: 'echo' }, { tool: 'run', cut: 'fin' });
  const answered = stream.next();
  await expect(stream.post(toolCall('echo', { text: 'cut' }))).rejects.toThrow();
  expect((await answered).result.content[0].text).toBe('cut');
  server.dropSessions();
  expect((await stream.post(toolCall('echo'))).status).toBe(404);
  server.throttle(1_000);
  expect((await stream.post(toolCall('echo'))).status).toBe(429);
  expect(server.counts.executions).toEqual({ echo: 2 });
});

test('can be switched to while the server runs', async () => {
  const server = await start({ auth: false });
  expect(new URL(server.url).pathname).toBe('/mcp');
  server.set({ transport: 'legacy-sse' });
  expect(new URL(server.url).pathname).toBe('/sse');
  await handshake(server);
});

test('the stock client calls tools, hears notifications and is asked', async () => {
  const server = await start({
    ...LEGACY,
    tools: [
      {
        name: 'ask',
        handler: (_, call: ToolCallContext) =>
          call.request('elicitation/create', {
            message: 'sure?',
            requestedSchema: { type: 'object', properties: {} },
          }),
      },
    ],
  });
  const client = new Client({ name: 'stock', version: '1' }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'decline' }));
  const heard = new Promise<string>((resolve) => {
    client.fallbackNotificationHandler = async ({ method }) => resolve(method);
  });
  // biome-ignore lint/suspicious/noExplicitAny: the SDK's class does not fit its own interface under exactOptionalPropertyTypes.
  await client.connect(new SSEClientTransport(new URL(server.url)) as any);
  expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['ask']);
  const result = await client.callTool({ name: 'ask', arguments: {} });
  expect(result.content).toEqual([{ type: 'text', text: '{"action":"decline"}' }]);
  server.notify('notifications/tools/list_changed');
  expect(await heard).toBe('notifications/tools/list_changed');
  await client.close();
  await expect.poll(() => server.counts.streamsOpen).toBe(0);
});
