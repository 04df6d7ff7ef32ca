import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { systemClock } from '../../../src/clock.js';
import { createHttpClient } from '../../../src/http/create.js';
import type { HttpClient } from '../../../src/http/exchange.js';
import { resolveHttpOptions } from '../../../src/http/options.js';

const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}';
const cleanUp: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const each of cleanUp.splice(0).reverse()) await each();
});

async function pair(keepAliveTimeoutMs: number) {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('data', () => socket.write(ANSWER));
    socket.on('error', () => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const client = createHttpClient(resolveHttpOptions({ keepAliveTimeoutMs }), systemClock());
  cleanUp.push(
    async () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
    () => client.close(),
  );
  return { sockets, client, url: new URL(`http://127.0.0.1:${port}/`) };
}

function post(client: HttpClient, url: URL): Promise<void> {
  return new Promise((resolve, reject) => {
    client.exchange(
      { method: 'POST', url, headers: {}, body: '{}' },
      { head() {}, data() {}, end: resolve, fail: reject },
    );
  });
}

it('a socket is kept as long as was said last: a shorter time ends it early', async () => {
  const { client, url, sockets } = await pair(60_000);
  await post(client, url);
  await post(client, url);
  expect(sockets).toHaveLength(1);

  client.keepSocketsFor(20);
  await post(client, url);

  expect(sockets).toHaveLength(2);
  await once(sockets[1] as Socket, 'close');
});

it('a longer time keeps it: the next request finds the same socket', async () => {
  const { client, url, sockets } = await pair(20);
  await post(client, url);
  await once(sockets[0] as Socket, 'close');

  client.keepSocketsFor(60_000);
  await post(client, url);
  // Longer than the first setting would have kept it, told by a socket that had it.
  const short = await pair(20);
  await post(short.client, short.url);
  await once(short.sockets[0] as Socket, 'close');
  await post(client, url);

  expect(sockets).toHaveLength(2);
});
