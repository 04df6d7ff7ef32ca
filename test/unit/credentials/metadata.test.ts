import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MetadataSource, metadataLocations } from '../../../src/credentials/metadata.js';
import { TokenHttp } from '../../../src/credentials/token-fetch.js';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.js';
import { errorOf, TokenServer } from './support.js';

let server: TokenServer;
let clock: ManualClock;
let http: TokenHttp;

beforeAll(async () => {
  await import('undici');
});
beforeEach(async () => {
  server = await TokenServer.start();
  clock = manualClock();
  http = new TokenHttp(clock, undefined);
});
afterEach(async () => {
  await http.close();
  await server.close();
});

const source = (issuer: string) =>
  new MetadataSource({ issuer, tokenEndpoint: undefined, http, clock, timeoutMs: 1_000 });
const document = (issuer: string, more: object = {}) => ({
  body: { issuer, token_endpoint: server.tokenEndpoint, ...more },
});

describe('locations', () => {
  it('are asked in the order oauth inserted, openid inserted, openid appended', () => {
    expect(metadataLocations('https://as.example/tenant/1')).toEqual([
      'https://as.example/.well-known/oauth-authorization-server/tenant/1',
      'https://as.example/.well-known/openid-configuration/tenant/1',
      'https://as.example/tenant/1/.well-known/openid-configuration',
    ]);
    expect(metadataLocations('https://as.example')).toEqual(metadataLocations('https://as.example/'));
    expect(metadataLocations('https://as.example')).toHaveLength(2);
  });

  it.each([0, 1, 2])('location %i is found when the ones before are not there', async (index) => {
    const issuer = `${server.origin}/tenant`;
    const paths = metadataLocations(issuer).map((location) => new URL(location).pathname);
    // A start page for unknown paths is no metadata.
    server.pages.set(paths[0] as string, { status: 200, body: '<html>start page' });
    server.pages.set(paths[index] as string, document(issuer));
    expect(await source(issuer).get()).toEqual({ issuer, tokenEndpoint: server.tokenEndpoint });
    expect(server.paths).toEqual(paths.slice(0, index + 1));
  });

  it('found ones are kept, failures are not, and concurrent callers share one look', async () => {
    const issuer = server.origin;
    const metadata = source(issuer);
    expect((await errorOf(metadata.get())).code).toBe('ERR_DISCOVERY');
    server.pages.set('/.well-known/oauth-authorization-server', document(issuer));
    await Promise.all([metadata.get(), metadata.get(), metadata.get()]);
    await metadata.get();
    expect(server.paths).toHaveLength(3);
  });
});

describe('refused', () => {
  it.each<[string, (origin: string) => object, RegExp]>([
    ['another issuer', () => ({ issuer: 'https://evil.example' }), /another issuer/],
    ['a trailing slash on a path', (origin) => ({ issuer: `${origin}/tenant/` }), /another issuer/],
    ['no token endpoint', () => ({ token_endpoint: undefined }), /no token endpoint/],
    ['a relative token endpoint', () => ({ token_endpoint: '/token' }), /no token endpoint/],
    ['a token endpoint over plain http', () => ({ token_endpoint: 'http://as.example/token' }), /not https/],
    ['an inherited token endpoint', () => ({ token_endpoint: undefined, __proto__: 1 }), /no token endpoint/],
  ])('%s', async (_, change, message) => {
    const issuer = `${server.origin}/tenant`;
    server.pages.set(
      '/.well-known/oauth-authorization-server/tenant',
      document(issuer, change(server.origin)),
    );
    const error = await errorOf(source(issuer).get());
    expect(error.code).toBe('ERR_DISCOVERY');
    expect(error.message).toMatch(message);
    expect(server.paths).toHaveLength(1);
  });

  it('a redirect, and a document that is too large', async () => {
    const page = '/.well-known/oauth-authorization-server';
    server.pages.set(page, { status: 302, headers: { location: 'https://evil.example' } });
    expect((await errorOf(source(server.origin).get())).code).toBe('ERR_DISCOVERY');
    server.pages.set(page, document(server.origin, { padding: 'x'.repeat(300_000) }));
    expect((await errorOf(source(server.origin).get())).message).toMatch(/too large/);
  });

  it('a bare origin with and without its slash is one issuer', async () => {
    server.pages.set('/.well-known/oauth-authorization-server', document(`${server.origin}/`));
    expect((await source(server.origin).get()).tokenEndpoint).toBe(server.tokenEndpoint);
  });
});

describe('an issuer that is down', () => {
  it('is an outage, not a wrong configuration, and other locations are not asked', async () => {
    server.pages.set('/.well-known/oauth-authorization-server', {
      status: 503,
      headers: { 'retry-after': '9' },
      body: 'busy',
    });
    const error = await errorOf(source(server.origin).get());
    expect(error).toMatchObject({
      code: 'ERR_TOKEN_ENDPOINT',
      retryable: true,
      retryAfterMs: 9_000,
      status: 503,
    });
    expect(server.paths).toHaveLength(1);
  });

  it('so is one that does not answer', async () => {
    server.pages.set('/.well-known/oauth-authorization-server', { silence: true });
    const failing = errorOf(source(server.origin).get());
    await clock.advance(1_000);
    expect((await failing).code).toBe('ERR_TOKEN_ENDPOINT');
  });
});
