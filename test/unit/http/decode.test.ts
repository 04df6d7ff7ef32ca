import { randomBytes } from 'node:crypto';
import type http from 'node:http';
import zlib from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { parseCodings } from '../../../src/http/decode.js';
import { get, httpServer, newClient, post, Recorder, rawServer, run, settle, start } from './support.js';

const JSON_TEXT = JSON.stringify({ jsonrpc: '2.0', id: 1, result: { text: 'ä€😀'.repeat(5000) } });

const CODERS: Array<[coding: string, code: (data: Buffer) => Buffer]> = [
  ['identity', (data) => data],
  ['gzip', (data) => zlib.gzipSync(data)],
  ['X-GZIP', (data) => zlib.gzipSync(data)],
  ['br', (data) => zlib.brotliCompressSync(data)],
  ['deflate', (data) => zlib.deflateSync(data)],
  ['deflate', (data) => zlib.deflateRawSync(data)],
  ['gzip, br', (data) => zlib.brotliCompressSync(zlib.gzipSync(data))],
  ['deflate, identity, gzip', (data) => zlib.gzipSync(zlib.deflateRawSync(data))],
];

async function serve(coding: string, body: Buffer, type = 'application/json'): Promise<string> {
  return httpServer((_request, response) => {
    response.writeHead(200, { 'content-type': type, 'content-encoding': coding }).end(body);
  });
}

describe('a coded JSON answer', () => {
  it.each(CODERS)('%s', async (coding, code) => {
    const recorder = await run(newClient(), post(await serve(coding, code(Buffer.from(JSON_TEXT)))));
    expect(recorder).toMatchObject({ ended: true, text: JSON_TEXT, afterEnd: [] });
  });

  it('arrives a byte at a time', async () => {
    for (const [coding, code] of CODERS) {
      const url = await httpServer(async (_request, response) => {
        response.writeHead(200, { 'content-encoding': coding });
        for (const byte of code(Buffer.from('{"id":1}'))) {
          response.write(Buffer.from([byte]));
          await settle(1);
        }
        response.end();
      });
      expect(await run(newClient(), post(url))).toMatchObject({ ended: true, text: '{"id":1}' });
    }
  });

  it('may be empty, or lack its trailer, or be followed by padding', async () => {
    const client = newClient();
    expect(await run(client, post(await serve('gzip', Buffer.alloc(0))))).toMatchObject({
      ended: true,
      bytes: 0,
    });
    const whole = zlib.gzipSync('{"id":1}');
    const cut = await run(client, post(await serve('gzip', whole.subarray(0, -8))));
    expect(cut).toMatchObject({ ended: true, text: '{"id":1}' });
    const padded = await run(client, post(await serve('gzip', Buffer.concat([whole, Buffer.alloc(100)]))));
    expect(padded).toMatchObject({ ended: true, text: '{"id":1}' });
  });

  it('fails as encoding when it is not what it says', async () => {
    for (const coding of ['gzip', 'br', 'deflate']) {
      const recorder = await run(
        newClient(),
        post(await serve(coding, Buffer.from('{"id":1,"plain":true}'))),
      );
      expect(recorder.failure).toMatchObject({ kind: 'encoding', sent: true, phase: 'body' });
    }
  });

  it('fails as encoding when the coding is unknown', async () => {
    for (const coding of ['zstd', 'gzip, compress', 'gzip, gzip, gzip, gzip']) {
      const recorder = await run(newClient(), post(await serve(coding, Buffer.from('{}'))));
      expect(recorder.failure).toMatchObject({ kind: 'encoding', sent: true, phase: 'body' });
      expect(recorder.received?.status).toBe(200);
      expect(recorder.bytes).toBe(0);
    }
  });
});

describe('a coded event stream', () => {
  const streams: Array<[coding: string, coder: () => zlib.Gzip | zlib.BrotliCompress]> = [
    ['gzip', () => zlib.createGzip()],
    ['br', () => zlib.createBrotliCompress()],
    ['deflate', () => zlib.createDeflate()],
    ['deflate', () => zlib.createDeflateRaw()],
  ];
  it.each(streams)('%s: each event comes out as it arrives', async (coding, makeCoder) => {
    const coder = makeCoder();
    const url = await httpServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': coding });
      coder.pipe(response);
      response.flushHeaders();
    });
    const { recorder } = start(newClient(), get(url, { stream: true }));
    let expected = '';
    for (let i = 0; i < 5; i++) {
      const event = `id: ${i}\ndata: {"n":${i}}\n\n`;
      expected += event;
      coder.write(event);
      coder.flush();
      // Would hang here if the event were held back until more bytes come.
      await recorder.until(() => recorder.bytes === expected.length);
      expect(recorder.text).toBe(expected);
    }
    coder.end();
    await recorder.done();
    expect(recorder).toMatchObject({ ended: true, text: expected });
  });

  it('that is cut delivers first what had arrived', async () => {
    const event = 'id: 1\ndata: {"answer":42}\n\n';
    const coded = zlib.gzipSync(event).subarray(0, -8);
    const server = await rawServer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n');
      socket.end(Buffer.concat([Buffer.from('content-length: 9999\r\n\r\n'), coded]));
    });
    const { recorder, handle } = start(newClient(), get(server.url, { stream: true }));
    handle.pause();
    await server.closed(1);
    await settle();
    expect(recorder).toMatchObject({ headCount: 1, bytes: 0, over: false });
    handle.resume();
    await recorder.done();
    expect(recorder.failure).toMatchObject({ kind: 'network', sent: true, phase: 'body' });
    expect(recorder).toMatchObject({ text: event, afterEnd: [] });
  });

  it.each(streams)('%s: may end without the end of its coding', async (coding, makeCoder) => {
    const coder = makeCoder();
    const url = await httpServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': coding });
      coder.on('data', (chunk) => response.write(chunk));
      coder.write('data: 1\n\n');
      coder.flush(() => response.end());
    });
    const recorder = await run(newClient(), get(url, { stream: true }));
    expect(recorder).toMatchObject({ ended: true, text: 'data: 1\n\n' });
  });

  it('that nobody reads holds its server back', async () => {
    const total = 32 * 1024 * 1024;
    let flushed = false;
    const body = zlib.gzipSync(randomBytes(total), { level: 0 });
    const url = await httpServer((_request, response) => {
      response.on('finish', () => {
        flushed = true;
      });
      response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' }).end(body);
    });
    const recorder = new Recorder();
    recorder.keepChunks = false;
    const { handle } = start(newClient(), get(url, { stream: true }), recorder);
    recorder.onData = () => handle.pause();
    await recorder.until(() => recorder.bytes > 0);
    await settle(3000);
    expect(flushed).toBe(false);
    recorder.onData = undefined;
    handle.resume();
    await recorder.done();
    expect(recorder).toMatchObject({ ended: true, bytes: total });
  });
});

