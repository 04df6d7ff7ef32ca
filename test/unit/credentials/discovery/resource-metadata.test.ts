import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { resourceLocations } from '../../../../src/credentials/discovery/resource-metadata.js';
import { TokenHttp } from '../../../../src/credentials/token-fetch.js';
import type { HttpFetch } from '../../../../src/http/exchange.js';
import { manualClock } from '../../../../src/testing/manual-clock.js';
import { errorOf } from '../support.js';
import { discoveryFor, noProxies, type Page, type Site, startSite } from './support.js';

const WELL_KNOWN = '/.well-known/oauth-protected-resource';
let site: Site;
beforeAll(async () => {
  await import('undici');
});
beforeEach(async () => {
  noProxies();
  site = await startSite();
  return () => {
    vi.unstubAllEnvs();
  };
});

const target = () => `${site.origin}/mcp`;
const document = (more: object = {}): Page => ({
  body: { resource: target(), authorization_servers: [site.origin], ...more },
});

describe('locations', () => {
  it.each([
    ['https://h.example/mcp', [`${WELL_KNOWN}/mcp`, WELL_KNOWN]],
    ['https://h.example/a/mcp/?t=1', [`${WELL_KNOWN}/a/mcp/?t=1`, WELL_KNOWN]],
    ['https://h.example', [WELL_KNOWN]],
    ['https://h.example/?t=1', [`${WELL_KNOWN}?t=1`, WELL_KNOWN]],
  ])('of %s', (url, paths) => {
    expect(resourceLocations(new URL(url))).toEqual(paths.map((path) => `https://h.example${path}`));
  });

  it('the one that the challenge names is the only one asked', async () => {
    site.pages.set('/custom/metadata.json', document());
    for (const path of [WELL_KNOWN, `${WELL_KNOWN}/mcp`]) site.pages.set(path, document());
    const found = await discoveryFor(target()).resource({
      resourceMetadata: `${site.origin}/custom/metadata.json`,
    });
    expect(found).toEqual({ resource: target(), authorizationServers: [site.origin] });
    expect(site.paths).toEqual(['/custom/metadata.json']);
  });

  it.each<[string, Page, number]>([
    ['there', { status: 200 }, 1],
    ['not there', { status: 404 }, 2],
    ['forbidden', { status: 403 }, 2],
    ['an app that starts at every path', { body: '<html>start page' }, 2],
    ['no object', { body: ['x'] }, 2],
  ])('path, then root: where the first is %s', async (_, page, count) => {
    site.pages.set(`${WELL_KNOWN}/mcp`, page.status === 200 ? document() : page);
    site.pages.set(WELL_KNOWN, document({ resource: site.origin }));
    const found = await discoveryFor(target()).resource();
    expect(found?.resource).toBe(count === 1 ? target() : site.origin);
    expect(site.paths).toEqual([`${WELL_KNOWN}/mcp`, WELL_KNOWN].slice(0, count));
  });

  it('nothing anywhere is no error: servers of 2025-03-26 publish none', async () => {
    expect(await discoveryFor(target()).resource()).toBeUndefined();
    expect(site.paths).toHaveLength(2);
  });

  it('no credential and no cookie is sent', async () => {
    site.pages.set(`${WELL_KNOWN}/mcp`, document());
    await discoveryFor(target()).resource();
    const { accept, authorization, cookie } = site.requests[0]?.headers ?? {};
    expect({ accept, authorization, cookie }).toEqual({ accept: 'application/json' });
    expect(site.requests[0]?.method).toBe('GET');
  });
});

