/** Which scope a user is asked for, and what happens when the server wants more. */
import { describe, expect, it } from 'vitest';
import { memoryCredentialStore } from '../../../../src/credentials/index.js';
import { errorOf, gate } from '../support.js';
import { grantOf, sentTo, startWorld, userOf, type World, withTime } from './support.js';

const askedIn = (url: URL | string | undefined) => new URL(`${url}`).searchParams.get('scope');

async function authorized(options: Parameters<typeof grantOf>[1] = {}) {
  const world = await startWorld();
  world.mcp.challengedScope = 'read';
  const user = userOf(world);
  const provider = grantOf(world, { onRedirect: user.onRedirect, ...options });
  await provider.acquire(world.mcp.url, world.mcp.refusal(0));
  return { ...world, world, user, provider };
}

describe('the first consent', () => {
  const CASES: [string, Record<string, unknown>, string | null][] = [
    ['the challenge', { challenged: 'a b', listed: ['c'] }, 'a b'],
    ['what the resource lists, where the challenge names none', { listed: ['c', 'd'] }, 'c d'],
    ['none, where neither does', {}, null],
    ['not what the authorization server lists', { as: ['x', 'y'] }, null],
    ["the app's, and the challenge with it", { challenged: 'b', own: 'a', listed: ['c'] }, 'a b'],
    ["the app's alone, where there is no challenge", { own: 'a', listed: ['c'] }, 'a'],
    [
      'offline_access, where the authorization server has it',
      { challenged: 'a', as: ['a', 'offline_access'] },
      'a offline_access',
    ],
    ['offline_access alone', { as: ['offline_access'] }, 'offline_access'],
    ['offline_access once', { challenged: 'offline_access a', as: ['offline_access'] }, 'offline_access a'],
    [
      'not offline_access, where the app does not want it',
      { challenged: 'a', as: ['offline_access'], offline: false },
      'a',
    ],
    ['a challenge that is no scope does not count', { challenged: 'a\u00e9', listed: ['c'] }, 'c'],
    ['a list that is no scope does not count', { listed: ['a"b'] }, null],
  ];

  it.each(CASES)('%s', async (_name, given, wanted) => {
    const world = await startWorld();
    world.mcp.challengedScope = given.challenged as string | undefined;
    world.mcp.scopesSupported = given.listed as string[] | undefined;
    if (given.as !== undefined) world.as.metadata = { scopes_supported: given.as };
    const user = userOf(world);
    const provider = grantOf(world, {
      onRedirect: user.onRedirect,
      scope: given.own as string | undefined,
      offlineAccess: given.offline as boolean | undefined,
    });
    await provider.acquire(world.mcp.url, world.mcp.refusal(0));
    expect(askedIn(user.visits[0])).toBe(wanted);
    // Without it many servers give no refresh token (OpenID Connect Core, 11).
    const isOffline = wanted?.split(' ').includes('offline_access') === true;
    expect(user.visits[0]?.searchParams.get('prompt')).toBe(isOffline ? 'consent' : null);
    expect(world.as.registrations[0]?.scope ?? null).toBe(wanted);
    expect(world.as.forms[0]?.has('scope')).toBe(false);
  });

  it.each([
    ['the address, verbatim', {}, undefined],
    ['what the server calls itself', { resource: 'origin' }, undefined],
    ["the app's word", {}, 'https://api.example/resource'],
    ['none', {}, ''],
  ] as const)('resource: %s', async (name, prm, own) => {
    const world = await startWorld();
    const { as, mcp } = world;
    if ('resource' in prm) mcp.prm = { resource: mcp.origin };
    const user = userOf(world);
    const provider = grantOf(world, { onRedirect: user.onRedirect, resource: own });
    await provider.acquire(mcp.url, mcp.refusal(0));
    await provider.acquire(mcp.url, mcp.refusal(1));
    const wanted = name === 'none' ? null : (own ?? ('resource' in prm ? mcp.origin : mcp.url.href));
    expect(user.visits[0]?.searchParams.get('resource') ?? null).toBe(wanted);
    expect(as.forms.map((form) => form.get('resource'))).toEqual([wanted, wanted]);
  });
});

