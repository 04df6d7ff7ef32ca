/** The way to the user: one browser or one address for all, and none after one who said no. */
import { describe, expect, it } from 'vitest';
import { memoryCredentialStore } from '../../../../src/credentials/index.js';
import { errorOf, everythingOf, gate } from '../support.js';
import { eventsOf, grantOf, REDIRECT_URI, sentTo, startWorld, userOf } from './support.js';

const all = <T>(count: number, work: () => Promise<T>) => Promise.all(Array.from({ length: count }, work));

describe('a first token', () => {
  it('the server is asked without a credential first, and nothing is asked of anybody', async () => {
    const world = await startWorld();
    const provider = grantOf(world);

    const credential = await provider.acquire(world.mcp.url);

    expect(credential.generation).toBe(0);
    expect(await credential.headers({ method: 'POST', url: world.mcp.url })).toEqual({});
    expect([world.as.requests, world.mcp.requests]).toEqual([[], []]);
  });

  it('50 callers, one browser: one registration, one consent, one code', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const user = userOf(world);
    const provider = grantOf(world, { onRedirect: user.onRedirect });

    const got = await all(50, () => provider.acquire(mcp.url, mcp.refusal(0)));

    expect(as.counts).toEqual({ authorize: 1, token: 1, register: 1, metadata: 1 });
    expect(mcp.metadataCount).toBe(1);
    expect(user.visits).toHaveLength(1);
    for (const each of got) expect(await sentTo(mcp.url, each)).toBe('Bearer first-token-1');
    const [form] = as.forms;
    expect(form?.get('resource')).toBe(mcp.url.href);
    expect(form?.get('redirect_uri')).toBe(REDIRECT_URI);
    expect(as.registrations).toMatchObject([{ client_name: 'mcp-holdfast', redirect_uris: [REDIRECT_URI] }]);
  });

  it('proof and state are new each time', async () => {
    const world = await startWorld();
    const provider = grantOf(world);
    const urls = await all(3, () => provider.authorizationUrl(world.mcp.url));
    for (const name of ['state', 'code_challenge'])
      expect(new Set(urls.map(({ searchParams }) => searchParams.get(name))).size).toBe(3);
    for (const { searchParams } of urls) expect(searchParams.get('code_challenge_method')).toBe('S256');
  });

  it('an abort, or the end of a wait, detaches that caller only', async () => {
    const world = await startWorld();
    const { as, mcp, clock } = world;
    const [asked, answered] = [gate(), gate()];
    const provider = grantOf(world, {
      onRedirect: async (url) => {
        asked.open();
        await answered.promise;
        return await as.browse(url);
      },
    });
    const leaving = new AbortController();
    const left = errorOf(provider.acquire(mcp.url, { ...mcp.refusal(0), signal: leaving.signal }));
    const late = errorOf(provider.acquire(mcp.url, { ...mcp.refusal(0), maxWaitMs: 30_000 }));
    const staying = provider.acquire(mcp.url, mcp.refusal(0));
    await asked.promise;
    await clock.advance(31_000);
    leaving.abort();

    expect((await left).code).toBe('ERR_ABORTED');
    expect(await late).toMatchObject({ code: 'ERR_REAUTHORIZATION_REQUIRED', reason: 'pending' });
    expect((await late).authorizationUrl).toMatch(`${as.origin}/authorize?`);
    answered.open();
    expect((await staying).generation).toBe(1);
    expect(as.counts.token).toBe(1);
  });
});

