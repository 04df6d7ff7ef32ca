/** Bound tokens against the simulator, which checks each proof by itself: one key, wherever the token is used. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  type Credential,
  type CredentialEvent,
  type CredentialProvider,
  type CredentialStore,
  clientCredentialsGrant,
  fileCredentialStore,
  jwtBearerGrant,
  memoryCredentialStore,
  type OAuthOptions,
  refreshTokenGrant,
  toAuthProvider,
  tokenExchangeGrant,
} from '../../../src/credentials/index.js';
import {
  type HostedServer,
  type HostedServerOptions,
  startHostedServer,
} from '../../../src/testing/index.js';
import { manualClock } from '../../../src/testing/manual-clock.js';
import { ProvingTokenServer, wantsNonce } from './dpop-support.js';
import { errorOf, everythingOf, skewedClock } from './support.js';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});
beforeAll(async () => {
  await Promise.all([import('undici'), import('openid-client'), import('jose')]);
});

async function start(options: HostedServerOptions = {}) {
  const clock = skewedClock();
  const server = await startHostedServer({
    dpop: true,
    tokenLifetimeMs: 600_000,
    rotateRefreshTokens: true,
    clock: manualClockOf(clock),
    ...options,
  });
  closing.push(() => server.close());
  return { server, clock };
}

/** The server's clock goes right, whatever the client's says. */
function manualClockOf(clock: ReturnType<typeof skewedClock>) {
  return Object.getPrototypeOf(clock) as ReturnType<typeof manualClock>;
}

type Scene = Awaited<ReturnType<typeof start>>;

function common({ server, clock }: Scene, more: object) {
  const { id, secret } = server.client;
  return {
    issuer: server.issuer,
    clientId: id,
    clientSecret: secret,
    resource: server.url,
    refresh: { background: 'never' },
    dpop: true,
    clock,
    ...more,
  } as const;
}

function user(scene: Scene, more: Partial<OAuthOptions> & { refreshToken?: string } = {}) {
  const { refreshToken } = scene.server.client;
  return opened(refreshTokenGrant({ ...common(scene, more), refreshToken, ...more } as never));
}

function machine(scene: Scene, more: Partial<OAuthOptions> = {}) {
  return opened(clientCredentialsGrant(common(scene, more) as never));
}

function opened(provider: CredentialProvider): CredentialProvider {
  closing.push(() => provider.close?.({ drainMs: 0 }) ?? Promise.resolve());
  return provider;
}

/** A request to the MCP endpoint; 401 is a refusal of token or proof, anything else comes from behind that. */
async function call({ server }: Scene, credential: Credential, method = 'DELETE') {
  const url = new URL(server.url);
  const response = await fetch(`${url}?a=1`, {
    method,
    headers: await credential.headers({ method, url }),
  });
  await response.text();
  const dpopNonce = response.headers.get('dpop-nonce') ?? undefined;
  credential.answered?.({ dpopNonce, date: response.headers.get('date') ?? undefined });
  const challenge = /error="([^"]+)"/.exec(response.headers.get('www-authenticate') ?? '')?.[1];
  return { status: response.status, challenge, dpopNonce };
}

const target = ({ server }: Scene) => new URL(server.url);

/** Thumbprints stand for keys: the public half of each proof that reached the server. */
function keysSeen({ server }: Scene): Set<string> {
  const proofs = server.log.map(({ headers }) => headers.dpop).filter((proof) => proof !== undefined);
  return new Set(proofs.map((proof) => JSON.parse(atob(proof.split('.')[0] ?? '')).jwk.x));
}

async function keyIn(store: CredentialStore, id: string): Promise<string> {
  return JSON.parse((await store.read(id))?.data ?? '{}').dpop?.d;
}