describe('a bomb', () => {
  // A gzip file may have several members: 64 of 16 MiB are 1 GiB, in about 1 MB.
  const member = zlib.gzipSync(Buffer.alloc(16 * 1024 * 1024));
  const bomb = Buffer.concat(Array.from({ length: 64 }, () => member));
  const memory = () => {
    const { external, arrayBuffers, heapUsed } = process.memoryUsage();
    return external + arrayBuffers + heapUsed;
  };
  const serveBomb = (type: string) =>
    httpServer((_request: http.IncomingMessage, response) => {
      response.writeHead(200, { 'content-type': type, 'content-encoding': 'gzip' }).end(bomb);
    });

  it('as JSON ends at the limit, with memory bounded', async () => {
    const limit = 32 * 1024 * 1024;
    const recorder = new Recorder();
    recorder.keepChunks = false;
    const before = memory();
    let peak = 0;
    let largest = 0;
    recorder.onData = (chunk) => {
      largest = Math.max(largest, chunk.byteLength);
      if (recorder.bytes % (1024 * 1024) < 16_384) peak = Math.max(peak, memory());
    };
    start(newClient({ maxMessageBytes: limit }), post(await serveBomb('application/json')), recorder);
    await recorder.done();
    expect(recorder.failure).toMatchObject({ kind: 'too-large', sent: true, phase: 'body' });
    expect(recorder.bytes).toBeLessThanOrEqual(limit);
    expect(recorder.bytes).toBeGreaterThan(limit - 64 * 1024);
    expect(largest).toBeLessThanOrEqual(16 * 1024);
    expect(peak - before).toBeLessThan(100 * 1024 * 1024);
    expect(recorder.afterEnd).toEqual([]);
  });

  it('as a stream comes in small pieces, waits when paused, and stops when aborted', async () => {
    const recorder = new Recorder();
    recorder.keepChunks = false;
    const { handle } = start(
      newClient(),
      get(await serveBomb('text/event-stream'), { stream: true }),
      recorder,
    );
    recorder.onData = () => handle.pause();
    await recorder.until(() => recorder.bytes > 0);
    await settle(3000);
    const held = recorder.bytes;
    expect(held).toBeLessThanOrEqual(64 * 1024);
    await settle(3000);
    expect(recorder.bytes).toBe(held);
    recorder.onData = () => {
      if (recorder.bytes > 4 * 1024 * 1024) handle.abort();
    };
    handle.resume();
    await recorder.done();
    await settle(50);
    expect(recorder).toMatchObject({ afterEnd: [], failure: { kind: 'aborted' } });
    expect(recorder.bytes).toBeLessThan(5 * 1024 * 1024);
  });

  it('of bombs ends as well', async () => {
    const recorder = new Recorder();
    recorder.keepChunks = false;
    const nested = zlib.gzipSync(bomb);
    const client = newClient({ maxMessageBytes: 1024 * 1024 });
    start(client, post(await serve('gzip, gzip', nested)), recorder);
    await recorder.done();
    expect(recorder.failure).toMatchObject({ kind: 'too-large' });
  });

  it('that unfolds slowly is delivered whole: back-pressure loses nothing', async () => {
    const total = 48 * 1024 * 1024;
    const recorder = new Recorder();
    recorder.keepChunks = false;
    const body = Buffer.concat([member, member, member]);
    const { handle } = start(
      newClient(),
      get(await serve('gzip', body, 'text/event-stream'), { stream: true }),
      recorder,
    );
    let paused = 0;
    recorder.onData = () => {
      if (paused++ % 200 !== 0) return;
      handle.pause();
      setImmediate(() => handle.resume());
    };
    await recorder.done();
    expect(recorder).toMatchObject({ ended: true, bytes: total });
  });
});

it('parseCodings knows names in any case, ignores identity, and is bounded', () => {
  expect(parseCodings(' GZip , identity,,br')).toEqual(['gzip', 'br']);
  expect(parseCodings(['gzip', 'deflate'])).toEqual(['gzip', 'deflate']);
  expect(parseCodings('identity')).toEqual([]);
  expect(parseCodings('constructor')).toBe(undefined);
  expect(parseCodings('gzip,gzip,gzip,gzip')).toBe(undefined);
});
