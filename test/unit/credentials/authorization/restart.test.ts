/** What stands in the store: no second consent after a restart, one refresh for all processes, and whose word counts. */
import { describe, expect, it } from 'vitest';
import { memoryCredentialStore } from '../../../../src/credentials/index.js';
import { errorOf } from '../support.js';
import { eventsOf, grantOf, sentTo, startWorld, userOf, withTime } from './support.js';

async function started(options: Parameters<typeof grantOf>[1] = {}) {
  const world = await startWorld();
  const user = userOf(world);
  const shared = {
    store: memoryCredentialStore(world),
    subject: 'user-7',
    onRedirect: user.onRedirect,
    refresh: { background: 'never' as const },
    ...options,
  };
  const provider = grantOf(world, shared as never);
  await provider.acquire(world.mcp.url, world.mcp.refusal(0));
  return { ...world, world, user, shared, provider, another: () => grantOf(world, shared as never) };
}

describe('a restart', () => {
  it('needs no consent, nor any request while the token lives', async () => {
    const { as, mcp, another } = await started();
    const before = as.requests.length;
    const got = await another().acquire(mcp.url);
    expect(await sentTo(mcp.url, got)).toBe('Bearer first-token-1');
    expect(as.requests).toHaveLength(before);
  });

  it('after the token is over: one refresh, as the same client', async () => {
    const { as, mcp, clock, user, another } = await started();
    await clock.advance(3_600_000);
    expect(await sentTo(mcp.url, await another().acquire(mcp.url))).toBe('Bearer first-token-2');
    expect(
      as.forms.map((form) => [form.get('grant_type'), form.get('client_id'), form.get('resource')]),
    ).toEqual([
      ['authorization_code', 'first-client-1', mcp.url.href],
      ['refresh_token', 'first-client-1', mcp.url.href],
    ]);
    expect([user.visits.length, as.counts.register]).toEqual([1, 1]);
  });

  it('of a provider for another client, redirect URI or scope: only the client makes a difference', async () => {
    const { world, mcp, shared } = await started();
    const more = (options: object) => grantOf(world, { ...shared, ...options } as never).acquire(mcp.url);
    expect((await more({ client: { register: { name: 'other' } } })).generation).toBe(0);
    expect((await more({ client: { clientId: 'given' } })).generation).toBe(0);
    expect((await more({ subject: 'user-8' })).generation).toBe(0);
    expect((await more({ redirectUri: 'http://127.0.0.1:9/callback' })).generation).toBe(1);
    expect((await more({ scope: 'more' })).generation).toBe(1);
  });

  it.each([
    '',
    'null',
    '[]',
    '{"v":2}',
    '{"v":1}',
    '{"v":1,"issuer":"no"}',
    '{"v":1,"issuer":"https://a.example","clients":{"__proto__":{"clientId":"x","redirectUri":"y"}},"clientId":7}',
  ])('with a record that cannot be read, %j: as without one', async (data) => {
    const world = await startWorld();
    const memory = memoryCredentialStore(world);
    const user = userOf(world);
    const options = { store: memory, subject: 'user-7', onRedirect: user.onRedirect };
    const ids = new Set<string>();
    const read = (id: string) => {
      ids.add(id);
      return memory.read(id);
    };
    await grantOf(world, { ...options, store: { ...memory, read } }).acquire(world.mcp.url);
    for (const id of ids) await memory.compareAndSet(id, undefined, { generation: 1, data });
    const provider = grantOf(world, options);
    expect((await provider.acquire(world.mcp.url)).generation).toBe(0);
    expect((await provider.acquire(world.mcp.url, world.mcp.refusal(0))).generation).toBe(1);
  });
});