describe('what is said', () => {
  it('stays as it was written', async () => {
    const origin = site.origin.toUpperCase().replace('HTTP', 'http');
    const authorizationServers = [`${site.origin}/tenant/`, 'https://AS.example', 'https://as.example:443/'];
    site.pages.set(
      `${WELL_KNOWN}/mcp`,
      document({
        resource: origin,
        authorization_servers: authorizationServers,
        scopes_supported: ['a', 1, 'b'],
      }),
    );
    expect(await discoveryFor(target()).resource()).toEqual({
      resource: origin,
      authorizationServers,
      scopesSupported: ['a', 'b'],
    });
  });

  it.each([
    ['', '/mcp', true],
    ['/', '/mcp', true],
    ['/mcp', '/mcp', true],
    ['/mcp/', '/mcp', true],
    ['/mcp', '/mcp/', true],
    ['/a', '/a/b/mcp', true],
    ['/a/../mcp', '/mcp', true],
    ['/mcp', '/mcp?t=1', true],
    ['/mcp?t=1', '/mcp?t=1', true],
    ['/mcp', '/mcp2', false],
    ['/mcp2', '/mcp', false],
    ['/mcp/a', '/mcp', false],
    ['/MCP', '/mcp', false],
    ['/mcp%2Fa', '/mcp/a', false],
    ['/mcp?t=2', '/mcp?t=1', false],
    ['/mcp#a', '/mcp', false],
    [':1/mcp', '/mcp', false],
  ])('resource %s for %s: %s', async (path, at, fits) => {
    const location = '/metadata';
    site.pages.set(location, document({ resource: `${site.origin}${path}` }));
    const found = discoveryFor(`${site.origin}${at}`).resource({
      resourceMetadata: `${site.origin}${location}`,
    });
    if (fits) expect((await found)?.resource).toBe(`${site.origin}${path}`);
    else expect(await errorOf(found)).toMatchObject({ code: 'ERR_DISCOVERY' });
  });

  it('no authorization server named is an empty list', async () => {
    site.pages.set(`${WELL_KNOWN}/mcp`, document({ authorization_servers: undefined }));
    expect((await discoveryFor(target()).resource())?.authorizationServers).toEqual([]);
  });

  it.each<[string, () => object, string, RegExp]>([
    ['no resource', () => ({ resource: undefined }), 'no_resource', /of the MCP server do not say/],
    ['a resource that is no string', () => ({ resource: [target()] }), 'no_resource', /of the MCP server/],
    [
      'the resource of somebody else',
      () => ({ resource: 'https://evil.example.com/mcp' }),
      'resource_mismatch',
      /of the MCP server are about another resource/,
    ],
    [
      'a host that only begins like it',
      () => ({ resource: `${site.origin}.evil.example/mcp` }),
      'resource_mismatch',
      /another resource/,
    ],
    [
      'a resource with a user name',
      () => ({ resource: target().replace('//', '//user@') }),
      'resource_mismatch',
      /another resource/,
    ],
    [
      'authorization servers that are no list',
      () => ({ authorization_servers: site.origin }),
      'no_authorization_servers',
      /of the MCP server name no list/,
    ],
    [
      'one that is no string',
      () => ({ authorization_servers: [{}] }),
      'address',
      /the MCP server names is not/,
    ],
    ['a relative one', () => ({ authorization_servers: ['/as'] }), 'address', /is not an absolute URL/],
    [
      'one on plain http',
      () => ({ authorization_servers: [site.origin, 'http://as.example'] }),
      'address',
      /^An authorization server that the MCP server names is not https/,
    ],
    [
      'one with a password',
      () => ({ authorization_servers: ['https://u:hunter2@as.example'] }),
      'address',
      /user name or password/,
    ],
    [
      'one with a query',
      () => ({ authorization_servers: ['https://as.example?a=1'] }),
      'address',
      /query or a fragment/,
    ],
    [
      'one where clouds keep credentials',
      () => ({ authorization_servers: ['https://169.254.169.254'] }),
      'address',
      /names is in a network of its own/,
    ],
    [
      'one in a private network',
      () => ({ authorization_servers: ['https://[::ffff:192.168.0.1]'] }),
      'address',
      /names is in a network of its own/,
    ],
  ])('%s is refused', async (_, change, reason, message) => {
    site.pages.set(`${WELL_KNOWN}/mcp`, document(change()));
    site.pages.set(WELL_KNOWN, document());
    const error = await errorOf(discoveryFor(target()).resource());
    expect(error).toMatchObject({ code: 'ERR_DISCOVERY', reason, executed: false, retryable: false });
    expect(error.message).toMatch(message);
    expect(error.message).not.toMatch(/evil|hunter2|https:/);
    expect(site.paths).toHaveLength(1);
  });
});

