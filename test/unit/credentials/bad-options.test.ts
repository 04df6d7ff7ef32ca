/** What no provider can be made of: a `TypeError` that names the option and quotes nothing, before anything is asked. */
import { generateKeyPairSync, webcrypto } from 'node:crypto';
import { describe, expect, it, vi } from 'vitest';
import {
  bearerToken,
  clientCredentialsGrant,
  encryptedCredentialStore,
  enterpriseManagedGrant,
  fileCredentialStore,
  fromOAuthClientProvider,
  headerCredential,
  jwtBearerGrant,
  memoryCredentialStore,
  refreshTokenGrant,
  resolveCredentials,
  tokenExchangeGrant,
  tokenFromCommand,
  tokenFromEnv,
  tokenFromFile,
} from '../../../src/credentials/index.js';
import { manualClock } from '../../../src/testing/manual-clock.js';
import { everythingOf } from './support.js';

const fetch = vi.fn(() => Promise.reject(new Error('asked')));
const SERVER = { tokenEndpoint: 'https://as.example/token', fetch };
const CLIENT = { ...SERVER, clientId: 'client' };
const TYPE = 'urn:ietf:params:oauth:token-type:access_token';

function refusalOf(make: () => unknown): TypeError {
  try {
    make();
  } catch (error) {
    expect(error).toBeInstanceOf(TypeError);
    return error as TypeError;
  }
  throw new Error('it was taken');
}

const pem = { type: 'pkcs8', format: 'pem' } as const;
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const rsaPem = rsa.privateKey.export(pem) as string;
const ecPem = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export(pem) as string;
const otherCurve = generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).privateKey.export(pem) as string;
const agreement = generateKeyPairSync('x25519').privateKey.export(pem) as string;
const encrypted = rsa.privateKey.export({ ...pem, cipher: 'aes-256-cbc', passphrase: 'CANARY' }) as string;
const CERTIFICATE = `-----BEGIN CERTIFICATE-----\n${'Q0FOQVJZ'.repeat(24)}\n-----END CERTIFICATE-----\n`;
const NO_PEM = /^privateKey must be a private key in PEM form/;

