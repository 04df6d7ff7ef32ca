import http from 'node:http';
import tls from 'node:tls';
import { Agent } from 'undici';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { resolveHttpOptions } from '../../../src/http/options.js';
import { UndiciClient } from '../../../src/http/undici-client.js';
import {
  type Certificate,
  get,
  httpServer,
  listen,
  makeCertificate,
  newClient,
  post,
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

describe('an answer', () => {
  it('arrives whole, with its headers in lower case', async () => {
    const bodies: string[] = [];
    const url = await httpServer(async (request, response) => {
      let body = '';
      for await (const chunk of request) body += chunk;
      bodies.push(`${request.method} ${request.url} ${request.headers['content-type']} ${body}`);
      response.writeHead(200, { 'X-One': '1', 'Set-Cookie': ['a=1', 'b=2'] }).end('{"ok":true}');
    });
    const recorder = await run(newClient(), post(`${url}/mcp?x=1`, '{"id":7}'));
    expect(recorder).toMatchObject({ ended: true, failure: undefined, text: '{"ok":true}', sentCount: 1 });
    expect(recorder.received?.status).toBe(200);
    expect(recorder.received?.headers).toMatchObject({ 'x-one': '1', 'set-cookie': ['a=1', 'b=2'] });
    expect(bodies).toEqual(['POST /mcp?x=1 application/json {"id":7}']);
  });

  it('is the one after informational responses', async () => {
    const url = await httpServer((_request, response) => {
      response.writeEarlyHints({ link: '</a>; rel=preload' });
      response.writeProcessing();
      response.writeHead(202).end();
    });
    const recorder = await run(newClient(), post(url));
    expect(recorder).toMatchObject({
      ended: true,
      sentCount: 1,
      headCount: 1,
      received: { status: 202 },
      bytes: 0,
    });
  });

  it('leaves the request headers as they were, frozen ones included, and a pooled socket is used again', async () => {
    const server = await rawServer((socket) => socket.write(OK));
    const client = newClient();
    const headers = Object.freeze({ accept: 'application/json' });
    for (let i = 0; i < 3; i++) {
      const recorder = await run(client, post(server.url, '{}', { headers }));
      expect(recorder.ended).toBe(true);
    }
    expect(headers).toEqual({ accept: 'application/json' });
    expect(server.connections).toBe(1);
  });

  it('comes while a stream is open: they do not share sockets', async () => {
    const url = await httpServer((request, response) => {
      if (request.method === 'GET')
        response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': hi\n\n');
      else response.end('{}');
    });
    const client = newClient();
    const stream = start(client, get(url, { stream: true }));
    await stream.recorder.until((recorder) => recorder.bytes > 0);
    expect((await run(client, post(url))).ended).toBe(true);
    stream.handle.abort();
    expect(stream.recorder.failure).toMatchObject({ kind: 'aborted', sent: true, phase: 'body' });
  });
});

describe('a failure before any byte', () => {
  const before = { sent: false, phase: 'before' };

  it('refused connect', async () => {
    const port = await new Promise<number>((resolve) => {
      const server = http.createServer().listen(0, '127.0.0.1', () => {
        const { port: free } = server.address() as { port: number };
        server.close(() => resolve(free));
      });
    });
    const recorder = await run(newClient(), post(`http://127.0.0.1:${port}`));
    expect(recorder.failure).toMatchObject({ ...before, kind: 'network', code: 'ECONNREFUSED' });
    expect(recorder.sentCount).toBe(0);
  });

  it('a name that does not resolve', async () => {
    const recorder = await run(newClient({ proxy: false }), post('https://nohost.invalid/mcp'));
    expect(recorder.failure).toMatchObject({ ...before, kind: 'network' });
    expect(['ENOTFOUND', 'EAI_AGAIN']).toContain(recorder.failure?.code);
  });

  it('a connection that does not come about in time', async () => {
    const server = await rawServer(); // Accepts, and never answers the TLS greeting.
    const client = newClient({ connectTimeoutMs: 50 });
    const recorder = await run(client, post(`https://localhost:${server.port}`));
    expect(recorder.failure).toMatchObject({ ...before, kind: 'network', code: 'UND_ERR_CONNECT_TIMEOUT' });
  });

  it('a reset during the TLS handshake', async () => {
    const server = await rawServer((socket) => socket.resetAndDestroy());
    const recorder = await run(newClient(), post(`https://localhost:${server.port}`));
    expect(recorder.failure).toMatchObject({ ...before, kind: 'network', code: 'ECONNRESET' });
  });

  it.each([
    ['a line break in a value', { 'x-a': 'b\r\nx-injected: 1' }],
    ['a character beyond latin1', { 'last-event-id': 'ev-✓' }],
    ['expect', { expect: '100-continue' }],
    ['a foreign content-length', { 'content-length': 'abc' }],
  ])('headers that HTTP does not allow: %s', async (_name, headers) => {
    const server = await rawServer((socket) => socket.write(OK));
    const { recorder } = start(newClient(), post(server.url, '{}', { headers }));
    expect(recorder.over).toBe(false); // Nothing is heard before exchange() has returned.
    await recorder.done();
    expect(recorder.failure).toMatchObject({ ...before, kind: 'invalid-request' });
    expect(server.text).toBe('');
  });

  it('a dispatcher that throws or is of another kind', async () => {
    const dispatcher = {
      dispatch: () => {
        throw Object.assign(new Error('invalid onConnect method'), { code: 'UND_ERR_INVALID_ARG' });
      },
    };
    const recorder = await run(newClient({ dispatcher }), post('http://127.0.0.1:1'));
    expect(recorder.failure).toMatchObject({
      ...before,
      kind: 'invalid-request',
      code: 'UND_ERR_INVALID_ARG',
    });
  });

  it('a runtime whose undici is a stub says what to do', async () => {
    const stubs: unknown[] = [{}, { Agent: class {} }];
    for (const stub of stubs) {
      const client = new UndiciClient(resolveHttpOptions(), () =>
        Promise.resolve(stub as typeof import('undici')),
      );
      const recorder = await run(client, post('http://127.0.0.1:1'));
      expect(recorder.failure).toMatchObject({
        ...before,
        kind: 'unsupported',
        reason: expect.stringContaining('http.fetch'),
      });
    }
    const missing = new UndiciClient(resolveHttpOptions(), () =>
      Promise.reject(Object.assign(new Error('missing'), { code: 'ERR_MODULE_NOT_FOUND' })),
    );
    const recorder = await run(missing, post('http://127.0.0.1:1'));
    expect(recorder.failure).toMatchObject({
      ...before,
      kind: 'unsupported',
      code: 'ERR_MODULE_NOT_FOUND',
    });
    expect(recorder.failure?.reason).toContain('http.fetch');
  });
});

