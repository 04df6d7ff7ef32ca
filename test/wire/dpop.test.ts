/** Bound tokens on the way of a call: a fresh proof on every request, and a nonce costs no call, no token, no session. */
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { beforeAll, describe, expect, it } from 'vitest';
import type { HostedClient, HostedClientOptions } from '../../src/client.js';
import {
  type ClientCredentialsOptions,
  type CredentialStore,
  clientCredentialsGrant,
  fileCredentialStore,
  memoryCredentialStore,
  refreshTokenGrant,
} from '../../src/index.js';
import type {
  HostedServer,
  HostedServerOptions,
  RequestMatch,
  ServerLogEntry,
} from '../../src/testing/index.js';
import { closeLater, connect, echo, failureOf, type Scene, startServer } from './support.js';

beforeAll(async () => {
  await Promise.all([import('undici'), import('openid-client'), import('jose')]);
});

const start = (options: HostedServerOptions = {}) =>
  startServer({ dpop: true, tokenLifetimeMs: 3_600_000, ...options });

type More = { store?: CredentialStore } & Pick<ClientCredentialsOptions, 'clock' | 'refresh'>;

function machine({ server, clock }: Scene, { store, ...more }: More = {}) {
  const { id, secret } = server.client;
  const options = {
    issuer: server.issuer,
    clientId: id,
    clientSecret: secret,
    dpop: true,
    clock,
    ...more,
  };
  if (store === undefined) return clientCredentialsGrant(options);
  return clientCredentialsGrant({ ...options, store, subject: 'machine' });
}

const joined = (scene: Scene, options: Partial<HostedClientOptions> = {}, more: More = {}) =>
  connect(scene, { credentials: machine(scene, more), ...options });

const text = async (client: HostedClient, id: string) => (await echo(client, id)).content;

function proofsOf(entries: readonly ServerLogEntry[]): Record<string, unknown>[] {
  return entries
    .map(({ headers }) => headers.dpop)
    .filter((proof) => proof !== undefined)
    .map((proof) => {
      const [head = '', claims = ''] = proof.split('.');
      return { ...JSON.parse(atob(claims)), key: JSON.parse(atob(head)).jwk.x };
    });
}

const toEndpoint = (server: HostedServer) => server.log.filter(({ path }) => path === '/mcp');
const refused = (server: HostedServer) => toEndpoint(server).filter(({ status }) => status === 401);

describe('every request to the MCP server', () => {
  it('carries a proof of its own: calls, notifications, the stream, the end of the session', async () => {
    const scene = await start();
    const { server } = scene;
    const client = await joined(scene);
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => {});
    await Promise.all(Array.from({ length: 20 }, (_, i) => text(client, `c-${i}`)));
    await client.listTools();
    await client.close();
    await scene.clock.settle();
    const entries = toEndpoint(server);
    const proofs = proofsOf(entries);
    expect(new Set(entries.map(({ http }) => http))).toEqual(new Set(['POST', 'GET', 'DELETE']));
    expect(proofs).toHaveLength(entries.length);
    expect(new Set(proofs.map(({ jti }) => jti)).size).toBe(entries.length);
    expect(new Set(proofs.map(({ ath }) => ath)).size).toBe(1);
    expect(new Set(proofs.map(({ key }) => key)).size).toBe(1);
    entries.forEach(({ http, headers }, i) => {
      expect(proofs[i]).toMatchObject({ htm: http, htu: server.url, iat: scene.clock.now() / 1000 });
      expect(headers.authorization).toMatch(/^DPoP token#/);
    });
    expect(refused(server)).toEqual([]);
    expect(server.counts.executions).toEqual({ echo: 20 });
  });

  it('names the token it goes with', async () => {
    const scene = await start();
    const provider = machine(scene);
    const client = await connect(scene, { credentials: provider });
    await text(client, 'c');
    const url = new URL(scene.server.url);
    const { authorization = '' } = await (await provider.acquire(url)).headers({ method: 'POST', url });
    const ath = createHash('sha256').update(authorization.replace('DPoP ', '')).digest('base64url');
    for (const proof of proofsOf(toEndpoint(scene.server))) expect(proof.ath).toBe(ath);
  });

  it('has no proof where tokens are not bound', async () => {
    const scene = await startServer();
    const client = await connect(scene);
    await text(client, 'c');
    expect(proofsOf(scene.server.log)).toEqual([]);
  });

  it('has one over HTTP+SSE as well, for each of its addresses', async () => {
    const legacy = await start({ transport: 'legacy-sse' });
    const client = await joined(legacy);
    await text(client, 'c');
    expect(legacy.server.counts.executionsById).toEqual({ c: 1 });
    const addresses = new Set(proofsOf(legacy.server.log).map(({ htu }) => new URL(String(htu)).pathname));
    expect(addresses).toContain('/messages');
    expect(addresses).toContain('/sse');
  });
});

