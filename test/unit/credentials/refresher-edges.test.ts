import { afterEach, describe, expect, it } from 'vitest';
import { memoryCredentialStore } from '../../../src/credentials/index.js';
import { resolveRefreshPolicy, tokenTimes } from '../../../src/credentials/options.js';
import { AT_HAND, type CredentialEvent, type CredentialStore } from '../../../src/credentials/provider.js';
import type { Refresher } from '../../../src/credentials/refresher.js';
import { Secret } from '../../../src/credentials/secret.js';
import { HostedMcpError } from '../../../src/errors.js';
import {
  bearerOf,
  errorOf,
  gate,
  makeRefresher,
  refused,
  ScriptedGrant,
  skewedClock,
  TARGET,
  token,
  unavailable,
} from './support.js';

const ID = 'test-credential';
const LIFE_MS = 600_000;
/** From when on it is renewed ahead of its end. */
const SOFT_MS = tokenTimes(LIFE_MS, resolveRefreshPolicy(undefined), 0.5).softAfterMs;
/** From when on nobody gets it any more. */
const HARD_MS = tokenTimes(LIFE_MS, resolveRefreshPolicy(undefined), 0.5).hardAfterMs;
const NEVER = { background: 'never' } as const;

const open: Refresher[] = [];
afterEach(async () => {
  for (const provider of open.splice(0)) await provider.close({ drainMs: 0 });
});

function setUp(
  o: Parameters<typeof makeRefresher>[2] & {
    rotating?: boolean;
    clock?: ReturnType<typeof skewedClock>;
  } = {},
) {
  const clock = o.clock ?? skewedClock();
  const grant = new ScriptedGrant(o.rotating ?? false);
  const provider = makeRefresher(grant, clock, o);
  open.push(provider);
  const events: CredentialEvent[] = [];
  provider.onEvent((event) => events.push(event));
  return { clock, grant, provider, events };
}

/** Whether a promise has settled, when all that is under way has come to rest. */
function watched(promise: Promise<unknown>) {
  const state = { done: false };
  const end = () => {
    state.done = true;
  };
  promise.then(end, end);
  return state;
}

describe('what is asked for', () => {
  it('names the first target without its fragment, and the scope', async () => {
    const { grant, provider } = setUp({ scope: 'a b' });
    await provider.acquire(new URL('https://mcp.example/mcp?x=1#part#two'));

    expect(grant.requests).toMatchObject([{ resource: 'https://mcp.example/mcp?x=1', scope: 'a b' }]);
  });

  it('or the resource that the app names', async () => {
    const { grant, provider } = setUp({ resource: 'urn:mcp' });
    await provider.acquire(TARGET);
    await provider.acquire(new URL('https://mcp.example/another'));

    expect(grant.requests).toMatchObject([{ resource: 'urn:mcp', scope: undefined }]);
  });

  it('a credential says when it ends, what it may do, and how it is sent', async () => {
    const { grant, provider, clock } = setUp({ scope: 'a', refresh: NEVER });
    const before = clock.now();
    const credential = await provider.acquire(TARGET);

    expect(credential).toMatchObject({ generation: 1, expiresAtMs: before + LIFE_MS, scope: 'a' });
    expect(await bearerOf(credential)).toBe('Bearer A1');
    expect(grant.requests).toHaveLength(1);
  });

  it('an event tells of each token, with its generation and end', async () => {
    const { clock, provider, events } = setUp({ refresh: NEVER });
    await provider.acquire(TARGET);
    const first = clock.now() + LIFE_MS;
    await clock.advance(LIFE_MS);
    await provider.acquire(TARGET);

    expect(events).toEqual([
      { type: 'refreshed', id: ID, generation: 1, expiresAtMs: first },
      { type: 'refreshed', id: ID, generation: 2, expiresAtMs: first + LIFE_MS },
    ]);
  });
});

