import { createRequire } from 'node:module';
import { describe, expect, it } from 'vitest';
import type { HttpFetch } from '../../../src/http/exchange.js';
import { get, httpServer, newClient, post, Recorder, rawServer, run, settle, start } from './support.js';

const failing =
  (error: unknown): HttpFetch =>
  () =>
    Promise.reject(error);

describe('a given fetch', () => {
  it('carries an exchange: method, body, headers, repeated headers, decoded body', async () => {
    const calls: unknown[] = [];
    const url = await httpServer(async (request, response) => {
      let body = '';
      for await (const chunk of request) body += chunk;
      response
        .writeHead(200, { 'set-cookie': ['a=1', 'b=2'], 'X-One': '1' })
        .end(`${request.method} ${body}`);
    });
    const fetch: HttpFetch = (target, init) => {
      calls.push([target, init.method, init.redirect, init.body]);
      return globalThis.fetch(target, init);
    };
    const recorder = await run(newClient({ fetch }), post(`${url}/mcp`, '{"id":1}'));
    expect(recorder).toMatchObject({ ended: true, sentCount: 1, text: 'POST {"id":1}', afterEnd: [] });
    expect(recorder.received).toMatchObject({
      status: 200,
      headers: { 'x-one': '1', 'set-cookie': ['a=1', 'b=2'] },
    });
    expect(calls).toEqual([[`${url}/mcp`, 'POST', 'manual', '{"id":1}']]);
  });

  it('takes mocks: no body stream, an empty body', async () => {
    const headers = new Headers({ 'content-type': 'application/json' });
    const mock =
      (text: string): HttpFetch =>
      async () => ({ status: 200, headers, body: null, text: async () => text });
    expect(await run(newClient({ fetch: mock('{}') }), post('http://127.0.0.1:1'))).toMatchObject({
      ended: true,
      text: '{}',
    });
    expect(await run(newClient({ fetch: mock('') }), post('http://127.0.0.1:1'))).toMatchObject({
      ended: true,
      bytes: 0,
    });
  });

  it('does not load undici', async () => {
    const fetch: HttpFetch = async () => new Response('{}');
    const { cache } = createRequire(import.meta.url);
    const before = Object.keys(cache).filter((name) => name.includes('/undici/')).length;
    expect((await run(newClient({ fetch }), post('https://mcp.test'))).text).toBe('{}');
    expect(Object.keys(cache).filter((name) => name.includes('/undici/'))).toHaveLength(before);
  });

  it.each([
    'ECONNREFUSED',
    'ENOTFOUND',
    'EAI_AGAIN',
    'UND_ERR_CONNECT_TIMEOUT',
    'CERT_HAS_EXPIRED',
    'DEPTH_ZERO_SELF_SIGNED_CERT',
  ])('%s, own or of a cause, proves that nothing left', async (code) => {
    // Not an instance of Error: errors come from other realms, too.
    for (const error of [{ code }, { name: 'TypeError', cause: { cause: { code } } }]) {
      const recorder = await run(newClient({ fetch: failing(error) }), post('https://mcp.test'));
      expect(recorder.failure).toEqual({ kind: 'network', sent: false, phase: 'before', code });
    }
  });

  it.each(['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'UND_ERR_SOCKET', undefined])(
    '%s proves nothing',
    async (code) => {
      const error = { name: 'TypeError', cause: { code } };
      const recorder = await run(newClient({ fetch: failing(error) }), post('https://mcp.test'));
      expect(recorder.failure).toEqual({ kind: 'network', sent: true, phase: 'head', code });
    },
  );

  it('a failed connect is recognised by its system call, and a throwing or circular error does no harm', async () => {
    const connect = failing({ cause: { code: 'ETIMEDOUT', syscall: 'connect' } });
    expect((await run(newClient({ fetch: connect }), post('https://mcp.test'))).failure).toMatchObject({
      sent: false,
    });
    const circular: { cause?: unknown } = {};
    circular.cause = circular;
    const thrower: HttpFetch = () => {
      throw circular;
    };
    expect((await run(newClient({ fetch: thrower }), post('https://mcp.test'))).failure).toMatchObject({
      sent: true,
    });
    expect(
      (await run(newClient({ fetch: failing(undefined) }), post('https://mcp.test'))).failure,
    ).toMatchObject({ sent: true });
  });

  it('global fetch: refused and reset', async () => {
    const client = newClient({ fetch: globalThis.fetch });
    const reset = await rawServer((socket) => socket.resetAndDestroy());
    expect((await run(client, post(reset.url))).failure).toMatchObject({
      sent: true,
      phase: 'head',
      kind: 'network',
    });
    const refused = await run(client, post('http://127.0.0.1:1'));
    // Port 1 is one that fetch itself refuses: no code, so nothing is proved.
    expect(refused.failure).toMatchObject({ kind: 'network' });
    const cut = await rawServer((socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf'));
    expect(await run(client, post(cut.url))).toMatchObject({
      text: 'half',
      failure: { sent: true, phase: 'body' },
    });
  });

  it('counts decoded bytes, streams excepted', async () => {
    const url = await httpServer((request, response) => {
      const type = request.method === 'GET' ? 'text/event-stream' : 'application/json';
      response.writeHead(200, { 'content-type': type }).end('x'.repeat(2000));
    });
    const client = newClient({ fetch: globalThis.fetch, maxMessageBytes: 1000 });
    expect((await run(client, post(url))).failure).toMatchObject({
      kind: 'too-large',
      sent: true,
      phase: 'body',
    });
    expect(await run(client, get(url))).toMatchObject({ ended: true, bytes: 2000 });
  });

  it('follows 307 within the origin through the given fetch, and nothing else', async () => {
    const url = await httpServer((request, response) => {
      if (request.url === '/a') response.writeHead(307, { location: '/b' }).end();
      else if (request.url === '/c') response.writeHead(302, { location: '/b' }).end();
      else response.end('{}');
    });
    const client = newClient({ fetch: globalThis.fetch });
    expect(await run(client, post(`${url}/a`))).toMatchObject({ ended: true, text: '{}', sentCount: 2 });
    expect((await run(client, post(`${url}/c`))).failure).toMatchObject({ kind: 'redirect', status: 302 });
    const opaque: HttpFetch = async () => ({
      status: 0,
      headers: new Headers(),
      body: null,
      text: async () => '',
    });
    expect((await run(newClient({ fetch: opaque }), post(url))).failure).toMatchObject({
      kind: 'redirect',
      status: 0,
    });
  });

  it('aborts before the call, before the head, and in a stream', async () => {
    const server = await rawServer((socket, chunk) => {
      if (chunk.startsWith('GET'))
        socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n');
    });
    const client = newClient({ fetch: globalThis.fetch });
    const before = start(client, post(server.url));
    before.handle.abort();
    expect(before.recorder.failure).toMatchObject({ kind: 'aborted', sent: false, phase: 'before' });
    await settle();
    expect(server.connections).toBe(0);
    const head = start(client, post(server.url));
    await server.saw('{"id":1}');
    head.handle.abort();
    expect(head.recorder.failure).toMatchObject({ kind: 'aborted', sent: true, phase: 'head' });
    await server.closed(1);
    const stream = start(client, get(server.url));
    await stream.recorder.until((recorder) => recorder.bytes > 0);
    stream.handle.abort();
    expect(stream.recorder).toMatchObject({ failure: { kind: 'aborted', phase: 'body' } });
    await server.closed(2);
    const thrower = new Recorder();
    thrower.onSent = () => {
      throw new Error('the last look says no');
    };
    start(client, post(server.url), thrower);
    await thrower.done();
    expect(thrower.failure).toMatchObject({ kind: 'aborted', sent: false });
    expect(thrower.sentCount).toBe(1);
    await settle();
    // Requests, not connections: some versions of fetch open one in advance.
    expect(server.text.match(/ HTTP\/1\.1\r\n/g)).toHaveLength(2);
  });

  it('pause and resume hold the reader; close aborts', async () => {
    let pulled = 0;
    const body = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          pulled++;
          if (pulled > 100) controller.close();
          else controller.enqueue(new Uint8Array(10));
        },
      },
      { highWaterMark: 0 },
    );
    const client = newClient({ fetch: async () => new Response(body) });
    const recorder = new Recorder();
    const { handle } = start(client, get('https://mcp.test'), recorder);
    recorder.onData = () => handle.pause();
    await recorder.until(() => recorder.bytes > 0);
    await settle();
    expect(recorder.bytes).toBe(10);
    recorder.onData = undefined;
    handle.resume();
    await recorder.done();
    expect(recorder).toMatchObject({ ended: true, bytes: 1000 });
    const hanging = start(newClient({ fetch: () => new Promise(() => {}) }), get('https://mcp.test'));
    await hanging.recorder.until(() => hanging.recorder.sentCount === 1);
    hanging.handle.abort();
    const closed = newClient({ fetch: async () => new Response('{}') });
    await closed.close();
    expect((await run(closed, get('https://mcp.test'))).failure).toMatchObject({
      kind: 'aborted',
      sent: false,
    });
  });
});