describe('a token that is bound', () => {
  it.each(['client credentials', 'refresh'])('%s: is taken with its proof, and only so', async (kind) => {
    const scene = await start();
    const provider = kind === 'refresh' ? user(scene) : machine(scene);
    const credential = await provider.acquire(target(scene));
    for (let i = 0; i < 3; i++) expect((await call(scene, credential)).status).not.toBe(401);
    const url = target(scene);
    const { authorization = '', dpop = '' } = await credential.headers({ method: 'DELETE', url });
    const token = authorization.replace('DPoP ', '');
    const send = async (headers: Record<string, string>, method = 'DELETE') =>
      (await fetch(url, { method, headers })).status;
    expect(await send({ authorization: `Bearer ${token}` })).toBe(401);
    expect(await send({ authorization })).toBe(401);
    expect(await send({ authorization, dpop }, 'PUT')).toBe(401);
    const { dpop: another = '' } = await machine(scene)
      .acquire(url)
      .then((each) => each.headers({ method: 'DELETE', url }));
    expect(await send({ authorization, dpop: another })).toBe(401);
    expect(await send({ authorization, dpop })).not.toBe(401);
    // A proof is good once.
    expect(await send({ authorization, dpop })).toBe(401);
  });

  it.each(['JWT bearer', 'token exchange'])('%s: is asked for with a proof', async (kind) => {
    const clock = manualClock();
    const server = await ProvingTokenServer.start(clock);
    closing.push(() => server.close());
    server.judge = async (asked) => {
      const issued_token_type = 'urn:ietf:params:oauth:token-type:access_token';
      return (
        (await wantsNonce(() => 'n')(asked)) ?? { body: await server.token(asked, { issued_token_type }) }
      );
    };
    const { tokenEndpoint } = server;
    const options = { tokenEndpoint, clientId: 'c', clientSecret: 's', dpop: true, clock } as const;
    const provider = opened(
      kind === 'JWT bearer'
        ? jwtBearerGrant({ ...options, assertion: async () => 'an-assertion' })
        : tokenExchangeGrant({
            ...options,
            subjectToken: async () => 'a-subject-token',
            subjectTokenType: 'urn:ietf:params:oauth:token-type:access_token',
          }),
    );
    const credential = await provider.acquire(new URL('https://mcp.example/mcp'));
    const headers = await credential.headers({ method: 'POST', url: new URL('https://mcp.example/mcp') });
    expect(headers.authorization).toMatch(/^DPoP /);
    expect(server.asked.map(({ claims }) => claims.nonce)).toEqual([undefined, 'n']);
  });

  it('is renewed with the same key, and a credential from before goes on proving', async () => {
    const scene = await start({ tokenLifetimeMs: 60_000 });
    const provider = user(scene);
    const first = await provider.acquire(target(scene));
    await scene.clock.advance(59_000);
    const second = await provider.acquire(target(scene));
    expect(second.generation).toBe(first.generation + 1);
    expect((await call(scene, first)).status).not.toBe(401);
    expect((await call(scene, second)).status).not.toBe(401);
    expect(keysSeen(scene).size).toBe(1);
  });

  it('is not taken for a bearer token by a bridge to one', async () => {
    const scene = await start();
    const error = await errorOf(toAuthProvider(machine(scene), scene.server.url).token());
    expect(error.code).toBe('ERR_CREDENTIAL_SOURCE');
  });
});