describe('more scope, with a way to the user', () => {
  it('50 refusals: asked once, for the union; the new token is for all', async () => {
    const { as, mcp, user, provider } = await authorized();

    const got = await Promise.all(
      Array.from({ length: 50 }, () => provider.acquire(mcp.url, mcp.wants('write', 1))),
    );

    expect(user.visits.map(askedIn)).toEqual(['read', 'read write']);
    for (const each of got) expect(await sentTo(mcp.url, each)).toBe('Bearer first-token-2');
    expect(as.counts).toMatchObject({ authorize: 2, token: 2, register: 1 });
    // A straggler, and one whose refusal comes when all is done.
    expect((await provider.acquire(mcp.url, mcp.wants('write', 1))).generation).toBe(2);
    expect(as.counts.token).toBe(2);
  });

  it('two in ten minutes; callers who meet the second one at the same time share it', async () => {
    const { mcp, user, provider, clock } = await authorized();
    await provider.acquire(mcp.url, mcp.wants('b', 1));
    const second = await Promise.all(
      Array.from({ length: 20 }, () => provider.acquire(mcp.url, mcp.wants('c', 2))),
    );
    expect(new Set(second.map(({ generation }) => generation))).toEqual(new Set([3]));

    const third = await errorOf(provider.acquire(mcp.url, mcp.wants('d', 3)));
    expect(third).toMatchObject({ code: 'ERR_INSUFFICIENT_SCOPE', requiredScope: 'd', executed: false });
    expect(askedIn(third.authorizationUrl)).toBe('b c d read');
    expect(user.visits.map(askedIn)).toEqual(['read', 'b read', 'b c read']);

    await clock.advance(10 * 60_000);
    expect((await provider.acquire(mcp.url, mcp.wants('d', 3))).generation).toBe(4);
    expect(user.visits).toHaveLength(4);
  });

  it('two callers who want different things at once: both get them', async () => {
    const { mcp, user, provider } = await authorized();
    const [one, two] = await Promise.all(
      ['b', 'c'].map((scope) => provider.acquire(mcp.url, mcp.wants(scope, 1))),
    );
    expect(user.visits.map(askedIn)).toEqual(['read', 'b read', 'b c read']);
    expect(two?.generation).toBe(3);
    expect(one?.generation).toBeGreaterThan(1);
  });

  it('the same scope refused again with the token that has it: an error, and no browser', async () => {
    const { mcp, user, provider } = await authorized();
    const { generation } = await provider.acquire(mcp.url, mcp.wants('write', 1));
    for (let times = 0; times < 3; times++) {
      const error = await errorOf(provider.acquire(mcp.url, mcp.wants('write', generation)));
      expect(error).toMatchObject({ code: 'ERR_INSUFFICIENT_SCOPE', requiredScope: 'write' });
    }
    expect(user.visits).toHaveLength(2);
  });

  it('a token that is over and cannot be refreshed: the user is asked for all of it', async () => {
    const { as, mcp, clock, user, provider, world } = await authorized({ refresh: { background: 'never' } });
    const { generation } = await provider.acquire(mcp.url, mcp.wants('write', 1));
    as.revokeRefreshTokens();
    await clock.advance(3_600_000);
    const got = await withTime(world, provider.acquire(mcp.url, mcp.wants('write', generation)));
    expect(await sentTo(mcp.url, got)).toBe('Bearer first-token-3');
    expect(user.visits.map(askedIn)).toEqual(['read', 'read write', 'read write']);
  });

  it('a server that grants less than was asked for: an error that names the scope', async () => {
    const { as, mcp, user, provider } = await authorized();
    as.grant = () => 'read';
    const error = await errorOf(provider.acquire(mcp.url, mcp.wants('write', 1)));
    expect(error).toMatchObject({ code: 'ERR_INSUFFICIENT_SCOPE', requiredScope: 'write' });
    expect(user.visits).toHaveLength(2);
    // What was granted before is in use as ever.
    expect((await provider.acquire(mcp.url)).generation).toBeGreaterThan(0);
  });

  it('a user who says no to more keeps what there is', async () => {
    const { as, mcp, clock, user, provider } = await authorized();
    as.answer = 'access_denied';
    for (let times = 0; times < 3; times++)
      expect(await errorOf(provider.acquire(mcp.url, mcp.wants('write', 1)))).toMatchObject({
        code: 'ERR_INSUFFICIENT_SCOPE',
        requiredScope: 'write',
        reason: 'access_denied',
      });
    expect(user.visits).toHaveLength(2);
    expect(await sentTo(mcp.url, await provider.acquire(mcp.url))).toBe('Bearer first-token-1');
    // Being told no thrice was one question: a minute later there is room for another.
    await clock.advance(61_000);
    as.answer = 'consent';
    expect((await provider.acquire(mcp.url, mcp.wants('write', 1))).generation).toBe(2);
  });

  it('a caller without a wish is served while the user is asked', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const answered = gate();
    let visits = 0;
    const provider = grantOf(world, {
      onRedirect: async (url) => {
        visits += 1;
        if (visits > 1) await answered.promise;
        return await as.browse(url);
      },
    });
    await provider.acquire(mcp.url, mcp.refusal(0));
    const widened = provider.acquire(mcp.url, mcp.wants('write', 1));
    expect((await provider.acquire(mcp.url)).generation).toBe(1);
    answered.open();
    expect((await widened).generation).toBe(2);
  });

  it.each(['a"b', 'a\\b', '\u00e9', ' ', 'x'.repeat(3_000)])('a wish that is no scope: %j', async (scope) => {
    const { mcp, user, provider } = await authorized();
    expect((await errorOf(provider.acquire(mcp.url, mcp.wants(scope, 1)))).code).toBe(
      'ERR_INSUFFICIENT_SCOPE',
    );
    expect(user.visits).toHaveLength(1);
  });
});

