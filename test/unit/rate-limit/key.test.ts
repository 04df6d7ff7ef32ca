import { describe, expect, it } from 'vitest';
import {
  bearerToken,
  clientCredentialsGrant,
  fromOAuthClientProvider,
  headerCredential,
  tokenFromCommand,
  tokenFromEnv,
  tokenFromFile,
} from '../../../src/credentials/index.js';
import { resolveCredentials } from '../../../src/credentials/resolve.js';
import { deriveKey, isStableId } from '../../../src/rate-limit/key.js';
import { manualClock } from '../../../src/testing/index.js';

const URL_A = new URL('https://mcp.example/mcp');

describe('deriveKey', () => {
  it('is the same in every process and release', () => {
    // A changed key gives each half of a fleet under deployment the whole limit.
    expect(deriveKey(URL_A, 'credential')).toBe('3T3QF5ybMOtFSYoN9eMyaq');
    expect(deriveKey(URL_A, 'credential')).toMatch(/^[\w-]{22}$/);
  });

  it('tells endpoints and credentials apart, not queries', () => {
    const keys = [
      deriveKey(URL_A, 'a'),
      deriveKey(URL_A, 'b'),
      deriveKey(new URL('https://mcp.example/other'), 'a'),
      deriveKey(new URL('https://mcp.example:8443/mcp'), 'a'),
      deriveKey(new URL('https://mcp.example/'), 'mcp a'),
    ];
    expect(new Set(keys).size).toBe(keys.length);
    expect(deriveKey(new URL('https://mcp.example/mcp?key=secret'), 'a')).toBe(keys[0]);
  });
});

describe('isStableId', () => {
  const clock = manualClock();
  it.each([
    ['none', resolveCredentials(undefined, clock)],
    ['a token', resolveCredentials('secret', clock)],
    ['a function', bearerToken(() => 'x', { clock })],
    ['a header', headerCredential({ name: 'x-api-key', value: 'secret' })],
    ['a variable', tokenFromEnv('TOKEN')],
    ['a file', tokenFromFile('/run/token')],
    ['a command', tokenFromCommand('print-token')],
    ['an SDK provider', fromOAuthClientProvider({ token: async () => 'x' })],
  ])('%s has no id of its own', (_name, { id }) => {
    expect(isStableId(id)).toBe(false);
  });

  it.each([
    ['a token with an id', bearerToken('secret', { id: 'billing@prod' })],
    ['a header with an id', headerCredential({ name: 'x-api-key', value: 'secret', id: 'headers' })],
    [
      'an OAuth client',
      clientCredentialsGrant({ tokenEndpoint: 'https://as.example/token', clientId: 'c', clientSecret: 's' }),
    ],
  ])('%s has one', (_name, { id }) => {
    expect(isStableId(id)).toBe(true);
  });
});