describe('one key', () => {
  it.each(['client credentials', 'refresh'])('%s: for five replicas with one store', async (kind) => {
    const scene = await start();
    const store = memoryCredentialStore({ clock: scene.clock });
    const replicas = Array.from({ length: 5 }, () =>
      kind === 'refresh'
        ? user(scene, { store, subject: 'user-7' })
        : machine(scene, { store, subject: 'machine' }),
    );
    const acquiring = Promise.all(replicas.map((replica) => replica.acquire(target(scene))));
    await scene.clock.advance(1_000);
    const credentials = await acquiring;
    expect(scene.server.counts.tokenRequests).toBe(1);
    for (const credential of credentials) expect((await call(scene, credential)).status).not.toBe(401);
    expect(keysSeen(scene).size).toBe(1);

    await scene.clock.advance(599_000);
    const again = Promise.all(replicas.map((replica) => replica.acquire(target(scene))));
    await scene.clock.advance(1_000);
    for (const credential of await again) expect((await call(scene, credential)).status).not.toBe(401);
    expect(scene.server.counts.tokenRequests).toBe(2);
    expect(keysSeen(scene).size).toBe(1);
  });

  it('before and after a restart, from a file: also where the refresh token answers to that key alone', async () => {
    const scene = await start({ tokenLifetimeMs: 60_000 });
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-dpop-'));
    closing.push(() => rm(folder, { recursive: true }));
    const before = user(scene, { store: fileCredentialStore(folder), subject: 'user-7' });
    expect((await call(scene, await before.acquire(target(scene)))).status).not.toBe(401);
    await before.close?.();

    const after = user(scene, { store: fileCredentialStore(folder), subject: 'user-7' });
    expect((await call(scene, await after.acquire(target(scene)))).status).not.toBe(401);
    expect(scene.server.counts.tokenRequests).toBe(1);
    await scene.clock.advance(61_000);
    expect((await call(scene, await after.acquire(target(scene)))).status).not.toBe(401);
    expect(scene.server.counts.tokenRequests).toBe(2);
    expect(keysSeen(scene).size).toBe(1);
    const files = await Promise.all(
      (await readdir(folder)).map((name) => readFile(join(folder, name), 'utf8').catch(() => '')),
    );
    expect(files.join()).toMatch(/\\"d\\"|"d"/);
  });

  it('is not there any more once the credential was forgotten', async () => {
    const scene = await start();
    const store = memoryCredentialStore({ clock: scene.clock });
    const provider = machine(scene, { store, subject: 'machine' });
    await provider.acquire(target(scene));
    await provider.forget?.();
    expect(await store.read(provider.id)).toBeUndefined();
    expect((await call(scene, await provider.acquire(target(scene)))).status).not.toBe(401);
    expect(keysSeen(scene).size).toBe(2);
  });

  it('is each replica its own where they share nothing', async () => {
    const scene = await start();
    for (const replica of [machine(scene), machine(scene)]) await replica.acquire(target(scene));
    expect(keysSeen(scene).size).toBe(2);
  });

  it('goes with its token, although the store was down when that was made', async () => {
    const scene = await start();
    const inner = memoryCredentialStore({ clock: scene.clock });
    let isDown = true;
    const fault = async () => {
      if (isDown) throw new Error('down');
    };
    const store: CredentialStore = {
      read: (id) => fault().then(() => inner.read(id)),
      compareAndSet: (id, expected, next) => fault().then(() => inner.compareAndSet(id, expected, next)),
      lease: (id, ms) => fault().then(() => inner.lease(id, ms)),
    };
    const [one, two] = [0, 1].map(() => machine(scene, { store, subject: 'machine' }));
    const credentials = Promise.all([one, two].map((each) => each?.acquire(target(scene))));
    await scene.clock.advance(2_000);
    for (const credential of await credentials)
      expect((await call(scene, credential as Credential)).status).not.toBe(401);
    isDown = false;
    await scene.clock.advance(599_000);
    const again = Promise.all([one, two].map((each) => each?.acquire(target(scene))));
    await scene.clock.advance(2_000);
    for (const credential of await again)
      expect((await call(scene, credential as Credential)).status).not.toBe(401);
    expect(scene.server.counts.tokenRequests).toBe(3);
  });
});

describe('a deployment that turns to bound tokens', () => {
  it('takes over the refresh token, not the bearer token', async () => {
    const scene = await start({ dpop: false });
    const store = memoryCredentialStore({ clock: scene.clock });
    const before = user(scene, { store, subject: 'user-7', dpop: false });
    expect(
      await (await before.acquire(target(scene))).headers({ method: 'GET', url: target(scene) }),
    ).toEqual({ authorization: expect.stringMatching(/^Bearer /) });
    expect(await keyIn(store, before.id)).toBeUndefined();
    scene.server.set({ dpop: true });
    const after = user(scene, { store, subject: 'user-7' });
    expect(after.id).toBe(before.id);
    expect((await call(scene, await after.acquire(target(scene)))).status).not.toBe(401);
    expect(scene.server.counts.tokenRequests).toBe(2);
    expect(await keyIn(store, after.id)).toMatch(/^[\w-]{43}$/);
  });

  it('refuses a server that gives bearer tokens, and says which; callers do not ask it again and again', async () => {
    const scene = await start({ dpop: false });
    const provider = machine(scene);
    for (let i = 0; i < 10; i++) {
      const error = await errorOf(provider.acquire(target(scene)));
      expect(error.code).toBe('ERR_CREDENTIAL_REJECTED');
      expect(error.reason).toBe('dpop_downgrade');
      expect(error.message).toContain(new URL(scene.server.issuer).host);
    }
    expect(scene.server.counts.tokenRequests).toBe(1);
  });

  it('cannot bring a token whose key is elsewhere', async () => {
    const scene = await start();
    expect(() => user(scene, { accessToken: 'A0' } as never)).toThrow(/accessToken.*dpop/);
    expect(() => machine(scene, { dpop: 'yes' as never })).toThrow(/dpop must be true or false/);
  });
});

