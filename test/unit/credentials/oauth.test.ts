import { generateKeyPairSync, webcrypto } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  type CredentialEvent,
  type CredentialProvider,
  clientCredentialsGrant,
  memoryCredentialStore,
  refreshTokenGrant,
} from '../../../src/credentials/index.js';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.js';
import { bearerOf, errorOf, type Reply, TARGET, TokenServer } from './support.js';

let server: TokenServer;
let clock: ManualClock;
const open: CredentialProvider[] = [];

beforeAll(async () => {
  // Loading modules takes real time, which a manual clock does not wait for.
  await Promise.all([import('undici'), import('openid-client')]);
});
beforeEach(async () => {
  server = await TokenServer.start();
  clock = manualClock();
});
afterEach(async () => {
  for (const provider of open.splice(0)) await provider.close?.({ drainMs: 0 });
  await server.close();
});
afterAll(() => {});

const refreshing = (more: Record<string, unknown> = {}) => {
  const provider = refreshTokenGrant({
    tokenEndpoint: server.tokenEndpoint,
    clientId: 'client',
    refreshToken: 'R0',
    clock,
    ...more,
  } as Parameters<typeof refreshTokenGrant>[0]);
  open.push(provider);
  return provider;
};
const machine = (more: Record<string, unknown> = {}) => {
  const provider = clientCredentialsGrant({
    tokenEndpoint: server.tokenEndpoint,
    clientId: 'client',
    clientSecret: 'client-secret',
    clock,
    ...more,
  } as Parameters<typeof clientCredentialsGrant>[0]);
  open.push(provider);
  return provider;
};

describe('the wire-level cases', () => {
  it('H05: five concurrent calls with an expired token make one token request', async () => {
    const store = memoryCredentialStore({ clock });
    server.delayTurns = 20;
    const provider = refreshing({ store, subject: 'user', accessToken: 'A', expiresAtMs: clock.now() - 1 });
    const got = await Promise.all(Array.from({ length: 5 }, () => provider.acquire(TARGET)));
    expect(server.count).toBe(1);
    expect(server.reuses).toBe(0);
    expect(await Promise.all(got.map(bearerOf))).toEqual(Array.from({ length: 5 }, () => 'Bearer A1'));
    const stored = await store.read(provider.id);
    expect(JSON.parse(stored?.data ?? '{}')).toMatchObject({ access: 'A1', refresh: 'R1' });
  });

  it('H05: five concurrent 401s with a token that looked alive make one token request', async () => {
    const provider = refreshing({ accessToken: 'A', expiresAtMs: clock.now() + 600_000 });
    const first = await provider.acquire(TARGET);
    expect(server.count).toBe(0);
    const rejected = { generation: first.generation, status: 401, challenge: 'Bearer error="invalid_token"' };
    await Promise.all(Array.from({ length: 5 }, () => provider.acquire(TARGET, { rejected })));
    expect(server.count).toBe(1);
    expect(server.reuses).toBe(0);
  });

  it('H07: two HTML 502s, then a token: a call past expiry waits two back-offs and succeeds with three POSTs', async () => {
    const html: Reply = { status: 502, body: '<html>Bad Gateway</html>' };
    server.script.push(html, html);
    const provider = refreshing();
    const at: number[] = [];
    provider.onEvent?.((event) => {
      if (event.type === 'failed') at.push(clock.monotonic());
    });
    const waiting = provider.acquire(TARGET).then((credential) => {
      at.push(clock.monotonic());
      return credential;
    });
    await clock.advance(14_000);
    expect(await bearerOf(await waiting)).toBe('Bearer A1');
    expect(server.count).toBe(3);
    expect(at[1]).toBeGreaterThan(at[0] as number);
    expect(at[2]).toBeGreaterThan(at[1] as number);
    expect(server.requests.every((r) => r.form.get('refresh_token') === 'R0')).toBe(true);
  });

  it('H08: invalid_grant: one POST, typed, then none until the stored credential changes', async () => {
    const store = memoryCredentialStore({ clock });
    server.script.push({ status: 400, body: { error: 'invalid_grant' } });
    const provider = refreshing({ store, subject: 'user' });
    const failing = errorOf(provider.acquire(TARGET));
    await clock.advance(200);
    const error = await failing;
    expect(error).toMatchObject({
      code: 'ERR_REAUTHORIZATION_REQUIRED',
      executed: false,
      retryable: false,
      status: 400,
      reason: 'invalid_grant',
    });
    for (let i = 0; i < 5; i++) {
      expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_REAUTHORIZATION_REQUIRED');
    }
    expect(server.count).toBe(1);

    const data = { v: 1, gen: 7, access: 'NEW', refresh: 'R0', atMs: clock.now(), lifeMs: 600_000 };
    const whole = JSON.stringify({ ...data, resource: TARGET.href });
    await store.compareAndSet(provider.id, undefined, { generation: 1, data: whole });
    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer NEW');
    expect(server.count).toBe(1);
  });

  it('H09: a reply without refresh_token keeps the old one', async () => {
    server.script.push({ body: { access_token: 'A', token_type: 'Bearer', expires_in: 60 } });
    const provider = refreshing({ refresh: { background: 'never' } });
    await provider.acquire(TARGET);
    await clock.advance(60_000);
    await provider.acquire(TARGET);
    expect(server.requests.map((r) => r.form.get('refresh_token'))).toEqual(['R0', 'R0']);
  });

  it("H10: token_type bearer and expires_in '3600' give `Bearer B`, renewed before 3600 s", async () => {
    server.script.push({ body: { access_token: 'B', token_type: 'bearer', expires_in: '3600' } });
    const events: CredentialEvent[] = [];
    const provider = refreshing();
    provider.onEvent?.((event) => events.push(event));
    const credential = await provider.acquire(TARGET);
    expect(await bearerOf(credential)).toBe('Bearer B');
    expect(credential.expiresAtMs).toBe(clock.now() + 3_600_000);
    await clock.advance(3_300_000);
    expect(server.count).toBe(2);
    expect(events.map((e) => e.type)).toEqual(['refreshed', 'refreshed']);
  });
});