describe('two processes', () => {
  it('share a refresh: one request, and both go on with its token', async () => {
    const { as, mcp, clock, provider, another } = await started();
    const second = another();
    await second.acquire(mcp.url);
    for (let round = 2; round <= 4; round++) {
      await clock.advance(3_600_000);
      const asked = Promise.all([provider, second, provider, second].map((each) => each.acquire(mcp.url)));
      for (const each of await withTime({ clock }, asked))
        expect(await sentTo(mcp.url, each)).toBe(`Bearer first-token-${round}`);
    }
    expect(as.forms.map((form) => form.get('grant_type'))).toEqual([
      'authorization_code',
      'refresh_token',
      'refresh_token',
      'refresh_token',
    ]);
  });

  it('a consent after the refresh token died is taken up by the other', async () => {
    const { as, mcp, clock, user, provider, another } = await started();
    const second = another();
    await second.acquire(mcp.url);
    as.revokeRefreshTokens();
    await clock.advance(3_600_000);
    await withTime({ clock }, provider.acquire(mcp.url));
    expect(user.visits).toHaveLength(2);
    const late = await withTime({ clock }, second.acquire(mcp.url));
    expect(await sentTo(mcp.url, late)).toBe('Bearer first-token-2');
    expect(user.visits).toHaveLength(2);
  });
});

