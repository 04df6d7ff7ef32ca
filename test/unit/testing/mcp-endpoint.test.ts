import { request as httpRequest } from 'node:http';
import { describe, expect, test } from 'vitest';
import { manualClock, startHostedServer } from '../../../src/testing/index.js';
import { connect, initialize, messageOf, peerOf, request, start, textOf, toolCall } from './support.js';

const errorOf = async (response: Response) => {
  const { error, id } = await messageOf(response);
  return [response.status, error.code, id];
};

describe('the handshake', () => {
  test.each([
    ['2025-11-25', '2025-11-25'],
    ['2024-11-05', '2024-11-05'],
    ['2026-07-28', '2025-11-25'],
  ])('a client of %s gets %s', async (asked, given) => {
    const server = await start({ auth: false });
    const response = await peerOf(server).post(initialize(asked));
    expect((await messageOf(response)).result.protocolVersion).toBe(given);
    expect(response.headers.get('mcp-session-id')).toMatch(/^[\x21-\x7e]+$/);
  });

  test('protocolVersion pins it', async () => {
    const server = await start({ auth: false, protocolVersion: '2025-06-18' });
    const response = await peerOf(server).post(initialize('2025-11-25'));
    expect((await messageOf(response)).result.protocolVersion).toBe('2025-06-18');
  });

  test.each([
    [undefined, 202, ''],
    [204, 204, ''],
    [200, 200, 'null'],
  ] as const)('handshakeStatus %s', async (handshakeStatus, status, body) => {
    const server = await start({ auth: false, handshakeStatus });
    const peer = await connect(server, '');
    const response = await peer.post({ jsonrpc: '2.0', method: 'notifications/initialized' });
    expect([response.status, await response.text()]).toEqual([status, body]);
    const other = await peer.post({ jsonrpc: '2.0', method: 'notifications/roots/list_changed' });
    expect(other.status).toBe(202);
  });

  test('a second one on the same session is refused', async () => {
    const server = await start({ auth: false });
    const peer = await connect(server, '');
    expect((await errorOf(await peer.post(initialize('2025-11-25'))))[0]).toBe(400);
  });
});

describe('the checks of an honest server', () => {
  test('form of the request', async () => {
    const server = await start({ auth: false });
    const peer = await connect(server, '');
    expect((await peer.call('echo', {}, { accept: 'application/json' })).status).toBe(406);
    expect((await peer.get({ accept: 'application/json' })).status).toBe(406);
    expect((await peer.call('echo', {}, { 'content-type': 'text/plain' })).status).toBe(415);
    expect(
      await errorOf(await fetch(server.url, { method: 'POST', headers: peer.headers, body: '{' })),
    ).toEqual([400, -32700, null]);
    expect((await errorOf(await peer.post({ hello: 1 })))[1]).toBe(-32600);
    const put = await fetch(server.url, { method: 'PUT', headers: peer.headers, body: '{}' });
    expect([put.status, put.headers.get('allow')]).toEqual([405, 'POST, GET, DELETE']);
    expect(server.counts.executions).toEqual({});
  });

  test('protocol version header', async () => {
    const server = await start({ auth: false });
    const peer = await connect(server, '');
    const refused = await peer.call('echo', {}, { 'mcp-protocol-version': '1999-01-01' });
    expect(await errorOf(refused)).toEqual([400, -32000, null]);
  });

  test.each([
    ['host', 'evil.example'],
    ['origin', 'http://evil.example'],
  ])('a foreign %s is refused', async (name, value) => {
    const server = await start({ auth: false });
    const { port } = new URL(server.url);
    const status = (headers: Record<string, string>) =>
      new Promise((resolve) => {
        const options = {
          port,
          path: '/mcp',
          method: 'POST',
          headers: { ...peerOf(server).headers, ...headers },
        };
        const sent = httpRequest(options, (response) => resolve(response.resume().statusCode));
        sent.end(JSON.stringify(initialize('2025-11-25')));
      });
    expect(await status({ [name]: value })).toBe(403);
    const own = name === 'host' ? `localhost:${port}` : `http://localhost:${port}`;
    expect(await status({ [name]: own })).toBe(200);
  });
});

