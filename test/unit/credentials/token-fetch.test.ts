import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { isSafeEndpoint, TokenHttp } from '../../../src/credentials/token-fetch.js';
import { manualClock } from '../../../src/testing/manual-clock.js';
import { TokenServer } from './support.js';

const PROXY_VARIABLES = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy'];
let server: TokenServer;
let proxy: Server;
let tunnels = 0;

beforeAll(async () => {
  await import('undici');
});
beforeEach(async () => {
  for (const name of PROXY_VARIABLES) vi.stubEnv(name, undefined);
  server = await TokenServer.start();
  tunnels = 0;
  proxy = createServer();
  proxy.on('connect', (request, socket) => {
    tunnels += 1;
    const [host, port] = (request.url ?? '').split(':');
    const upstream = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      upstream.pipe(socket);
      socket.pipe(upstream);
    });
    for (const end of [upstream, socket]) end.on('error', () => {});
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await server.close();
  proxy.closeAllConnections();
  await new Promise((resolve) => proxy.close(resolve));
});

async function post(http: TokenHttp) {
  return await http.send({
    method: 'POST',
    url: server.tokenEndpoint,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: 'grant_type=client_credentials',
    timeoutMs: 1_000,
    maxBytes: 1_000,
  });
}

describe('TokenHttp', () => {
  it('goes directly without proxy variables, on a connection of its own each time', async () => {
    const http = new TokenHttp(manualClock(), undefined);
    expect((await post(http)).kind).toBe('reply');
    expect((await post(http)).kind).toBe('reply');
    expect(server.requests.map((r) => r.headers.connection)).toEqual(['close', 'close']);
    expect(tunnels).toBe(0);
    await http.close();
  });

  it('goes past the proxy of the environment on loopback: plain http is safe only because it stays here', async () => {
    vi.stubEnv('HTTP_PROXY', `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`);
    const http = new TokenHttp(manualClock(), undefined);
    expect((await post(http)).kind).toBe('reply');
    expect(tunnels).toBe(0);
    await http.close();
  });

  it('gives up a fetch that ignores its signal, and leaves no timer', async () => {
    const clock = manualClock();
    const http = new TokenHttp(clock, () => new Promise(() => {}));
    const asking = post(http);
    await clock.advance(1_000);
    expect(await asking).toMatchObject({ kind: 'failed', reason: 'timeout', mayHaveLeft: true });
    expect(clock.pendingTimers).toBe(0);
  });

  it('bounds the body while it arrives', async () => {
    server.script.push({ body: 'x'.repeat(5_000) });
    const http = new TokenHttp(manualClock(), undefined);
    expect(await post(http)).toMatchObject({ kind: 'failed', reason: 'too-large' });
    await http.close();
  });
});

it.each([
  ['https://as.example/token', true],
  ['http://127.0.0.1:1/token', true],
  ['http://localhost/token', true],
  ['http://[::1]/token', true],
  ['http://as.example/token', false],
  ['http://127.0.0.1.evil.example/', false],
  ['http://localhost.evil.example/', false],
  ['https://user:pass@as.example/', false],
  ['https://as.example/#x', false],
  ['ftp://127.0.0.1/', false],
])('%s is a safe endpoint: %s', (url, safe) => {
  expect(isSafeEndpoint(new URL(url))).toBe(safe);
});