describe('an address in the challenge that must not be asked', () => {
  it.each<[string, (other: Site) => string, string]>([
    ['another origin', (other) => `${other.origin}/x`, 'other_origin'],
    ['another port', () => target().replace(/:\d+/, ':1'), 'other_origin'],
    ['another name of the same machine', (other) => `http://localhost:${other.port}/x`, 'other_origin'],
    ['where clouds keep credentials', () => 'http://169.254.169.254/latest/meta-data/', 'other_origin'],
    ['no URL', () => '/.well-known/oauth-protected-resource', 'address'],
    ['another scheme', () => 'file:///etc/passwd', 'other_origin'],
    ['a user name', () => target().replace('//', '//user:hunter2@'), 'address'],
  ])('%s: nobody is asked', async (_, named, reason) => {
    const other = await startSite();
    const error = await errorOf(discoveryFor(target()).resource({ resourceMetadata: named(other) }));
    expect(error).toMatchObject({ code: 'ERR_DISCOVERY', reason });
    expect(error.message).toMatch(/MCP server/);
    expect(error.message).not.toMatch(/169|hunter2|passwd/);
    expect([site.connections, other.connections]).toEqual([0, 0]);
  });

  it('another origin that the app allows is asked, and nothing else about it is', async () => {
    const other = await startSite();
    other.pages.set('/x', document());
    const resourceMetadata = `${other.origin}/x`;
    const allowedOrigins = ['no URL', `${other.origin}/`];
    expect((await discoveryFor(target()).resource({ resourceMetadata, allowedOrigins }))?.resource).toBe(
      target(),
    );
    other.pages.set('/x', document({ resource: `${other.origin}/mcp` }));
    const refused = discoveryFor(target()).resource({ resourceMetadata, allowedOrigins });
    expect((await errorOf(refused)).reason).toBe('resource_mismatch');
    expect([site.connections, other.requests.length]).toEqual([0, 2]);
  });

  it('an origin that the app allows is no way into a private network', async () => {
    const asked: string[] = [];
    const fetch: HttpFetch = async (url) => {
      asked.push(url);
      return new Response('{}');
    };
    const allowedOrigins = ['https://169.254.169.254', 'http://as.example', 'https://10.0.0.1'];
    for (const origin of allowedOrigins) {
      const { resource } = discoveryFor('https://mcp.example/mcp', { fetch });
      const error = await errorOf(resource({ resourceMetadata: `${origin}/x`, allowedOrigins }));
      expect(error).toMatchObject({ code: 'ERR_DISCOVERY', reason: 'address' });
      expect(error.message).toMatch(/^The address of the MCP server's protected resource metadata is/);
    }
    expect(asked).toEqual([]);
  });

  it('a server on plain http off loopback is not asked, with no guard either', async () => {
    const asked: string[] = [];
    const fetch: HttpFetch = async (url) => {
      asked.push(url);
      return new Response('{}');
    };
    const http = new TokenHttp(manualClock(), fetch);
    const { resource } = discoveryFor('http://mcp.example/mcp');
    expect((await errorOf(resource({ http }))).reason).toBe('address');
    expect(asked).toEqual([]);
  });
});

describe('an answer that must not be used', () => {
  const named = () => `${site.origin}/named`;
  const ask = () => errorOf(discoveryFor(target()).resource({ resourceMetadata: named() }));

  it.each<[string, Page, string]>([
    ['nothing there', { status: 404 }, 'no_resource_metadata'],
    ['the credential asked for', { status: 401 }, 'no_resource_metadata'],
    ['a success without a body', { status: 204 }, 'no_resource_metadata'],
    ['a start page', { body: '<html>' }, 'not_json'],
    ['half an object', { body: '{"resource":' }, 'not_json'],
    ['a list', { body: [] }, 'not_json'],
  ])('%s at the address that the challenge names: other locations are not asked', async (_, page, reason) => {
    site.pages.set('/named', page);
    site.pages.set(WELL_KNOWN, document());
    expect(await ask()).toMatchObject({ code: 'ERR_DISCOVERY', reason, retryable: false });
    expect(site.paths).toEqual(['/named']);
  });

  it('a redirect to itself is one request; one to somebody else reaches nobody', async () => {
    const other = await startSite();
    for (const location of [named(), `${other.origin}/x`, '/other']) {
      site.pages.set('/named', { status: 302, headers: { location } });
      const error = await ask();
      expect(error).toMatchObject({ code: 'ERR_DISCOVERY', reason: 'redirect', status: 302 });
      expect(error.message).toMatch(/^The MCP server redirects/);
    }
    expect(site.paths).toEqual(['/named', '/named', '/named']);
    expect(other.connections).toBe(0);
  });

  it.each([301, 307, 308, 300])(
    'status %i at a well-known location is no reason to ask the next',
    async (status) => {
      site.pages.set(`${WELL_KNOWN}/mcp`, { status, headers: { location: WELL_KNOWN } });
      site.pages.set(WELL_KNOWN, document());
      expect((await errorOf(discoveryFor(target()).resource())).reason).toBe('redirect');
      expect(site.paths).toHaveLength(1);
    },
  );

  it('a body of 50 MB is read to the limit and no further', async () => {
    const total = 50 * 2 ** 20;
    let taken = 0;
    let gone: Promise<unknown> | undefined;
    const chunk = Buffer.alloc(2 ** 16, ' ');
    site.pages.set('/named', {
      answer: (response: ServerResponse) => {
        gone = once(response, 'close');
        const write = (): void => {
          while (taken < total && !response.destroyed) {
            taken += chunk.length;
            if (!response.write(chunk)) {
              response.once('drain', write);
              return;
            }
          }
          response.end();
        };
        response.writeHead(200, { 'content-type': 'application/json' });
        write();
      },
    });
    const error = await ask();
    expect(error).toMatchObject({ code: 'ERR_DISCOVERY', reason: 'too_large', retryable: false });
    expect(error.message).toMatch(/of the MCP server are too large/);
    await gone;
    // What the kernel's buffers took is not counted against us.
    expect(taken).toBeLessThan(total / 3);
  });

  it('so is one that is small only on the wire', async () => {
    const body = gzipSync(
      JSON.stringify({ ...(document().body as object), padding: 'x'.repeat(50 * 2 ** 20) }),
    );
    expect(body.length).toBeLessThan(100_000);
    site.pages.set('/named', {
      answer: (response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(body),
    });
    expect((await ask()).reason).toBe('too_large');
  });
});

describe('a server that is away', () => {
  it.each([408, 425, 429, 500, 502, 503])('status %i: wait, and ask nowhere else', async (status) => {
    site.pages.set(`${WELL_KNOWN}/mcp`, { status, headers: { 'retry-after': '9' }, body: 'busy' });
    site.pages.set(WELL_KNOWN, document());
    const error = await errorOf(discoveryFor(target()).resource());
    expect(error).toMatchObject({
      code: 'ERR_TOKEN_ENDPOINT',
      retryable: true,
      executed: false,
      retryAfterMs: 9_000,
      status,
      serverText: 'busy',
    });
    expect(error.message).toMatch(/^The MCP server did not give its protected resource metadata/);
    expect(error.message).not.toMatch(/busy/);
    expect(site.paths).toHaveLength(1);
  });

  it('a broken connection, at the root as well', async () => {
    site.pages.set(WELL_KNOWN, { answer: (response) => response.destroy() });
    const error = await errorOf(discoveryFor(target()).resource());
    expect(error).toMatchObject({ code: 'ERR_TOKEN_ENDPOINT', reason: 'network', retryable: true });
    expect(site.paths).toHaveLength(2);
  });

  it.each(['head', 'body'])('no end of the %s within the time', async (part) => {
    const { clock, resource } = discoveryFor(target());
    let heard = () => {};
    const asked = new Promise<void>((resolve) => {
      heard = resolve;
    });
    site.pages.set(`${WELL_KNOWN}/mcp`, {
      answer: (response) => {
        if (part === 'body') response.writeHead(200).write('{');
        heard();
      },
    });
    const failing = errorOf(resource());
    await asked;
    await clock.advance(5_000);
    expect(await failing).toMatchObject({ code: 'ERR_TOKEN_ENDPOINT', reason: 'timeout', retryable: true });
  });
});
