/** `hostedFetch` without an SDK above it: what a transport of one's own may hand in, and what comes back. */
import { describe, expect, it, vi } from 'vitest';
import { type HostedFetch, hostedFetch } from '../../src/hosted-fetch.js';
import { HostedMcpError, type HostedOptions } from '../../src/index.js';
import type { ToolDefinition } from '../../src/testing/index.js';
import { failureOf, type Scene, startServer } from '../wire/support.js';
import { INITIALIZE, makeFetch, messagesOf, methods, post } from './hosted-fetch-clients.js';

interface Raw {
  readonly scene: Scene;
  readonly fetch: HostedFetch;
  readonly url: string;
  readonly sessionId: string;
  post(message: unknown, signal?: AbortSignal): Promise<Response>;
  listen(signal?: AbortSignal, headers?: Record<string, string>): Promise<Response>;
}

async function raw(
  options: HostedOptions = {},
  server: Parameters<typeof startServer>[0] = {},
): Promise<Raw> {
  const scene = await startServer({ tokenLifetimeMs: 3_600_000, ...server });
  const fetch = makeFetch(scene, options);
  const { url } = scene.server;
  const opened = await post(fetch, url, INITIALIZE);
  const sessionId = opened.headers.get('mcp-session-id') ?? '';
  expect(await opened.json()).toMatchObject({ id: 0, result: { protocolVersion: '2025-11-25' } });
  const headers = { 'mcp-session-id': sessionId };
  await post(fetch, url, { jsonrpc: '2.0', method: 'notifications/initialized' }, headers);
  await scene.clock.settle();
  return {
    scene,
    fetch,
    url,
    sessionId,
    post: (message, signal) => post(fetch, url, message, headers, signal),
    listen: (signal, more) =>
      fetch(url, {
        headers: { accept: 'text/event-stream', ...headers, ...more },
        ...(signal !== undefined && { signal }),
      }),
  };
}

const call = (id: string | number, name = 'echo', args: object = { text: 'hi' }, meta: object = {}) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: args, _meta: { 'mcp-holdfast/callId': String(id), ...meta } },
});

const json = async (response: Response) => (await response.json()) as Record<string, unknown>;