describe('a private key that is none', () => {
  it.each<[string, unknown, string | undefined, RegExp]>([
    ['an empty text', '', undefined, NO_PEM],
    ['any text', 'CANARY', undefined, NO_PEM],
    ['a PEM of nothing', '-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n', undefined, NO_PEM],
    ['a certificate', CERTIFICATE, undefined, NO_PEM],
    ['a public key', rsa.publicKey.export({ type: 'spki', format: 'pem' }), undefined, NO_PEM],
    ['half of a key', rsaPem.slice(0, rsaPem.length / 2), undefined, NO_PEM],
    ['a key with a hole', rsaPem.replace(/\n.{64}\n/, '\n'), undefined, NO_PEM],
    ['a key on one line', rsaPem.replaceAll('\n', ' '), undefined, NO_PEM],
    ['a key with a pass phrase', encrypted, undefined, NO_PEM],
    ['a key in base64 without its frame', rsaPem.replace(/-----[A-Z ]+-----/g, ''), undefined, NO_PEM],
    ['a key of a curve without an algorithm', otherCurve, undefined, /^algorithm must be one of/],
    ['a key for agreement', agreement, undefined, /^algorithm must be one of/],
    ['an algorithm of no key', rsaPem, 'HS256', /^algorithm must be one of/],
    ['an algorithm by the name of a property', rsaPem, 'constructor', /^algorithm must be one of/],
    ['none as algorithm', rsaPem, 'none', /^algorithm must be one of/],
    ['RSA with the algorithm of a curve', rsaPem, 'ES256', /^algorithm does not fit/],
    ['a curve with the algorithm of RSA', ecPem, 'RS256', /^algorithm does not fit/],
    ['P-256 with the algorithm of P-384', ecPem, 'ES384', /^algorithm does not fit/],
    ['a JWK', { kty: 'RSA', d: 'CANARY' }, undefined, /^privateKey must be a PEM string or/],
    ['a KeyObject', rsa.privateKey, undefined, /^privateKey must be a PEM string or/],
    ['bytes', Buffer.from('CANARY'), undefined, /^privateKey must be a PEM string or/],
  ])('%s', (_, privateKey, algorithm, message) => {
    const makers = [
      () => clientCredentialsGrant({ ...CLIENT, privateKey, algorithm } as never),
      () => refreshTokenGrant({ ...CLIENT, refreshToken: 'CANARY', privateKey, algorithm } as never),
      () => jwtBearerGrant({ ...CLIENT, assertion: 'CANARY', privateKey, algorithm } as never),
      () =>
        tokenExchangeGrant({
          ...CLIENT,
          subjectToken: 'CANARY',
          subjectTokenType: TYPE,
          privateKey,
          algorithm,
        } as never),
    ];
    for (const make of makers) {
      const error = refusalOf(make);
      expect(error.message).toMatch(message);
      expect(everythingOf(error)).not.toMatch(/CANARY|Q0FOQVJZ|MII/);
    }
    expect(fetch).not.toHaveBeenCalled();
  });

  it('a CryptoKey that verifies, or is for something else', async () => {
    const { subtle } = webcrypto;
    const pair = await subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify']);
    const hmac = await subtle.generateKey({ name: 'HMAC', hash: 'SHA-256' }, true, ['sign']);
    for (const privateKey of [pair.publicKey, hmac]) {
      const error = refusalOf(() => clientCredentialsGrant({ ...CLIENT, privateKey }));
      expect(error.message).toMatch(/^privateKey must be a PEM string or/);
    }
    const { privateKey } = pair;
    const misfit = refusalOf(() => clientCredentialsGrant({ ...CLIENT, privateKey, algorithm: 'RS256' }));
    expect(misfit.message).toMatch(/^algorithm does not fit/);
  });

  it('these are', () => {
    const old = rsa.privateKey.export({ type: 'pkcs1', format: 'pem' }) as string;
    for (const privateKey of [rsaPem, ecPem, old, `\n${rsaPem}\n`, rsaPem.replaceAll('\n', '\r\n')])
      expect(() => clientCredentialsGrant({ ...CLIENT, privateKey })).not.toThrow();
  });
});

const secret = { clientSecret: 'CANARY-secret' };
const MACHINE = { ...CLIENT, ...secret };
const EXCHANGE = { ...MACHINE, subjectToken: 'CANARY', subjectTokenType: TYPE };
const IDP = { issuer: 'https://idp.example', clientId: 'app', subjectToken: 'CANARY' };
const MANAGED = {
  ...SERVER,
  ...secret,
  clientId: 'client',
  audience: 'https://as.example',
  identityProvider: IDP,
};
const REFRESHING = { ...CLIENT, refreshToken: 'CANARY-R0' };