describe('a caller’s time', () => {
  it.each([
    [1_000, 980],
    [40, 20],
    [10, 5],
  ])('of %i ms ends a little before it is up, at %i ms', async (maxWaitMs, atMs) => {
    const { clock, grant, provider } = setUp();
    const held = gate();
    grant.hold = held.promise;
    const failing = errorOf(provider.acquire(TARGET, { maxWaitMs }));
    const state = watched(failing);
    await clock.advance(atMs - 1);
    expect(state.done).toBe(false);
    await clock.advance(1);

    expect(await failing).toMatchObject({ code: 'ERR_TOKEN_ENDPOINT', retryable: true, reason: 'timeout' });
    held.open();
  });

  it('that ends in an outage names the outage', async () => {
    const { clock, grant, provider } = setUp();
    grant.script.push(unavailable({ retryAfterMs: 100 }));
    const held = gate();
    const failing = errorOf(provider.acquire(TARGET, { maxWaitMs: 1_000 }));
    await clock.settle();
    grant.hold = held.promise;
    await clock.advance(1_000);

    expect(await failing).toMatchObject({ code: 'ERR_TOKEN_ENDPOINT', status: 503, retryable: true });
    expect(grant.requests).toHaveLength(2);
    held.open();
  });

  it('bounds the wait for a store, too', async () => {
    const clock = skewedClock();
    const inner = memoryCredentialStore({ clock });
    const store: CredentialStore = { ...inner, read: () => new Promise(() => {}) };
    const { provider } = setUp({ clock, store });
    const failing = errorOf(provider.acquire(TARGET, { maxWaitMs: 100 }));
    await clock.advance(80);

    expect((await failing).code).toBe('ERR_TOKEN_ENDPOINT');
  });

  it('a back-off that ends exactly with it is waited out, one a moment longer is not', async () => {
    const exact = setUp();
    exact.grant.script.push(unavailable({ retryAfterMs: 980 }));
    const patient = exact.provider.acquire(TARGET, { maxWaitMs: 1_000 });
    await exact.clock.advance(980);
    expect(exact.grant.requests).toHaveLength(2);
    await patient.catch(() => {});

    const longer = setUp();
    longer.grant.script.push(unavailable({ retryAfterMs: 981 }));
    const hasty = errorOf(longer.provider.acquire(TARGET, { maxWaitMs: 1_000 }));
    await longer.clock.settle();
    expect(await hasty).toMatchObject({ code: 'ERR_TOKEN_ENDPOINT', retryAfterMs: 981 });
    expect(longer.grant.requests).toHaveLength(1);
  });

  it('a back-off is waited out to its last millisecond', async () => {
    const { clock, grant, provider } = setUp();
    grant.script.push(unavailable({ retryAfterMs: 5_000 }));
    const first = provider.acquire(TARGET);
    await clock.advance(4_999);
    const second = provider.acquire(TARGET);
    await clock.settle();
    expect(grant.requests).toHaveLength(1);
    await clock.advance(1);

    expect((await Promise.all([first, second])).map(({ generation }) => generation)).toEqual([1, 1]);
    expect(grant.requests).toHaveLength(2);
  });

  it('an outage that is over is not named any more', async () => {
    const { clock, grant, provider } = setUp({ refresh: NEVER });
    grant.script.push(unavailable({ retryAfterMs: 5_000 }));
    const first = provider.acquire(TARGET);
    await clock.advance(5_000);
    await first;
    await clock.advance(LIFE_MS);
    const held = gate();
    grant.hold = held.promise;
    const failing = errorOf(provider.acquire(TARGET, { maxWaitMs: 1_000 }));
    await clock.advance(1_000);

    expect(await failing).toMatchObject({ reason: 'timeout' });
    held.open();
  });

  it('callers that left start no renewal when the back-off is over', async () => {
    const { clock, grant, provider } = setUp();
    grant.script.push(unavailable({ retryAfterMs: 1_000 }));
    const controller = new AbortController();
    const leaving = errorOf(provider.acquire(TARGET, { signal: controller.signal }));
    await clock.settle();
    controller.abort();
    expect((await leaving).code).toBe('ERR_ABORTED');
    await clock.advance(5_000);

    expect(grant.requests).toHaveLength(1);
  });

  it('all who wait out a back-off share one timer', async () => {
    const { clock, grant, provider } = setUp({ refresh: NEVER });
    grant.script.push(unavailable({ retryAfterMs: 1_000 }));
    const waiting = [1, 2, 3].map(() => provider.acquire(TARGET));
    await clock.settle();
    expect(clock.pendingTimers).toBe(1);
    await clock.advance(1_000);
    await Promise.all(waiting);
    grant.script.push(unavailable({ retryAfterMs: 1_000 }));

    await clock.advance(LIFE_MS);
    const again = provider.acquire(TARGET);
    await clock.settle();
    expect(clock.pendingTimers).toBe(1);
    await clock.advance(1_000);
    expect((await again).generation).toBe(2);
  });
});

