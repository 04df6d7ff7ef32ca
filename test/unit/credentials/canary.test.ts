/** No secret of any kind in anything that can be printed: errors, events, providers, credentials, stores. */
import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type CredentialProvider,
  clientCredentialsGrant,
  encryptedCredentialStore,
  memoryCredentialStore,
  refreshTokenGrant,
} from '../../../src/credentials/index.js';
import { Secret } from '../../../src/credentials/secret.js';
import { manualClock } from '../../../src/testing/manual-clock.js';
import { everythingOf, type Reply, TARGET, TokenServer } from './support.js';

const CANARY = /CANARY/;
const body = { access_token: 'CANARY-A', refresh_token: 'CANARY-R1', token_type: 'Bearer', expires_in: 60 };
// What this server was sent, in every spelling it has seen.
const basic = Buffer.from('client:CANARY-secret').toString('base64');
const echo = `CANARY-secret ${basic} {"access_token":"CANARY-A"}`;

let server: TokenServer;
beforeAll(async () => {
  server = await TokenServer.start();
  await Promise.all([import('undici'), import('openid-client')]);
});
afterAll(() => server.close());

const replies: [string, Reply][] = [
  ['a token', { body }],
  ['no access token', { body: { ...body, access_token: undefined } }],
  ['a token with a line break', { body: { ...body, access_token: 'CANARY\r\nx' } }],
  ['token_type mac', { body: { ...body, token_type: 'mac' } }],
  ['expires_in null', { body: { ...body, expires_in: null } }],
  ['an array', { body: [body] }],
  ['form encoding', { body: 'access_token=CANARY-A&refresh_token=CANARY-R1' }],
  ['JSON cut short', { body: '{"access_token":"CANARY-A","refresh_token":"CANARY-R1' }],
  ['invalid_grant with an echo', { status: 400, body: { error: 'invalid_grant', error_description: echo } }],
  [
    'invalid_client with an echo',
    { status: 401, body: { error: 'invalid_client', error_description: echo } },
  ],
  ['an echo as error', { status: 400, body: { error: echo } }],
  ['503 with an echo', { status: 503, body: echo }],
  ['429 with an echo', { status: 429, headers: { 'x-echo': 'CANARY' }, body: { error: echo } }],
  ['a redirect with an echo', { status: 302, headers: { location: 'https://evil.example/CANARY' } }],
  ['a cut', { cut: true }],
];

describe.each(['refresh', 'client credentials'] as const)('%s', (kind) => {
  it.each(replies)('%s', async (_, reply) => {
    const clock = manualClock();
    const inner = memoryCredentialStore({ clock });
    const store = encryptedCredentialStore(inner, {
      keys: [Buffer.from('CANARY-key-of-32-bytes-CANARY-xx')],
    });
    const seen: unknown[] = [];
    const common = {
      tokenEndpoint: server.tokenEndpoint,
      clientId: 'client',
      clientSecret: 'CANARY-secret',
      clock,
      store,
      subject: 'user',
      refresh: { background: 'never' },
    } as const;
    const provider: CredentialProvider =
      kind === 'refresh'
        ? refreshTokenGrant({ ...common, refreshToken: 'CANARY-R0' })
        : clientCredentialsGrant(common);
    provider.onEvent?.((event) => seen.push(event));
    server.script.push(...Array.from({ length: 3 }, () => reply));
    const acquiring = provider.acquire(TARGET, { maxWaitMs: 300 }).then(
      (credential) => seen.push(credential),
      (error) => seen.push(error),
    );
    await clock.advance(400);
    await acquiring;
    await provider.acquire(TARGET, { maxWaitMs: 0 }).catch((error) => seen.push(error));
    server.script.length = 0;
    for (const id of [provider.id]) seen.push(await inner.read(id));
    seen.push(provider, store);
    for (const thing of seen) {
      expect(everythingOf(thing)).not.toMatch(CANARY);
      expect(everythingOf(thing)).not.toContain(basic);
    }
    expect(seen.length).toBeGreaterThan(3);
    await provider.close?.({ drainMs: 0 });
  });
});

it('a key that is refused is not quoted', () => {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = publicKey.export({ type: 'spki', format: 'pem' }) as string;
  for (const privateKey of [
    pem,
    'CANARY',
    `-----BEGIN PRIVATE KEY-----\nCANARY\n-----END PRIVATE KEY-----`,
  ]) {
    let error: unknown;
    try {
      clientCredentialsGrant({ tokenEndpoint: 'https://as.example/t', clientId: 'c', privateKey });
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(TypeError);
    expect(everythingOf(error)).not.toMatch(CANARY);
    expect(everythingOf(error)).not.toContain(pem.split('\n')[1]);
  }
});

it('a Secret shows a placeholder with its generation, however it is printed', () => {
  const secret = new Secret('CANARY', 3);
  expect(`${secret}`).toBe('[redacted gen=3]');
  expect(JSON.stringify({ secret })).toBe('{"secret":"[redacted gen=3]"}');
  expect(everythingOf({ deep: [secret] })).not.toMatch(CANARY);
  expect(secret.reveal()).toBe('CANARY');
});
