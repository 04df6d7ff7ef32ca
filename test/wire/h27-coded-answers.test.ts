import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { ScriptedRequest } from '../../src/testing/index.js';
import { connectFace, FACES } from './faces.js';
import { connect, echo, failureOf, startServer } from './support.js';

const CALL = { http: 'POST', method: 'tools/call' } as const;
const MIB = 1024 * 1024;

const CODINGS: readonly (readonly [string, (text: string) => Uint8Array])[] = [
  ['gzip', (text) => gzipSync(text)],
  ['x-gzip', (text) => gzipSync(text)],
  ['GZIP', (text) => gzipSync(text)],
  ['br', (text) => brotliCompressSync(text)],
  ['deflate', (text) => deflateSync(text)],
  // Some servers send it raw.
  ['deflate', (text) => deflateRawSync(text)],
  ['gzip, br', (text) => brotliCompressSync(gzipSync(text))],
  ['identity', (text) => Buffer.from(text)],
];

const json = (request: ScriptedRequest) => JSON.stringify(request.answer);
const event = (request: ScriptedRequest) => `event: message\ndata: ${json(request)}\n\n`;

describe('H27 answers coded although nobody asked', () => {
  CODINGS.forEach(([coding, encode], index) => {
    const face = FACES[index % FACES.length] ?? 'v1';
    it(`${coding} (${index}), JSON and SSE, ${face}`, async () => {
      const scene = await startServer();
      const { server } = scene;
      const caller = await connectFace(face, scene, { streams: { listen: false } });
      const headers = { 'content-type': 'application/json', 'content-encoding': coding };
      server.replyOnce(CALL, { tool: 'run', status: 200, headers, body: (request) => encode(json(request)) });
      server.replyOnce(CALL, {
        tool: 'run',
        headers: { 'content-encoding': coding },
        // In two pieces, so that a decoder has to go on.
        chunks: (request) => {
          const bytes = encode(event(request));
          return [bytes.subarray(0, 12), bytes.subarray(12)];
        },
      });

      await expect(caller.echo('json')).resolves.toMatchObject({ content: [{ text: 'json' }] });
      await expect(caller.echo('sse')).resolves.toMatchObject({ content: [{ text: 'sse' }] });

      const sent = server.log.filter(({ rpcMethod }) => rpcMethod === 'tools/call');
      expect(sent.map(({ headers: { 'accept-encoding': asked } }) => asked)).toEqual([
        'identity',
        'identity',
      ]);
      expect(server.counts).toMatchObject({ initializes: 1, executionsById: { json: 1, sse: 1 } });
    });
  });

  it.each(['gzip', 'br'] as const)(
    '%s on everything, events out at once while the stream is open',
    async (compress) => {
      const scene = await startServer({ compress, answer: 'sse' });
      const { server, clock } = scene;
      const client = await connect(scene);
      const seen: number[] = [];
      let call: Promise<unknown> | undefined;
      const half = new Promise<void>((resolve) => {
        const onprogress = ({ progress }: { progress: number }) => {
          seen.push(progress);
          if (progress === 50) resolve();
        };
        call = client.callTool({ name: 'slow', arguments: { ms: 10_000 } }, undefined, { onprogress });
      });
      await clock.advance(5_000);
      await half;
      expect(seen).toEqual([0, 50]);
      await clock.advance(5_000);
      await call;
      expect(seen).toEqual([0, 50, 100]);
      expect((await client.listTools()).tools).toHaveLength(4);
      expect(server.counts.executions).toEqual({ slow: 1 });
    },
  );

  it('an error page that is coded is read, and its words kept off the message', async () => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene);
    const headers = { 'content-type': 'text/html', 'content-encoding': 'gzip' };
    server.replyOnce(CALL, { status: 502, headers, body: gzipSync('<html>upstream is away</html>') });
    const failure = await failureOf(echo(client, 'a'));
    expect(failure).toMatchObject({ code: 'ERR_HTTP_STATUS', status: 502, executed: 'unknown' });
    expect(failure.serverText).toContain('upstream is away');
    expect(failure.message).not.toContain('upstream');
  });

  it.each([
    ['zstd', 'zstd', gzipSync('{}')],
    ['more codings than anybody needs', 'gzip, gzip, gzip, gzip', gzipSync('{}')],
    ['broken gzip', 'gzip', Buffer.from('{"jsonrpc":"2.0"}')],
    ['broken br', 'br', Buffer.from('not brotli at all')],
  ])('%s: typed, the tool ran once, the session goes on', async (_name, coding, body) => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene);
    for (const type of ['application/json', 'text/event-stream']) {
      const headers = { 'content-type': type, 'content-encoding': coding };
      server.replyOnce(CALL, { tool: 'run', status: 200, headers, body });
      const failure = await failureOf(echo(client, type));
      expect(failure).toMatchObject({ code: 'ERR_PROTOCOL', executed: 'unknown', retryable: false });
      expect(server.counts.executionsById[type]).toBe(1);
    }
    await echo(client, 'after');
    expect(server.counts).toMatchObject({ initializes: 1, executions: { echo: 3 } });
  });
});

describe('H27 a bomb', () => {
  // 16 MiB a member, 64 members: one MiB on the wire becomes one GiB.
  const member = gzipSync(Buffer.alloc(16 * MIB, ' '));
  const gzipBomb = Buffer.concat(Array.from({ length: 64 }, () => member));
  const brBomb = brotliCompressSync(Buffer.alloc(256 * MIB, ' '), {
    params: { [constants.BROTLI_PARAM_QUALITY]: 1 },
  });
  const commentBomb = gzipSync(Buffer.concat([Buffer.from(':'), Buffer.alloc(256 * MIB, ' ')]), { level: 1 });

  it.each([
    ['gzip, JSON', 'gzip', 'application/json', gzipBomb],
    ['gzip, one endless line of an event stream', 'gzip', 'text/event-stream', gzipBomb],
    ['gzip, one endless comment', 'gzip', 'text/event-stream', commentBomb],
    ['br, JSON', 'br', 'application/json', brBomb],
    ['br, a page', 'br', 'text/html', brBomb],
  ])('%s: ends at the limit, memory bounded, the session goes on', async (_name, coding, type, body) => {
    expect(body.length).toBeLessThan(2 * MIB);
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene, { http: { maxMessageBytes: MIB } });
    await echo(client, 'warm');
    server.replyOnce(CALL, {
      tool: 'run',
      status: 200,
      headers: { 'content-type': type, 'content-encoding': coding },
      body,
    });
    const before = process.resourceUsage().maxRSS;

    const failure = await failureOf(echo(client, 'bomb'));

    expect(failure).toMatchObject({ code: 'ERR_MESSAGE_TOO_LARGE', executed: 'unknown', retryable: false });
    // maxRSS, in KiB, is a peak: nothing that was let go again can hide.
    expect((process.resourceUsage().maxRSS - before) / 1024).toBeLessThan(128);
    await echo(client, 'after');
    expect(server.counts).toMatchObject({ initializes: 1, executionsById: { warm: 1, bomb: 1, after: 1 } });
  });
});
