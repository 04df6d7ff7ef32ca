/** RFC 7523, 2.1, over a token endpoint on loopback. */
import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { HostedClient } from '../../../src/client.js';
import {
  type CredentialProvider,
  jwtBearerGrant,
  memoryCredentialStore,
} from '../../../src/credentials/index.js';
import { startHostedServer } from '../../../src/testing/index.js';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.js';
import { bearerOf, errorOf, everythingOf, type Reply, TARGET, TokenServer } from './support.js';

const GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
let server: TokenServer;
let clock: ManualClock;
const open: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  await Promise.all([import('undici'), import('openid-client')]);
});
beforeEach(async () => {
  server = await TokenServer.start();
  clock = manualClock();
});
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
  await server.close();
});

function workload(more: Record<string, unknown> = {}): CredentialProvider {
  const provider = jwtBearerGrant({
    tokenEndpoint: server.tokenEndpoint,
    assertion: 'HEAD.BODY.SIGN',
    clock,
    ...more,
  } as Parameters<typeof jwtBearerGrant>[0]);
  open.push(async () => provider.close?.({ drainMs: 0 }));
  return provider;
}

const formOf = (at: number) => Object.fromEntries(server.requests[at]?.form ?? []);

describe('what is sent', () => {
  it('the assertion alone, where the client has no name', async () => {
    expect(await bearerOf(await workload().acquire(TARGET))).toBe('Bearer A1');
    expect(formOf(0)).toEqual({ grant_type: GRANT, assertion: 'HEAD.BODY.SIGN', resource: TARGET.href });
    expect([...(server.requests[0]?.form.keys() ?? [])]).toHaveLength(3);
    expect(server.requests[0]?.headers.authorization).toBeUndefined();
  });

  it('with the name of a public client, a scope and a resource', async () => {
    await workload({ clientId: 'client', scope: 'mcp', resource: 'urn:other' }).acquire(TARGET);
    expect(formOf(0)).toEqual({
      grant_type: GRANT,
      client_id: 'client',
      assertion: 'HEAD.BODY.SIGN',
      scope: 'mcp',
      resource: 'urn:other',
    });
  });

  it('with a secret in the header', async () => {
    await workload({ clientId: 'client', clientSecret: 'client-secret', resource: '' }).acquire(TARGET);
    expect(formOf(0)).toEqual({ grant_type: GRANT, assertion: 'HEAD.BODY.SIGN' });
    const header = server.requests[0]?.headers.authorization ?? '';
    expect(Buffer.from(header.slice(6), 'base64').toString()).toBe('client:client-secret');
  });

  it("with the client's own assertion beside the one that is presented", async () => {
    const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const privateKey = pair.privateKey.export({ type: 'pkcs8', format: 'pem' });
    await workload({ clientId: 'client', privateKey }).acquire(TARGET);
    const form = formOf(0);
    expect(form).toMatchObject({ grant_type: GRANT, assertion: 'HEAD.BODY.SIGN', client_id: 'client' });
    expect(form.client_assertion).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+$/);
  });
});

describe('the assertion', () => {
  it('is read from a file that is rewritten, at each of 50 renewals, for 20 callers each', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'holdfast-assertion-'));
    open.push(() => rm(directory, { recursive: true }));
    const path = join(directory, 'token');
    server.expiresIn = 60;
    const provider = workload({
      assertion: () => readFile(path, 'utf8'),
      refresh: { background: 'never' },
    });
    for (let round = 1; round <= 50; round++) {
      await writeFile(path, `JWT${round}\n`);
      const got = await Promise.all(Array.from({ length: 20 }, () => provider.acquire(TARGET)));
      expect(new Set(await Promise.all(got.map(bearerOf)))).toEqual(new Set([`Bearer A${round}`]));
      await clock.advance(60_000);
    }
    expect(server.requests.map((r) => r.form.get('assertion'))).toEqual(
      Array.from({ length: 50 }, (_, i) => `JWT${i + 1}`),
    );
  });

  it('that is refused is not sent again, and no other grant is tried', async () => {
    server.script.push({ status: 400, body: { error: 'invalid_grant', error_description: 'expired' } });
    let asked = 0;
    const provider = workload({ assertion: () => `JWT${++asked}` });
    for (let i = 0; i < 4; i++) {
      const error = await errorOf(provider.acquire(TARGET));
      expect(error).toMatchObject({
        code: 'ERR_CREDENTIAL_REJECTED',
        reason: 'invalid_grant',
        status: 400,
        executed: false,
        retryable: false,
      });
    }
    expect(server.count).toBe(1);
    await clock.advance(60_000);
    await provider.acquire(TARGET);
    expect(server.requests.map((r) => r.form.get('grant_type'))).toEqual([GRANT, GRANT]);
    expect(server.requests.map((r) => r.form.get('assertion'))).toEqual(['JWT1', 'JWT2']);
  });

  it('that cannot be had: a typed error that names it, and no token request', async () => {
    const provider = workload({
      assertion: () => readFile('/nonexistent/CANARY', 'utf8'),
    });
    const error = await errorOf(provider.acquire(TARGET, { maxWaitMs: 0 }));
    expect(error).toMatchObject({ code: 'ERR_CREDENTIAL_SOURCE', executed: false });
    expect(error.message).toContain('assertion');
    expect(error.cause).toMatchObject({ code: 'ENOENT' });
    expect(everythingOf(error)).not.toContain('CANARY');
    expect(server.count).toBe(0);
  });

  it('that never comes is given up after tokenTimeoutMs', async () => {
    const provider = workload({
      assertion: () => new Promise<string>(() => {}),
      refresh: { tokenTimeoutMs: 2_000 },
    });
    const failing = errorOf(provider.acquire(TARGET, { maxWaitMs: 2_100 }));
    await clock.advance(2_100);
    expect(await failing).toMatchObject({ code: 'ERR_CREDENTIAL_SOURCE', reason: 'timeout' });
    expect(server.count).toBe(0);
  });
});