describe('what hostedFetch serves', () => {
  it.each([
    ['another path', 'http://127.0.0.1:1/mcp'],
    ['another origin', 'https://elsewhere.example/mcp'],
    ['a query', '?x=1'],
    ['metadata of its own server', '/.well-known/oauth-protected-resource/mcp'],
    ['no URL at all', 'mcp'],
  ])('not %s: refused typed, and nothing is sent', async (_name, target) => {
    const { scene, fetch, url } = await raw();
    const requests = scene.server.log.length;
    const used = /^[?/]/.test(target) ? new URL(target, url).href : target;

    for (const input of [used, ...(URL.canParse(used) ? [new URL(used), new Request(used)] : [])]) {
      const failure = await failureOf(fetch(input, { method: 'GET' }));
      expect(failure).toMatchObject({ code: 'ERR_DENIED', executed: false, retryable: false });
      expect(failure.message).not.toContain('elsewhere');
    }

    expect(scene.server.log).toHaveLength(requests);
  });

  it('every form of the signature', async () => {
    const { scene, fetch, url, sessionId } = await raw();
    const headers = { 'mcp-session-id': sessionId };
    const text = (n: number) => JSON.stringify(call(n));
    const bytes = new TextEncoder().encode(text(3));
    const forms: [string | URL | Request, RequestInit?][] = [
      [url, { method: 'POST', headers, body: text(0) }],
      [new URL(`${url}#part`), { method: 'post', headers: new Headers(headers), body: text(1) }],
      [new Request(url, { method: 'POST', headers, body: text(2) })],
      [url, { method: 'POST', headers: Object.entries(headers), body: bytes }],
      [new Request(url, { method: 'POST', body: 'not this' }), { headers, body: new Blob([text(4)]) }],
      [url, { method: 'POST', headers, body: new Blob([text(5)]).stream(), duplex: 'half' } as RequestInit],
    ];

    for (const [n, [input, init]] of forms.entries())
      expect(await json(await fetch(input, init))).toMatchObject({
        id: n,
        result: { content: [{ text: 'hi' }] },
      });

    expect(scene.server.counts.executions).toEqual({ echo: 6 });
  });

  it.each([
    ['a batch', JSON.stringify([call(1), call(2)]), -32600],
    ['an empty batch', '[]', -32600],
    ['no JSON', '{"jsonrpc":', -32700],
    ['nothing', '', -32700],
    ['an object that is no message', '{"jsonrpc":"2.0"}', -32600],
    ['a request without a usable id', '{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600],
    ['a number', '7', -32600],
    ['null', 'null', -32600],
  ])('%s: 400 with a typed JSON-RPC error, nothing sent', async (_name, body, code) => {
    const { scene, post: send } = await raw();
    const { requests } = scene.server.counts;

    const response = await send(body);

    expect(response.status).toBe(400);
    const message = await json(response);
    expect(message).toMatchObject({
      jsonrpc: '2.0',
      id: null,
      error: { code, data: { holdfast: { code: 'ERR_PROTOCOL', executed: false } } },
    });
    const { error } = message as { error: { message: string; data: object } };
    if (body.startsWith('[')) expect(error.message).toContain('no batches');
    expect(HostedMcpError.from(Object.assign(new Error(error.message), error))?.code).toBe('ERR_PROTOCOL');
    expect(scene.server.counts.requests).toBe(requests);
  });

  it.each(['PUT', 'PATCH', 'HEAD', 'OPTIONS'])('not %s', async (method) => {
    const { fetch, url } = await raw();

    const response = await fetch(url, { method });

    expect(response.status).toBe(405);
    expect(response.headers.get('allow')).toBe('GET, POST, DELETE');
  });

  it('GET only as the listen stream of a session', async () => {
    const { fetch, url, listen } = await raw();

    // HTTP+SSE of 2024-11-05, tried by frameworks when all else has failed.
    expect((await fetch(url, { headers: { accept: 'text/event-stream' } })).status).toBe(405);
    expect((await listen(undefined, { accept: 'application/json' })).status).toBe(406);
    expect((await listen(undefined, { 'last-event-id': '7' })).status).toBe(400);
    expect((await listen()).headers.get('content-type')).toBe('text/event-stream');
  });

  it('no listen stream where the app wants none', async () => {
    const { scene, listen } = await raw({ streams: { listen: false } });

    expect((await listen()).status).toBe(405);
    expect(scene.server.counts.listens).toBe(0);
  });

  it('responses and notifications: 202', async () => {
    const { scene, post: send } = await raw();

    expect((await send({ jsonrpc: '2.0', method: 'notifications/roots/list_changed' })).status).toBe(202);
    expect((await send({ jsonrpc: '2.0', id: 'nobody-asked', result: {} })).status).toBe(202);
    expect(
      (await send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 99 } })).status,
    ).toBe(202);

    expect(methods(scene).filter((method) => method.startsWith('notifications/'))).toEqual([
      'notifications/initialized',
      'notifications/roots/list_changed',
    ]);
  });

  it('a notification that nobody took: typed', async () => {
    const { scene, post: send } = await raw();
    scene.server.reply({ method: 'notifications/roots/list_changed' }, { status: 500, body: 'no' });

    expect(
      await failureOf(send({ jsonrpc: '2.0', method: 'notifications/roots/list_changed' })),
    ).toMatchObject({ code: 'ERR_PROTOCOL', executed: 'unknown' });
  });

  it('headers of the framework stay here, save those made from arguments', async () => {
    const { scene, fetch, url, sessionId } = await raw();
    const headers = {
      'mcp-session-id': sessionId,
      authorization: 'Bearer another',
      'x-secret': 's',
      'mcp-param-region': 'eu',
    };

    await fetch(url, { method: 'POST', headers, body: JSON.stringify(call(1)) });

    const sent = scene.server.log.findLast(({ tool }) => tool === 'echo')?.headers;
    expect(sent).toMatchObject({ authorization: 'Bearer token#1', 'mcp-param-region': 'eu' });
    expect(sent).not.toHaveProperty('x-secret');
  });

  it.each<[string, unknown]>([
    ['credentials', 7],
    ['streams', { listen: 'never' }],
    ['unknown', true],
    ['gates', [{ name: 'person', stopsTimer: true, timeoutMs: 60_000, before: () => 'allow' }]],
  ])('the option %s that cannot be used is a TypeError, before any I/O', (name, value) => {
    expect(() => hostedFetch('http://127.0.0.1:1/mcp', { [name]: value } as never)).toThrow(TypeError);
    expect(() => hostedFetch('http://127.0.0.1:1/mcp', { [name]: value } as never)).toThrow(name);
    expect(() => hostedFetch('ftp://127.0.0.1/mcp')).toThrow(TypeError);
  });
});

