import tls from 'node:tls';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  type Certificate,
  connectProxy,
  httpServer,
  listen,
  makeCertificate,
  newClient,
  post,
  run,
} from './support.js';

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}';

let pem: Certificate;
beforeAll(async () => {
  pem = await makeCertificate();
});
beforeEach(() => {
  for (const name of ['http_proxy', 'https_proxy', 'no_proxy', 'all_proxy']) {
    vi.stubEnv(name, undefined);
    vi.stubEnv(name.toUpperCase(), undefined);
  }
});
afterEach(() => {
  vi.unstubAllEnvs();
});

async function tlsServer() {
  const seen = { text: '', port: 0 };
  const server = tls.createServer({ cert: pem.cert, key: pem.key }, (socket) => {
    socket.on('error', () => {});
    socket.on('data', (data) => {
      seen.text += data.toString('latin1');
      socket.write(OK);
    });
  });
  server.on('tlsClientError', () => {});
  seen.port = await listen(server);
  return seen;
}

const ca = () => ({ tls: { ca: pem.cert } });

describe('proxies of the environment', () => {
  it('HTTPS_PROXY carries an https target, whose certificate is checked with tls.ca', async () => {
    const [server, proxy] = [await tlsServer(), await connectProxy()];
    vi.stubEnv('HTTPS_PROXY', proxy.url);
    const target = `https://mcp.test:${server.port}/mcp`;
    const client = newClient(ca());
    const recorder = await run(client, post(target));
    expect(recorder).toMatchObject({ ended: true, sentCount: 1, text: '{}' });
    expect(proxy.asked).toEqual([`mcp.test:${server.port}`]);
    expect(server.text).toContain('POST /mcp HTTP/1.1');
    expect(server.text).toContain(`host: mcp.test:${server.port}`);
    await run(client, post(target));
    await run(client, { ...post(target), stream: true });
    expect(proxy.asked).toHaveLength(2); // Calls share one tunnel; the stream has its own.
    const distrustful = await run(newClient(), post(target));
    expect(distrustful.failure).toMatchObject({ sent: false, code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
  });

  it('lower case goes first, a missing scheme means http, credentials are sent', async () => {
    const [server, proxy] = [await tlsServer(), await connectProxy()];
    vi.stubEnv('HTTPS_PROXY', 'http://127.0.0.1:1');
    vi.stubEnv('https_proxy', proxy.url.replace('http://', 'user:p%40ss@'));
    expect((await run(newClient(ca()), post(`https://mcp.test:${server.port}`))).ended).toBe(true);
    expect(proxy.authorizations).toEqual([`Basic ${Buffer.from('user:p@ss').toString('base64')}`]);
  });

  it('HTTP_PROXY carries an http target', async () => {
    const proxy = await connectProxy();
    const url = await httpServer((_request, response) => response.end('{}'));
    vi.stubEnv('HTTP_PROXY', proxy.url);
    const target = url.replace('127.0.0.1', 'mcp.test');
    const headers = Object.freeze({ 'x-a': '1' });
    expect((await run(newClient(), post(target, '{}', { headers }))).ended).toBe(true);
    expect(proxy.asked).toHaveLength(1);
    expect(headers).toEqual({ 'x-a': '1' });
  });

  it.each(['mcp.test', '.test', '*', 'other.test, mcp.test:443'])(
    'NO_PROXY=%s goes direct',
    async (noProxy) => {
      const proxy = await connectProxy();
      vi.stubEnv('HTTPS_PROXY', proxy.url);
      vi.stubEnv('NO_PROXY', noProxy);
      const recorder = await run(newClient(), post('https://mcp.test/'));
      expect(recorder.failure?.sent).toBe(false);
      expect(['ENOTFOUND', 'EAI_AGAIN']).toContain(recorder.failure?.code);
      expect(proxy.asked).toEqual([]);
    },
  );

  it('loopback never goes through one: plain http there is safe only because it stays here', async () => {
    const [server, proxy] = [await tlsServer(), await connectProxy()];
    vi.stubEnv('HTTPS_PROXY', proxy.url);
    vi.stubEnv('HTTP_PROXY', proxy.url);
    const url = await httpServer((_request, response) => response.end('{}'));
    const client = newClient(ca());
    expect((await run(client, post(url))).ended).toBe(true);
    expect((await run(client, post(`https://localhost:${server.port}`))).ended).toBe(true);
    expect(proxy.asked).toEqual([]);
  });

  it('proxy: false ignores them; an unusable one is named without its value', async () => {
    vi.stubEnv('HTTPS_PROXY', 'gopher://hunter2@proxy.test');
    const direct = await run(newClient({ proxy: false }), post('https://mcp.test/'));
    expect(['ENOTFOUND', 'EAI_AGAIN']).toContain(direct.failure?.code);
    const recorder = await run(newClient(), post('https://mcp.test/'));
    expect(recorder.failure).toMatchObject({ sent: false, kind: 'invalid-request' });
    expect(recorder.failure?.reason).toContain('environment');
    expect(JSON.stringify(recorder.failure)).not.toContain('hunter2');
  });
});

describe('an explicit proxy', () => {
  it('carries everything, whatever the environment says', async () => {
    const [server, proxy] = [await tlsServer(), await connectProxy()];
    vi.stubEnv('NO_PROXY', '*');
    const client = newClient({ ...ca(), proxy: new URL(proxy.url) });
    expect((await run(client, post(`https://localhost:${server.port}/mcp`))).ended).toBe(true);
    expect(proxy.asked).toEqual([`localhost:${server.port}`]);
  });

  it('that refuses, is silent, or is not there: nothing left', async () => {
    const [server, proxy] = [await tlsServer(), await connectProxy()];
    const target = post(`https://mcp.test:${server.port}`);
    proxy.answer = 'refuse';
    const refused = await run(newClient({ ...ca(), proxy: proxy.url }), target);
    expect(refused).toMatchObject({
      sentCount: 0,
      failure: { sent: false, phase: 'before', kind: 'network' },
    });
    proxy.answer = 'silence';
    const silent = await run(newClient({ ...ca(), proxy: proxy.url, connectTimeoutMs: 50 }), target);
    expect(silent).toMatchObject({
      sentCount: 0,
      failure: { sent: false, phase: 'before', kind: 'network' },
    });
    const absent = await run(newClient({ ...ca(), proxy: 'http://127.0.0.1:1' }), target);
    expect(absent.failure).toMatchObject({ sent: false, code: 'ECONNREFUSED' });
    expect(server.text).toBe('');
  });
});
