import { Agent, buildConnector } from 'undici';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { HttpClient } from '../../../src/http/exchange.js';
import { resolveHttpOptions } from '../../../src/http/options.js';
import { UndiciClient } from '../../../src/http/undici-client.js';
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

const OK = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}';

function oneSocketAgent(connect?: Agent.Options['connect']): Agent {
  const agent = new Agent({ connections: 1, ...(connect === undefined ? {} : { connect }) });
  onTestFinished(() => agent.destroy());
  return agent;
}

describe('a failure after bytes left', () => {
  it('closed before the head', async () => {
    const server = await rawServer((socket) => socket.end());
    const recorder = await run(newClient(), post(server.url));
    expect(recorder.failure).toMatchObject({
      sent: true,
      phase: 'head',
      kind: 'network',
      code: 'UND_ERR_SOCKET',
    });
    expect(server.connections).toBe(1);
  });

  it('reset before the head', async () => {
    const server = await rawServer((socket) => socket.resetAndDestroy());
    const recorder = await run(newClient(), post(server.url));
    expect(recorder.failure).toMatchObject({ sent: true, phase: 'head', kind: 'network' });
    expect(server.connections).toBe(1);
  });

  it('reset in the body: what had arrived was delivered', async () => {
    const server = await rawServer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf');
    });
    const { recorder } = start(newClient(), post(server.url));
    await recorder.until(() => recorder.bytes === 4);
    server.sockets[0]?.resetAndDestroy();
    await recorder.done();
    expect(recorder.failure).toMatchObject({ sent: true, phase: 'body', kind: 'network' });
    expect(recorder.text).toBe('half');
  });

  it('an answer that is no HTTP, and a head that is too large', async () => {
    const garbage = await rawServer((socket) => socket.end('220 smtp ready\r\n'));
    expect((await run(newClient(), post(garbage.url))).failure).toMatchObject({
      sent: true,
      phase: 'head',
      kind: 'network',
    });
    const fat = await rawServer((socket) =>
      socket.end(`HTTP/1.1 200 OK\r\nx: ${'a'.repeat(20_000)}\r\n\r\n`),
    );
    expect((await run(newClient(), post(fat.url))).failure).toMatchObject({
      sent: true,
      phase: 'head',
      kind: 'too-large',
    });
  });

  it('an answer beyond maxMessageBytes, but a stream has no total', async () => {
    const url = await httpServer((request, response) => {
      const type = request.method === 'GET' ? 'Text/Event-Stream; charset=utf-8' : 'application/json';
      response.writeHead(200, { 'content-type': type }).end('x'.repeat(2000));
    });
    const client = newClient({ maxMessageBytes: 1000 });
    expect((await run(client, post(url))).failure).toMatchObject({
      sent: true,
      phase: 'body',
      kind: 'too-large',
    });
    expect(await run(client, get(url, { stream: true }))).toMatchObject({ ended: true, bytes: 2000 });
    expect((await run(newClient({ maxMessageBytes: 2000 }), post(url))).ended).toBe(true);
  });
});