describe('what is sent', () => {
  it('the address given to acquire as resource, on every request; or the configured one; or none', async () => {
    await machine().acquire(new URL('https://mcp.example/mcp?tenant=1#part'));
    await machine({ resource: 'urn:other' }).acquire(TARGET);
    await machine({ resource: '' }).acquire(TARGET);
    expect(server.requests.map((r) => r.form.get('resource'))).toEqual([
      'https://mcp.example/mcp?tenant=1',
      'urn:other',
      null,
    ]);
  });

  it('basic with percent encoding that leaves - and _ alone', async () => {
    await machine({ clientId: 'my-client', clientSecret: 's_1-2:/+% é' }).acquire(TARGET);
    const header = server.requests[0]?.headers.authorization ?? '';
    expect(Buffer.from(header.slice(6), 'base64').toString()).toBe('my-client:s_1-2%3A%2F%2B%25%20%C3%A9');
    expect(server.requests[0]?.form.has('client_secret')).toBe(false);
  });

  it('post only where the metadata list only that; a public client names itself', async () => {
    const publish = (methods: string[] | undefined) =>
      server.pages.set('/.well-known/oauth-authorization-server', {
        body: {
          issuer: server.origin,
          token_endpoint: server.tokenEndpoint,
          token_endpoint_auth_methods_supported: methods,
        },
      });
    publish(['client_secret_post']);
    await machine({ tokenEndpoint: undefined, issuer: server.origin }).acquire(TARGET);
    expect(server.requests[0]?.form.get('client_secret')).toBe('client-secret');
    expect(server.requests[0]?.headers.authorization).toBeUndefined();

    publish(['client_secret_post', 'client_secret_basic']);
    await machine({ tokenEndpoint: undefined, issuer: server.origin }).acquire(TARGET);
    expect(server.requests[1]?.headers.authorization).toMatch(/^Basic /);

    await refreshing().acquire(TARGET);
    expect(server.requests[2]?.form.get('client_id')).toBe('client');
    expect(server.requests[2]?.headers.authorization).toBeUndefined();
  });

  it.each([
    ['rsa', undefined, 'RS256'],
    ['rsa', 'PS256', 'PS256'],
    ['ec', undefined, 'ES256'],
    ['ed25519', 'EdDSA', 'EdDSA'],
  ] as const)('private_key_jwt from a PEM of %s with %s', async (type, algorithm, alg) => {
    const pair =
      type === 'rsa'
        ? generateKeyPairSync('rsa', { modulusLength: 2048 })
        : type === 'ec'
          ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
          : generateKeyPairSync('ed25519');
    const privateKey = pair.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
    await machine({ clientSecret: undefined, privateKey, algorithm, keyId: 'k1' }).acquire(TARGET);
    const [head, body] = (server.requests[0]?.form.get('client_assertion') ?? '').split('.');
    expect(JSON.parse(Buffer.from(head as string, 'base64url').toString())).toMatchObject({ alg, kid: 'k1' });
    expect(JSON.parse(Buffer.from(body as string, 'base64url').toString())).toMatchObject({
      iss: 'client',
      sub: 'client',
      aud: server.tokenEndpoint,
    });
  });

  it('private_key_jwt from a CryptoKey', async () => {
    const pair = await webcrypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, [
      'sign',
      'verify',
    ]);
    await machine({ clientSecret: undefined, privateKey: pair.privateKey }).acquire(TARGET);
    expect(server.requests[0]?.form.get('client_assertion')).toBeTruthy();
  });

  it('through a fetch of the app', async () => {
    const seen: string[] = [];
    const provider = machine({
      tokenEndpoint: 'https://as.example/token',
      fetch: async (url: string, init: { method: string; body?: string; redirect?: string }) => {
        seen.push(
          `${init.method} ${url} ${init.redirect} ${new URLSearchParams(init.body).get('grant_type')}`,
        );
        return new Response(JSON.stringify({ access_token: 'F', token_type: 'Bearer' }));
      },
    });
    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer F');
    expect(seen).toEqual(['POST https://as.example/token manual client_credentials']);
  });
});