/** Tells progress until the test has heard enough. */
function chatty(times: number) {
  const tool: ToolDefinition = {
    name: 'chatty',
    handler: (_args, context) => {
      for (let n = 1; n <= times; n += 1) context.progress(n);
      return 'done';
    },
  };
  return tool;
}

describe('bodies of hostedFetch', () => {
  it('messages are in order, the answer last, and the body ends', async () => {
    const { post: send } = await raw({}, { tools: [chatty(5)] });

    const response = await send(call('a', 'chatty', {}, { progressToken: 'mine' }));
    const stream = messagesOf(response);

    for (let n = 1; n <= 5; n += 1)
      expect(await stream.next()).toMatchObject({
        method: 'notifications/progress',
        params: { progressToken: 'mine', progress: n },
      });
    expect(await stream.next()).toMatchObject({ id: 'a', result: { content: [{ text: 'done' }] } });
    expect(await stream.next()).toBe(undefined);
  });

  it('a token of 0 is a token; of none, nobody hears progress', async () => {
    const { post: send } = await raw({}, { tools: [chatty(2)] });

    const stream = messagesOf(await send(call(1, 'chatty', {}, { progressToken: 0 })));
    expect(await stream.next()).toMatchObject({ params: { progressToken: 0, progress: 1 } });

    const silent = await send(call(2, 'chatty', {}));
    expect(silent.headers.get('content-type')).toBe('application/json');
    expect(await json(silent)).toMatchObject({ id: 2 });
  });

  it('nothing is written for a reader that does not read, and its progress is bounded', async () => {
    const { fetch, post: send } = await raw({}, { tools: [chatty(3_000)] });
    const answered = fetch.connection.once('call', { filter: ({ method }) => method === 'tools/call' });
    const encode = vi.spyOn(TextEncoder.prototype, 'encode');

    const response = await send(call('a', 'chatty', {}, { progressToken: 't' }));
    await answered;
    const written = encode.mock.calls.filter(([text]) => text?.includes('"progressToken":"t"'));
    expect(written).toEqual([]);
    encode.mockRestore();

    const stream = messagesOf(response);
    const heard: unknown[] = [];
    for (let message = await stream.next(); message !== undefined; message = await stream.next())
      heard.push(message.params?.progress ?? message.result);
    // The oldest have gone; what came last, and the answer, are there.
    expect(heard).toHaveLength(1_000);
    expect(heard.at(-2)).toBe(3_000);
    expect(heard.at(-1)).toMatchObject({ content: [{ text: 'done' }] });
  });

  it('a reader that cancels: the call is cancelled at the server, once', async () => {
    const { scene, fetch, post: send } = await raw();
    const stream = messagesOf(await send(call('a', 'slow', { ms: 1_000 }, { progressToken: 't' })));
    await stream.next();

    await stream.cancel();
    await scene.clock.advance(2_000);

    expect(methods(scene).filter((method) => method === 'notifications/cancelled')).toHaveLength(1);
    expect(fetch.connection.stats.calls.failed).toEqual({ ERR_ABORTED: 1 });
    expect(scene.server.counts.executions).toEqual({ slow: 1 });
  });

  it('a reader that has the answer and cancels then cancels nothing', async () => {
    const { scene, post: send } = await raw({}, { tools: [chatty(3)] });
    const stream = messagesOf(await send(call('a', 'chatty', {}, { progressToken: 't' })));
    await stream.next();
    await scene.clock.settle();

    await stream.cancel();
    await scene.clock.settle();

    expect(methods(scene)).not.toContain('notifications/cancelled');
  });

  it.each([
    ['before it was sent', true],
    ['after', false],
  ])('the signal aborts %s: rejected with its reason', async (_name, early) => {
    const { scene, post: send } = await raw();
    const caller = new AbortController();
    const reason = new Error('changed my mind');
    if (early) caller.abort(reason);
    const pending = send(call('a', 'slow', { ms: 1_000 }), caller.signal);
    pending.catch(() => {});
    await scene.clock.settle();
    caller.abort(reason);

    await expect(pending).rejects.toBe(reason);
    await scene.clock.advance(2_000);
    const cancels = methods(scene).filter((method) => method === 'notifications/cancelled');
    expect(cancels).toHaveLength(early ? 0 : 1);
    expect(scene.server.counts.executions).toEqual(early ? {} : { slow: 1 });
  });

  it('the signal aborts an open body: it breaks off with the reason', async () => {
    const { scene, fetch, post: send } = await raw();
    const caller = new AbortController();
    const stream = messagesOf(
      await send(call('a', 'slow', { ms: 1_000 }, { progressToken: 't' }), caller.signal),
    );
    await stream.next();

    caller.abort(new DOMException('too late', 'TimeoutError'));

    await expect(stream.next()).rejects.toMatchObject({ name: 'TimeoutError' });
    await scene.clock.settle();
    expect(methods(scene).filter((method) => method === 'notifications/cancelled')).toHaveLength(1);
    expect(fetch.connection.stats.calls.failed).toEqual({ ERR_TIMEOUT: 1 });
  });

  it('one signal for 200 requests at once: one listener, and none is left', async () => {
    const { post: send } = await raw();
    const { signal } = new AbortController();
    const added = vi.spyOn(signal, 'addEventListener');
    const removed = vi.spyOn(signal, 'removeEventListener');

    await Promise.all(Array.from({ length: 200 }, (_, n) => send(call(n), signal)));

    expect(added.mock.calls.length).toBe(removed.mock.calls.length);
    expect(added.mock.calls.length).toBeLessThan(10);
  });

  it('a listen stream that is cancelled hears no more, and what comes then waits for the next one', async () => {
    const { scene, listen } = await raw();
    const first = messagesOf(await listen());
    scene.server.notify('notifications/message', { level: 'info', data: 1 });
    expect(await first.next()).toMatchObject({ params: { data: 1 } });
    await first.cancel();
    scene.server.notify('notifications/message', { level: 'info', data: 2 });
    await scene.clock.settle();

    const second = messagesOf(await listen());

    expect(await second.next()).toMatchObject({ params: { data: 2 } });
    expect(scene.server.counts.listens).toBe(1);
  });

  it('what nobody hears is bounded', async () => {
    const { scene, listen } = await raw();
    for (let data = 0; data < 300; data += 1)
      scene.server.notify('notifications/message', { level: 'info', data });
    await scene.clock.settle();

    const stream = messagesOf(await listen());

    expect(await stream.next()).toMatchObject({ params: { data: 200 } });
  });

  it('a listen stream that is not read breaks off, rather than lose messages unseen', async () => {
    const { scene, listen } = await raw();
    const stream = messagesOf(await listen());
    for (let data = 0; data < 1_100; data += 1)
      scene.server.notify('notifications/message', { level: 'info', data });
    await scene.clock.settle();

    const reading = (async () => {
      while ((await stream.next()) !== undefined);
    })();

    expect(await failureOf(reading)).toMatchObject({ code: 'ERR_MESSAGE_TOO_LARGE' });
    const next = messagesOf(await listen());
    scene.server.notify('notifications/message', { level: 'info', data: 'again' });
    // What came since it broke off was kept for this one.
    expect(Number((await next.next())?.params?.data)).toBeGreaterThan(1_000);
    for (let last: unknown; last !== 'again'; ) last = (await next.next())?.params?.data;
  });

  it('an abort of the listen stream is a clean end', async () => {
    const { listen } = await raw();
    const caller = new AbortController();
    const stream = messagesOf(await listen(caller.signal));

    caller.abort();

    expect(await stream.next()).toBe(undefined);
  });

  it('of two listen streams of one client the younger hears, then the older again', async () => {
    const { scene, listen } = await raw();
    const older = messagesOf(await listen());
    const younger = messagesOf(await listen());
    scene.server.notify('notifications/message', { level: 'info', data: 1 });
    expect(await younger.next()).toMatchObject({ params: { data: 1 } });
    await younger.cancel();

    scene.server.notify('notifications/message', { level: 'info', data: 2 });

    expect(await older.next()).toMatchObject({ params: { data: 2 } });
  });

  it('close ends listen streams cleanly, and there are none after it', async () => {
    const { fetch, listen, post: send, scene } = await raw();
    const stream = messagesOf(await listen());

    await fetch.close();

    expect(await stream.next()).toBe(undefined);
    expect((await listen()).status).toBe(405);
    expect(await json(await send(call(1)))).toMatchObject({
      id: 1,
      error: { code: -32014, data: { holdfast: { code: 'ERR_CLOSED', executed: false } } },
    });
    expect(scene.server.counts.deletes).toBe(1);
  });

  it('so does the connection’s own close, and `await using`', async () => {
    const one = await raw();
    const stream = messagesOf(await one.listen());
    await one.fetch.connection.close();
    expect(await stream.next()).toBe(undefined);

    const other = await raw();
    const dispose = (other.fetch as unknown as Record<symbol, () => Promise<void>>)[
      (Symbol as unknown as { asyncDispose: symbol }).asyncDispose
    ];
    await dispose?.();
    expect(other.fetch.connection.state).toBe('closed');
  });
});