describe('refusals of the MCP server', () => {
  it('for want of a nonce, by fifty callers: no token request, the same credential', async () => {
    const scene = await start({ dpop: 'nonce' });
    const provider = machine(scene);
    const { generation } = await provider.acquire(target(scene));
    // One to learn that proofs have to have a nonce at the token endpoint, one for the token.
    expect(scene.server.counts.tokenRequests).toBe(2);
    const statuses = await Promise.all(
      Array.from({ length: 50 }, async () => {
        const first = await provider.acquire(target(scene));
        const { status, challenge, dpopNonce } = await call(scene, first);
        if (status !== 401) return status;
        const rejected = { generation: first.generation, status, challenge, dpopNonce };
        const second = await provider.acquire(target(scene), { rejected });
        expect(second.generation).toBe(generation);
        return (await call(scene, second)).status;
      }),
    );
    expect(statuses).not.toContain(401);
    expect(scene.server.counts.tokenRequests).toBe(2);
  });

  it('a nonce of the token endpoint is none of the MCP server, although they share an origin', async () => {
    const scene = await start({ dpop: 'nonce' });
    const credential = await machine(scene).acquire(target(scene));
    expect(await call(scene, credential)).toMatchObject({ status: 401, challenge: 'use_dpop_nonce' });
    expect((await call(scene, credential)).status).not.toBe(401);
  });

  it.each([-300_000, 300_000])('for a date %i ms off: proofs are dated by the server', async (skewMs) => {
    const scene = await start();
    scene.clock.skewMs = skewMs;
    const provider = machine(scene);
    const first = await provider.acquire(target(scene));
    const requests = scene.server.counts.tokenRequests;
    const refused = await call(scene, first);
    expect(refused).toMatchObject({ status: 401, challenge: 'invalid_dpop_proof' });
    const rejected = { generation: first.generation, ...refused };
    const second = await provider.acquire(target(scene), { rejected });
    expect(second.generation).toBe(first.generation);
    expect((await call(scene, second)).status).not.toBe(401);
    expect(scene.server.counts.tokenRequests).toBe(requests);
  });

  it('of the token itself lead to a new one, with the same key', async () => {
    const scene = await start();
    const provider = machine(scene);
    const first = await provider.acquire(target(scene));
    scene.server.expireTokens();
    const refused = await call(scene, first);
    expect(refused).toMatchObject({ status: 401, challenge: 'invalid_token' });
    const rejected = { generation: first.generation, ...refused };
    const second = await provider.acquire(target(scene), { rejected });
    expect(second.generation).toBe(first.generation + 1);
    expect((await call(scene, second)).status).not.toBe(401);
    expect(keysSeen(scene).size).toBe(1);
  });
});

it('the key is in the record alone: in no event, error, credential or provider', async () => {
  const scene = await start({ dpop: 'nonce', tokenLifetimeMs: 60_000 });
  const store = memoryCredentialStore({ clock: scene.clock });
  const provider = user(scene, { store, subject: 'user-7' });
  const seen: unknown[] = [provider];
  provider.onEvent?.((event: CredentialEvent) => seen.push(event));
  seen.push(await provider.acquire(target(scene)));
  const d = await keyIn(store, provider.id);
  expect(d).toMatch(/^[\w-]{43}$/);
  const fails = async () => {
    const failing = provider.acquire(target(scene), { maxWaitMs: 300 }).catch((error) => seen.push(error));
    await scene.clock.advance(400);
    await failing;
  };
  await scene.clock.advance(61_000);
  scene.server.failTokenEndpoint();
  await fails();
  await scene.clock.advance(60_000);
  scene.server.failTokenEndpoint({ status: 400, body: { error: 'invalid_grant' } });
  await fails();
  // The provider, its token, two errors, and the events of all three.
  expect(seen.length).toBeGreaterThanOrEqual(7);
  for (const thing of seen) expect(everythingOf(thing)).not.toContain(d);
});

it('a server of tokens that nobody binds is left as it was: no proof is sent', async () => {
  const scene = await start({ dpop: false });
  const provider = machine(scene, { dpop: false });
  const credential = await provider.acquire(target(scene));
  expect((await call(scene, credential)).status).not.toBe(401);
  expect(keysSeen(scene).size).toBe(0);
  expect((scene.server as HostedServer).log.every(({ headers }) => headers.dpop === undefined)).toBe(true);
});