describe('TLS', () => {
  let pem: Certificate;
  beforeAll(async () => {
    pem = await makeCertificate();
  });
  const tlsServer = async () => {
    const seen = { bytes: 0, port: 0 };
    const server = tls.createServer({ cert: pem.cert, key: pem.key }, (socket) => {
      socket.on('error', () => {});
      socket.on('data', (data) => {
        seen.bytes += data.length;
        socket.write(OK);
      });
    });
    server.on('tlsClientError', () => {});
    seen.port = await listen(server);
    return seen;
  };

  it('refuses a certificate nobody vouches for: nothing left', async () => {
    const server = await tlsServer();
    const recorder = await run(newClient(), post(`https://localhost:${server.port}`));
    expect(recorder.failure).toMatchObject({
      sent: false,
      phase: 'before',
      kind: 'network',
      code: 'DEPTH_ZERO_SELF_SIGNED_CERT',
    });
    await settle();
    expect(server.bytes).toBe(0);
  });

  it('trusts tls.ca, and checks the name', async () => {
    const server = await tlsServer();
    expect(
      (await run(newClient({ tls: { ca: pem.cert } }), post(`https://localhost:${server.port}`))).ended,
    ).toBe(true);
    expect(server.bytes).toBeGreaterThan(0);
    const other = newClient({ tls: { ca: pem.cert, servername: 'other.test' } });
    const recorder = await run(other, post(`https://localhost:${server.port}`));
    expect(recorder.failure).toMatchObject({ sent: false, code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
  });
});

describe('closeIdle and close', () => {
  it('give up sockets, abort what is under way, and leave the client usable', async () => {
    const server = await rawServer((socket, chunk) => {
      if (!chunk.includes('"hangs"')) socket.write(OK);
    });
    const client = newClient();
    await run(client, post(server.url));
    const hanging = start(client, post(server.url, '"hangs"'));
    await server.saw('"hangs"');
    await client.closeIdle();
    expect(hanging.recorder.failure).toMatchObject({ kind: 'aborted', sent: true });
    await server.closed(1);
    expect((await run(client, post(server.url))).ended).toBe(true);
    expect(server.connections).toBe(2);
    await client.close();
    await client.close();
    expect((await run(client, post(server.url))).failure).toMatchObject({ kind: 'aborted', sent: false });
  });

  it("leave an app's dispatcher open", async () => {
    const server = await rawServer((socket) => socket.write(OK));
    const dispatcher = oneSocketAgent();
    const client = newClient({ dispatcher });
    await run(client, post(server.url));
    await client.close();
    expect((await run(newClient({ dispatcher }), post(server.url))).ended).toBe(true);
    expect(server.connections).toBe(1);
  });

  it('a socket is not kept beyond keepAliveTimeoutMs 0, and a hint of the server cannot prolong it', async () => {
    const server = await rawServer((socket) => {
      socket.write(OK.replace('\r\n', '\r\nkeep-alive: timeout=600\r\n'));
    });
    await run(newClient({ keepAliveTimeoutMs: 0 }), post(server.url));
    await server.closed(1);
    await run(newClient({ keepAliveTimeoutMs: 20 }), post(server.url));
    await server.closed(2);
  });
});
