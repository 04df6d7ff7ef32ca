import { afterEach, describe, expect, it } from 'vitest';
import { memoryCredentialStore } from '../../../src/credentials/index.js';
import type { CredentialStore } from '../../../src/credentials/provider.js';
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
const NEVER = { background: 'never' } as const;

const open: Refresher[] = [];
afterEach(() => {
  for (const provider of open.splice(0)) provider.close({ drainMs: 0 }).catch(() => {});
});

/** A provider over a store whose operations are counted, and fail where the test says so. */
function setUp(
  o: { rotating?: boolean; inner?: CredentialStore; clock?: ReturnType<typeof skewedClock> } = {},
) {
  const clock = o.clock ?? skewedClock();
  const inner = o.inner ?? memoryCredentialStore({ clock });
  const counts = { reads: 0, writes: 0, leases: 0, releases: 0 };
  const down = { reads: false, writes: false, leases: false };
  const order: string[] = [];
  const gone = () => Promise.reject(new Error('down'));
  const store: CredentialStore = {
    read(id) {
      counts.reads += 1;
      return down.reads ? gone() : inner.read(id);
    },
    compareAndSet(id, expected, next) {
      counts.writes += 1;
      return down.writes ? gone() : inner.compareAndSet(id, expected, next);
    },
    async lease(id, ms) {
      counts.leases += 1;
      order.push('lease');
      if (down.leases) throw new Error('down');
      const lease = await inner.lease(id, ms);
      if (lease === undefined) return undefined;
      return {
        remainingMs: () => lease.remainingMs(),
        release: async () => {
          counts.releases += 1;
          await lease.release();
        },
      };
    },
  };
  const grant = new ScriptedGrant(o.rotating ?? true);
  const request = grant.request.bind(grant);
  grant.request = (given) => {
    order.push('request');
    return request(given);
  };
  const provider = makeRefresher(grant, clock, { store, refresh: NEVER });
  open.push(provider);
  return { clock, inner, store, counts, down, order, grant, provider };
}

const issued = (value: string) =>
  ({
    accessToken: new Secret(value),
    refreshToken: new Secret(`R-${value}`),
    expiresInMs: LIFE_MS,
    scope: undefined,
  }) as never;

describe('the order of a renewal', () => {
  it('what is slow comes first, then the lease, then the request; the lease is given back', async () => {
    const { grant, provider, order, counts } = setUp();
    grant.prepare = async () => void order.push('prepare');

    await provider.acquire(TARGET);

    expect(order).toEqual(['prepare', 'lease', 'request']);
    expect(counts.releases).toBe(1);
  });

  it.each(['ERR_TOKEN_ENDPOINT', 'ERR_DISCOVERY'] as const)(
    'where that fails (%s) nothing else is done',
    async (code) => {
      const { grant, provider, order } = setUp();
      grant.prepare = () => Promise.reject(new HostedMcpError(code, 'No'));

      expect((await errorOf(provider.acquire(TARGET, { maxWaitMs: 1 }))).code).toBe(code);
      expect(order).toEqual([]);
    },
  );

  it('a lease that is too short is given back and asked for anew, three times in all', async () => {
    const { clock, inner, provider, order, counts, store } = setUp();
    const lease = store.lease.bind(store);
    store.lease = async (id, ms) => {
      const made = await lease(id, ms);
      return made && { ...made, remainingMs: () => 0 };
    };
    const failing = errorOf(provider.acquire(TARGET, { maxWaitMs: 1_000 }));
    await clock.settle();
    expect(order).toEqual(['lease', 'lease', 'lease']);
    expect(counts.releases).toBe(3);
    await clock.advance(1_000);

    expect((await failing).code).toBe('ERR_STORE_UNAVAILABLE');
    expect(order).not.toContain('request');
    expect(await inner.read(ID)).toBeUndefined();
  });
});

