import type http from 'node:http';
import { describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../../src/clock.js';
import { type Disposer, disposer } from '../../../src/disposer.js';
import {
  gate,
  get,
  httpServer,
  newClient,
  post,
  Recorder,
  rawServer,
  run,
  settle,
  start,
} from './support.js';

interface Seen {
  line: string;
  body: string;
  secret: string | undefined;
}

/** Redirects by the map from path to status and location; answers everything else. */
async function redirector(routes: Record<string, { status: number; location?: string }>) {
  const seen: Seen[] = [];
  const url = await httpServer(async (request: http.IncomingMessage, response: http.ServerResponse) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    seen.push({ line: `${request.method} ${request.url}`, body, secret: request.headers.authorization });
    const route = routes[String(request.url)];
    if (route === undefined) response.end('{"done":true}');
    else
      response
        .writeHead(route.status, route.location === undefined ? {} : { location: route.location })
        .end('moved');
  });
  return { url, seen };
}

const withSecret = (url: string) =>
  post(url, '{"id":1}', { headers: { authorization: 'Bearer s3cret', 'content-type': 'application/json' } });

describe('redirects', () => {
  it.each([307, 308])(
    '%i within the origin is followed, with method, body and headers kept',
    async (status) => {
      const server = await redirector({
        '/mcp': { status, location: '/mcp/#part' },
        '/mcp/': { status, location: 'v2?x=1' },
      });
      const recorder = await run(newClient(), withSecret(`${server.url}/mcp`));
      expect(recorder).toMatchObject({ ended: true, text: '{"done":true}', sentCount: 3, afterEnd: [] });
      expect(recorder.received?.status).toBe(200);
      const same = { body: '{"id":1}', secret: 'Bearer s3cret' };
      expect(server.seen).toEqual([
        { line: 'POST /mcp', ...same },
        { line: 'POST /mcp/', ...same },
        { line: 'POST /mcp/v2?x=1', ...same },
      ]);
    },
  );

  it.each([300, 301, 302, 303, 304, 305])('%i is not followed', async (status) => {
    const server = await redirector({ '/mcp': { status, location: '/elsewhere' } });
    for (const request of [withSecret(`${server.url}/mcp`), get(`${server.url}/mcp`)]) {
      const recorder = await run(newClient(), request);
      expect(recorder.failure).toEqual({ kind: 'redirect', status, sent: true, phase: 'head' });
      expect(recorder.received).toBe(undefined);
    }
    expect(server.seen).toHaveLength(2);
  });

  it('another origin never sees the request', async () => {
    const other = await rawServer();
    const locations = [
      other.url,
      `//127.0.0.1:${other.port}/mcp`,
      `https://127.0.0.1:${other.port}/mcp`,
      'https://evil.invalid/',
      'javascript:0',
      'http://[',
    ];
    for (const location of locations) {
      const server = await redirector({ '/mcp': { status: 307, location } });
      const recorder = await run(newClient(), withSecret(`${server.url}/mcp`));
      expect(recorder.failure).toMatchObject({ kind: 'redirect', status: 307, sent: true, phase: 'head' });
      expect(server.seen).toHaveLength(1);
    }
    await settle();
    expect(other).toMatchObject({ connections: 0, text: '' });
  });

  it('neither a user name in the location nor a missing location is followed', async () => {
    const server = await redirector({ '/none': { status: 308 } });
    expect((await run(newClient(), withSecret(`${server.url}/none`))).failure).toMatchObject({
      kind: 'redirect',
    });
    const named = await httpServer((request, response) => {
      response.writeHead(307, { location: `http://u:p@${request.headers.host}/x` }).end();
    });
    expect((await run(newClient(), withSecret(named))).failure).toMatchObject({ kind: 'redirect' });
  });

  it('a loop ends after three', async () => {
    const server = await redirector({
      '/a': { status: 307, location: '/b' },
      '/b': { status: 308, location: '/a' },
    });
    const recorder = await run(newClient(), withSecret(`${server.url}/a`));
    expect(recorder.failure).toEqual({ kind: 'redirect', status: 308, sent: true, phase: 'head' });
    expect(server.seen).toHaveLength(4);
  });

  it('a failure of a later hop counts as sent, and an endless body of the first holds nobody up', async () => {
    const server = await rawServer((socket, chunk) => {
      if (chunk.startsWith('POST /a')) {
        socket.write('HTTP/1.1 307 X\r\nlocation: /b\r\ncontent-length: 999999\r\n\r\nendless');
      } else {
        socket.resetAndDestroy();
      }
    });
    const recorder = await run(newClient(), withSecret(`${server.url}/a`));
    expect(recorder.failure).toMatchObject({ sent: true, phase: 'head', kind: 'network' });
    expect(recorder.sentCount).toBe(2);
    await server.closed(2);
  });

  it('a sent() that throws at the second hop stops it there, as sent', async () => {
    const server = await redirector({ '/a': { status: 307, location: '/b' } });
    const recorder = new Recorder();
    recorder.onSent = () => {
      if (recorder.sentCount === 2) throw new Error('changed meanwhile');
    };
    start(newClient(), withSecret(`${server.url}/a`), recorder);
    await recorder.done();
    expect(recorder.failure).toMatchObject({ kind: 'aborted', sent: true });
    await settle();
    expect(server.seen).toHaveLength(1);
  });

  it('an abort between two hops ends it', async () => {
    const reached = gate();
    const server = await httpServer((request, response) => {
      if (request.url === '/a') response.writeHead(307, { location: '/b' }).end();
      else reached.open();
    });
    const { recorder, handle } = start(newClient(), withSecret(`${server}/a`));
    await reached.promise;
    handle.abort();
    expect(recorder.failure).toMatchObject({ kind: 'aborted', sent: true, phase: 'head' });
    handle.abort();
    expect(recorder.afterEnd).toEqual([]);
  });
});