describe('while the token lives', () => {
  it.each([
    [SOFT_MS - 1, 1],
    [SOFT_MS, 2],
  ])('at %i ms of its age there were %i requests', async (ageMs, requests) => {
    const { clock, grant, provider } = setUp({ refresh: NEVER });
    await provider.acquire(TARGET);
    await clock.advance(ageMs);
    await provider.acquire(TARGET);
    await clock.settle();

    expect(grant.requests).toHaveLength(requests);
  });

  it.each([
    [-1, 1],
    [0, 2],
  ])('%i ms from its hard end callers get generation %i', async (offMs, generation) => {
    const { clock, provider } = setUp({ refresh: NEVER });
    await provider.acquire(TARGET);
    await clock.advance(HARD_MS + offMs);

    expect((await provider.acquire(TARGET)).generation).toBe(generation);
  });

  it('one that was found in the store is renewed ahead of its end, too', async () => {
    const clock = skewedClock();
    const store = memoryCredentialStore({ clock });
    await setUp({ clock, store, rotating: true, refresh: NEVER }).provider.acquire(TARGET);
    const { provider, grant } = setUp({ clock, store, rotating: true, refresh: { background: 'active' } });
    await provider.acquire(TARGET);
    expect([grant.requests.length, clock.pendingTimers]).toEqual([0, 1]);
    await clock.advance(SOFT_MS);

    expect(grant.requests).toHaveLength(1);
  });

  it('one that was adopted and is refused, too, is renewed: it was nobody’s answer to that refusal', async () => {
    const clock = skewedClock();
    const store = memoryCredentialStore({ clock });
    const a = setUp({ clock, store, rotating: true, refresh: NEVER });
    const b = setUp({ clock, store, rotating: true, refresh: NEVER });
    await a.provider.acquire(TARGET);
    await b.provider.acquire(TARGET);
    await a.provider.acquire(TARGET, { rejected: { generation: 1, status: 401 } });
    const adopted = await b.provider.acquire(TARGET, { rejected: { generation: 1, status: 401 } });
    expect([adopted.generation, b.grant.requests.length]).toEqual([2, 0]);
    b.grant.script.push(token('B1', LIFE_MS, { refreshToken: 'RB1' }));

    const renewed = await b.provider.acquire(TARGET, { rejected: { generation: 2, status: 401 } });

    expect([renewed.generation, b.grant.requests.length]).toEqual([3, 1]);
  });

  it('a refusal ahead of expiry is told and not repeated by every caller', async () => {
    const { clock, grant, provider, events } = setUp({ refresh: NEVER });
    await provider.acquire(TARGET);
    await clock.advance(SOFT_MS);
    grant.script.push(refused('invalid_client'), refused('invalid_client'));
    for (let times = 0; times < 5; times += 1) {
      expect((await provider.acquire(TARGET)).generation).toBe(1);
      await clock.settle();
    }

    expect(grant.requests).toHaveLength(2);
    expect(events.filter(({ type }) => type === 'failed')).toHaveLength(1);
  });

  it('in the background, the timer is set anew by a caller after a long rest', async () => {
    const { clock, grant, provider } = setUp({ refresh: { background: 'active' } });
    grant.script.push(token('A1', 4 * LIFE_MS));
    await provider.acquire(TARGET);
    clock.skewMs = LIFE_MS * 5;
    await clock.advance(4 * LIFE_MS);
    expect(grant.requests).toHaveLength(1);
    await provider.acquire(TARGET);
    expect(grant.requests).toHaveLength(2);
    await clock.advance(SOFT_MS);

    expect(grant.requests).toHaveLength(3);
  });

  it('an outage in the background is tried again when the back-off is over', async () => {
    const { clock, grant, provider } = setUp({ refresh: { background: 'always' } });
    await provider.acquire(TARGET);
    grant.script.push(unavailable({ retryAfterMs: 30_000 }));
    await clock.advance(SOFT_MS);
    const before = grant.requests.length;
    await clock.advance(29_000);
    expect(grant.requests).toHaveLength(before);
    await clock.advance(1_000);

    expect([before, grant.requests.length]).toEqual([2, 3]);
  });

  it.each([
    ['refused', false, 'invalid_client'],
    ['dead', true, 'invalid_grant'],
  ])('what is %s is not asked for again by a timer', async (_name, rotating, oauthError) => {
    const { clock, grant, provider } = setUp({ rotating, refresh: { background: 'always' } });
    await provider.acquire(TARGET);
    grant.script.push(refused(oauthError), refused(oauthError), refused(oauthError));
    await clock.advance(SOFT_MS + 1_000);
    expect([grant.requests.length, clock.pendingTimers]).toEqual([2, 0]);
    await clock.advance(LIFE_MS - SOFT_MS - 2_000);

    expect(grant.requests).toHaveLength(2);
  });

  it('serveExpired serves nothing that was refused', async () => {
    const { clock, grant, provider } = setUp({ refresh: { ...NEVER, serveExpired: true } });
    await provider.acquire(TARGET);
    grant.script.push(unavailable({ retryAfterMs: 60_000 }));
    const failing = errorOf(
      provider.acquire(TARGET, { rejected: { generation: 1, status: 401 }, maxWaitMs: 1_000 }),
    );
    await clock.settle();
    expect((await failing).code).toBe('ERR_TOKEN_ENDPOINT');

    expect((await errorOf(provider.acquire(TARGET, { maxWaitMs: 1_000 }))).code).toBe('ERR_TOKEN_ENDPOINT');
  });

  it('without serveExpired an expired token is not served in an outage', async () => {
    const { clock, grant, provider } = setUp({ refresh: NEVER });
    await provider.acquire(TARGET);
    await clock.advance(LIFE_MS);
    grant.script.push(unavailable({ retryAfterMs: 60_000 }));

    expect((await errorOf(provider.acquire(TARGET, { maxWaitMs: 1_000 }))).code).toBe('ERR_TOKEN_ENDPOINT');
  });
});

