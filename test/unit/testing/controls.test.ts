import { expect, test } from 'vitest';
import { manualClock, startHostedServer } from '../../../src/testing/index.js';
import { connect, initialize, messageOf, peerOf, request, start, textOf } from './support.js';

test('throttle answers 429 with Retry-After for its time, handshakes included', async () => {
  const clock = manualClock();
  const server = await start({ clock });
  const peer = await connect(server);
  server.throttle(1_500);
  const refused = await peer.call('echo', { text: 'x' });
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '2']);
  expect((await peerOf(server).post(initialize('2025-11-25'))).status).toBe(429);
  await clock.advance(1_500);
  expect((await peer.call('echo', { text: 'x' })).status).toBe(200);
  expect(server.counts.rejectedByLimit).toBe(2);
  expect(server.counts.executions).toEqual({ echo: 1 });
});

test('deploy changes tools, name and capabilities without a word', async () => {
  const server = await start();
  const peer = await connect(server);
  const schema = JSON.parse('{"type":"object","properties":{"__proto__":{"description":"hidden"}}}');
  server.deploy({
    tools: [{ name: 'new', description: 'other', inputSchema: schema }],
    serverInfo: { name: 'vendor', version: '2' },
    capabilities: { tools: {} },
  });
  const list = await (await peer.post(request('tools/list'))).text();
  expect(list).toContain('"__proto__":{"description":"hidden"}');
  expect((await messageOf(await peer.call('echo'))).error.code).toBe(-32602);
  const { result } = await messageOf(
    await peerOf(server, { authorization: peer.headers.authorization! }).post(initialize('2025-11-25')),
  );
  expect(result).toMatchObject({ serverInfo: { name: 'vendor' }, capabilities: { tools: {} } });
});

test('a restart forgets sessions, aborts calls and closes sockets', async () => {
  const clock = manualClock();
  const server = await start({ answer: 'sse', clock });
  const peer = await connect(server);
  const stream = await peer.get();
  const call = await peer.call('slow', { ms: 1_000 });
  server.deploy({ restart: true });
  await expect(stream.text()).rejects.toThrow();
  await expect(call.text()).rejects.toThrow();
  expect(clock.pendingTimers).toBe(0);
  expect((await peer.call('echo')).status).toBe(404);
});

test('dropSessions leaves open streams and running calls alone', async () => {
  const clock = manualClock();
  const server = await start({ answer: 'sse', clock });
  const peer = await connect(server);
  const call = await peer.call('slow', { ms: 100 });
  server.dropSessions();
  await clock.advance(100);
  expect(await textOf(call)).toBe('waited 100 ms');
  expect((await peer.call('echo')).status).toBe(404);
});

test('the log has every request in order, and no secret', async () => {
  const clock = manualClock();
  const server = await start({ clock });
  const token = server.issueToken();
  const peer = await connect(server, token);
  await clock.advance(1_000);
  await peer.call('echo', { text: 'x' });
  await peer.call('echo', { text: 'x' }, { authorization: 'bearer stranger' });
  await fetch(`${server.issuer}/.well-known/openid-configuration?x=1`);
  const shown = server.log.map(({ http, path, rpcMethod, tool, status, tokenLabel, sessionLabel }) =>
    [http, path, rpcMethod, tool, status, tokenLabel, sessionLabel].join(' '),
  );
  expect(shown).toEqual([
    'POST /mcp initialize  200 token#1 session#1',
    'POST /mcp notifications/initialized  202 token#1 session#1',
    'POST /mcp tools/call echo 200 token#1 session#1',
    'POST /mcp tools/call echo 401 unknown-token#1 session#1',
    'GET /.well-known/openid-configuration   200  ',
  ]);
  expect(server.log[2]).toMatchObject({
    at: clock.now(),
    rpcId: expect.any(Number),
    headers: { authorization: 'Bearer token#1', 'mcp-session-id': 'session#1' },
  });
  expect(server.log[3]?.headers.authorization).toBe('bearer unknown-token#1');
  const text = JSON.stringify([server.log, server.counts]);
  for (const secret of [token, peer.headers['mcp-session-id']!, 'stranger'])
    expect(text).not.toContain(secret);
});

test('reset empties counts and log, and keeps the rest', async () => {
  const server = await start();
  const peer = await connect(server);
  await peer.call('echo', { text: 'x' });
  expect(server.counts).toMatchObject({ initializes: 1, requests: 3, executions: { echo: 1 } });
  server.reset();
  expect(server.counts).toMatchObject({ initializes: 0, requests: 0, executions: {} });
  expect(server.log).toEqual([]);
  expect((await peer.call('echo', { text: 'x' })).status).toBe(200);
});

test('set checks, merges, and puts back defaults', async () => {
  const server = await start({ listen: false, pageSize: 1 });
  const peer = await connect(server);
  expect(() => server.set({ pageSize: 0 })).toThrow(/pageSize/);
  server.set({ pageSize: undefined });
  expect((await messageOf(await peer.post(request('tools/list')))).result.tools).toHaveLength(4);
  expect((await peer.get()).status).toBe(405);
});

test('close ends sockets, calls and timers, and may be called twice', async () => {
  const clock = manualClock();
  const server = await startHostedServer({ answer: 'sse', tokenDelayMs: 1_000, clock });
  const peer = await connect(server);
  const stream = await peer.get();
  const call = await peer.call('slow', { ms: 1_000 });
  const token = fetch(server.tokenEndpoint, { method: 'POST', body: new URLSearchParams() });
  await expect.poll(() => server.counts.tokenRequests).toBe(1);
  const outcomes = Promise.allSettled([stream.text(), call.text(), token]);
  await Promise.all([server.close(), server.close()]);
  expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
  expect(clock.pendingTimers).toBe(0);
  await expect(fetch(server.url)).rejects.toThrow();
  const dispose = (Symbol as { asyncDispose?: symbol }).asyncDispose!;
  await (server as unknown as Record<symbol, () => Promise<void>>)[dispose]!();
});