describe('a nonce', () => {
  it('that is new with each answer costs one refusal at the start, and then none', async () => {
    const scene = await start({ dpop: 'nonce' });
    const { server } = scene;
    const client = await joined(scene);
    for (let i = 0; i < 30; i++) await text(client, `c-${i}`);
    expect(server.counts.executions).toEqual({ echo: 30 });
    expect(refused(server).map(({ rpcMethod }) => rpcMethod)).toEqual(['initialize']);
    expect(server.counts.initializes).toBe(2);
    expect(server.counts.tokenRequests).toBe(2);
    const nonces = proofsOf(toEndpoint(server)).map(({ nonce }) => nonce);
    expect(new Set(nonces).size).toBe(nonces.length);
  });

  it('that has run out costs one more request: no token, no session, and the tool runs once', async () => {
    const scene = await start({ dpop: 'nonce' });
    const { server, clock } = scene;
    const client = await joined(scene);
    await text(client, 'before');
    for (let i = 0; i < 3; i++) {
      await clock.advance(61_000);
      server.reset();
      await text(client, `c-${i}`);
      expect(server.counts.executionsById).toEqual({ [`c-${i}`]: 1 });
      expect(refused(server)).toHaveLength(1);
      expect(server.counts.tokenRequests).toBe(0);
      expect(server.counts.initializes).toBe(0);
      expect(server.counts.pings).toBe(0);
    }
  });

  it('that has run out under fifty calls at once: each runs once', async () => {
    const scene = await start({ dpop: 'nonce' });
    const { server, clock } = scene;
    const client = await joined(scene);
    await clock.advance(61_000);
    server.reset();
    const ids = Array.from({ length: 50 }, (_, i) => `c-${i}`);
    await Promise.all(ids.map((id) => text(client, id)));
    expect(server.counts.executionsById).toEqual(Object.fromEntries(ids.map((id) => [id, 1])));
    expect(server.counts.tokenRequests).toBe(0);
    expect(server.counts.initializes).toBe(0);
    expect(refused(server).length).toBeLessThanOrEqual(50);
  });

  it('that is asked for ever and ever ends in an error after one resend, and costs no token', async () => {
    const scene = await start();
    const { server } = scene;
    const client = await joined(scene);
    let count = 0;
    server.reply(
      { http: 'POST', method: 'tools/call' },
      {
        status: 401,
        headers: () => {
          count += 1;
          return { 'www-authenticate': 'DPoP error="use_dpop_nonce"', 'dpop-nonce': `n-${count}` };
        },
        body: { error: 'use_dpop_nonce' },
      },
    );
    server.reset();
    for (let i = 1; i <= 3; i++) {
      const error = await failureOf(echo(client, `c-${i}`));
      expect(error.code).toBe('ERR_CREDENTIAL_REJECTED');
      expect(error.executed).toBe(false);
      expect(toEndpoint(server).filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(2 * i);
    }
    expect(server.counts.tokenRequests).toBe(0);
    expect(server.counts.initializes).toBe(0);
    expect(server.counts.executions).toEqual({});
  });

  it('that is asked for ever at the handshake: four requests, one token', async () => {
    const scene = await start();
    scene.server.reply(
      { http: 'POST' },
      {
        status: 401,
        headers: { 'www-authenticate': 'DPoP error="use_dpop_nonce"', 'dpop-nonce': 'n' },
        body: '',
      },
    );
    const error = await failureOf(joined(scene));
    expect(error.code).toBe('ERR_CREDENTIAL_REJECTED');
    // Asked once with the credential as it was, once as it is after the refusal, each with another nonce.
    expect(scene.server.counts.initializes).toBe(4);
    expect(scene.server.counts.tokenRequests).toBe(1);
  });

  it.each(['none', 'token'] as const)(
    'that has run out together with the token: the ping has it, and the session lives (bound to: %s)',
    async (bindSession) => {
      const scene = await start({ dpop: 'nonce', tokenLifetimeMs: 120_000, bindSession });
      const { server, clock } = scene;
      const client = await joined(scene, {}, { refresh: { background: 'never' } });
      await text(client, 'before');
      await clock.advance(600_000);
      server.reset();
      await text(client, 'c');
      expect(server.counts.executionsById).toEqual({ c: 1 });
      expect(server.counts.pings).toBe(2);
      expect(server.counts.initializes).toBe(bindSession === 'none' ? 0 : 1);
    },
  );

  it.each<[string, RequestMatch]>([
    ['notifications/initialized', { method: 'notifications/initialized' }],
    ['the stream', { http: 'GET' }],
    ['the end of the session', { http: 'DELETE' }],
  ])('that is asked for at %s is given there', async (_, match) => {
    const scene = await start();
    const { server, clock } = scene;
    server.replyOnce(match, {
      status: 401,
      headers: { 'www-authenticate': 'DPoP error="use_dpop_nonce"', 'dpop-nonce': 'n-7' },
      body: '',
    });
    const client = await joined(scene);
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => {});
    await text(client, 'c');
    await clock.settle();
    expect(server.counts.streamsOpen).toBe(1);
    await client.close();
    await clock.settle();
    const [first, second, ...others] = server.log.filter(
      ({ http, path, rpcMethod }) =>
        path === '/mcp' && (match.http === undefined ? rpcMethod === match.method : http === match.http),
    );
    expect(first?.status).toBe(401);
    expect(second?.status).toBeLessThan(300);
    expect(others).toEqual([]);
    expect(proofsOf([second as ServerLogEntry])[0]?.nonce).toBe('n-7');
    expect(server.counts.initializes).toBe(1);
    expect(server.counts.tokenRequests).toBe(1);
  });

  it('is not resent for where resends are off', async () => {
    const scene = await start({ dpop: 'nonce' });
    const client = await joined(scene, { retry: { resendOn401: 'never' } });
    await scene.clock.advance(61_000);
    scene.server.reset();
    const error = await failureOf(echo(client, 'c'));
    expect(error.executed).toBe(false);
    expect(toEndpoint(scene.server)).toHaveLength(1);
    // The next one has it.
    await text(client, 'd');
    expect(scene.server.counts.executionsById).toEqual({ d: 1 });
  });
});

