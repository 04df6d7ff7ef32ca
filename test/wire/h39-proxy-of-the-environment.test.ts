import http from 'node:http';
import https from 'node:https';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { bearerToken, clientCredentialsGrant, HostedTransport } from '../../src/index.js';
import { type Certificate, connectProxy, listen, makeCertificate } from '../unit/http/support.js';
import { stockClient } from './stock.js';
import { closeLater, failureOf, type Scene, startServer } from './support.js';

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

/** The simulator under any host name: it only answers to its own. */
async function front({ server }: Scene, secure: boolean): Promise<number> {
  const target = new URL(server.url);
  const forward: http.RequestListener = (request, response) => {
    const headers = { ...request.headers, host: target.host };
    const { method = '', url = '' } = request;
    const onward = http.request({
      host: '127.0.0.1',
      port: target.port,
      path: url,
      method,
      headers,
      agent: false,
    });
    onward.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
      answer.on('error', () => response.destroy());
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  };
  return listen(secure ? https.createServer({ ...pem }, forward) : http.createServer(forward));
}

/** Tokens from `auth.test`, with the library's own way of asking for them. */
function machineAt(port: number, { server, clock }: Scene) {
  const { id, secret } = server.client;
  return clientCredentialsGrant({
    tokenEndpoint: `https://auth.test:${port}/token`,
    clientId: id,
    clientSecret: secret,
    resource: '',
    clock,
  });
}

async function connected(sdk: 'v1' | 'v2', transport: HostedTransport) {
  const client = stockClient(sdk);
  closeLater(() => client.close());
  // biome-ignore lint/suspicious/noExplicitAny: each SDK's Transport names its own message types.
  await client.connect(transport as any);
  const meta = { 'mcp-holdfast/callId': 'a' };
  return client.callTool({ name: 'echo', arguments: { text: 'a' }, _meta: meta });
}

/** No certificate of a test is trusted by the token endpoint's road, which has no option for it. */
function trustAnything(): void {
  vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
}

