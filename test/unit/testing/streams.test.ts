import { request as httpRequest } from 'node:http';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { manualClock } from '../../../src/testing/index.js';
import { connect, messages, type Peer, readUntil, start, textOf, toolCall } from './support.js';

/** Raw bytes, as fetch would decode them. */
function rawCall(peer: Peer, tool: string, args: object): Promise<{ encoding: unknown; bytes: Buffer }> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(peer.server.url, { method: 'POST', headers: peer.headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('end', () =>
        resolve({ encoding: response.headers['content-encoding'], bytes: Buffer.concat(chunks) }),
      );
    });
    sent.on('error', reject);
    sent.end(JSON.stringify(toolCall(tool, args)));
  });
}

describe('the listen stream', () => {
  test('carries what notify() sends, once per session', async () => {
    const server = await start();
    const one = await connect(server);
    const two = await connect(server);
    const streams = [await one.get(), await two.get()];
    expect((await one.get()).status).toBe(409);
    server.notify('notifications/tools/list_changed');
    for (const stream of streams) {
      const text = await readUntil(stream, (seen) => seen.endsWith('\n\n'));
      expect(messages(text)).toEqual([{ jsonrpc: '2.0', method: 'notifications/tools/list_changed' }]);
      expect(text).not.toContain('id:');
    }
    expect(server.counts.listens).toBe(3);
  });

  test('listen: false is 405', async () => {
    const server = await start({ listen: false });
    const peer = await connect(server);
    const refused = await peer.get();
    expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'POST, DELETE']);
  });

  test('can be opened again after a cut, and after the client left', async () => {
    const server = await start();
    const peer = await connect(server);
    const cut = await peer.get();
    server.cutStreams();
    await expect(cut.text()).rejects.toThrow();
    const left = new AbortController();
    await fetch(server.url, {
      headers: { ...peer.headers, accept: 'text/event-stream' },
      signal: left.signal,
    });
    left.abort();
    await expect.poll(async () => (await peer.get()).status).toBe(200);
  });

  test('with an event store a resume brings what was missed, once', async () => {
    const server = await start({ eventStore: true });
    const peer = await connect(server);
    const stream = await peer.get();
    server.notify('notifications/message', { n: 1 });
    const text = await readUntil(stream, (seen) => seen.includes('"n":1'));
    expect(text).toMatch(/^id: s1_1\nretry: \d+\ndata: \n\nevent: message\nid: s1_2\n/);
    server.cutStreams('eof');
    server.notify('notifications/message', { n: 2 });
    const resumed = await peer.get({ 'last-event-id': 's1_2' });
    server.notify('notifications/message', { n: 3 });
    const later = messages(await readUntil(resumed, (seen) => seen.includes('"n":3')));
    expect(later.map((message) => message.params.n)).toEqual([2, 3]);
    expect((await peer.get({ 'last-event-id': 's1_2' })).status).toBe(409);
    expect((await peer.get({ 'last-event-id': 'never_1' })).status).toBe(400);
  });
});

describe('cutStreams', () => {
  test.each(['fin', 'eof', 'reset'] as const)('%s, in the middle of a call', async (shape) => {
    const clock = manualClock();
    const server = await start({ answer: 'sse', clock });
    const peer = await connect(server);
    const call = await peer.call('slow', { ms: 1_000 });
    server.cutStreams(shape);
    const outcome = await call.text().catch((error) => error.cause?.code ?? error.message);
    if (shape === 'eof') expect(outcome).toBe('');
    else expect(outcome).toBe(shape === 'reset' ? 'ECONNRESET' : 'UND_ERR_SOCKET');
    await clock.advance(1_000);
    expect(server.counts.executions).toEqual({ slow: 1 });
    expect((await peer.call('echo', { text: 'x' })).status).toBe(200);
  });

  test('a cut call is resumed from the event store, before and after its answer', async () => {
    const clock = manualClock();
    const server = await start({ answer: 'sse', eventStore: true, clock });
    const peer = await connect(server);
    const call = await peer.call('slow', { ms: 1_000 });
    const cursor = /^id: (\S+)/.exec(await readUntil(call, (seen) => seen.endsWith('\n\n')))?.[1] ?? '';
    server.cutStreams();
    const early = await peer.get({ 'last-event-id': cursor });
    await clock.advance(1_000);
    expect(await textOf(early)).toBe('waited 1000 ms');
    const late = await peer.get({ 'last-event-id': cursor });
    expect(await textOf(late)).toBe('waited 1000 ms');
    expect(server.counts.executions).toEqual({ slow: 1 });
  });
});

describe('answers', () => {
  test('are JSON unless the tool sends something first', async () => {
    const tools = [
      { name: 'quiet', handler: () => 'q' },
      {
        name: 'loud',
        handler: (_: unknown, call: { notify(method: string): void }) => {
          call.notify('notifications/message');
          return 'l';
        },
      },
    ];
    const server = await start({ tools });
    const peer = await connect(server);
    const typeOf = async (tool: string) => (await peer.call(tool)).headers.get('content-type');
    expect(await typeOf('quiet')).toBe('application/json');
    expect(await typeOf('loud')).toBe('text/event-stream');
    server.set({ answer: 'json' });
    expect(await typeOf('loud')).toBe('application/json');
    server.set({ answer: 'sse' });
    expect(await typeOf('quiet')).toBe('text/event-stream');
  });

  test.each([
    ['gzip', 'json'],
    ['gzip', 'sse'],
    ['br', 'json'],
    ['br', 'sse'],
  ] as const)('encoded as %s, %s', async (compress, answer) => {
    const server = await start({ compress, answer });
    const peer = await connect(server);
    const { encoding, bytes } = await rawCall(peer, 'echo', { text: 'squeezed' });
    expect(encoding).toBe(compress);
    const plain = compress === 'gzip' ? gunzipSync(bytes) : brotliDecompressSync(bytes);
    expect(plain.toString()).toContain('squeezed');
    expect(await textOf(await peer.call('echo', { text: 'again' }))).toBe('again');
  });

  test('an encoded stream is flushed event by event', async () => {
    const server = await start({ compress: 'br' });
    const peer = await connect(server);
    const stream = await peer.get();
    server.notify('notifications/message', { n: 1 });
    await readUntil(stream, (seen) => seen.includes('"n":1'));
    server.notify('notifications/message', { n: 2 });
    await readUntil(stream, (seen) => seen.includes('"n":2'));
  });

  test('carry the date of the server’s clock', async () => {
    const server = await start({ clock: manualClock(Date.UTC(2030, 0, 1)) });
    const answer = await fetch(server.tokenEndpoint, { method: 'POST' });
    expect(answer.headers.get('date')).toBe('Tue, 01 Jan 2030 00:00:00 GMT');
  });
});