it.each<[string, Reply, string]>([
  ['503', { status: 503, body: 'CANARY.A.B' }, 'ERR_TOKEN_ENDPOINT'],
  [
    'invalid_client',
    { status: 401, body: { error: 'invalid_client', x: 'CANARY.A.B' } },
    'ERR_CREDENTIAL_REJECTED',
  ],
  ['an own error', { status: 400, body: { error: 'CANARY.A.B' } }, 'ERR_CREDENTIAL_REJECTED'],
  ['a token of another kind', { body: { access_token: 'CANARY', token_type: 'N_A' } }, 'ERR_TOKEN_ENDPOINT'],
  ['a cut', { cut: true }, 'ERR_TOKEN_ENDPOINT'],
])('%s: typed, one token request, and no assertion in sight', async (_, reply, code) => {
  server.script.push(reply);
  const seen: unknown[] = [];
  const provider = workload({ assertion: async () => 'CANARY.A.B' });
  provider.onEvent?.((event) => seen.push(event));
  for (let i = 0; i < 3; i++) {
    const error = await errorOf(provider.acquire(TARGET, { maxWaitMs: 0 }));
    expect(error.code).toBe(code);
    seen.push(error, error.serverText);
  }
  expect(server.count).toBe(1);
  for (const thing of [...seen, provider]) expect(everythingOf(thing)).not.toContain('CANARY');
});

it('a refresh token in the answer is not kept: the next renewal presents an assertion', async () => {
  const store = memoryCredentialStore({ clock });
  const body = { access_token: 'A', token_type: 'Bearer', expires_in: 60, refresh_token: 'CANARY' };
  server.script.push({ body }, { body });
  const provider = workload({ store, subject: 'service', refresh: { background: 'never' } });
  await provider.acquire(TARGET);
  expect((await store.read(provider.id))?.data).not.toContain('CANARY');
  await clock.advance(60_000);
  await provider.acquire(TARGET);
  expect(formOf(1)).toEqual(formOf(0));
});

it.each<[Record<string, unknown>, RegExp]>([
  [{ assertion: undefined }, /^assertion must be/],
  [{ assertion: '' }, /^assertion must be/],
  [{ assertion: 'a\nb' }, /^assertion must be/],
  [{ assertion: Promise.resolve('a') }, /^assertion must be/],
  [{ clientId: '' }, /^clientId is required/],
  [{ clientSecret: 's' }, /^clientId is required with clientSecret or privateKey/],
  [{ privateKey: 'k' }, /^clientId is required with clientSecret or privateKey/],
  [{ clientId: 'c', privateKey: 'k' }, /^privateKey must be/],
  [{ tokenEndpoint: undefined }, /exactly one of issuer, tokenEndpoint and discover/],
  [{ tokenEndpoint: 'http://as.example/token' }, /^tokenEndpoint must be an https/],
  [{ tokenEndpoint: undefined, issuer: 'https://as.example#x' }, /^issuer must/],
  [{ scope: '\u0007' }, /^scope/],
])('refuses %j before any I/O', (more, message) => {
  let error: unknown;
  try {
    jwtBearerGrant({ tokenEndpoint: 'https://as.example/token', assertion: 'a', ...more } as never);
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(TypeError);
  expect((error as TypeError).message).toMatch(message);
});

it('a client whose token the server refuses in mid-life: one more assertion, each call run once', async () => {
  const hosted = await startHostedServer({ clock });
  open.push(() => hosted.close());
  const grant = () => ({
    body: { access_token: hosted.issueToken(), token_type: 'Bearer', expires_in: 3600 },
  });
  server.script.push(grant());
  let asked = 0;
  const credentials = workload({ assertion: () => `JWT${++asked}` });
  const client = new HostedClient(
    { name: 'test', version: '1.0.0' },
    { url: hosted.url, credentials, clock },
  );
  open.push(() => client.close());
  await client.connect();
  await client.callTool({ name: 'echo', arguments: { text: 'one' } });
  hosted.expireTokens();
  server.script.push(grant());
  await Promise.all(['two', 'three'].map((text) => client.callTool({ name: 'echo', arguments: { text } })));
  expect(hosted.counts.executions.echo).toBe(3);
  expect(server.requests.map((r) => r.form.get('assertion'))).toEqual(['JWT1', 'JWT2']);
});