describe('calls of hostedFetch in odd shapes', () => {
  it('without a session header, before any handshake: served on a session of the engine’s own', async () => {
    const scene = await startServer();
    const fetch = makeFetch(scene);

    const response = await post(fetch, scene.server.url, call('first'));

    expect(await json(response)).toMatchObject({ id: 'first', result: { content: [{ text: 'hi' }] } });
    expect(scene.server.counts.initializes).toBe(1);
  });

  it('under a session id that nobody gave out: served, never a 404', async () => {
    const { scene, fetch, url } = await raw();

    const response = await post(fetch, url, call('a'), { 'mcp-session-id': 'stale' });

    expect(response.status).toBe(200);
    expect(scene.server.counts.initializes).toBe(1);
  });

  it.each(['x', '', 0, -1, 1.5, 'holdfast-initialize-1'])('the id %j comes back as it was', async (id) => {
    const { post: send } = await raw();

    expect(await json(await send(call(id)))).toMatchObject({ id, result: {} });
    expect(await json(await send({ jsonrpc: '2.0', id, method: 'no/such/method' }))).toMatchObject({
      id,
      error: { code: -32601 },
    });
  });

  it('the same id twice at once, by one client: both are answered, each ran once', async () => {
    const { scene, post: send } = await raw();

    const [one, two] = await Promise.all([
      send(call(7, 'echo', { text: 'one' })),
      send(call(7, 'echo', { text: 'two' })),
    ]);

    expect([await json(one), await json(two)]).toMatchObject([
      { id: 7, result: { content: [{ text: 'one' }] } },
      { id: 7, result: { content: [{ text: 'two' }] } },
    ]);
    expect(scene.server.counts.executions).toEqual({ echo: 2 });
  });

  it('1 and "1" are two ids: a cancel takes back the one it names', async () => {
    const { scene, post: send } = await raw();
    const number = send(call(1, 'slow', { ms: 500 }));
    const text = send(call('1', 'slow', { ms: 500 }));
    await scene.clock.settle();

    await send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: '1' } });
    // Nothing more comes of it: no answer, for the client has forgotten the id.
    expect(await (await text).text()).toBe('');
    await scene.clock.advance(1_000);

    expect(await json(await number)).toMatchObject({ id: 1, result: {} });
    expect(methods(scene).filter((method) => method === 'notifications/cancelled')).toHaveLength(1);
  });

  it('a handshake that the server refuses is the server’s own error', async () => {
    const scene = await startServer();
    const fetch = makeFetch(scene);
    const error = { code: -32602, message: 'Unsupported' };
    scene.server.replyOnce(
      { method: 'initialize' },
      { status: 200, body: ({ message }) => ({ jsonrpc: '2.0', id: message?.id, error }) },
    );

    expect(await json(await post(fetch, scene.server.url, INITIALIZE))).toEqual({
      jsonrpc: '2.0',
      id: 0,
      error,
    });
    expect(await json(await post(fetch, scene.server.url, INITIALIZE))).toMatchObject({ result: {} });
  });

  it('DELETE before there was anything, and twice', async () => {
    const scene = await startServer();
    const fetch = makeFetch(scene);

    for (let n = 0; n < 2; n += 1)
      expect((await fetch(scene.server.url, { method: 'DELETE' })).status).toBe(200);

    expect(scene.server.counts.requests).toBe(0);
  });
});
