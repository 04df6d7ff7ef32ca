import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { TokenHttp } from '../../../../src/credentials/token-fetch.js';
import type { HttpFetch } from '../../../../src/http/exchange.js';
import { manualClock } from '../../../../src/testing/manual-clock.js';
import { type Certificate, connectProxy, makeCertificate } from '../../http/support.js';
import { errorOf } from '../support.js';
import { discoveryFor, nameServer, noProxies, startSite } from './support.js';

let certificate: Certificate;
beforeAll(async () => {
  certificate = await makeCertificate();
  await import('undici');
});
beforeEach(() => {
  noProxies();
  return () => {
    vi.unstubAllEnvs();
  };
});

/** Certificates of tests are not trusted by a road that has no option for it. */
const trustAnything = () => vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');

const get = (http: TokenHttp, url: string, named?: string) =>
  http.send({ method: 'GET', url, named, headers: {}, timeoutMs: 5_000, maxBytes: 1_000 });

describe('with a road of its own', () => {
  it('a name that leads to this machine is refused before anything connects', async () => {
    const site = await startSite(certificate);
    const lookup = nameServer({ 'as.test': [['127.0.0.1']], 'mcp.test': [['9.9.9.9']] });
    const { http, clock } = discoveryFor('https://mcp.test/mcp', { lookup });
    const error = await errorOf(get(http, `https://as.test:${site.port}/`, 'The token endpoint'));
    expect(error).toMatchObject({ code: 'ERR_DISCOVERY', reason: 'address', retryable: false });
    expect(error.message).toMatch(/^The token endpoint is in a network of its own/);
    expect(site.connections).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });

  it('so is one that has a public address as well', async () => {
    const site = await startSite(certificate);
    const lookup = nameServer({ 'as.test': [['9.9.9.9', '::ffff:7f00:1']], 'mcp.test': [['9.9.9.9']] });
    const { http } = discoveryFor('https://mcp.test/mcp', { lookup });
    expect((await errorOf(get(http, `https://as.test:${site.port}/`))).reason).toBe('address');
    expect(site.connections).toBe(0);
  });

  it('a name is resolved once for each connection: the address that was checked is the one connected to', async () => {
    trustAnything();
    const site = await startSite(certificate);
    // As a name server does that changes its mind between two questions.
    const answers = [['127.0.0.1'], ['169.254.169.254'], ['127.0.0.1'], ['10.0.0.1', '127.0.0.1']];
    const lookup = nameServer({ 'as.test': answers });
    const { http } = discoveryFor('http://localhost:1/mcp', { lookup });
    const url = `https://as.test:${site.port}/`;
    expect(await get(http, url)).toMatchObject({ kind: 'reply', reply: { status: 404 } });
    expect(lookup.asked).toEqual(['as.test']);
    expect((await errorOf(get(http, url))).reason).toBe('address');
    expect(await get(http, url)).toMatchObject({ kind: 'reply' });
    expect((await errorOf(get(http, url))).reason).toBe('address');
    expect(lookup.asked).toHaveLength(4);
    expect(site.requests.map(({ headers }) => headers.host)).toEqual(Array(2).fill(`as.test:${site.port}`));
    expect(site.connections).toBe(2);
  });

  it('the server is where it was met with a good certificate, whatever its name says later', async () => {
    trustAnything();
    const site = await startSite(certificate);
    const lookup = nameServer({
      'mcp.test': [['127.0.0.1'], ['10.0.0.1']],
      'internal.test': [['10.0.0.1']],
      'as.test': [['127.0.0.1']],
    });
    const { http } = discoveryFor(`https://mcp.test:${site.port}/mcp`, { lookup });
    await get(http, `https://mcp.test:${site.port}/`);
    expect((await errorOf(get(http, 'https://internal.test/'))).reason).toBe('address');
    expect((await errorOf(get(http, 'https://10.0.0.1/'))).reason).toBe('address');
    expect(await get(http, `https://as.test:${site.port}/`)).toMatchObject({ kind: 'reply' });
    expect(lookup.asked).toEqual(['mcp.test', 'internal.test', 'as.test']);
  });

  it('a certificate that is not good is no sign of the server', async () => {
    const site = await startSite(certificate);
    const lookup = nameServer({ 'mcp.test': [['127.0.0.1'], ['9.9.9.9']], 'as.test': [['127.0.0.1']] });
    const { http } = discoveryFor(`https://mcp.test:${site.port}/mcp`, { lookup });
    expect(await get(http, `https://mcp.test:${site.port}/`)).toMatchObject({
      kind: 'failed',
      reason: 'network',
      mayHaveLeft: false,
    });
    expect(site.connections).toBe(1);
    expect((await errorOf(get(http, `https://as.test:${site.port}/`))).reason).toBe('address');
    expect(site.connections).toBe(1);
  });

  it('a literal address waits for where the name of the server leads, and fails as the network where nobody knows', async () => {
    const site = await startSite();
    const lookup = nameServer({ 'mcp.test': [['127.0.0.1']] });
    expect(await get(discoveryFor('https://mcp.test/', { lookup }).http, `${site.origin}/`)).toMatchObject({
      kind: 'reply',
    });
    const gone = discoveryFor('https://gone.test/', { lookup });
    expect(await get(gone.http, `${site.origin}/`)).toMatchObject({
      kind: 'failed',
      reason: 'network',
      mayHaveLeft: false,
      cause: { code: 'ENOTFOUND' },
    });
    expect(site.connections).toBe(1);
  });

  it('a name server that does not answer is a timeout', async () => {
    const { http, clock } = discoveryFor('https://mcp.test/', { lookup: () => {} });
    await http.prepare();
    // Of the first the look-up is ours; what a connection does has been handed over.
    for (const [url, mayHaveLeft] of [
      ['https://10.0.0.1/', false],
      ['https://as.test/', true],
    ] as const) {
      const asking = get(http, url);
      await clock.advance(5_000);
      expect(await asking).toMatchObject({ kind: 'failed', reason: 'timeout', mayHaveLeft });
    }
    expect(clock.pendingTimers).toBe(0);
  });

  it('loopback and its plain http are for servers on loopback', async () => {
    const site = await startSite();
    const url = `${site.origin}/`;
    expect(await get(discoveryFor('http://localhost:1/mcp').http, url)).toMatchObject({ kind: 'reply' });
    expect((await errorOf(get(discoveryFor('https://8.8.8.8/mcp').http, url))).reason).toBe('address');
    expect(site.connections).toBe(1);
  });

  it('without a guard all is as it was', async () => {
    const site = await startSite();
    const http = new TokenHttp(manualClock(), undefined);
    expect(await get(http, `${site.origin}/`)).toMatchObject({ kind: 'reply' });
    await http.close();
    expect(() => http.check(new URL('http://10.0.0.1/'))).toThrow(/is not https/);
    expect(() => http.check(new URL('https://10.0.0.1/'))).not.toThrow();
  });

  it('headers go out as they were given', async () => {
    const site = await startSite();
    const { http } = discoveryFor('http://localhost:1/mcp');
    const headers = { dpop: 'proof', accept: 'text/plain' };
    await http.send({ method: 'GET', url: site.origin, headers, timeoutMs: 5_000, maxBytes: 10 });
    expect(site.requests[0]?.headers).toMatchObject(headers);
  });
});