describe('a POST is never executed twice', () => {
  it('when the server closes the idle socket just as the request goes out', async () => {
    const executed = new Map<string, number>();
    const server = await rawServer((socket, chunk) => {
      const id = /"id":(\d+)/.exec(chunk)?.[1];
      if (id !== undefined) executed.set(id, (executed.get(id) ?? 0) + 1);
      socket.write(OK);
    });
    const client = newClient();
    let cut = 0;
    for (let id = 0; id < 120; id += 2) {
      expect((await run(client, post(server.url, `{"id":${id}}`))).ended).toBe(true);
      // The two ways a pooled socket dies, at different moments of the next request's start.
      const socket = server.sockets.at(-1);
      if (id % 4 === 0) socket?.end();
      else socket?.resetAndDestroy();
      await settle((id / 2) % 3);
      const { failure, ended } = await run(client, post(server.url, `{"id":${id + 1}}`));
      const times = executed.get(String(id + 1)) ?? 0;
      if (failure !== undefined) cut++;
      if (ended) expect(times).toBe(1);
      if (failure?.sent === false) expect(times).toBe(0);
      expect(times).toBeLessThanOrEqual(1);
    }
    // A control: the race really happens.
    expect(cut).toBeGreaterThan(0);
  });

  it('when the server resets upon reading it', async () => {
    const seen: string[] = [];
    const server = await rawServer((socket, chunk) => {
      seen.push(chunk);
      if (seen.length === 1) socket.write(OK);
      else socket.resetAndDestroy();
    });
    const client = newClient();
    await run(client, post(server.url));
    expect((await run(client, post(server.url))).failure).toMatchObject({ sent: true, phase: 'head' });
    await settle();
    expect(seen).toHaveLength(2);
  });

  it('when a dispatcher starts it a second time', async () => {
    let starts = 0;
    const dispatcher = {
      // biome-ignore lint/suspicious/noExplicitAny: as in HttpDispatcher.
      dispatch(_options: any, handler: any) {
        const controller = { abort() {}, pause() {}, resume() {} };
        try {
          for (let i = 0; i < 2; i++) {
            handler.onRequestStart(controller);
            starts++;
          }
        } catch (error) {
          handler.onResponseError(controller, error);
        }
        return true;
      },
    };
    const recorder = await run(newClient({ dispatcher }), post('http://127.0.0.1:1'));
    expect(starts).toBe(1);
    expect(recorder.sentCount).toBe(1);
    expect(recorder.failure).toMatchObject({ sent: true, kind: 'network' });
  });
});

