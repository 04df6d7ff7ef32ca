/** `discover: 'once'`: the server that is named first, for machines and for tokens an app brings along. */
import { describe, expect, it } from 'vitest';
import {
  type ClientCredentialsOptions,
  clientCredentialsGrant,
  memoryCredentialStore,
  refreshTokenGrant,
} from '../../../../src/credentials/index.js';
import { errorOf } from '../support.js';
import { closeLater, eventsOf, sentTo, startWorld, type World, withTime } from './support.js';

function machineOf({ clock }: World, options: Partial<ClientCredentialsOptions> = {}) {
  const provider = clientCredentialsGrant({
    clientId: 'app',
    clientSecret: 'APP-SECRET',
    discover: 'once',
    clock,
    refresh: { background: 'never' },
    ...options,
  } as ClientCredentialsOptions);
  closeLater(async () => await provider.close?.({ drainMs: 0 }));
  return provider;
}

describe('before the server has asked', () => {
  it('nothing is sent to anybody', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const got = await machineOf(world).acquire(mcp.url);
    expect(await got.headers({ method: 'POST', url: mcp.url })).toEqual({});
    expect(got.generation).toBe(0);
    expect([as.requests, mcp.requests]).toEqual([[], []]);
  });

  it('a token that the app brought along waits, too', async () => {
    const world = await startWorld();
    const { as, mcp, clock } = world;
    const provider = refreshTokenGrant({
      clientId: 'app',
      discover: 'once',
      refreshToken: as.issueRefreshToken(),
      accessToken: 'brought',
      clock,
    });
    closeLater(async () => await provider.close?.({ drainMs: 0 }));
    expect((await provider.acquire(mcp.url)).generation).toBe(0);
    expect(await sentTo(mcp.url, await provider.acquire(mcp.url, mcp.refusal(0)))).toBe('Bearer brought');
    expect(as.counts.token).toBe(0);
  });
});

describe('when it has', () => {
  it('50 callers: one look, one token request', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const provider = machineOf(world);
    const got = await Promise.all(
      Array.from({ length: 50 }, () => provider.acquire(mcp.url, mcp.refusal(0))),
    );
    for (const each of got) expect(await sentTo(mcp.url, each)).toBe('Bearer first-token-1');
    expect(mcp.metadataCount).toBe(1);
    expect(as.counts).toMatchObject({ metadata: 1, token: 1, register: 0 });
  });

  it.each<[string, object, string | undefined, string | null]>([
    ['the challenge', { challenged: 'a b', listed: ['c'] }, undefined, 'a b'],
    ['what the resource lists', { listed: ['c', 'd'] }, undefined, 'c d'],
    ['none', {}, undefined, null],
    ["the app's", { challenged: 'a', listed: ['c'] }, 'own', 'own'],
    ['not a challenge that is no scope', { challenged: 'a"', listed: ['c'] }, undefined, 'c'],
  ])('scope: %s', async (_name, given, own, wanted) => {
    const world = await startWorld();
    const { as, mcp } = world;
    const { challenged, listed } = given as { challenged?: string; listed?: string[] };
    mcp.challengedScope = challenged;
    mcp.scopesSupported = listed;
    await machineOf(world, { scope: own }).acquire(mcp.url, mcp.refusal(0));
    expect(as.forms[0]?.get('scope') ?? null).toBe(wanted);
  });

  it.each<[string, Record<string, unknown>, string | undefined]>([
    ['the address', {}, undefined],
    ['what the server calls itself', { resource: 'origin' }, undefined],
    ["the app's word", { resource: 'origin' }, 'https://api.example/'],
  ])('resource: %s', async (_name, prm, own) => {
    const world = await startWorld();
    const { as, mcp } = world;
    if (prm.resource !== undefined) mcp.prm = { resource: mcp.origin };
    await machineOf(world, { resource: own }).acquire(mcp.url, mcp.refusal(0));
    expect(as.forms[0]?.get('resource')).toBe(
      own ?? (prm.resource === undefined ? mcp.url.href : mcp.origin),
    );
  });

  it('what cannot be had is asked for again at the next call, and nothing is sent meanwhile', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const plain = mcp as unknown as { reply(seen: { path: string }): unknown };
    const ordinary = plain.reply.bind(mcp);
    plain.reply = () => ({ status: 503 });
    const provider = machineOf(world);
    expect(await errorOf(provider.acquire(mcp.url, mcp.refusal(0)))).toMatchObject({
      code: 'ERR_TOKEN_ENDPOINT',
      retryable: true,
    });
    expect(as.requests).toEqual([]);
    plain.reply = ordinary;
    expect((await provider.acquire(mcp.url, mcp.refusal(0))).generation).toBe(1);
  });

  it('a store that is down: nothing is decided, and nothing sent', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const memory = memoryCredentialStore(world);
    let isDown = true;
    const down = () => Promise.reject(new Error('down'));
    const store = { ...memory, read: (id: string) => (isDown ? down() : memory.read(id)) };
    const provider = machineOf(world, { store, subject: 'm' });
    expect((await errorOf(provider.acquire(mcp.url, mcp.refusal(0)))).code).toBe('ERR_STORE_UNAVAILABLE');
    expect(as.requests).toEqual([]);
    isDown = false;
    expect((await provider.acquire(mcp.url, mcp.refusal(0))).generation).toBe(1);
  });
});