describe('sessions', () => {
  test.each([
    [404, -32001],
    [400, -32000],
    [401, -32001],
    [403, -32001],
    [200, -32001],
  ] as const)('an unknown one is refused with %s', async (sessionLostStatus, code) => {
    const server = await start({ sessionLostStatus });
    const peer = await connect(server);
    server.dropSessions();
    const refused = await peer.call('echo', { text: 'x' });
    expect(refused.headers.get('www-authenticate')).toBeNull();
    expect(await errorOf(refused)).toEqual([sessionLostStatus, code, null]);
    expect((await peer.get()).status).toBe(sessionLostStatus);
    expect(server.counts.executions).toEqual({});
  });

  test('a missing id is a bad request', async () => {
    const server = await start({ auth: false });
    expect(await errorOf(await peerOf(server).post(request('ping')))).toEqual([400, -32000, null]);
  });

  test('DELETE ends one: its stream, its calls, its id', async () => {
    const clock = manualClock();
    const server = await start({ auth: false, answer: 'sse', clock });
    const peer = await connect(server, '');
    const stream = await peer.get();
    const call = await peer.call('slow', { ms: 1_000 });
    const deleted = await fetch(server.url, { method: 'DELETE', headers: peer.headers });
    expect(deleted.status).toBe(200);
    expect(await stream.text()).toBe('');
    expect(await call.text()).toBe('');
    expect(clock.pendingTimers).toBe(0);
    expect((await peer.call('echo')).status).toBe(404);
    expect(server.counts.deletes).toBe(1);
  });

  test('without sessions no id is given out or asked for', async () => {
    const server = await start({ auth: false, sessions: false });
    const peer = await connect(server, '');
    expect(peer.headers['mcp-session-id']).toBeUndefined();
    expect(await textOf(await peer.call('echo', { text: 'x' }))).toBe('x');
    expect((await fetch(server.url, { method: 'DELETE', headers: peer.headers })).status).toBe(405);
  });

  test('nodes without affinity know their own sessions only', async () => {
    const server = await start({ auth: false, nodesWithoutAffinity: 2 });
    const peer = await connect(server, '');
    const statuses: number[] = [];
    for (let i = 0; i < 4; i++) statuses.push((await peer.call('echo', { text: 'x' })).status);
    expect(statuses).toEqual([404, 200, 404, 200]);
    expect(server.log.map((entry) => entry.nodeLabel)).toEqual(
      [1, 1, 2, 1, 2, 1].map((node) => `node#${node}`),
    );
  });

  test('an affinity cookie leads back to the node', async () => {
    const server = await start({ auth: false, affinityCookie: true });
    const first = await peerOf(server).post(initialize('2025-11-25'));
    const cookie = first.headers.get('set-cookie')?.split(';')[0] ?? '';
    expect(cookie).toBe('node=n1');
    const sessionId = first.headers.get('mcp-session-id') ?? '';
    const peer = peerOf(server, { 'mcp-session-id': sessionId, cookie });
    for (let i = 0; i < 3; i++) {
      const answer = await peer.call('echo', { text: 'x' });
      expect([answer.status, answer.headers.get('set-cookie')]).toEqual([200, null]);
    }
    expect(server.log.at(-1)?.headers.cookie).toBe('cookie#1');
  });
});