describe('abort', () => {
  const aborted = { sent: false, phase: 'before', kind: 'aborted' };

  /** Whoever comes after on the same single socket shows what the aborted one did not do. */
  async function expectOnlyControl(client: HttpClient, server: { url: string; text: string }): Promise<void> {
    expect((await run(client, post(server.url, '"control"'))).ended).toBe(true);
    expect(server.text).toContain('"control"');
    expect(server.text).not.toContain('"aborted"');
  }

  it('in the same tick', async () => {
    const server = await rawServer((socket) => socket.write(OK));
    const client = newClient({ dispatcher: oneSocketAgent() });
    for (let i = 0; i < 2; i++) {
      const { recorder, handle } = start(client, post(server.url, '"aborted"'));
      handle.abort();
      expect(recorder.failure).toMatchObject(aborted);
      await expectOnlyControl(client, server);
      handle.abort();
      expect(recorder).toMatchObject({ sentCount: 0, afterEnd: [] });
    }
  });

  it('while connecting is reported at once, and nothing leaves when the connection comes about', async () => {
    const server = await rawServer((socket) => socket.write(OK));
    const stalled = gate();
    const asked = gate();
    const connect = buildConnector({});
    const dispatcher = oneSocketAgent((options, callback) => {
      asked.open();
      void stalled.promise.then(() => connect(options, callback));
    });
    const client = newClient({ dispatcher });
    const { recorder, handle } = start(client, post(server.url, '"aborted"'));
    await asked.promise;
    handle.abort();
    expect(recorder.failure).toMatchObject(aborted);
    stalled.open();
    await expectOnlyControl(client, server);
    expect(recorder).toMatchObject({ sentCount: 0, afterEnd: [] });
  });

  it('during a stalled TLS handshake with our own agent', async () => {
    const server = await rawServer();
    const { recorder, handle } = start(newClient(), post(`https://localhost:${server.port}`));
    await server.saw('\x16\x03'); // The TLS greeting.
    handle.abort();
    expect(recorder.failure).toMatchObject(aborted);
  });

  it('while queued behind another request', async () => {
    const server = await rawServer((socket, chunk) => {
      if (!chunk.includes('"first"')) socket.write(OK);
    });
    const client = newClient({ dispatcher: oneSocketAgent() });
    const first = start(client, post(server.url, '"first"'));
    await server.saw('"first"');
    const { recorder, handle } = start(client, post(server.url, '"aborted"'));
    await settle();
    handle.abort();
    expect(recorder.failure).toMatchObject(aborted);
    server.sockets[0]?.write(OK);
    await first.recorder.done();
    await expectOnlyControl(client, server);
    expect(recorder).toMatchObject({ sentCount: 0, afterEnd: [] });
  });

  it('while undici is being loaded', async () => {
    const server = await rawServer((socket) => socket.write(OK));
    const loading = gate();
    const client = new UndiciClient(resolveHttpOptions(), async () => {
      await loading.promise;
      return import('undici');
    });
    onTestFinished(() => client.close());
    const { recorder, handle } = start(client, post(server.url, '"aborted"'));
    await settle();
    handle.abort();
    expect(recorder.failure).toMatchObject(aborted);
    loading.open();
    await expectOnlyControl(client, server);
    expect(recorder).toMatchObject({ sentCount: 0, afterEnd: [] });
  });

  it('after the request left, after the head, and in a stream: the server sees the close', async () => {
    const server = await rawServer((socket, chunk) => {
      if (chunk.includes('"head"')) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n');
      if (chunk.startsWith('GET')) {
        socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n');
      }
    });
    const client = newClient();
    const left = start(client, post(server.url, '"left"'));
    await server.saw('"left"');
    left.handle.abort();
    expect(left.recorder.failure).toMatchObject({ sent: true, phase: 'head', kind: 'aborted' });
    await server.closed(1);
    const head = start(client, post(server.url, '"head"'));
    await head.recorder.until((recorder) => recorder.received !== undefined);
    head.handle.abort();
    expect(head.recorder.failure).toMatchObject({ sent: true, phase: 'body', kind: 'aborted' });
    await server.closed(2);
    const stream = start(client, get(server.url, { stream: true }));
    stream.recorder.onData = () => stream.handle.abort();
    await stream.recorder.done();
    expect(stream.recorder).toMatchObject({
      text: 'data: 1\n\n',
      afterEnd: [],
      failure: { kind: 'aborted', phase: 'body' },
    });
    await server.closed(3);
  });

  it('from sent(), and by a sent() that throws: nothing leaves', async () => {
    const server = await rawServer((socket) => socket.write(OK));
    const client = newClient({ dispatcher: oneSocketAgent() });
    const thrower = new Recorder();
    thrower.onSent = () => {
      throw new Error('the last look says no');
    };
    start(client, post(server.url, '"aborted"'), thrower);
    await thrower.done();
    expect(thrower.failure).toMatchObject(aborted);
    const aborter = new Recorder();
    const { handle } = start(client, post(server.url, '"aborted"'), aborter);
    aborter.onSent = () => handle.abort();
    await aborter.done();
    expect(aborter.failure).toMatchObject(aborted);
    await expectOnlyControl(client, server);
    expect(server.connections).toBe(1);
  });
});

describe('pause and resume', () => {
  it('hold back a large answer and lose nothing of it', async () => {
    const total = 32 * 1024 * 1024;
    const url = await httpServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(Buffer.alloc(total, 'x'));
    });
    const recorder = new Recorder();
    recorder.keepChunks = false;
    const { handle } = start(newClient(), get(url, { stream: true }), recorder);
    recorder.onData = () => handle.pause();
    await recorder.until(() => recorder.bytes > 0);
    await settle(3000);
    const held = recorder.bytes;
    expect(held).toBeLessThan(256 * 1024);
    await settle(3000);
    expect(recorder.bytes).toBe(held);
    recorder.onData = undefined;
    handle.resume();
    await recorder.done();
    expect(recorder).toMatchObject({ ended: true, bytes: total });
  });

  it('hold from before the head on', async () => {
    const url = await httpServer((_request, response) => response.end('{}'));
    const { recorder, handle } = start(newClient(), post(url));
    handle.pause();
    await recorder.until(() => recorder.received !== undefined);
    await settle(100);
    expect(recorder.bytes).toBe(0);
    handle.resume();
    await recorder.done();
    expect(recorder.text).toBe('{}');
  });
});