describe('without a way to the user', () => {
  it('50 callers are told of one address, and it stays the same for a while', async () => {
    const world = await startWorld();
    const { as, mcp, clock } = world;
    const provider = grantOf(world);

    const errors = await all(50, () => errorOf(provider.acquire(mcp.url, mcp.refusal(0))));
    await clock.advance(4 * 60_000);
    errors.push(await errorOf(provider.acquire(mcp.url, mcp.refusal(0))));

    expect(new Set(errors.map(({ authorizationUrl }) => authorizationUrl)).size).toBe(1);
    for (const error of errors)
      expect(error).toMatchObject({ code: 'ERR_REAUTHORIZATION_REQUIRED', executed: false });
    expect(as.counts).toEqual({ authorize: 0, token: 0, register: 1, metadata: 1 });
    // Whoever is sent there needs time, too: at half of it there is another one.
    await clock.advance(61_000);
    const next = await errorOf(provider.acquire(mcp.url, mcp.refusal(0)));
    expect(next.authorizationUrl).not.toBe(errors[0]?.authorizationUrl);
    expect(as.counts.register).toBe(1);
  });

  it('any process with the same store takes the callback, and all take up what it brings', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const shared = { store: memoryCredentialStore(world), subject: 'user-7' };
    const [agent, backend, third] = [1, 2, 3].map(() => grantOf(world, shared)) as [
      ReturnType<typeof grantOf>,
      ReturnType<typeof grantOf>,
      ReturnType<typeof grantOf>,
    ];
    const { authorizationUrl } = await errorOf(agent.acquire(mcp.url, mcp.refusal(0)));

    await backend.finishAuth(await as.browse(authorizationUrl as string));

    for (const each of [agent, backend, third])
      expect(await sentTo(mcp.url, await each.acquire(mcp.url))).toBe('Bearer first-token-1');
    expect(as.counts).toEqual({ authorize: 1, token: 1, register: 1, metadata: 2 });
  });

  it("another user's provider neither finishes nor uses it", async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const store = memoryCredentialStore(world);
    const mine = grantOf(world, { store, subject: 'user-7' });
    const theirs = grantOf(world, { store, subject: 'user-8' });
    const callback = await as.browse(await mine.authorizationUrl(mcp.url));

    expect(await errorOf(theirs.finishAuth(callback))).toMatchObject({ reason: 'unknown_state' });
    await mine.finishAuth(callback);
    expect((await theirs.acquire(mcp.url)).generation).toBe(0);
    expect(as.counts.token).toBe(1);
  });

  it('a process that lost the race for the registration uses that of the other', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const shared = { store: memoryCredentialStore(world), subject: 'user-7' };
    const [one, two] = [grantOf(world, shared), grantOf(world, shared)];

    const urls = await Promise.all([one, two].map((each) => each.authorizationUrl(mcp.url)));

    // Whichever address the user is sent to, its callback is good.
    for (const url of urls) await two.finishAuth(await as.browse(url));
    expect(as.counts.token).toBe(2);
    expect(as.forms.map((form) => form.get('client_id'))).toEqual(
      urls.map(({ searchParams }) => searchParams.get('client_id')),
    );
  });

  it('a state that cannot be kept sends nobody away', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const memory = memoryCredentialStore(world);
    let isDown = false;
    const down = () => Promise.reject(new Error('CANARY down'));
    const store = {
      ...memory,
      read: (id: string) => (isDown ? down() : memory.read(id)),
      compareAndSet: (...given: Parameters<typeof memory.compareAndSet>) =>
        isDown ? down() : memory.compareAndSet(...given),
    };
    const user = userOf(world);
    const provider = grantOf(world, { store, subject: 'user-7', onRedirect: user.onRedirect });
    await provider.acquire(mcp.url);
    isDown = true;
    const error = await errorOf(provider.acquire(mcp.url, mcp.refusal(0)));
    expect(error).toMatchObject({ code: 'ERR_STORE_UNAVAILABLE', retryable: true });
    expect(everythingOf(error)).not.toContain('CANARY');
    expect(await errorOf(provider.authorizationUrl(mcp.url))).toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
    });
    expect([user.visits, as.counts.authorize]).toEqual([[], 0]);
    isDown = false;
    expect((await provider.acquire(mcp.url, mcp.refusal(0))).generation).toBe(1);
  });

  it.each(['/.well-known/oauth-authorization-server', '/register', '/token'])(
    'an outage of %s is no refusal of the user: only a spent code waits its minute',
    async (path) => {
      const world = await startWorld();
      const { as, mcp } = world;
      const user = userOf(world);
      const provider = grantOf(world, { onRedirect: user.onRedirect });
      const plain = as as unknown as { reply(seen: { path: string }): unknown };
      const ordinary = plain.reply.bind(as);
      plain.reply = (seen) => (seen.path === path ? { status: 503, body: 'busy' } : ordinary(seen));
      const isSpent = path === '/token';
      expect(await errorOf(provider.acquire(mcp.url, mcp.refusal(0)))).toMatchObject({
        code: 'ERR_TOKEN_ENDPOINT',
        retryable: !isSpent,
      });
      expect(user.visits).toHaveLength(isSpent ? 1 : 0);
      plain.reply = ordinary;
      const again = provider.acquire(mcp.url, mcp.refusal(0));
      if (isSpent) expect((await errorOf(again)).code).toBe('ERR_TOKEN_ENDPOINT');
      else expect((await again).generation).toBe(1);
      expect(user.visits).toHaveLength(1);
    },
  );
});