describe('methods', () => {
  test('tools/list in pages', async () => {
    const server = await start({ auth: false, pageSize: 3 });
    const peer = await connect(server, '');
    const { result: first } = await messageOf(await peer.post(request('tools/list')));
    expect(first.tools).toHaveLength(3);
    const next = request('tools/list', { cursor: first.nextCursor });
    const { result: second } = await messageOf(await peer.post(next));
    expect([second.tools.length, second.nextCursor]).toEqual([1, undefined]);
    const wrong = await messageOf(await peer.post(request('tools/list', { cursor: 'x' })));
    expect(wrong.error.code).toBe(-32602);
  });

  test('resources, prompts, logging, ping', async () => {
    const server = await start({ auth: false });
    const peer = await connect(server, '');
    const result = async (method: string, params = {}) =>
      (await messageOf(await peer.post(request(method, params)))).result;
    const { resources } = await result('resources/list');
    const { uri } = resources[0];
    expect((await result('resources/read', { uri })).contents[0].text).toBe('Welcome.');
    expect(await result('resources/subscribe', { uri })).toEqual({});
    expect(await result('resources/unsubscribe', { uri })).toEqual({});
    expect(await result('prompts/list')).toEqual({ prompts: [] });
    expect(await result('logging/setLevel', { level: 'debug' })).toEqual({});
    expect(await result('ping')).toEqual({});
    expect(server.counts.pings).toBe(1);
    expect((await messageOf(await peer.post(request('server/discover')))).error.code).toBe(-32601);
  });

  test('what a handler returns or throws becomes a result', async () => {
    const tools = [
      { name: 'text', handler: () => 'plain' },
      { name: 'whole', handler: () => ({ content: [], _meta: { a: 1 } }) },
      { name: 'structured', outputSchema: { type: 'object' }, handler: async () => ({ n: 1 }) },
      { name: 'nothing' },
      {
        name: 'throws',
        handler: () => {
          throw new Error('oh');
        },
      },
      { name: 'refuses', handler: () => Promise.reject(Object.assign(new Error('no'), { code: -32042 })) },
    ];
    const server = await start({ auth: false, tools });
    const peer = await connect(server, '');
    const answer = async (name: string) => {
      const { result, error } = await messageOf(await peer.call(name));
      return result ?? error;
    };
    expect(await answer('text')).toEqual({ content: [{ type: 'text', text: 'plain' }] });
    expect(await answer('whole')).toEqual({ content: [], _meta: { a: 1 } });
    const content = [{ type: 'text', text: '{"n":1}' }];
    expect(await answer('structured')).toEqual({ content, structuredContent: { n: 1 } });
    expect(await answer('nothing')).toEqual({ content: [] });
    expect(await answer('throws')).toEqual({ content: [{ type: 'text', text: 'oh' }], isError: true });
    expect(await answer('refuses')).toEqual({ code: -32042, message: 'no' });
    expect((await answer('absent')).code).toBe(-32602);
    expect(server.counts.executions).not.toHaveProperty('absent');
  });

  test('executions are counted by call id, too', async () => {
    const server = await start({ auth: false });
    const peer = await connect(server, '');
    const call = toolCall('echo', { text: 'x' }, { 'mcp-holdfast/callId': 'call-7' });
    await peer.post(call);
    await peer.post(call);
    expect(server.counts.executionsById).toEqual({ 'call-7': 2 });
  });

  test('a cancelled call is aborted and not answered', async () => {
    const clock = manualClock();
    const server = await start({ auth: false, answer: 'sse', clock });
    const peer = await connect(server, '');
    const message = toolCall('slow', { ms: 1_000 });
    const call = await peer.post(message);
    const params = { requestId: message.id };
    await peer.post({ jsonrpc: '2.0', method: 'notifications/cancelled', params });
    expect(await call.text()).toBe('');
    expect(clock.pendingTimers).toBe(0);
  });
});

test('a bad option is a TypeError that names it', async () => {
  const refused = (options: object) => startHostedServer(options as never);
  await expect(refused({ tokenLifetimeMs: 0 })).rejects.toThrow(/tokenLifetimeMs/);
  await expect(refused({ sessionLostStatus: 500 })).rejects.toThrow(/sessionLostStatus/);
  await expect(refused({ answer: 'xml' })).rejects.toThrow(/answer/);
  await expect(refused({ tools: [{ name: 'a' }, { name: 'a' }] })).rejects.toThrow(TypeError);
  await expect(refused({ eventStore: 'yes' })).rejects.toThrow(/eventStore/);
});