describe('a lease of another replica', () => {
  it('is waited for; what was stored meanwhile is adopted, and the lease given back', async () => {
    const one = setUp();
    const two = setUp({ inner: one.inner, clock: one.clock });
    const held = gate();
    one.grant.hold = held.promise;
    const first = one.provider.acquire(TARGET);
    await one.clock.settle();
    const second = two.provider.acquire(TARGET);
    await one.clock.advance(200);
    expect(two.grant.requests).toHaveLength(0);
    held.open();
    await one.clock.advance(200);

    expect(await Promise.all([first, second].map(async (each) => bearerOf(await each)))).toEqual([
      'Bearer A1',
      'Bearer A1',
    ]);
    expect([two.grant.requests.length, one.counts.releases, two.counts.releases]).toEqual([0, 1, 0]);
  });

  it('that ends at the moment we get it: what was stored before is adopted, no request is made', async () => {
    const one = setUp();
    const { provider, grant, store, clock, counts } = setUp({ inner: one.inner, clock: one.clock });
    const told: string[] = [];
    provider.onEvent(({ type }) => told.push(type));
    const lease = store.lease.bind(store);
    store.lease = async (id, ms) => {
      await one.provider.acquire(TARGET);
      return await lease(id, ms);
    };

    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer A1');
    expect([grant.requests.length, counts.releases]).toEqual([0, 1]);
    expect([told, clock.pendingTimers]).toEqual([['adopted'], 0]);
  });

  it('and a store that fails then: the lease is given back', async () => {
    const { provider, store, counts, down, clock } = setUp();
    const lease = store.lease.bind(store);
    store.lease = async (id, ms) => {
      const made = await lease(id, ms);
      down.reads = true;
      return made;
    };
    const failing = errorOf(provider.acquire(TARGET, { maxWaitMs: 1 }));
    await clock.advance(1);

    expect((await failing).code).toBe('ERR_STORE_UNAVAILABLE');
    expect([counts.leases, counts.releases]).toEqual([1, 1]);
  });
});

describe('a pair that could not be stored', () => {
  async function unsaved() {
    const scene = setUp();
    scene.down.writes = true;
    const acquiring = scene.provider.acquire(TARGET);
    await scene.clock.advance(5_000 - 1);
    await acquiring;
    return scene;
  }

  it('is tried three times at once, at growing gaps, then every five seconds, and never keeps a process alive', async () => {
    const scene = setUp();
    const timers: { ms: number; background: boolean }[] = [];
    const setTimeout = scene.clock.setTimeout.bind(scene.clock);
    scene.clock.setTimeout = (fn, ms, options) => {
      timers.push({ ms, background: options?.background === true });
      return setTimeout(fn, ms, options);
    };
    scene.down.writes = true;
    const acquiring = scene.provider.acquire(TARGET);
    await scene.clock.advance(100 + 200 + 400);
    await acquiring;
    expect(scene.counts.writes).toBe(3);
    expect(timers.map(({ ms }) => ms)).toEqual(expect.arrayContaining([100, 200, 400]));
    expect(timers.at(-1)).toEqual({ ms: 5_000, background: true });

    await scene.clock.advance(5_000 - 1);
    expect(scene.counts.writes).toBe(3);
    await scene.clock.advance(1);
    expect(scene.counts.writes).toBe(4);
    scene.down.writes = false;
    await scene.clock.advance(1_000);

    expect((await scene.inner.read(ID))?.data).toContain('R1');
    await scene.clock.advance(60_000);
    expect([scene.counts.writes, scene.clock.pendingTimers]).toEqual([5, 0]);
  });

  it('is not written beside a renewal under way', async () => {
    const { provider, clock, counts, grant } = await unsaved();
    const held = gate();
    grant.hold = held.promise;
    const renewing = provider.acquire(TARGET, { rejected: { generation: 1, status: 401 } });
    await clock.advance(2_000);
    const before = counts.writes;
    await clock.advance(8_000);

    const seen = [grant.requests.length, counts.writes];
    held.open();
    await clock.advance(2_000);
    await renewing;
    expect(seen).toEqual([2, before]);
  });

  it('has one timer, although a try and a renewal overlap', async () => {
    const { provider, clock, store, counts } = await unsaved();
    const held = gate();
    const compareAndSet = store.compareAndSet.bind(store);
    let isFirst = true;
    store.compareAndSet = async (...given) => {
      if (isFirst) {
        isFirst = false;
        await held.promise;
      }
      return await compareAndSet(...given);
    };
    await clock.advance(1_000);
    expect(isFirst).toBe(false);
    const renewing = provider.acquire(TARGET, { rejected: { generation: 1, status: 401 } });
    await clock.advance(2_000);
    await renewing;
    held.open();
    await clock.advance(1_000);

    expect(clock.pendingTimers).toBe(1);
    const before = counts.writes;
    await clock.advance(5_000);
    expect(counts.writes - before).toBeLessThanOrEqual(3);
  });

  it('is written before the next one is asked for', async () => {
    const { provider, down, inner, grant } = await unsaved();
    down.writes = false;
    const before = await inner.read(ID);
    let stored: string | undefined;
    grant.script.push(async () => {
      stored = (await inner.read(ID))?.data;
      return token('A2', LIFE_MS, { refreshToken: 'R2' });
    });
    await provider.acquire(TARGET, { rejected: { generation: 1, status: 401 } });

    expect([before, stored]).toEqual([undefined, expect.stringContaining('R1')]);
    expect((await inner.read(ID))?.data).toContain('R2');
  });

  it('is not written beside one that is had in another way', async () => {
    const { provider, clock, counts, store, inner, down } = await unsaved();
    const held = gate();
    store.read = async (id) => {
      await held.promise;
      return inner.read(id);
    };
    const before = counts.writes;
    const taking = provider.take(TARGET, issued('X'), { atMs: clock.now(), monotonicMs: clock.monotonic() });
    await clock.advance(1_500);
    expect(counts.writes).toBe(before);
    down.writes = false;
    held.open();
    await taking;

    expect([counts.writes, (await inner.read(ID))?.data]).toEqual([
      before + 1,
      expect.stringContaining('"X"'),
    ]);
  });

  it('of a machine is not even tried where the store has just failed', async () => {
    const { provider, counts, down } = setUp({ rotating: false });
    down.reads = true;
    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer A1');
    expect(counts.writes).toBe(0);
    down.reads = false;
    await provider.acquire(TARGET, { rejected: { generation: 1, status: 401 } });

    expect(counts.writes).toBe(1);
  });

  it('of a machine is tried once and forgotten: another is to be had', async () => {
    const { provider, clock, counts, down } = setUp({ rotating: false });
    down.writes = true;
    await provider.acquire(TARGET);
    await clock.advance(60_000);

    expect([counts.writes, clock.pendingTimers]).toEqual([1, 0]);
  });
});