describe('no browser after browser', () => {
  it.each(['access_denied', 'server_error', 'CANARY_of_the_server'])(
    'a user or server that says %s is asked again after a minute, not before',
    async (answer) => {
      const world = await startWorld();
      const { as, mcp, clock } = world;
      const user = userOf(world);
      const provider = grantOf(world, { onRedirect: user.onRedirect });
      const events = eventsOf(provider);
      as.answer = answer;

      const errors = await all(10, () => errorOf(provider.acquire(mcp.url, mcp.refusal(0))));
      await clock.advance(59_000);
      errors.push(await errorOf(provider.acquire(mcp.url, mcp.refusal(0))));

      const reason = answer === 'CANARY_of_the_server' ? 'authorization_refused' : answer;
      for (const error of errors)
        expect(error).toMatchObject({ code: 'ERR_REAUTHORIZATION_REQUIRED', reason });
      expect(everythingOf(errors)).not.toContain('CANARY');
      expect(user.visits).toHaveLength(1);
      expect(events).toMatchObject([{ type: 'failed', error: { reason } }]);
      expect(as.counts.token).toBe(0);

      await clock.advance(2_000);
      as.answer = 'consent';
      expect((await provider.acquire(mcp.url, mcp.refusal(0))).generation).toBe(1);
      expect(user.visits).toHaveLength(2);
    },
  );

  it.each([true, false])(
    'a server that refuses the fresh token, refresh token given: %s',
    async (givesRefreshTokens) => {
      const world = await startWorld();
      const { as, mcp, clock } = world;
      as.givesRefreshTokens = givesRefreshTokens;
      const user = userOf(world);
      const provider = grantOf(world, { onRedirect: user.onRedirect });
      const first = await provider.acquire(mcp.url, mcp.refusal(0));
      let generation = first.generation;

      for (let times = 0; times < 20; times++) {
        const outcome = await provider.acquire(mcp.url, mcp.refusal(generation)).catch((error) => error);
        if (outcome instanceof Error) expect(outcome).toMatchObject({ code: 'ERR_CREDENTIAL_REJECTED' });
        else generation = outcome.generation;
        await clock.advance(1_000);
      }

      expect(user.visits).toHaveLength(1);
      expect(as.counts.token).toBe(givesRefreshTokens ? 2 : 1);
    },
  );

  it('onRedirect that throws: its words are not shown', async () => {
    const world = await startWorld();
    const { mcp } = world;
    const provider = grantOf(world, {
      onRedirect() {
        throw new Error('CANARY no display');
      },
    });
    const error = await errorOf(provider.acquire(mcp.url, mcp.refusal(0)));
    expect(error).toMatchObject({ code: 'ERR_REAUTHORIZATION_REQUIRED', reason: 'redirect_failed' });
    expect(everythingOf(error)).not.toContain('CANARY');
  });

  it('a user who never comes back: given up after ten minutes', async () => {
    const world = await startWorld();
    const { as, mcp, clock } = world;
    const asked = gate();
    let visits = 0;
    const provider = grantOf(world, {
      onRedirect: () => {
        visits += 1;
        asked.open();
        return new Promise(() => {});
      },
    });
    const waiting = errorOf(provider.acquire(mcp.url, { ...mcp.refusal(0), maxWaitMs: 60 * 60_000 }));
    await asked.promise;
    await clock.advance(10 * 60_000 + 1_000);
    expect(await waiting).toMatchObject({ code: 'ERR_REAUTHORIZATION_REQUIRED', reason: 'timeout' });
    expect([visits, as.counts.token]).toEqual([1, 0]);
  });
});

