/** What `authorizationCodeGrant` cannot be made of: a `TypeError` that names the option, before anything is asked. */
import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it, vi } from 'vitest';
import {
  type AuthorizationCodeOptions,
  authorizationCodeGrant,
  clientCredentialsGrant,
  memoryCredentialStore,
  refreshTokenGrant,
} from '../../../../src/credentials/index.js';
import { everythingOf } from '../support.js';
import { grantOf, REDIRECT_URI, startWorld } from './support.js';

const fetch = vi.fn(() => Promise.reject(new Error('asked')));
const ISSUER = 'https://login.example';
const privateKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
  type: 'pkcs8',
  format: 'pem',
}) as string;
const secret = { clientId: 'app', clientSecret: 'CANARY' };
const make = (options: object) =>
  authorizationCodeGrant({ redirectUri: REDIRECT_URI, fetch, ...options } as AuthorizationCodeOptions);

describe('refused', () => {
  it.each<[string, object, RegExp]>([
    ['no redirect URI', { redirectUri: undefined }, /^redirectUri/],
    ['an empty one', { redirectUri: '' }, /^redirectUri/],
    ['a relative one', { redirectUri: '/callback' }, /^redirectUri/],
    ['a number', { redirectUri: 7 }, /^redirectUri/],
    ['a URL object', { redirectUri: new URL(REDIRECT_URI) }, /^redirectUri/],
    ['plain http off loopback', { redirectUri: 'http://app.example/callback' }, /^redirectUri/],
    ['plain http on a private address', { redirectUri: 'http://10.0.0.7/callback' }, /^redirectUri/],
    ['with a fragment', { redirectUri: 'https://app.example/callback#x' }, /^redirectUri/],
    ['a secret without a server', { client: secret }, /^issuer or discover/],
    ['a key without a server', { client: { clientId: 'app', privateKey } }, /^issuer or discover/],
    ['issuer and discover', { issuer: ISSUER, discover: 'once' }, /^exactly one of/],
    ['discover always', { discover: 'always' }, /^discover must be 'once'/],
    ['discover true', { discover: true, client: secret }, /^discover must be 'once'/],
    [
      'issuer with plain http',
      { issuer: 'http://login.example', client: secret },
      /^issuer must be an https/,
    ],
    ['issuer with a query', { issuer: `${ISSUER}?a=b` }, /^issuer must have no query/],
    ['issuer that is none', { issuer: 'login' }, /^issuer must be an https/],
    ['client null', { client: null }, /^client must be an object/],
    ['client text', { client: 'app' }, /^client must be an object/],
    ['client of nothing', { client: {} }, /^client must have one of/],
    [
      'client id and registration',
      { client: { clientId: 'a', register: { name: 'b' } } },
      /^client must have one of/,
    ],
    [
      'client id and document',
      { client: { clientId: 'a', metadataUrl: 'https://a.example/c' } },
      /^client must have one of/,
    ],
    ['an empty client id', { client: { clientId: '' } }, /^client\.clientId/],
    ['a client id that is a number', { client: { clientId: 7 } }, /^client\.clientId/],
    ['an empty secret', { issuer: ISSUER, client: { clientId: 'a', clientSecret: '' } }, /^clientSecret/],
    ['secret and key', { issuer: ISSUER, client: { ...secret, privateKey } }, /exclude each other/],
    [
      'a key that is none',
      { issuer: ISSUER, client: { clientId: 'a', privateKey: 'CANARY' } },
      /^privateKey/,
    ],
    [
      'an algorithm without a key',
      { issuer: ISSUER, client: { clientId: 'a', algorithm: 'ES256' } },
      /^algorithm/,
    ],
    [
      'a document over http',
      { client: { metadataUrl: 'http://app.example/c.json' } },
      /^client\.metadataUrl/,
    ],
    [
      'a document over loopback http',
      { client: { metadataUrl: 'http://127.0.0.1/c.json' } },
      /^client\.metadataUrl/,
    ],
    ['a document without a path', { client: { metadataUrl: 'https://app.example' } }, /^client\.metadataUrl/],
    [
      'a document with a fragment',
      { client: { metadataUrl: 'https://app.example/c#x' } },
      /^client\.metadataUrl/,
    ],
    [
      'a document with a user',
      { client: { metadataUrl: 'https://CANARY@app.example/c' } },
      /^client\.metadataUrl/,
    ],
    [
      'a document with a password',
      { client: { metadataUrl: 'https://a:CANARY@app.example/c' } },
      /^client\.metadataUrl/,
    ],
    ['a document that is none', { client: { metadataUrl: 'c.json' } }, /^client\.metadataUrl/],
    ['a registration without a name', { client: { register: {} } }, /^client\.register\.name/],
    ['a registration with an empty name', { client: { register: { name: '' } } }, /^client\.register\.name/],
    ['a registration that is null', { client: { register: null } }, /^client/],
    ['onRedirect that is no function', { onRedirect: 'open' }, /^onRedirect must be a function/],
    ['offlineAccess as text', { offlineAccess: 'yes' }, /^offlineAccess must be true or false/],
    ['offlineAccess null', { offlineAccess: null }, /^offlineAccess must be true or false/],
    ['an origin with a path', { metadataOrigins: ['https://auth.example/path'] }, /^metadataOrigins/],
    ['an origin with a slash', { metadataOrigins: ['https://auth.example/'] }, /^metadataOrigins/],
    ['a host', { metadataOrigins: ['auth.example'] }, /^metadataOrigins/],
    ['origins that are numbers', { metadataOrigins: [7] }, /^metadataOrigins/],
    ['origins as one text', { metadataOrigins: 'https://auth.example' }, /^metadataOrigins/],
    ['origins as an object', { metadataOrigins: {} }, /^metadataOrigins/],
    ['dpop as text', { dpop: 'yes' }, /^dpop must be true or false/],
    ['a scope that is none', { scope: 'a"b' }, /^scope must be/],
    ['a resource that is relative', { resource: '/mcp' }, /^resource must be/],
    ['a resource with a fragment', { resource: 'https://a.example/#x' }, /^resource must be/],
    ['a store without a subject', { store: memoryCredentialStore() }, /^subject is required/],
    ['an empty subject', { subject: '' }, /^subject must be/],
    ['a store that is none', { store: {}, subject: 'a' }, /^store\.read must be a function/],
    ['fetch that is no function', { fetch: 'fetch' }, /^fetch must be a function/],
    ['a refresh option that is none', { refresh: { fractoin: 1 } }, /^refresh\.fractoin/],
  ])('%s', (_name, options, words) => {
    let error: unknown;
    try {
      make(options);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(TypeError);
    expect((error as TypeError).message).toMatch(words);
    expect(everythingOf(error)).not.toContain('CANARY');
    expect(fetch).not.toHaveBeenCalled();
  });

  it.each<[string, () => unknown]>([
    [
      'clientCredentialsGrant, discover and issuer',
      () => clientCredentialsGrant({ ...secret, discover: 'once', issuer: ISSUER } as never),
    ],
    [
      'clientCredentialsGrant, discover and tokenEndpoint',
      () =>
        clientCredentialsGrant({ ...secret, discover: 'once', tokenEndpoint: `${ISSUER}/token` } as never),
    ],
    ['clientCredentialsGrant, nothing', () => clientCredentialsGrant(secret as never)],
    [
      'refreshTokenGrant, discover: always',
      () => refreshTokenGrant({ clientId: 'a', refreshToken: 'CANARY', discover: 'always' } as never),
    ],
  ])('%s', (_name, give) => {
    expect(give).toThrow(TypeError);
    expect(give).toThrow(/discover/);
  });

  it('forget() without a server to forget', async () => {
    const world = await startWorld();
    await expect(grantOf(world).forget()).rejects.toThrow(/^forget\(\) needs the address/);
  });
});

describe('taken', () => {
  it.each<[string, object]>([
    ['https', { redirectUri: 'https://app.example/callback?tenant=7' }],
    ['loopback', { redirectUri: 'http://127.0.0.1:1/callback' }],
    ['loopback, IPv6', { redirectUri: 'http://[::1]:1/callback' }],
    ['localhost', { redirectUri: 'http://localhost:1/callback' }],
    ['its own scheme', { redirectUri: 'com.example.app:/callback' }],
    ['a secret with issuer', { issuer: ISSUER, client: secret }],
    ['a secret with discover', { discover: 'once', client: secret }],
    ['a key with issuer', { issuer: ISSUER, client: { clientId: 'app', privateKey } }],
    ['a public client', { client: { clientId: 'app' } }],
    ['a document', { client: { metadataUrl: 'https://app.example/c.json' } }],
    ['both ways', { client: { metadataUrl: 'https://app.example/c.json', register: { name: 'a' } } }],
    ['dpop', { dpop: true }],
    ['origins', { metadataOrigins: ['https://auth.example', 'http://127.0.0.1:7'] }],
  ])('%s', (_name, options) => {
    expect(make(options).id).toMatch(/^[0-9a-f]{32}$/);
    expect(fetch).not.toHaveBeenCalled();
  });

  it('the id tells credentials apart, and holds nothing secret', () => {
    const ids = [
      {},
      { subject: 'a' },
      { subject: 'b' },
      { issuer: ISSUER },
      { client: { clientId: 'app' } },
      { client: { metadataUrl: 'https://app.example/c.json' } },
      { client: { register: { name: 'a' } } },
      { resource: 'https://a.example/mcp' },
    ].map((options) => make(options).id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(make({ subject: 'a' }).id).toBe(ids[1]);
  });
});