describe('behind a proxy of the environment', () => {
  it('literal addresses are refused, names are left to the proxy', async () => {
    trustAnything();
    const [site, proxy] = [await startSite(certificate), await connectProxy()];
    vi.stubEnv('HTTPS_PROXY', proxy.url);
    const lookup = nameServer({});
    const { http } = discoveryFor('https://mcp.test/mcp', { lookup });
    for (const host of ['10.0.0.1', '[::ffff:10.0.0.1]', '2852039166', 'localhost', '127.0.0.1']) {
      expect((await errorOf(get(http, `https://${host}:${site.port}/`))).reason).toBe('address');
    }
    expect(proxy.asked).toEqual([]);
    expect(await get(http, `https://as.test:${site.port}/`)).toMatchObject({ kind: 'reply' });
    expect(proxy.asked).toEqual([`as.test:${site.port}`]);
    expect(lookup.asked).toEqual([]);
    // What stands behind a proxy's tunnel says nothing about where the server is.
    await get(http, `https://mcp.test:${site.port}/`);
    expect((await errorOf(get(http, `https://127.0.0.1:${site.port}/`))).reason).toBe('address');
    expect(site.requests).toHaveLength(2);
  });

  it('hosts that go past it are looked up here, and checked', async () => {
    const [site, proxy] = [await startSite(certificate), await connectProxy()];
    vi.stubEnv('HTTPS_PROXY', proxy.url);
    vi.stubEnv('NO_PROXY', 'as.test');
    const lookup = nameServer({ 'as.test': [['127.0.0.1']], 'mcp.test': [['9.9.9.9']] });
    const { http } = discoveryFor('https://mcp.test/mcp', { lookup });
    expect((await errorOf(get(http, `https://as.test:${site.port}/`))).reason).toBe('address');
    expect([site.connections, proxy.asked]).toEqual([0, []]);
  });
});

describe('with a fetch of the app', () => {
  it('literal addresses are checked before it is asked, and no name server is', async () => {
    const asked: string[] = [];
    const fetch: HttpFetch = async (url) => {
      asked.push(url);
      return new Response('ok');
    };
    const lookup = nameServer({ 'mcp.test': [['10.0.0.1']] });
    const { http } = discoveryFor('https://mcp.test/mcp', { lookup, fetch });
    for (const url of ['https://10.0.0.1/', 'https://[fd00::1]/', 'http://as.test/', 'https://localhost/']) {
      expect((await errorOf(get(http, url))).code).toBe('ERR_DISCOVERY');
    }
    expect(asked).toEqual([]);
    expect(await get(http, 'https://as.test/')).toMatchObject({ kind: 'reply' });
    expect([asked, lookup.asked]).toEqual([['https://as.test/'], []]);
  });
});