describe('the end', () => {
  it('close() ends a consent under way, and its signal says so', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const asked = gate();
    const signals: AbortSignal[] = [];
    const provider = grantOf(world, {
      onRedirect: (_url, { signal }) => {
        signals.push(signal);
        asked.open();
        return new Promise(() => {});
      },
    });
    const waiting = errorOf(provider.acquire(mcp.url, mcp.refusal(0)));
    await asked.promise;
    expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
    await provider.close?.();
    expect((await waiting).code).toBe('ERR_CLOSED');
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    for (const late of [
      provider.acquire(mcp.url),
      provider.authorizationUrl(mcp.url),
      provider.finishAuth(`${REDIRECT_URI}?code=a&state=b`),
    ])
      expect((await errorOf(late)).code).toBe('ERR_CLOSED');
    expect(as.counts.token).toBe(0);
  });

  it('forget() takes the token out of the store; the user is asked again, and generations go on', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const store = memoryCredentialStore(world);
    const user = userOf(world);
    const options = { store, subject: 'user-7', onRedirect: user.onRedirect };
    const written = new Map<string, string | undefined>();
    options.store = {
      ...store,
      compareAndSet(...given) {
        written.set(given[0], given[2]?.data);
        return store.compareAndSet(...given);
      },
    };
    const provider = grantOf(world, options);
    await provider.acquire(mcp.url, mcp.refusal(0));
    expect(JSON.stringify([...written])).toContain('first-refresh-1');
    await provider.forget();
    expect([...written.values()].filter((data) => data !== undefined)).toEqual([]);

    expect((await grantOf(world, options).acquire(mcp.url)).generation).toBe(0);
    expect((await provider.acquire(mcp.url)).generation).toBe(0);
    expect((await provider.acquire(mcp.url, mcp.refusal(0))).generation).toBe(2);
    expect([as.counts.authorize, as.counts.token]).toEqual([2, 2]);
    // A straggler's refusal of the token of before costs nothing.
    expect((await provider.acquire(mcp.url, mcp.refusal(1))).generation).toBe(2);
    expect(as.counts.token).toBe(2);
  });

  it('forget() of a process that has asked for nothing yet: the server is named', async () => {
    const world = await startWorld();
    const { mcp } = world;
    const store = memoryCredentialStore(world);
    const options = { store, subject: 'user-7', onRedirect: userOf(world).onRedirect };
    await grantOf(world, options).acquire(mcp.url, mcp.refusal(0));

    await grantOf(world, options).forget(mcp.url);

    expect((await grantOf(world, options).acquire(mcp.url)).generation).toBe(0);
  });

  it('a second origin gets nothing', async () => {
    const world = await startWorld();
    const { as, mcp, other } = world;
    const provider = grantOf(world, { onRedirect: userOf(world).onRedirect });
    await provider.acquire(mcp.url, mcp.refusal(0));
    for (const late of [
      provider.acquire(new URL(other.origin)),
      provider.authorizationUrl(new URL(other.origin)),
    ])
      expect(await errorOf(late)).toMatchObject({ code: 'ERR_CREDENTIAL_REJECTED', reason: 'origin' });
    expect(other.requests).toEqual([]);
    expect(as.counts.token).toBe(1);
  });
});