describe('H39 a proxy of the environment', () => {
  for (const [sdk, variable] of [
    ['v1', 'HTTPS_PROXY'],
    ['v2', 'https_proxy'],
  ] as const) {
    it(`${variable}, ${sdk}: MCP requests, the stream and token requests take it`, async () => {
      const scene = await startServer();
      const [port, proxy] = [await front(scene, true), await connectProxy()];
      vi.stubEnv(variable, variable === 'HTTPS_PROXY' ? proxy.url : proxy.url.replace('http://', ''));
      trustAnything();
      const transport = new HostedTransport(`https://mcp.test:${port}/mcp`, {
        credentials: machineAt(port, scene),
        clock: scene.clock,
      });
      const answer = await connected(sdk, transport);

      expect(answer).toMatchObject({ content: [{ text: 'a' }] });
      await vi.waitUntil(() => scene.server.counts.listens === 1, { interval: 1 });
      expect(scene.server.counts).toMatchObject({
        tokenRequests: 1,
        initializes: 1,
        executionsById: { a: 1 },
      });
      // Neither name exists outside the proxy: what arrived came through it.
      expect(new Set(proxy.asked)).toEqual(new Set([`auth.test:${port}`, `mcp.test:${port}`]));
      expect(proxy.asked.filter((host) => host.startsWith('auth'))).toHaveLength(1);
    });
  }

  it('behind the proxy the certificate is still checked: http.tls.ca for MCP', async () => {
    const scene = await startServer();
    const [port, proxy] = [await front(scene, true), await connectProxy()];
    vi.stubEnv('HTTPS_PROXY', proxy.url);
    const credentials = bearerToken(scene.server.issueToken());
    const url = `https://mcp.test:${port}/mcp`;
    const trusting = new HostedTransport(url, { credentials, http: { tls: { ca: pem.cert } } });
    await connected('v1', trusting);
    expect(scene.server.counts).toMatchObject({ initializes: 1, executionsById: { a: 1 } });

    const { clock } = scene;
    const wary = connected('v1', new HostedTransport(url, { credentials, clock }));
    const failure = failureOf(wary);
    await clock.advance(60_000);
    expect(await failure).toMatchObject({ code: 'ERR_NOT_SENT', executed: false, retryable: true });
    expect(scene.server.counts.initializes).toBe(1);
    const tokens = machineAt(port, scene).acquire(new URL(url), { maxWaitMs: 1 });
    await expect(tokens).rejects.toMatchObject({ code: 'ERR_TOKEN_ENDPOINT', executed: false });
    expect(scene.server.counts.tokenRequests).toBe(0);
  });

  it.each([
    ['mcp.test', 'ERR_NOT_SENT', 1, ['auth.test']],
    ['auth.test', 'ERR_TOKEN_ENDPOINT', 0, []],
    ['.test', 'ERR_TOKEN_ENDPOINT', 0, []],
    ['other.test,mcp.test', 'ERR_NOT_SENT', 1, ['auth.test']],
  ] as const)('NO_PROXY=%s: that host is looked up directly', async (noProxy, code, tokenRequests, asked) => {
    const scene = await startServer({ tokenLifetimeMs: 3_600_000 });
    const [port, proxy] = [await front(scene, true), await connectProxy()];
    vi.stubEnv('HTTPS_PROXY', proxy.url);
    vi.stubEnv('NO_PROXY', noProxy);
    trustAnything();
    const { server, clock } = scene;
    const transport = new HostedTransport(`https://mcp.test:${port}/mcp`, {
      credentials: machineAt(port, scene),
      clock,
    });
    let settled = false;
    const failure = failureOf(connected('v1', transport)).finally(() => {
      settled = true;
    });
    // A name is looked up in real time: the clock moves on beside it, slowly enough for the slowest look-up.
    const isSettled = async () => {
      await clock.advance(400);
      return settled;
    };
    await vi.waitUntil(isSettled, { interval: 20, timeout: 25_000 });

    expect(await failure).toMatchObject({ code, executed: false });
    expect(server.counts).toMatchObject({ tokenRequests, initializes: 0 });
    expect([...new Set(proxy.asked)]).toEqual(asked.map((host) => `${host}:${port}`));
  });

  it('HTTP_PROXY for plain http that was allowed; loopback goes past it, secrets in clear included', async () => {
    const scene = await startServer();
    const [port, proxy] = [await front(scene, false), await connectProxy()];
    vi.stubEnv('HTTP_PROXY', proxy.url);
    vi.stubEnv('HTTPS_PROXY', proxy.url);
    const { server, clock } = scene;
    const { id, secret } = server.client;
    const credentials = clientCredentialsGrant({
      tokenEndpoint: server.tokenEndpoint,
      clientId: id,
      clientSecret: secret,
      resource: '',
      clock,
    });
    const url = `http://mcp.test:${port}/mcp`;
    await connected('v2', new HostedTransport(url, { credentials, clock, http: { allowInsecure: true } }));

    expect(server.counts).toMatchObject({ tokenRequests: 1, executionsById: { a: 1 } });
    expect(new Set(proxy.asked)).toEqual(new Set([`mcp.test:${port}`]));
    await connected('v1', new HostedTransport(server.url, { credentials: server.issueToken(), clock }));
    expect(server.counts.executions).toEqual({ echo: 2 });
    expect(new Set(proxy.asked)).toEqual(new Set([`mcp.test:${port}`]));
  });

  it('a proxy that says no: not sent, typed, and its words are not ours', async () => {
    const scene = await startServer();
    const [port, proxy] = [await front(scene, true), await connectProxy()];
    vi.stubEnv('HTTPS_PROXY', proxy.url.replace('http://', 'http://user:canary-proxy-password@'));
    proxy.answer = 'refuse';
    const { server, clock } = scene;
    const transport = new HostedTransport(`https://mcp.test:${port}/mcp`, { credentials: 'token', clock });
    const failing = failureOf(connected('v1', transport));
    await clock.advance(60_000);
    const failure = await failing;
    expect(failure).toMatchObject({ code: 'ERR_NOT_SENT', executed: false });
    expect(JSON.stringify(failure) + failure.stack).not.toContain('canary');
    expect(server.counts.requests).toBe(0);
  });
});