describe('a wider scope', () => {
  const WIDER = { scope: 'b', rejected: { generation: 1, status: 403 } } as const;

  it('that is not granted is no failure of the credential', async () => {
    const { grant, provider, events, clock } = setUp({ scope: 'a', refresh: NEVER });
    await provider.acquire(TARGET);
    grant.script.push(refused('invalid_scope'));
    expect((await errorOf(provider.acquire(TARGET, WIDER))).code).toBe('ERR_INSUFFICIENT_SCOPE');
    await clock.advance(LIFE_MS);

    expect((await provider.acquire(TARGET)).generation).toBe(2);
    expect(events.map(({ type }) => type)).toEqual(['refreshed', 'refreshed']);
  });

  it('refused for another reason is one, told and latched', async () => {
    const { grant, provider, events, clock } = setUp({ scope: 'a', refresh: NEVER });
    await provider.acquire(TARGET);
    grant.script.push(refused('invalid_client'));
    await errorOf(provider.acquire(TARGET, WIDER));
    await clock.advance(LIFE_MS);

    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_CREDENTIAL_REJECTED');
    expect([grant.requests.length, events.map(({ type }) => type)]).toEqual([2, ['refreshed', 'failed']]);
  });

  it('a scope of its own that is refused is one, too', async () => {
    const { grant, provider, events } = setUp({ scope: 'a', refresh: NEVER });
    grant.script.push(refused('invalid_scope'));
    await errorOf(provider.acquire(TARGET));
    await errorOf(provider.acquire(TARGET));

    expect([grant.requests.length, events.map(({ type }) => type)]).toEqual([1, ['failed']]);
  });

  it('waits for a renewal under way, which asks for the old one', async () => {
    const { grant, provider, clock } = setUp({ scope: 'a', refresh: NEVER });
    await provider.acquire(TARGET);
    await clock.advance(SOFT_MS);
    const held = gate();
    grant.hold = held.promise;
    await provider.acquire(TARGET);
    const widened = provider.acquire(TARGET, WIDER);
    await clock.settle();
    expect(grant.requests.map(({ scope }) => scope)).toEqual(['a', 'a']);
    held.open();

    expect((await widened).scope).toBe('a b');
    expect(grant.requests.map(({ scope }) => scope)).toEqual(['a', 'a', 'a b']);
  });
});