describe('time limits', () => {
  it('a silent token endpoint is given up after tokenTimeoutMs of the clock', async () => {
    server.script.push({ silence: true });
    const provider = machine({ refresh: { tokenTimeoutMs: 3_000 } });
    const failing = errorOf(provider.acquire(TARGET, { maxWaitMs: 3_001 }));
    await clock.advance(3_001);
    const error = await failing;
    expect(error).toMatchObject({ code: 'ERR_TOKEN_ENDPOINT', retryable: true });
  });

  it('a rotating refresh whose answer was cut is sent again at once with the same token', async () => {
    server.script.push({ cut: true });
    const provider = refreshing();
    const waiting = provider.acquire(TARGET);
    await clock.advance(1_000);
    await waiting;
    expect(server.requests.map((r) => r.form.get('refresh_token'))).toEqual(['R0', 'R0']);
  });

  it('1,000 callers over real sockets at expiry: one token request', async () => {
    const provider = refreshing({ refresh: { background: 'never' } });
    server.expiresIn = 60;
    await provider.acquire(TARGET);
    await clock.advance(60_000);
    await Promise.all(Array.from({ length: 1000 }, () => provider.acquire(TARGET)));
    expect(server.count).toBe(2);
    expect(server.reuses).toBe(0);
  });
});

describe('options', () => {
  const base = { tokenEndpoint: 'https://as.example/token', clientId: 'c', clientSecret: 's' };
  it.each([
    [{ ...base, issuer: 'https://as.example' }, /exactly one of issuer, tokenEndpoint and discover/],
    [{ ...base, tokenEndpoint: undefined }, /exactly one of issuer, tokenEndpoint and discover/],
    [{ ...base, tokenEndpoint: 'http://as.example/token' }, /tokenEndpoint must be an https/],
    [{ ...base, tokenEndpoint: 'https://u:p@as.example/token' }, /tokenEndpoint must be an https/],
    [{ ...base, tokenEndpoint: undefined, issuer: 'https://as.example?x=1' }, /issuer must have no query/],
    [{ ...base, clientId: '' }, /clientId/],
    [{ ...base, clientSecret: undefined }, /clientSecret or privateKey/],
    [{ ...base, clientSecret: '' }, /clientSecret/],
    [{ ...base, privateKey: 'x' }, /exclude each other/],
    [{ ...base, clientSecret: undefined, privateKey: 'no pem' }, /privateKey must be a private key/],
    [{ ...base, clientSecret: undefined, privateKey: {} }, /privateKey must be a PEM string or/],
    [{ ...base, algorithm: 'RS256' }, /need a privateKey/],
    [{ ...base, scope: 'a"b' }, /scope/],
    [{ ...base, resource: 'not absolute' }, /resource/],
    [{ ...base, store: memoryCredentialStore() }, /subject is required/],
    [{ ...base, store: {}, subject: 'u' }, /store\.read/],
    [{ ...base, subject: '' }, /subject/],
    [{ ...base, refresh: { fraction: 2 } }, /refresh\.fraction/],
    [{ ...base, refresh: { background: 'sometimes' } }, /refresh\.background/],
    [{ ...base, refresh: { minWindowMs: 20, maxWindowMs: 10 } }, /refresh\.minWindowMs/],
    [{ ...base, refresh: { tokenTimeout: 1 } }, /refresh\.tokenTimeout is not an option/],
    [{ ...base, fetch: 1 }, /fetch/],
  ])('refuses %#', (options, message) => {
    expect(() => clientCredentialsGrant(options as never)).toThrow(message as RegExp);
    expect(() => clientCredentialsGrant(options as never)).toThrow(TypeError);
  });

  it('refreshTokenGrant needs a token or a store', () => {
    expect(() => refreshTokenGrant({ tokenEndpoint: 'https://as.example/t', clientId: 'c' })).toThrow(
      /refreshToken or a store/,
    );
    expect(() =>
      refreshTokenGrant({
        tokenEndpoint: 'https://as.example/t',
        clientId: 'c',
        refreshToken: 'r',
        accessToken: 'a\nb',
      }),
    ).toThrow(/accessToken/);
  });

  it('the id depends on server, client and subject only, and is 32 hex characters', () => {
    const make = (o: object) => clientCredentialsGrant({ ...base, ...o } as never).id;
    expect(make({})).toMatch(/^[0-9a-f]{32}$/);
    expect(make({ scope: 'x', clientSecret: 'other' })).toBe(make({}));
    expect(new Set([make({}), make({ subject: 'u' }), make({ clientId: 'd' })]).size).toBe(3);
  });

  it('does no I/O until the first acquire', async () => {
    machine();
    await clock.advance(1_000_000);
    expect(server.paths).toEqual([]);
  });
});