describe('beside the proof', () => {
  it('a token that is over is renewed once, under the same key, and the call runs once', async () => {
    const scene = await start({ dpop: 'nonce' });
    const { server } = scene;
    const client = await joined(scene);
    await text(client, 'before');
    server.expireTokens();
    server.reset();
    await Promise.all(['a', 'b', 'c'].map((id) => text(client, id)));
    expect(server.counts.executionsById).toEqual({ a: 1, b: 1, c: 1 });
    expect(server.counts.tokenRequests).toBe(1);
    expect(new Set(proofsOf(server.log).map(({ key }) => key)).size).toBe(1);
  });

  it('a clock that is five minutes off is found out once', async () => {
    const scene = await start();
    const { server, clock } = scene;
    const client = await joined(
      scene,
      {},
      { clock: Object.assign(Object.create(clock), { now: () => clock.now() + 300_000 }) },
    );
    for (let i = 0; i < 5; i++) await text(client, `c-${i}`);
    expect(server.counts.executions).toEqual({ echo: 5 });
    expect(refused(server)).toHaveLength(1);
    expect(server.counts.tokenRequests).toBe(2);
  });

  it('a session that is bound to its token lives as it does with bearer tokens', async () => {
    const scene = await start({ bindSession: 'token', dpop: 'nonce' });
    const { server } = scene;
    const client = await joined(scene);
    await text(client, 'before');
    server.expireTokens();
    await text(client, 'after');
    expect(server.counts.executionsById).toEqual({ before: 1, after: 1 });
  });
});