describe('close', () => {
  it('waits fifteen seconds for a request that has left', async () => {
    const { clock, grant, provider } = setUp();
    grant.hold = new Promise(() => {});
    provider.acquire(TARGET).catch(() => {});
    await clock.settle();
    const state = watched(provider.close());
    await clock.advance(14_999);
    expect(state.done).toBe(false);
    await clock.advance(1);

    expect(state.done).toBe(true);
  });

  it('is one, however often it is called', async () => {
    const { provider, grant } = setUp();
    let closed = 0;
    grant.close = async () => {
      closed += 1;
    };
    const first = provider.close();

    expect(provider.close()).toBe(first);
    await first;
    expect(closed).toBe(1);
  });

  it('ends the background, and callers of the moment', async () => {
    const { provider, grant, clock } = setUp({ refresh: { background: 'always' } });
    await provider.acquire(TARGET);
    await provider.close();
    await clock.advance(10 * LIFE_MS);

    expect([grant.requests.length, clock.pendingTimers]).toEqual([1, 0]);
    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_CLOSED');
  });

  it('of a pair that is not stored yet: once more', async () => {
    const clock = skewedClock();
    const inner = memoryCredentialStore({ clock });
    let broken = true;
    const store: CredentialStore = {
      ...inner,
      compareAndSet: (...given) =>
        broken ? Promise.reject(new Error('down')) : inner.compareAndSet(...given),
    };
    const { provider } = setUp({ clock, store, rotating: true, refresh: NEVER });
    const acquiring = provider.acquire(TARGET);
    await clock.advance(2_000);
    await acquiring;
    expect(await inner.read(ID)).toBeUndefined();
    broken = false;

    await provider.close();

    expect((await inner.read(ID))?.data).toContain('R1');
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('a token that was had in another way', () => {
  const issued = {
    accessToken: new Secret('X'),
    refreshToken: new Secret('RX'),
    expiresInMs: LIFE_MS,
    scope: undefined,
  };
  const moment = (clock: ReturnType<typeof skewedClock>) => ({
    atMs: clock.now(),
    monotonicMs: clock.monotonic(),
  });

  it('is served to all, stored, told, and lifts what was forgotten', async () => {
    const clock = skewedClock();
    const store = memoryCredentialStore({ clock });
    const { provider, grant, events } = setUp({ clock, store, rotating: true, refresh: NEVER });
    await provider.acquire(TARGET);
    await provider.forget();
    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_REAUTHORIZATION_REQUIRED');

    await provider.take(TARGET, issued as never, moment(clock));

    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer X');
    expect((await store.read(ID))?.data).toContain('RX');
    expect(events.at(-1)).toMatchObject({ type: 'refreshed', generation: 2 });
    expect(grant.requests).toHaveLength(1);
  });

  it('and is renewed like any other', async () => {
    const { provider, grant, clock } = setUp({ rotating: true, refresh: NEVER });
    await provider.forget();
    await provider.take(TARGET, issued as never, moment(clock));
    await clock.advance(LIFE_MS);
    await provider.acquire(TARGET);

    expect(grant.requests.map(({ refreshToken }) => refreshToken?.reveal())).toEqual(['RX']);
  });

  it('dies alone: a configured refresh token that was forgotten is not tried then', async () => {
    const clock = skewedClock();
    const store = memoryCredentialStore({ clock });
    const other = setUp({ clock, store, rotating: true, refresh: NEVER });
    await other.provider.acquire(TARGET);
    const seed = { refreshToken: new Secret('R-configured') };
    const { provider, grant } = setUp({ clock, store, seed, rotating: true, refresh: NEVER });
    await provider.acquire(TARGET);
    await provider.forget();
    await provider.take(TARGET, issued as never, moment(clock));
    grant.script.push(refused('invalid_grant'));
    await clock.advance(LIFE_MS);
    const failing = errorOf(provider.acquire(TARGET));
    await clock.advance(1_000);

    expect((await failing).code).toBe('ERR_REAUTHORIZATION_REQUIRED');
    expect(grant.requests.map(({ refreshToken }) => refreshToken?.reveal())).toEqual(['RX']);
  });

  it('waits for a renewal under way, which would put another in its place', async () => {
    const { provider, grant, clock } = setUp({ rotating: true, refresh: NEVER });
    const held = gate();
    grant.hold = held.promise;
    const first = provider.acquire(TARGET);
    await clock.settle();
    const taking = provider.take(TARGET, issued as never, moment(clock));
    held.open();
    await Promise.all([first, taking]);

    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer X');
  });

  it('reads the store first: the record that stands there is replaced, not met as a stranger', async () => {
    const clock = skewedClock();
    const store = memoryCredentialStore({ clock });
    const other = setUp({ clock, store, rotating: true, refresh: NEVER });
    await other.provider.acquire(TARGET);
    const { provider } = setUp({ clock, store, rotating: true, refresh: NEVER });

    await provider.take(TARGET, issued as never, moment(clock));

    expect((await store.read(ID))?.data).toContain('"X"');
  });

  it('does not go to a second origin either', async () => {
    const { provider, clock } = setUp({ rotating: true });
    await provider.acquire(TARGET);

    const other = provider.take(new URL('https://other.example/'), issued as never, moment(clock));
    expect((await errorOf(other)).code).toBe('ERR_CREDENTIAL_REJECTED');
  });
});

describe('forget', () => {
  it('waits for a request that has left, and its token is not served', async () => {
    const { provider, grant, clock } = setUp({ rotating: true });
    const held = gate();
    grant.hold = held.promise;
    const acquiring = provider.acquire(TARGET).catch(() => {});
    await clock.settle();
    const forgetting = provider.forget();
    held.open();
    await Promise.all([acquiring, forgetting]);

    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_REAUTHORIZATION_REQUIRED');
    expect(clock.pendingTimers).toBe(0);
  });

  it('deletes a record that another replica writes meanwhile, in three tries', async () => {
    const clock = skewedClock();
    const inner = memoryCredentialStore({ clock });
    let races = 2;
    let deletes = 0;
    const store: CredentialStore = {
      ...inner,
      async compareAndSet(id, expected, next) {
        if (next === undefined) deletes += 1;
        if (next === undefined && races-- > 0) return false;
        return inner.compareAndSet(id, expected, next);
      },
    };
    const { provider } = setUp({ clock, store, rotating: true });
    await provider.acquire(TARGET);
    await provider.forget();

    expect([await inner.read(ID), deletes]).toEqual([undefined, 3]);
    races = 99;
    await provider.forget();
    expect(deletes).toBe(3);
  });

  it('gives up after the third', async () => {
    const clock = skewedClock();
    const inner = memoryCredentialStore({ clock });
    let deletes = 0;
    const store: CredentialStore = {
      ...inner,
      async compareAndSet(id, expected, next) {
        if (next !== undefined) return inner.compareAndSet(id, expected, next);
        deletes += 1;
        return false;
      },
    };
    const { provider } = setUp({ clock, store, rotating: true });
    await provider.acquire(TARGET);
    await provider.forget();

    expect(deletes).toBe(3);
  });

  it('lifts a latch: a machine’s credential is asked for anew', async () => {
    const { provider, grant } = setUp();
    grant.script.push(refused('invalid_client'));
    await errorOf(provider.acquire(TARGET));

    await provider.forget();

    expect((await provider.acquire(TARGET)).generation).toBe(1);
    expect(grant.requests).toHaveLength(2);
  });

  it('a configured refresh token is not taken up again', async () => {
    const { provider, grant } = setUp({ rotating: true });
    await provider.forget();

    expect(await errorOf(provider.acquire(TARGET))).toMatchObject({
      code: 'ERR_REAUTHORIZATION_REQUIRED',
      reason: 'forgotten',
    });
    expect(grant.requests).toHaveLength(0);
  });
});

describe('revoke', () => {
  it('hands over what is held, forgets it, and says what came of it', async () => {
    const { provider, grant, clock } = setUp({ rotating: true });
    const seen: unknown[] = [];
    Object.assign(grant, {
      revoke: async (tokens: { token: Secret; hint: string }[], timeoutMs: number) => {
        seen.push(...tokens.map(({ token: each, hint }) => [hint, each.reveal()]), timeoutMs);
        return 'revoked';
      },
    });
    await provider.acquire(TARGET);

    expect(await provider.revoke()).toBe('revoked');

    expect(seen.slice(0, 2)).toEqual([
      ['refresh_token', 'R1'],
      ['access_token', 'A1'],
    ]);
    expect(seen[2]).toBeGreaterThan(0);
    await clock.settle();
    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_REAUTHORIZATION_REQUIRED');
  });

  it('waits for a request that has left, so that its tokens are taken back, too', async () => {
    const { provider, grant, clock } = setUp({ rotating: true });
    const seen: string[] = [];
    Object.assign(grant, {
      revoke: async (tokens: { token: Secret }[]) => {
        seen.push(...tokens.map(({ token: each }) => each.reveal()));
        return 'revoked';
      },
    });
    const held = gate();
    grant.hold = held.promise;
    const acquiring = provider.acquire(TARGET).catch(() => {});
    await clock.settle();
    const revoking = provider.revoke();
    held.open();
    await Promise.all([acquiring, revoking]);

    expect(seen).toEqual(['R1', 'A1']);
  });

  it('says where it cannot', async () => {
    const { provider } = setUp();
    await provider.acquire(TARGET);

    expect(await provider.revoke()).toBe('unsupported');
  });
});

describe('a dead refresh token', () => {
  it('that another replica replaces is looked for by one read for all, and told', async () => {
    const clock = skewedClock();
    const inner = memoryCredentialStore({ clock });
    let reads = 0;
    const store: CredentialStore = {
      ...inner,
      read: (id) => {
        reads += 1;
        return inner.read(id);
      },
    };
    const { provider, grant, events } = setUp({ clock, store, rotating: true, refresh: NEVER });
    grant.script.push(refused('invalid_grant'));
    const failing = errorOf(provider.acquire(TARGET));
    await clock.advance(1_000);
    expect((await failing).code).toBe('ERR_REAUTHORIZATION_REQUIRED');
    reads = 0;
    const errors = await Promise.all([1, 2, 3].map(() => errorOf(provider.acquire(TARGET))));
    expect(errors.map(({ code }) => code)).toEqual(new Array(3).fill('ERR_REAUTHORIZATION_REQUIRED'));
    expect(reads).toBe(1);

    const other = setUp({ clock, store, rotating: true, refresh: NEVER });
    await other.provider.acquire(TARGET);
    reads = 0;

    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer A1');
    expect([reads, events.at(-1)?.type, grant.requests.length]).toEqual([1, 'adopted', 1]);
    await provider.acquire(TARGET);
    expect(reads).toBe(1);
  });

  it('stays dead while the store is down', async () => {
    const clock = skewedClock();
    const inner = memoryCredentialStore({ clock });
    let broken = false;
    const store: CredentialStore = {
      ...inner,
      read: (id) => (broken ? Promise.reject(new Error('down')) : inner.read(id)),
    };
    const { provider, grant } = setUp({ clock, store, rotating: true, refresh: NEVER });
    grant.script.push(refused('invalid_grant'));
    const failing = errorOf(provider.acquire(TARGET));
    await clock.advance(1_000);
    await failing;
    broken = true;

    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_REAUTHORIZATION_REQUIRED');
    expect(grant.requests).toHaveLength(1);
  });
});

describe('events', () => {
  it('tell of a failure once, with the error that callers get', async () => {
    const { provider, grant, events } = setUp();
    grant.script.push(refused('invalid_client'));
    const error = await errorOf(provider.acquire(TARGET));

    expect(events).toEqual([
      { type: 'failed', id: ID, error: expect.objectContaining({ code: error.code }) },
    ]);
  });

  it('tell once of a refresh token that died', async () => {
    const { provider, grant, events } = setUp({ rotating: true });
    grant.script.push(refused('invalid_grant'));
    await errorOf(provider.acquire(TARGET));

    expect(events).toEqual([
      { type: 'failed', id: ID, error: expect.objectContaining({ code: 'ERR_REAUTHORIZATION_REQUIRED' }) },
    ]);
  });

  it('of an outage say how long it is left alone', async () => {
    const { provider, grant, events } = setUp();
    grant.script.push(unavailable({ retryAfterMs: 60_000 }));
    await errorOf(provider.acquire(TARGET, { maxWaitMs: 1_000 }));

    expect(events).toMatchObject([{ type: 'failed', error: { retryAfterMs: 60_000, retryable: true } }]);
  });

  it('end with the listener', async () => {
    const { provider, clock } = setUp({ refresh: NEVER });
    const told: string[] = [];
    const end = provider.onEvent(({ type }) => told.push(type));
    await provider.acquire(TARGET);
    end.dispose();
    await clock.advance(LIFE_MS);
    await provider.acquire(TARGET);

    expect(told).toEqual(['refreshed']);
  });
});

describe('a token at hand', () => {
  it('is given at once, the same as to who waits', async () => {
    const { provider } = setUp({ refresh: NEVER });
    expect(provider[AT_HAND](TARGET)).toBeUndefined();
    const credential = await provider.acquire(TARGET);

    expect(provider[AT_HAND](TARGET)).toBe(credential);
    expect(provider[AT_HAND](new URL(TARGET.href))).toBe(credential);
  });

  it('is none where it is past its end, refused, latched, or the provider closed', async () => {
    const expired = setUp({ refresh: NEVER });
    await expired.provider.acquire(TARGET);
    await expired.clock.advance(LIFE_MS);
    expect(expired.provider[AT_HAND](TARGET)).toBeUndefined();

    const rejected = setUp({ refresh: NEVER });
    await rejected.provider.acquire(TARGET);
    const held = gate();
    rejected.grant.hold = held.promise;
    const renewing = rejected.provider.acquire(TARGET, { rejected: { generation: 1, status: 401 } });
    await rejected.clock.settle();
    expect(rejected.provider[AT_HAND](TARGET)).toBeUndefined();
    held.open();
    await renewing;
    expect(rejected.provider[AT_HAND](TARGET)?.generation).toBe(2);
    await errorOf(rejected.provider.acquire(TARGET, { rejected: { generation: 2, status: 401 } }));
    expect(rejected.provider[AT_HAND](TARGET)).toBeUndefined();

    const closed = setUp({ refresh: NEVER });
    await closed.provider.acquire(TARGET);
    await closed.provider.close();
    expect(closed.provider[AT_HAND](TARGET)).toBeUndefined();
  });

  it('does not go to a second origin', async () => {
    const { provider } = setUp({ refresh: NEVER });
    await provider.acquire(TARGET);

    expect(() => provider[AT_HAND](new URL('https://other.example/mcp'))).toThrow(/origin/);
    await provider.acquire(TARGET);
    expect(() => provider[AT_HAND](new URL('https://other.example/mcp'))).toThrow(/origin/);
  });

  it('counts as a caller: what is asked for so is renewed ahead of its end', async () => {
    const { provider, clock, grant } = setUp({ refresh: { background: 'active' } });
    grant.lifetimeMs = 60_000;
    await provider.acquire(TARGET);
    for (let minutes = 1; minutes <= 10; minutes += 1) {
      await clock.advance(60_000);
      provider[AT_HAND](TARGET);
    }
    const before = grant.requests.length;
    await clock.advance(120_000);

    expect(grant.requests.length).toBeGreaterThan(before);
    await clock.advance(20 * 60_000);
    const after = grant.requests.length;
    await clock.advance(20 * 60_000);
    expect(grant.requests).toHaveLength(after);
  });

  it('begins its renewal where that is due', async () => {
    const { provider, clock, grant } = setUp({ refresh: NEVER });
    await provider.acquire(TARGET);
    await clock.advance(SOFT_MS);
    provider[AT_HAND](TARGET);
    await clock.settle();

    expect(grant.requests).toHaveLength(2);
  });
});

describe('a store that is read once, and not for nothing', () => {
  function counted() {
    const clock = skewedClock();
    const inner = memoryCredentialStore({ clock });
    const state: { reads: number; hold?: Promise<void> } = { reads: 0 };
    const store: CredentialStore = {
      ...inner,
      async read(id) {
        state.reads += 1;
        await state.hold;
        return inner.read(id);
      },
    };
    return { clock, inner, store, state };
  }
  const issued = {
    accessToken: new Secret('X'),
    refreshToken: new Secret('RX'),
    expiresInMs: LIFE_MS,
  } as never;

  it('not for a caller that has left, nor after the end', async () => {
    const { clock, store, state } = counted();
    const { provider, grant } = setUp({ clock, store });
    expect((await errorOf(provider.acquire(TARGET, { signal: AbortSignal.abort() }))).code).toBe(
      'ERR_ABORTED',
    );
    await provider.close();
    expect((await errorOf(provider.acquire(TARGET, { scope: 'b' }))).code).toBe('ERR_CLOSED');
    await clock.settle();

    expect([state.reads, grant.requests.length]).toEqual([0, 0]);
  });

  it('and a token found there is not given to who asked before the end', async () => {
    const { clock, store, state } = counted();
    const other = setUp({ clock, store, rotating: true, refresh: NEVER });
    await other.provider.acquire(TARGET);
    const { provider } = setUp({ clock, store, rotating: true, refresh: NEVER });
    const held = gate();
    state.hold = held.promise;
    const failing = errorOf(provider.acquire(TARGET));
    await clock.settle();
    const closing = provider.close();
    held.open();

    expect((await failing).code).toBe('ERR_CLOSED');
    await closing;
  });

  it('by who forgets: what is deleted is not looked for again', async () => {
    const { clock, inner, store, state } = counted();
    const { provider } = setUp({ clock, store, rotating: true, refresh: NEVER });
    await provider.acquire(TARGET);
    state.reads = 0;
    await provider.forget();
    expect([state.reads, await inner.read(ID)]).toEqual([1, undefined]);
    await provider.forget();

    expect(state.reads).toBe(2);
  });

  it('by whoever comes first: a token that was had in another way waits for it', async () => {
    const { clock, store, state } = counted();
    const { provider } = setUp({ clock, store, rotating: true, refresh: NEVER });
    const held = gate();
    state.hold = held.promise;
    const acquiring = Promise.all([provider.acquire(TARGET), provider.acquire(TARGET)]).catch(() => {});
    const taking = provider.take(TARGET, issued, { atMs: clock.now(), monotonicMs: clock.monotonic() });
    await clock.settle();
    expect(state.reads).toBe(1);
    held.open();

    await Promise.all([acquiring, taking]);
  });

  it('before such a token: its generation follows the one that stood there', async () => {
    const { clock, store } = counted();
    const other = setUp({ clock, store, rotating: true, refresh: NEVER });
    await other.provider.acquire(TARGET);
    const { provider } = setUp({ clock, store, rotating: true, refresh: NEVER });

    await provider.take(TARGET, issued, { atMs: clock.now(), monotonicMs: clock.monotonic() });

    expect((await provider.acquire(TARGET)).generation).toBe(2);
  });
});

it('a caller that gives a reason of ours for leaving gets that', async () => {
  const { provider, grant, clock } = setUp();
  const held = gate();
  grant.hold = held.promise;
  const controller = new AbortController();
  const leaving = errorOf(provider.acquire(TARGET, { signal: controller.signal }));
  await clock.settle();
  const reason = new HostedMcpError('ERR_TIMEOUT', 'The time was up');
  controller.abort(reason);

  expect(await leaving).toBe(reason);
  held.open();
});