describe('a pair had in another way', () => {
  it('takes the place of what another replica has stored since', async () => {
    const one = setUp();
    await one.provider.acquire(TARGET);
    const two = setUp({ inner: one.inner, clock: one.clock });
    await two.provider.acquire(TARGET);
    two.grant.script.push(token('B1', LIFE_MS, { refreshToken: 'RB1' }));
    const renewing = two.provider.acquire(TARGET, { rejected: { generation: 1, status: 401 } });
    await one.clock.settle();
    await renewing;

    await one.provider.take(TARGET, issued('X'), {
      atMs: one.clock.now(),
      monotonicMs: one.clock.monotonic(),
    });

    expect((await one.inner.read(ID))?.data).toContain('"X"');
    expect(await bearerOf(await one.provider.acquire(TARGET))).toBe('Bearer X');
  });

  it('is served where the store is down, and stored later', async () => {
    const { provider, clock, down, inner } = setUp();
    await provider.acquire(TARGET);
    down.reads = true;
    down.writes = true;
    const taking = provider.take(TARGET, issued('X'), { atMs: clock.now(), monotonicMs: clock.monotonic() });
    await clock.advance(2_000);
    await taking;
    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer X');
    down.reads = false;
    down.writes = false;
    await clock.advance(6_000);

    expect((await inner.read(ID))?.data).toContain('"X"');
  });
});