describe('afterwards', () => {
  it('a restart with the store asks nobody who it was', async () => {
    const world = await startWorld();
    const { as, mcp, clock } = world;
    const shared = { store: memoryCredentialStore(world), subject: 'm' };
    await machineOf(world, shared).acquire(mcp.url, mcp.refusal(0));
    await clock.advance(3_600_000);
    const before = mcp.requests.length;
    const got = await withTime(world, machineOf(world, shared).acquire(mcp.url));
    expect(await sentTo(mcp.url, got)).toBe('Bearer first-token-2');
    expect(mcp.requests).toHaveLength(before);
    expect(as.counts.token).toBe(2);
  });

  it('of many processes that were told different things the first decides: one server gets the secret', async () => {
    const world = await startWorld();
    const { as, other, mcp, clock } = world;
    const shared = { store: memoryCredentialStore(world), subject: 'm' };
    const machines = [1, 2, 3, 4].map(() => machineOf(world, shared));
    let asked = 0;
    const plain = mcp as unknown as { reply(seen: { path: string }): unknown };
    const ordinary = plain.reply.bind(mcp);
    plain.reply = (seen) => {
      if (seen.path.startsWith('/.well-known/')) mcp.servers = asked++ % 2 === 0 ? [as] : [other];
      return ordinary(seen);
    };
    await withTime(world, Promise.all(machines.map((each) => each.acquire(mcp.url, mcp.refusal(0)))));
    expect(asked).toBe(4);
    // Each of them gets the next token once.
    for (const each of machines) {
      await clock.advance(3_600_000);
      await withTime(world, each.acquire(mcp.url));
    }
    const sent = [as, other].filter(({ everything }) => everything.includes('APP-SECRET'));
    expect(sent).toHaveLength(1);
    expect(sent[0]?.counts.token).toBe(5);
  });

  it('a move is told once a minute however often it is met, and each caller gets the error', async () => {
    const world = await startWorld();
    const { as, other, mcp, clock } = world;
    const provider = machineOf(world);
    const events = eventsOf(provider);
    await provider.acquire(mcp.url, mcp.refusal(0));
    mcp.servers = [other];
    const met = async () => {
      const errors = await Promise.all(
        Array.from({ length: 20 }, () => errorOf(provider.acquire(mcp.url, mcp.refusal(1)))),
      );
      for (const error of errors) expect(error).toMatchObject({ code: 'ERR_DISCOVERY', retryable: false });
    };
    await met();
    await clock.advance(30_000);
    await met();
    const moves = () => events.filter(({ type }) => type === 'server-changed');
    expect(moves()).toEqual([
      { type: 'server-changed', id: provider.id, previous: as.issuer, current: other.issuer },
    ]);
    await clock.advance(31_000);
    await met();
    expect(moves()).toHaveLength(2);
    expect([mcp.metadataCount, as.counts.token, other.requests.length]).toEqual([3, 1, 0]);
    // Back where it was: as if nothing had been.
    await clock.advance(61_000);
    mcp.servers = [as];
    expect((await provider.acquire(mcp.url, mcp.refusal(1))).generation).toBe(2);
  });

  it('a second origin gets nothing', async () => {
    const world = await startWorld();
    const { other, mcp } = world;
    const provider = machineOf(world);
    await provider.acquire(mcp.url, mcp.refusal(0));
    expect(await errorOf(provider.acquire(new URL(other.origin)))).toMatchObject({ reason: 'origin' });
    expect(other.requests).toEqual([]);
  });
});

describe('the scope of the first challenge', () => {
  it('is what a restart or a replica asks for, too, not all that the metadata list', async () => {
    const world = await startWorld();
    const { as, mcp, clock } = world;
    mcp.scopesSupported = ['read', 'write', 'admin'];
    mcp.challengedScope = 'read';
    const store = memoryCredentialStore({ clock });
    const shared = { store, subject: 'machine' };
    await machineOf(world, shared).acquire(mcp.url, mcp.refusal(0));
    // The token itself is taken from the store as well, so that one is asked for only when the server refuses it.
    const other = machineOf(world, shared);
    const adopted = await other.acquire(mcp.url);
    expect(as.counts.token).toBe(1);
    await other.acquire(mcp.url, mcp.refusal(adopted.generation));
    expect(as.counts.token).toBe(2);
    expect([...as.tokens.values()].map(({ scope }) => scope)).toEqual(['read', 'read']);
  });
});