describe('one key', () => {
  it('for two replicas with one store: one token, each call runs', async () => {
    const scene = await start({ dpop: 'nonce' });
    const store = memoryCredentialStore({ clock: scene.clock });
    const [one, two] = [await joined(scene, {}, { store }), await joined(scene, {}, { store })];
    await Promise.all([text(one, 'one'), text(two, 'two')]);
    expect(scene.server.counts.executionsById).toEqual({ one: 1, two: 1 });
    expect(new Set(proofsOf(scene.server.log).map(({ key }) => key)).size).toBe(1);
    // One of them was refused for want of a nonce.
    expect(scene.server.counts.tokenRequests).toBe(2);
  });

  it('before and after a restart from a file', async () => {
    const scene = await start({ rotateRefreshTokens: true });
    const { server, clock } = scene;
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-dpop-'));
    closeLater(() => rm(folder, { recursive: true }));
    const { id, secret, refreshToken } = server.client;
    const user = () =>
      refreshTokenGrant({
        issuer: server.issuer,
        clientId: id,
        clientSecret: secret,
        refreshToken,
        dpop: true,
        store: fileCredentialStore(folder),
        subject: 'user-7',
        clock,
      });
    for (const round of ['first', 'second', 'third']) {
      const provider = user();
      const client = await connect(scene, { credentials: provider });
      await text(client, round);
      await client.close();
      await provider.close?.();
      if (round === 'second') server.expireTokens();
    }
    expect(server.counts.executionsById).toEqual({ first: 1, second: 1, third: 1 });
    expect(server.counts.tokenRequests).toBe(2);
    expect(new Set(proofsOf(server.log).map(({ key }) => key)).size).toBe(1);
  });
});

it('neither key nor proof nor token is in anything that the client says', async () => {
  const scene = await start({ dpop: 'nonce' });
  const { server } = scene;
  const store = memoryCredentialStore({ clock: scene.clock });
  const provider = machine(scene, { store });
  const said: string[] = [];
  const see = (value: unknown) => {
    said.push(inspect(value, { depth: Number.POSITIVE_INFINITY, showHidden: true }));
    said.push(value instanceof Error ? `${value.stack}` : (JSON.stringify(value) ?? ''));
  };
  const client = await connect(scene, { credentials: provider, logger: see });
  server.reply(
    { method: 'tools/call' },
    {
      status: 400,
      body: ({ headers }) => `you sent ${headers.dpop} and ${headers.authorization}`,
    },
  );
  for (let i = 0; i < 3; i++) await echo(client, `c-${i}`).catch(see);
  see(client);
  see(provider);
  const { d } = JSON.parse((await store.read(provider.id))?.data ?? '{}').dpop;
  const url = new URL(server.url);
  const { authorization = '' } = await (await provider.acquire(url)).headers({ method: 'POST', url });
  const all = said.join('\n');
  expect(all).toContain('you sent [redacted] and DPoP [redacted]');
  expect(all).not.toContain(d);
  expect(all).not.toContain(authorization.replace('DPoP ', ''));
  for (const { headers } of server.log)
    if (headers.dpop !== undefined) expect(all).not.toContain(headers.dpop);
});