describe('more scope, without a way to the user', () => {
  const start = async (world: World, options: object = {}) => {
    world.mcp.challengedScope = 'read';
    const provider = grantOf(world, options);
    const url = await errorOf(provider.acquire(world.mcp.url, world.mcp.refusal(0)));
    await provider.finishAuth(await world.as.browse(url.authorizationUrl as string));
    return provider;
  };

  it('an error with the address to grant it at, one for all; then it goes on', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const provider = await start(world);
    await provider.acquire(mcp.url);

    const errors = await Promise.all(
      Array.from({ length: 20 }, () => errorOf(provider.acquire(mcp.url, mcp.wants('write', 1)))),
    );
    for (const error of errors)
      expect(error).toMatchObject({ code: 'ERR_INSUFFICIENT_SCOPE', requiredScope: 'write' });
    const [url, ...others] = new Set(errors.map(({ authorizationUrl }) => authorizationUrl));
    expect(others).toEqual([]);
    expect(askedIn(url)).toBe('read write');
    expect(as.counts.register).toBe(1);

    await provider.finishAuth(await as.browse(url as string));
    // A call that was under way with the old token is refused after the consent: the new one will do.
    expect((await provider.acquire(mcp.url, mcp.wants('write', 1))).generation).toBe(2);
    expect(as.counts.token).toBe(2);
  });

  it('granted in another process: taken up by this one without another request', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const shared = { store: memoryCredentialStore(world), subject: 'user-7' };
    const agent = await start(world, shared);
    await agent.acquire(mcp.url);
    const { authorizationUrl } = await errorOf(agent.acquire(mcp.url, mcp.wants('write', 1)));

    await grantOf(world, shared).finishAuth(await as.browse(authorizationUrl as string));

    const got = await Promise.all(
      Array.from({ length: 10 }, () => agent.acquire(mcp.url, mcp.wants('write', 1))),
    );
    for (const each of got) expect(await sentTo(mcp.url, each)).toBe('Bearer first-token-2');
    expect(as.counts.token).toBe(2);
    // And what the next refusal is asked for has it.
    const next = await errorOf(agent.acquire(mcp.url, mcp.wants('delete', 2)));
    expect(askedIn(next.authorizationUrl)).toBe('delete read write');
  });
});