describe('another authorization server', () => {
  it('is told of; the user consents there as a new client; what the old one gave stays away', async () => {
    const { as, other, mcp, provider } = await started();
    const events = eventsOf(provider);
    mcp.servers = [other];

    const got = await provider.acquire(mcp.url, mcp.refusal(1));

    expect(await sentTo(mcp.url, got)).toBe('Bearer other-token-1');

    expect(events.filter(({ type }) => type === 'server-changed')).toEqual([
      { type: 'server-changed', id: provider.id, previous: as.issuer, current: other.issuer },
    ]);
    expect(other.everything).not.toMatch(/first-(client|secret|refresh|token|code)/);
    expect(other.counts).toEqual({ authorize: 1, token: 1, register: 1, metadata: 1 });
    expect(as.counts.token).toBe(1);
  });

  it('what the old client or server gave is gone from the store', async () => {
    const memory = memoryCredentialStore();
    const written = new Map<string, string | undefined>();
    const store = {
      ...memory,
      compareAndSet: (...given: Parameters<typeof memory.compareAndSet>) => {
        written.set(given[0], given[2]?.data);
        return memory.compareAndSet(...given);
      },
    };
    const { as, other, mcp, clock, world, shared, provider } = await started({ store });
    // The same server, as another client.
    const moved = grantOf(world, { ...shared, redirectUri: 'http://127.0.0.1:9/callback' } as never);
    await moved.acquire(mcp.url);
    await moved.finishAuth(await as.browse(await moved.authorizationUrl(mcp.url)));
    await clock.settle();
    const stored = () => JSON.stringify([...written]);
    expect(stored()).toContain('first-refresh-2');
    expect(stored()).not.toContain('first-refresh-1');
    await provider.close?.();

    mcp.servers = [other];
    await moved.acquire(mcp.url, mcp.refusal((await moved.acquire(mcp.url)).generation));
    await clock.settle();
    expect(stored()).toContain('other-refresh-1');
    expect(stored()).not.toContain('first-refresh');
  });

  it('generations go on over it, and a straggler of the old one costs nothing', async () => {
    const { as, other, mcp, provider } = await started();
    await provider.acquire(mcp.url, mcp.refusal(1));
    const seen = [1, 2];
    mcp.servers = [other];
    for (const server of [other, as, other]) {
      mcp.servers = [server];
      const got = await provider.acquire(mcp.url, mcp.refusal(seen.at(-1) as number));
      seen.push(got.generation);
      for (const old of seen.slice(0, -1))
        expect((await provider.acquire(mcp.url, mcp.refusal(old))).generation).toBe(got.generation);
    }
    expect(seen).toEqual([...new Set(seen)].sort((a, b) => a - b));
    // Back at the first: its registration is still good there.
    expect([as.counts.register, other.counts.register]).toEqual([1, 1]);
    expect([as.counts.authorize, other.counts.authorize]).toEqual([2, 2]);
  });

  it('50 refusals: one look, one event, one consent', async () => {
    const { other, mcp, provider } = await started();
    const events = eventsOf(provider);
    mcp.servers = [other];
    const before = mcp.metadataCount;
    const got = await Promise.all(
      Array.from({ length: 50 }, () => provider.acquire(mcp.url, mcp.refusal(1))),
    );
    expect(new Set(got.map(({ generation }) => generation)).size).toBe(1);
    expect(events.filter(({ type }) => type === 'server-changed')).toHaveLength(1);
    expect(other.counts).toMatchObject({ authorize: 1, token: 1, register: 1 });
    expect(mcp.metadataCount - before).toBe(2);
  });

  it('a consent that another process had there is taken up', async () => {
    const { other, mcp, provider, user, another } = await started();
    const second = another();
    await second.acquire(mcp.url);
    mcp.servers = [other];
    await provider.acquire(mcp.url, mcp.refusal(1));
    expect(user.visits).toHaveLength(2);

    const got = await second.acquire(mcp.url, mcp.refusal(1));

    expect(await sentTo(mcp.url, got)).toBe('Bearer other-token-1');
    expect(got.generation).toBeGreaterThan(1);
    expect(user.visits).toHaveLength(2);
  });

  it('nor is the user asked where it is found out only because the refresh token has died', async () => {
    const { as, other, mcp, clock, provider, user, another } = await started();
    const second = another();
    await second.acquire(mcp.url);
    mcp.servers = [other];
    await provider.acquire(mcp.url, mcp.refusal(1));
    as.revokeRefreshTokens();
    await clock.advance(3_600_000);
    const got = await withTime({ clock }, second.acquire(mcp.url));
    expect(await sentTo(mcp.url, got)).toMatch(/^Bearer other-token/);
    expect(user.visits).toHaveLength(2);
  });

  it('is told of, too, where it is found when the refresh token has died', async () => {
    const { as, other, mcp, clock, provider } = await started();
    const events = eventsOf(provider);
    mcp.servers = [other];
    as.revokeRefreshTokens();
    await clock.advance(3_600_000);
    const got = await withTime({ clock }, provider.acquire(mcp.url));
    expect(await sentTo(mcp.url, got)).toBe('Bearer other-token-1');
    expect(events.filter(({ type }) => type === 'server-changed')).toEqual([
      { type: 'server-changed', id: provider.id, previous: as.issuer, current: other.issuer },
    ]);
    expect(other.everything).not.toMatch(/first-(client|secret|refresh|token|code)/);
  });

  it('a store that goes down in between harms nothing but the caller', async () => {
    const memory = memoryCredentialStore();
    let isDown = false;
    const down = () => Promise.reject(new Error('down'));
    const store = {
      ...memory,
      read: (id: string) => (isDown ? down() : memory.read(id)),
      compareAndSet: (...given: Parameters<typeof memory.compareAndSet>) =>
        isDown ? down() : memory.compareAndSet(...given),
    };
    const { other, mcp, provider } = await started({ store });
    mcp.servers = [other];
    isDown = true;
    expect((await errorOf(provider.acquire(mcp.url, mcp.refusal(1)))).code).toBe('ERR_STORE_UNAVAILABLE');
    isDown = false;
    const { generation } = await provider.acquire(mcp.url);
    const got = await provider.acquire(mcp.url, mcp.refusal(generation));
    expect(await sentTo(mcp.url, got)).toBe('Bearer other-token-1');
    expect(other.everything).not.toMatch(/first-(client|secret|refresh|token|code)/);
  });

  it('one of several that the server names: the known one stays', async () => {
    const { as, other, mcp, provider } = await started();
    const events = eventsOf(provider);
    mcp.servers = [other, as];
    expect(await sentTo(mcp.url, await provider.acquire(mcp.url, mcp.refusal(1)))).toBe(
      'Bearer first-token-2',
    );
    expect(events.map(({ type }) => type)).toEqual(['refreshed']);
    expect(other.requests).toEqual([]);
  });

  it('a server whose metadata cannot be had now: the known one is good enough', async () => {
    const { as, mcp, provider } = await started();
    const plain = mcp as unknown as { reply(seen: { path: string }): unknown };
    const ordinary = plain.reply.bind(mcp);
    plain.reply = (seen) => (seen.path.startsWith('/.well-known/') ? { status: 503 } : ordinary(seen));
    expect((await provider.acquire(mcp.url, mcp.refusal(1))).generation).toBe(2);
    expect(as.counts).toMatchObject({ authorize: 1, token: 2 });
  });
});