const cases: [string, () => unknown, RegExp][] = (
  [
    [
      'a clientSecret that is a number',
      clientCredentialsGrant,
      { ...CLIENT, clientSecret: 7 },
      /^clientSecret/,
    ],
    [
      'a clientSecret that is null',
      clientCredentialsGrant,
      { ...CLIENT, clientSecret: null },
      /^clientSecret/,
    ],
    ['a clientId that is a number', clientCredentialsGrant, { ...MACHINE, clientId: 7 }, /^clientId/],
    [
      'a tokenEndpoint on plain http',
      clientCredentialsGrant,
      { ...MACHINE, tokenEndpoint: 'http://as.example/' },
      /^tokenEndpoint must be an https/,
    ],
    [
      'a tokenEndpoint that only begins like loopback',
      clientCredentialsGrant,
      { ...MACHINE, tokenEndpoint: 'http://127.0.0.1.evil.example/' },
      /^tokenEndpoint must be an https/,
    ],
    [
      'a tokenEndpoint with a secret in it',
      clientCredentialsGrant,
      { ...MACHINE, tokenEndpoint: 'https://u:CANARY@as.example/' },
      /^tokenEndpoint/,
    ],
    [
      'a tokenEndpoint that is a path',
      clientCredentialsGrant,
      { ...MACHINE, tokenEndpoint: '/token' },
      /^tokenEndpoint/,
    ],
    [
      'a tokenEndpoint with a fragment',
      clientCredentialsGrant,
      { ...MACHINE, tokenEndpoint: 'https://as.example/#x' },
      /^tokenEndpoint/,
    ],
    [
      'an issuer of another scheme',
      clientCredentialsGrant,
      { ...MACHINE, tokenEndpoint: undefined, issuer: 'ftp://as.example' },
      /^issuer/,
    ],
    [
      'neither issuer nor tokenEndpoint',
      refreshTokenGrant,
      { clientId: 'c', refreshToken: 'CANARY' },
      /^exactly one of/,
    ],
    ['a scope with a line break', clientCredentialsGrant, { ...MACHINE, scope: 'a\nb' }, /^scope/],
    ['a list as scope', clientCredentialsGrant, { ...MACHINE, scope: ['a', 'b'] }, /^scope/],
    [
      'a resource with a fragment',
      clientCredentialsGrant,
      { ...MACHINE, resource: 'https://mcp.example/#x' },
      /^resource/,
    ],
    [
      'a store of no methods',
      refreshTokenGrant,
      { ...REFRESHING, store: { read() {} }, subject: 'u' },
      /^store\.compareAndSet/,
    ],
    [
      'a store without a subject',
      refreshTokenGrant,
      { ...REFRESHING, store: memoryCredentialStore() },
      /^subject is required/,
    ],
    ['a refreshToken that is empty', refreshTokenGrant, { ...CLIENT, refreshToken: '' }, /^refreshToken/],
    [
      'a refreshToken that is an object',
      refreshTokenGrant,
      { ...CLIENT, refreshToken: { token: 'CANARY' } },
      /^refreshToken/,
    ],
    [
      'an accessToken beyond ASCII',
      refreshTokenGrant,
      { ...REFRESHING, accessToken: 'CANARY\u2028' },
      /^accessToken/,
    ],
    [
      'an end that is a date',
      refreshTokenGrant,
      { ...REFRESHING, accessToken: 'CANARY', expiresAtMs: new Date() },
      /^expiresAtMs/,
    ],
    [
      'an end that is no number',
      refreshTokenGrant,
      { ...REFRESHING, accessToken: 'CANARY', expiresAtMs: Number.NaN },
      /^expiresAtMs/,
    ],
    ['a refresh policy of text', clientCredentialsGrant, { ...MACHINE, refresh: 'late' }, /^refresh must be/],
    [
      'a refresh option in seconds',
      clientCredentialsGrant,
      { ...MACHINE, refresh: { tokenTimeout: 5 } },
      /^refresh\.tokenTimeout is not/,
    ],
    [
      'a timeout of 0',
      clientCredentialsGrant,
      { ...MACHINE, refresh: { tokenTimeoutMs: 0 } },
      /^refresh\.tokenTimeoutMs/,
    ],
    [
      'a fraction of NaN',
      clientCredentialsGrant,
      { ...MACHINE, refresh: { fraction: Number.NaN } },
      /^refresh\.fraction/,
    ],
    ['an assertion that is empty', jwtBearerGrant, { ...SERVER, assertion: ' \n' }, /^assertion/],
    [
      'an assertion with a space inside',
      jwtBearerGrant,
      { ...SERVER, assertion: 'CANARY CANARY' },
      /^assertion/,
    ],
    [
      'a promise as assertion',
      jwtBearerGrant,
      { ...SERVER, assertion: Promise.resolve('CANARY') },
      /^assertion/,
    ],
    [
      'a secret without a clientId',
      jwtBearerGrant,
      { ...SERVER, ...secret, assertion: 'CANARY' },
      /^clientId is required/,
    ],
    ['no subjectToken', tokenExchangeGrant, { ...EXCHANGE, subjectToken: undefined }, /^subjectToken/],
    [
      'no subjectTokenType',
      tokenExchangeGrant,
      { ...EXCHANGE, subjectTokenType: undefined },
      /^subjectTokenType/,
    ],
    [
      'a short name as subjectTokenType',
      tokenExchangeGrant,
      { ...EXCHANGE, subjectTokenType: 'access_token' },
      /^subjectTokenType/,
    ],
    [
      'an actorToken without its type',
      tokenExchangeGrant,
      { ...EXCHANGE, actorToken: 'CANARY' },
      /^actorToken and actorTokenType/,
    ],
    [
      'a refresh token requested',
      tokenExchangeGrant,
      { ...EXCHANGE, requestedTokenType: 'urn:ietf:params:oauth:token-type:refresh_token' },
      /^requestedTokenType/,
    ],
    ['an audience that is empty', tokenExchangeGrant, { ...EXCHANGE, audience: '' }, /^audience/],
    [
      'no identityProvider',
      enterpriseManagedGrant,
      { ...MANAGED, identityProvider: undefined },
      /^identityProvider is required/,
    ],
    [
      'an identityProvider on plain http',
      enterpriseManagedGrant,
      { ...MANAGED, identityProvider: { ...IDP, issuer: 'http://idp.example' } },
      /identityProvider.*issuer/,
    ],
    [
      'no audience beside a tokenEndpoint',
      enterpriseManagedGrant,
      { ...MANAGED, audience: undefined },
      /^audience is required/,
    ],
    [
      'a key of 16 bytes',
      (keys: never) => encryptedCredentialStore(memoryCredentialStore(), { keys }),
      [Buffer.from('CANARY-16-bytes-')],
      /^keys/,
    ],
    [
      'a key that is no base64',
      (keys: never) => encryptedCredentialStore(memoryCredentialStore(), { keys }),
      ['CANARY'],
      /^keys/,
    ],
    ['no key', (keys: never) => encryptedCredentialStore(memoryCredentialStore(), { keys }), [], /^keys/],
    ['a folder without a name', fileCredentialStore, '', /^dir/],
    ['a file without a name', tokenFromFile, '', /^path/],
    ['a file as URL', tokenFromFile, new URL('file:///CANARY'), /^path/],
    ['a variable without a name', tokenFromEnv, '', /^name/],
    ['a command line in one list', tokenFromCommand, ['helper', 'CANARY'], /^command/],
    ['a token with a line break', bearerToken, 'CANARY\r\nx: y', /cannot stand in a header$/],
    ['a token that is an object', bearerToken, { token: 'CANARY' }, /must be a string or a function$/],
    ['the header of a host', headerCredential, { name: 'Host', value: 'CANARY' }, /^name/],
    [
      'a header value with a line break',
      headerCredential,
      { name: 'x-api-key', value: 'CANARY\nx' },
      /^value/,
    ],
    ['a number as header value', headerCredential, { name: 'x-api-key', value: 7 }, /^value/],
    ['an SDK provider without tokens', fromOAuthClientProvider, { token: 'CANARY' }, /^provider/],
    [
      'credentials without an id',
      (given: never) => resolveCredentials(given, manualClock()),
      { acquire() {} },
      /^credentials\.id/,
    ],
    [
      'credentials that are a token reply',
      (given: never) => resolveCredentials(given, manualClock()),
      { access_token: 'CANARY' },
      /^credentials must be/,
    ],
  ] as [string, (given: never) => unknown, unknown, RegExp][]
).map(([name, make, given, message]) => [name, () => make(given as never), message]);

describe('other options that cannot be', () => {
  it.each(cases)('%s', (_, make, message) => {
    const error = refusalOf(make);
    expect(error.message).toMatch(message);
    expect(everythingOf(error)).not.toContain('CANARY');
    expect(fetch).not.toHaveBeenCalled();
  });
});