describe('a write that lost a race', () => {
  it('a rotating pair: what stands there is used by all', async () => {
    const { provider, inner, store, clock } = setUp();
    const other = makeRefresher(new ScriptedGrant(true), clock, { store: inner, refresh: NEVER });
    open.push(other);
    const compareAndSet = store.compareAndSet.bind(store);
    let raced = false;
    store.compareAndSet = async (...given) => {
      if (!raced) {
        raced = true;
        const record = { generation: 77, data: JSON.stringify({ v: 1, gen: 9, refresh: 'R-other' }) };
        await inner.compareAndSet(ID, undefined, record);
      }
      return await compareAndSet(...given);
    };
    await provider.acquire(TARGET);

    expect((await inner.read(ID))?.data).toContain('R-other');
    expect((await inner.read(ID))?.generation).toBe(77);
  });

  it('a machine’s token: ours is written over it', async () => {
    const { provider, inner, store } = setUp({ rotating: false });
    const compareAndSet = store.compareAndSet.bind(store);
    let raced = false;
    store.compareAndSet = async (...given) => {
      if (!raced) {
        raced = true;
        await inner.compareAndSet(ID, undefined, { generation: 77, data: JSON.stringify({ v: 1, gen: 9 }) });
      }
      return await compareAndSet(...given);
    };
    await provider.acquire(TARGET);

    expect((await inner.read(ID))?.data).toContain('"A1"');
  });

  it('against a log-out: ours is written anew', async () => {
    const { provider, inner, store } = setUp();
    await provider.acquire(TARGET);
    const compareAndSet = store.compareAndSet.bind(store);
    let raced = false;
    store.compareAndSet = async (...given) => {
      if (!raced) {
        raced = true;
        const stored = await inner.read(ID);
        await inner.compareAndSet(ID, stored?.generation, undefined);
      }
      return await compareAndSet(...given);
    };
    await provider.acquire(TARGET, { rejected: { generation: 1, status: 401 } });

    expect((await inner.read(ID))?.data).toContain('"A2"');
  });
});

describe('in doubt', () => {
  // The pause before a repetition is 175 ms here.
  it.each([
    [0, 3],
    [1_825, 3],
    [1_826, 2],
  ])('an answer that fails again after %i ms: %i requests in all', async (ms, requests) => {
    const { provider, grant, clock } = setUp();
    const again = unavailable({ inDoubt: true, retryAfterMs: 60_000 });
    const slow = async () => {
      await new Promise<void>((resolve) => clock.setTimeout(resolve, ms));
      return again;
    };
    grant.script.push(unavailable({ inDoubt: true }), slow, again);
    const failing = errorOf(provider.acquire(TARGET, { maxWaitMs: 5_000 }));
    await clock.advance(5_000);

    expect((await failing).code).toBe('ERR_TOKEN_ENDPOINT');
    expect(grant.requests.map(({ refreshToken }) => refreshToken?.reveal())).toEqual(
      new Array(requests).fill('R0'),
    );
  });

  it('one that certainly did not leave is not sent again at once', async () => {
    const { provider, grant, clock } = setUp();
    grant.script.push(unavailable({ inDoubt: false, retryAfterMs: 60_000 }));
    await errorOf(provider.acquire(TARGET, { maxWaitMs: 1_000 }));
    await clock.advance(1_000);

    expect(grant.requests).toHaveLength(1);
  });

  it('a machine’s request is not either', async () => {
    const { provider, grant, clock } = setUp({ rotating: false });
    grant.script.push(unavailable({ inDoubt: true, retryAfterMs: 60_000 }));
    await errorOf(provider.acquire(TARGET, { maxWaitMs: 1_000 }));
    await clock.advance(1_000);

    expect(grant.requests).toHaveLength(1);
  });
});

describe('a dead refresh token', () => {
  it('is looked for in the store once more, a tenth of a second later', async () => {
    const { provider, grant, clock, counts } = setUp();
    grant.script.push(refused('invalid_grant'));
    const failing = errorOf(provider.acquire(TARGET));
    await clock.advance(99);
    const before = counts.reads;
    await clock.advance(1);

    expect(await failing).toMatchObject({
      code: 'ERR_REAUTHORIZATION_REQUIRED',
      reason: 'invalid_grant',
      status: 400,
    });
    expect(counts.reads).toBeGreaterThan(before);
  });

  it('and a machine’s refusal is none', async () => {
    const { provider, grant } = setUp({ rotating: false });
    grant.script.push(refused('invalid_grant'));

    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_CREDENTIAL_REJECTED');
  });

  it('where there never was one', async () => {
    const clock = skewedClock();
    const provider = makeRefresher(new ScriptedGrant(true), clock, { seed: {} });
    open.push(provider);

    expect(await errorOf(provider.acquire(TARGET))).toMatchObject({
      code: 'ERR_REAUTHORIZATION_REQUIRED',
      reason: 'no_refresh_token',
    });
  });
});