describe('the end of a process', () => {
  it('a code that has left is finished and stored, although the provider is closed', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const shared = { store: memoryCredentialStore(world), subject: 'user-7' };
    const provider = grantOf(world, shared);
    const callback = await as.browse(await provider.authorizationUrl(mcp.url));
    const plain = as as unknown as { reply(seen: { path: string }): Promise<unknown> | unknown };
    const ordinary = plain.reply.bind(as);
    let closing: Promise<void> | undefined;
    plain.reply = async (seen) => {
      if (seen.path === '/token') closing = provider.close?.();
      return await ordinary(seen);
    };
    await provider.finishAuth(callback);
    expect(closing).toBeDefined();
    await closing;
    expect(await sentTo(mcp.url, await grantOf(world, shared).acquire(mcp.url))).toBe('Bearer first-token-1');
  });

  it('nor is one lost that onRedirect brought', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const shared = { store: memoryCredentialStore(world), subject: 'user-7' };
    const provider = grantOf(world, { ...shared, onRedirect: async (url) => await as.browse(url) });
    const plain = as as unknown as { reply(seen: { path: string }): Promise<unknown> | unknown };
    const ordinary = plain.reply.bind(as);
    let closing: Promise<void> | undefined;
    plain.reply = async (seen) => {
      if (seen.path === '/token') closing = provider.close?.();
      return await ordinary(seen);
    };
    expect((await errorOf(provider.acquire(mcp.url, mcp.refusal(0)))).code).toBe('ERR_CLOSED');
    await closing;
    expect(await sentTo(mcp.url, await grantOf(world, shared).acquire(mcp.url))).toBe('Bearer first-token-1');
    expect(as.counts.token).toBe(1);
  });
});

describe('bound to a key (RFC 9449)', () => {
  it('the code, the refresh and a restart: proofs of one key, and none without', async () => {
    const world = await startWorld();
    const { as, mcp, clock } = world;
    const plain = as as unknown as { reply(seen: { path: string }): { body?: Record<string, unknown> } };
    const ordinary = plain.reply.bind(as);
    plain.reply = (seen) => {
      const answer = ordinary(seen);
      if (seen.path === '/token' && answer.body?.token_type !== undefined) answer.body.token_type = 'DPoP';
      return answer;
    };
    const user = userOf(world);
    const shared = {
      store: memoryCredentialStore(world),
      subject: 'user-7',
      onRedirect: user.onRedirect,
      dpop: true,
    };
    const provider = grantOf(world, shared);
    const got = await provider.acquire(mcp.url, mcp.refusal(0));
    expect(await sentTo(mcp.url, got)).toBe('DPoP first-token-1');
    await clock.advance(3_600_000);
    expect(await sentTo(mcp.url, await grantOf(world, shared).acquire(mcp.url))).toBe('DPoP first-token-2');
    const keys = as.requests
      .filter(({ path }) => path === '/token')
      .map(({ headers }) =>
        JSON.parse(Buffer.from(`${headers.dpop}`.split('.')[0] ?? '', 'base64url').toString()),
      );
    expect(keys).toHaveLength(2);
    expect(keys[0].jwk).toEqual(keys[1].jwk);
    expect(keys[0].jwk.d).toBeUndefined();
    expect(user.visits).toHaveLength(1);
  });
});
