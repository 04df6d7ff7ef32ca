import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { HostedClient } from '../../src/client.js';
import { LEGACY, legacy, requestsAt } from './legacy.js';
import { closeLater, connect, echo, failureOf } from './support.js';

describe('the endpoint', () => {
  it('at another origin is refused, and that origin hears nothing', async () => {
    const heard: string[] = [];
    const other = createServer((request, response) => {
      heard.push(request.url ?? '');
      response.end();
    });
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    closeLater(() => new Promise((resolve) => other.close(resolve)));
    const { port } = other.address() as AddressInfo;
    const scene = await legacy();
    for (const legacyEndpoint of [
      `http://127.0.0.1:${port}/messages`,
      `//127.0.0.1:${port}/messages`,
      `http://localhost:${new URL(scene.server.url).port}/messages`,
      'https://127.0.0.1/messages',
      'file:///etc/passwd',
    ]) {
      scene.server.set({ ...LEGACY, legacyEndpoint });
      const failure = await failureOf(connect(scene));
      expect(failure).toMatchObject({ code: 'ERR_PROTOCOL', executed: false, retryable: false });
      expect(failure.reason).toBe('refused: it is at another origin');
    }
    await scene.clock.settle();
    expect(heard).toEqual([]);
    expect(requestsAt(scene.server)).not.toContain('POST /messages initialize');
    expect(scene.server.counts.streamsOpen).toBe(0);
  });

  for (const [name, data, reason] of [
    ['too long', `/messages?x=${'y'.repeat(2_050)}`, 'refused: it is too long'],
    ['with a name and a password', null, 'refused: it holds a name or a password'],
    ['with a blank inside', '/mess ages', 'refused: it holds a character that no address has'],
    ['empty', ' ', 'refused: it is empty'],
    ['no address', 'http://[', 'refused: it is no address'],
  ] as const) {
    it(`${name} is refused`, async () => {
      const scene = await legacy();
      const { host } = new URL(scene.server.url);
      const text = data ?? `http://me:secret@${host}/messages`;
      scene.server.reply(
        { http: 'GET' },
        { chunks: [`event: endpoint\ndata: ${text}\n\n`, { pauseMs: 1e9 }] },
      );
      expect(await failureOf(connect(scene))).toMatchObject({ code: 'ERR_PROTOCOL', reason });
    });
  }

  for (const name of ['absolute', 'relative to the stream'] as const) {
    it(`${name} is used`, async () => {
      const scene = await legacy();
      const { origin } = new URL(scene.server.url);
      scene.server.set({
        ...LEGACY,
        legacyEndpoint: name === 'absolute' ? `${origin}/messages` : 'messages',
      });
      await echo(await connect(scene), 'a');
      expect(scene.server.counts.executionsById).toEqual({ a: 1 });
    });
  }
});