describe('time to the head', () => {
  function handClock() {
    const timers: Array<{ fire: () => void; ms: number; cleared: boolean }> = [];
    const tracked = { held: 0 };
    const clock: Clock = {
      ...systemClock(),
      setTimeout(fire, ms) {
        const timer = { fire, ms, cleared: false };
        timers.push(timer);
        return {
          clear: () => {
            timer.cleared = true;
          },
        };
      },
      track(): Disposer {
        tracked.held++;
        return disposer(() => tracked.held--);
      },
    };
    return { clock, timers, tracked };
  }

  it('runs on the injected clock, from the request or else from the options', async () => {
    const { clock, timers, tracked } = handClock();
    const server = await rawServer();
    const client = newClient({ headersTimeoutMs: 500 }, clock);
    const { recorder } = start(client, post(server.url));
    expect(timers.map((timer) => timer.ms)).toEqual([500]);
    await server.saw('{"id":1}');
    expect(tracked.held).toBe(1);
    timers[0]?.fire();
    expect(recorder.failure).toMatchObject({ kind: 'timeout', sent: true, phase: 'head' });
    expect(tracked.held).toBe(0);
    const early = start(client, post(server.url, '{}', { headersTimeoutMs: 7 }));
    timers[1]?.fire();
    expect(timers[1]?.ms).toBe(7);
    expect(early.recorder.failure).toMatchObject({ kind: 'timeout', sent: false, phase: 'before' });
    start(client, post(server.url, '{}', { headersTimeoutMs: 0 })).handle.abort();
    expect(timers).toHaveLength(2);
    expect(timers.every((timer) => timer.cleared)).toBe(true);
  });

  it('ends with the head, and so does the hold on the clock; a body may take its time', async () => {
    const { clock, timers, tracked } = handClock();
    const finish = gate();
    const url = await httpServer(async (_request, response) => {
      response.writeHead(200).write('{');
      await finish.promise;
      response.end('}');
    });
    const { recorder } = start(newClient({ headersTimeoutMs: 500 }, clock), post(url));
    expect(tracked.held).toBe(1);
    await recorder.until(() => recorder.bytes === 1);
    expect(timers[0]?.cleared).toBe(true);
    expect(tracked.held).toBe(0);
    finish.open();
    await recorder.done();
    expect(recorder.text).toBe('{}');
  });

  it('the hold is given back by every kind of end', async () => {
    const { clock, tracked } = handClock();
    const server = await redirector({ '/r': { status: 302, location: '/' } });
    const client = newClient({}, clock);
    await run(client, post(`${server.url}/`));
    await run(client, post(`${server.url}/r`));
    await run(client, post('https://nohost.invalid/'));
    await run(client, post(server.url, '{}', { headers: { a: '\n' } }));
    const { handle } = start(client, post(server.url, '{}', { headers: { a: '\n' } }));
    handle.abort();
    await settle();
    expect(tracked.held).toBe(0);
  });
});