describe('a stream of which every byte is written here', () => {
  /** A stream of which the test writes every byte. */
  async function rawServer(options: { maxMessageBytes?: number } = {}) {
    const posts: { id?: number | string; method: string }[] = [];
    let write: (text: string) => void = () => {};
    const cookies: (string | undefined)[] = [];
    let gets = 0;
    let held: Promise<void> | undefined;
    const holdPosts = () => {
      let release = () => {};
      held = new Promise((resolve) => {
        release = resolve;
      });
      return release;
    };
    const server = createServer(async (request, response) => {
      if (request.method === 'GET') {
        gets += 1;
        response.writeHead(200, { 'content-type': 'text/event-stream', 'set-cookie': 'node=seven; Path=/' });
        write = (text) => response.write(text);
        write('event: endpoint\ndata: /in?session=0123456789abcdef\n\n');
        return;
      }
      let body = '';
      for await (const chunk of request) body += chunk;
      if (request.url === '/') {
        response.writeHead(405).end();
        return;
      }
      const message = JSON.parse(body);
      posts.push(message);
      cookies.push(request.headers.cookie);
      await held;
      response.writeHead(202).end('Accepted');
      if (message.method !== 'initialize') return;
      const result = {
        protocolVersion: '2024-11-05',
        capabilities: { tools: {} },
        serverInfo: { name: 'raw', version: '1' },
      };
      write(`data: ${JSON.stringify({ jsonrpc: '2.0', id: message.id, result })}\n\n`);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    closeLater(() => new Promise((resolve) => server.close(resolve)));
    const client = new HostedClient(
      { name: 'test', version: '1.0.0' },
      { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, http: options },
    );
    closeLater(() => client.close());
    await client.connect();
    const calls = () => posts.filter(({ method }) => method === 'tools/call');
    const asked = (count: number) => expect.poll(() => calls().length).toBe(count);
    return { client, calls, cookies, asked, holdPosts, say: (text: string) => write(text), gets: () => gets };
  }

  const result = (id: unknown) =>
    `data: ${JSON.stringify({ jsonrpc: '2.0', id, result: { content: [] } })}\n\n`;

  it('what is not JSON and may have been the answer fails the only asker; the session lives', async () => {
    const { client, asked, say, calls, gets } = await rawServer();
    const failed = failureOf(echo(client, 'a'));
    await asked(1);
    say('data: {"result": \n\n');
    expect(await failed).toMatchObject({ code: 'ERR_PROTOCOL', executed: 'unknown' });
    const answered = echo(client, 'b');
    await asked(2);
    say(result(calls()[1]?.id));
    await answered;
    expect(gets()).toBe(1);
  });

  it('of several askers, the one that is named in it', async () => {
    const { client, asked, say, calls } = await rawServer();
    const outcomes = [echo(client, 'a'), echo(client, 'b')].map((each) =>
      each.then(
        () => 'answered',
        (error) => error.code,
      ),
    );
    await asked(2);
    say(`data: {"id": ${calls()[0]?.id}, "result": \n\n`);
    say(result(calls()[1]?.id));
    expect(await Promise.all(outcomes)).toEqual(['ERR_PROTOCOL', 'answered']);
  });

  it('an answer that is none, one to nobody, and one that comes twice', async () => {
    const { client, asked, say, calls } = await rawServer();
    const failed = failureOf(echo(client, 'a'));
    await asked(1);
    say(result(987_654));
    say(`data: {"jsonrpc":"2.0","id":${calls()[0]?.id}}\n\n`);
    expect(await failed).toMatchObject({ code: 'ERR_PROTOCOL', executed: 'unknown' });
    const answered = echo(client, 'b');
    await asked(2);
    say(result(calls()[1]?.id) + result(calls()[1]?.id) + result(calls()[0]?.id));
    await answered;
  });

  it('the cookie of the GET leads every POST to its node', async () => {
    const { client, asked, say, calls, cookies } = await rawServer();
    const answered = echo(client, 'a');
    await asked(1);
    say(result(calls()[0]?.id));
    await answered;
    expect(cookies).toEqual(['node=seven', 'node=seven', 'node=seven']);
  });

  it('an answer on the stream before its POST has ended', async () => {
    const { client, asked, say, calls, holdPosts } = await rawServer();
    const release = holdPosts();
    const answered = echo(client, 'a');
    await asked(1);
    say(result(calls()[0]?.id));
    await answered;
    release();
  });

  it('a second endpoint is nobody’s', async () => {
    const { client, asked, say, calls } = await rawServer();
    say('event: endpoint\ndata: http://127.0.0.1:9/elsewhere\n\n');
    const answered = echo(client, 'a');
    await asked(1);
    say(result(calls()[0]?.id));
    await answered;
  });

  it('a line without an end is too large for the only asker; the stream is given up', async () => {
    const { client, asked, say, gets, calls } = await rawServer({ maxMessageBytes: 64 * 1024 });
    const failed = failureOf(echo(client, 'a'));
    await asked(1);
    for (let i = 0; i < 3; i += 1) say(`${i === 0 ? 'data: ' : ''}${'x'.repeat(32 * 1024)}`);
    expect(await failed).toMatchObject({ code: 'ERR_MESSAGE_TOO_LARGE', executed: 'unknown' });
    const answered = echo(client, 'b');
    await asked(2);
    say(result(calls()[1]?.id));
    await answered;
    expect(gets()).toBe(2);
  });

  it('comments without end are read past', async () => {
    const { client, asked, say, calls } = await rawServer({ maxMessageBytes: 64 * 1024 });
    const answered = echo(client, 'a');
    await asked(1);
    for (let i = 0; i < 64; i += 1) say(`: ${'x'.repeat(16 * 1024)}\n`);
    say(`\n${result(calls()[0]?.id)}`);
    await answered;
  });
});
