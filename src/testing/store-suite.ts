/**
 * What every credential store and every rate-limit store has to do, as tests.
 *
 * Guarantees to run under node:test, vitest and jest alike: they take `describe` and `it` and assert with
 * node:assert. Never wait: a lease's end is tested with a lease of 0 ms, and windows are so long that none ends
 * within a test. That a window ends is for the store's own tests, with whatever time it goes by.
 */
import assert from 'node:assert/strict';
import type { CredentialStore, StoredRecord } from '../credentials/provider.js';
import { keptIntervalMs, type RateLimitStore, type Rule, type Taken } from '../rate-limit/types.js';

export interface SuiteRunner {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: () => Promise<void>): unknown;
}

const record = (generation: number, data = `data-${generation}`): StoredRecord => ({
  generation,
  data,
  expiresAtMs: 1_900_000_000_000 + generation,
});

/** Registers the contract of a `CredentialStore`; `make` gives a new, empty store for each test. */
export function credentialStoreSuite(
  run: SuiteRunner,
  make: () => CredentialStore | Promise<CredentialStore>,
): void {
  const test = (name: string, body: (store: CredentialStore) => Promise<void>) =>
    run.it(name, async () => {
      const store = await make();
      try {
        await body(store);
      } finally {
        await store.close?.();
      }
    });

  run.describe('credential store contract', () => {
    test('reads undefined where nothing was written', async (store) => {
      assert.equal(await store.read('nobody'), undefined);
    });

    test('reads back what was written, whole', async (store) => {
      assert.equal(await store.compareAndSet('a', undefined, record(1)), true);
      assert.deepEqual({ ...(await store.read('a')) }, record(1));
    });

    test('keeps a record without an expiry without one', async (store) => {
      await store.compareAndSet('a', undefined, { generation: 1, data: 'x' });
      assert.deepEqual({ ...(await store.read('a')) }, { generation: 1, data: 'x' });
    });

    test('keeps any text: quotes, line breaks, other scripts, 64 KiB', async (store) => {
      const data = `"\\\n\u2028 \u00e9\u4e2d\u{1f510} ${'x'.repeat(64 * 1024)}`;
      await store.compareAndSet('a', undefined, { generation: 1, data });
      assert.equal((await store.read('a'))?.data, data);
    });

    test('keeps ids apart, also odd ones', async (store) => {
      for (const [index, id] of ['a', 'A', 'a/b', '../a', 'a:b', 'x'.repeat(300)].entries()) {
        assert.equal(await store.compareAndSet(id, undefined, record(index + 1)), true);
      }
      assert.equal((await store.read('../a'))?.generation, 4);
      assert.equal((await store.read('a'))?.generation, 1);
      assert.equal((await store.read('A'))?.generation, 2);
    });

    test('refuses to create over an existing record', async (store) => {
      await store.compareAndSet('a', undefined, record(1));
      assert.equal(await store.compareAndSet('a', undefined, record(2)), false);
      assert.equal((await store.read('a'))?.generation, 1);
    });

    test('refuses when the generation has moved on, and when there is no record', async (store) => {
      await store.compareAndSet('a', undefined, record(1));
      assert.equal(await store.compareAndSet('a', 1, record(2)), true);
      assert.equal(await store.compareAndSet('a', 1, record(3)), false);
      assert.equal((await store.read('a'))?.data, 'data-2');
      assert.equal(await store.compareAndSet('b', 1, record(2)), false);
      assert.equal(await store.read('b'), undefined);
    });

    test('of many that write the same generation exactly one wins', async (store) => {
      await store.compareAndSet('a', undefined, record(1));
      const won = await Promise.all(
        Array.from({ length: 20 }, (_, index) => store.compareAndSet('a', 1, record(2, `writer-${index}`))),
      );
      assert.equal(won.filter(Boolean).length, 1);
      assert.equal((await store.read('a'))?.data, `writer-${won.indexOf(true)}`);
    });

    test('deletes only the expected generation', async (store) => {
      await store.compareAndSet('a', undefined, record(2));
      assert.equal(await store.compareAndSet('a', 1, undefined), false);
      assert.equal(await store.compareAndSet('a', 2, undefined), true);
      assert.equal(await store.read('a'), undefined);
      assert.equal(await store.compareAndSet('a', undefined, record(1)), true);
    });

    test('gives a lease to one at a time, without a record, and again after its release', async (store) => {
      const leases = await Promise.all(Array.from({ length: 10 }, () => store.lease('a', 60_000)));
      const got = leases.filter((lease) => lease !== undefined);
      assert.equal(got.length, 1);
      assert.ok((got[0]?.remainingMs() ?? 0) > 30_000 && (got[0]?.remainingMs() ?? 0) <= 60_000);
      assert.notEqual(await store.lease('b', 60_000), undefined);
      await got[0]?.release();
      assert.notEqual(await store.lease('a', 60_000), undefined);
    });

    test('a lease that has ended is given to the next, whose lease the first cannot release', async (store) => {
      const first = await store.lease('a', 0);
      assert.notEqual(first, undefined);
      assert.equal(first?.remainingMs(), 0);
      const second = await store.lease('a', 60_000);
      assert.notEqual(second, undefined);
      await first?.release();
      assert.equal(await store.lease('a', 60_000), undefined);
    });

    test('a lease does not hinder reading and writing', async (store) => {
      await store.lease('a', 60_000);
      assert.equal(await store.compareAndSet('a', undefined, record(1)), true);
      assert.equal((await store.read('a'))?.generation, 1);
    });
  });
}

const TEN_MINUTES_MS = 600_000;
/** A grant may lie a little ahead; more would break a pause that comes meanwhile. */
const MAX_AHEAD_MS = 250;

const isGranted = (taken: Taken): taken is Extract<Taken, { grantedInMs: number }> => 'grantedInMs' in taken;
const perTenMinutes = (limit: number, key?: string): Rule => ({
  limit,
  intervalMs: TEN_MINUTES_MS,
  ...(key === undefined ? {} : { key }),
});

/** Registers the contract of a `RateLimitStore`; `make` gives a new, empty store for each test. */
export function rateLimitStoreSuite(
  run: SuiteRunner,
  make: () => RateLimitStore | Promise<RateLimitStore>,
): void {
  const test = (name: string, body: (store: RateLimitStore) => Promise<void>) =>
    run.it(name, async () => {
      const store = await make();
      try {
        await body(store);
      } finally {
        await store.close?.();
      }
    });
  const grantsOf = async (store: RateLimitStore, key: string, rules: readonly Rule[], asks: number) => {
    let grants = 0;
    for (let ask = 0; ask < asks; ask += 1) if (isGranted(await store.take(key, rules))) grants += 1;
    return grants;
  };
  const refusalOf = async (store: RateLimitStore, key: string, rules: readonly Rule[]) => {
    const taken = await store.take(key, rules);
    if (isGranted(taken)) throw new assert.AssertionError({ message: 'a token was granted above the limit' });
    return taken;
  };

  run.describe('rate-limit store contract', () => {
    test('grants up to the limit, now or within 250 ms, and counts what it grants', async (store) => {
      const rules = [perTenMinutes(3)];
      for (let index = 0; index < 3; index += 1) {
        const taken = await store.take('a', rules);
        if (!isGranted(taken)) throw new assert.AssertionError({ message: 'refused below the limit' });
        assert.ok(taken.grantedInMs >= 0 && taken.grantedInMs <= MAX_AHEAD_MS);
        if (taken.used !== undefined) assert.ok(taken.used === index || taken.used === index + 1);
      }
      const refused = await refusalOf(store, 'a', rules);
      assert.ok([undefined, 3].includes(refused.used));
      assert.notEqual(refused.keepShare, true);
    });

    test('says when to ask again, and takes nothing by being asked', async (store) => {
      const rules = [perTenMinutes(2)];
      await grantsOf(store, 'a', rules, 2);
      const first = await refusalOf(store, 'a', rules);
      await grantsOf(store, 'a', rules, 20);
      const last = await refusalOf(store, 'a', rules);
      const keptMs = keptIntervalMs(perTenMinutes(2));
      assert.ok(first.askAgainInMs > keptMs / 2 && first.askAgainInMs <= keptMs);
      assert.ok(last.askAgainInMs <= first.askAgainInMs);
    });

    test('of many that ask at once exactly as many as the limit get a token', async (store) => {
      const rules = [perTenMinutes(7)];
      const taken = await Promise.all(Array.from({ length: 40 }, () => store.take('a', rules)));
      assert.equal(taken.filter(isGranted).length, 7);
    });

    test('keeps keys apart, also odd ones', async (store) => {
      const rules = [perTenMinutes(1)];
      const keys = ['a', 'A', '', 'a:b', '{a}', 'a b\n', '\u00e9\u{1f510}', 'x'.repeat(2000)];
      for (const key of keys) assert.equal(await grantsOf(store, key, rules, 3), 1, JSON.stringify(key));
    });

    test('takes under all rules or under none', async (store) => {
      const narrow = perTenMinutes(2, 'tenant');
      assert.equal(await grantsOf(store, 'alice', [perTenMinutes(3), narrow], 10), 2);
      // Eight refusals by the tenant's rule have cost alice nothing: one of her three is left.
      assert.equal(await grantsOf(store, 'alice', [perTenMinutes(3)], 10), 1);
    });

    test("a rule's own key is a bucket that limiters share", async (store) => {
      const rules = [perTenMinutes(2), perTenMinutes(5, 'tenant')];
      assert.equal(await grantsOf(store, 'alice', rules, 5), 2);
      assert.equal(await grantsOf(store, 'bob', rules, 5), 2);
      assert.equal(await grantsOf(store, 'carol', rules, 5), 1);
    });

    test('two rules of one key hold together', async (store) => {
      const rules = [perTenMinutes(10), { limit: 4, intervalMs: 2 * TEN_MINUTES_MS }];
      assert.equal(await grantsOf(store, 'a', rules, 12), 4);
      const keptMs = keptIntervalMs({ limit: 4, intervalMs: 2 * TEN_MINUTES_MS });
      assert.ok((await refusalOf(store, 'a', rules)).askAgainInMs > keptMs / 2);
    });

    test('obeys a limit that was lowered, and one that was raised, at once', async (store) => {
      await grantsOf(store, 'a', [perTenMinutes(8)], 5);
      assert.equal(await grantsOf(store, 'a', [perTenMinutes(3)], 3), 0);
      assert.equal(await grantsOf(store, 'a', [perTenMinutes(6)], 3), 1);
    });

    test('grants nothing during a pause, under that key alone', async (store) => {
      const rules = [perTenMinutes(5)];
      await store.pause('a', 60_000);
      const refused = await refusalOf(store, 'a', rules);
      assert.ok(refused.askAgainInMs > 30_000 && refused.askAgainInMs <= 60_000);
      assert.notEqual(refused.keepShare, true);
      assert.equal(await grantsOf(store, 'b', rules, 1), 1);
    });

    test('never makes a pause shorter, nor longer by hearing of it again', async (store) => {
      await Promise.all(Array.from({ length: 3 }, () => store.pause('a', 60_000)));
      await store.pause('a', 1_000);
      await store.pause('a', 0);
      const { askAgainInMs } = await refusalOf(store, 'a', [perTenMinutes(5)]);
      assert.ok(askAgainInMs > 30_000 && askAgainInMs <= 60_000);
      await store.pause('a', 120_000);
      assert.ok((await refusalOf(store, 'a', [perTenMinutes(5)])).askAgainInMs > 90_000);
    });

    test('a pause takes no token', async (store) => {
      const rules = [perTenMinutes(3), perTenMinutes(2, 'tenant')];
      await store.pause('alice', 60_000);
      assert.equal(await grantsOf(store, 'alice', rules, 5), 0);
      assert.equal(await grantsOf(store, 'bob', rules, 5), 2);
    });

    test('one who has given up takes nothing', async (store) => {
      const reason = new Error('given up');
      const signal = AbortSignal.abort(reason);
      await assert.rejects(store.take('a', [perTenMinutes(1)], { signal }), reason);
      assert.equal(await grantsOf(store, 'a', [perTenMinutes(1)], 2), 1);
    });

    test('a store that takes notes counts them, and lets replicas keep their share for a while', async (store) => {
      if (store.note === undefined) return;
      const rules = [perTenMinutes(5)];
      await store.note('a', rules, [0, 10, 2 * TEN_MINUTES_MS]);
      const told = await refusalOf(store, 'a', rules);
      assert.equal(told.keepShare, true);
      assert.ok(told.askAgainInMs > 0 && told.askAgainInMs <= keptIntervalMs(perTenMinutes(5)));
      // The third is older than the window.
      assert.ok([undefined, 2].includes(told.used));
    });

    test('a replica that is back and has nothing to tell is told the same', async (store) => {
      if (store.note === undefined) return;
      const rules = [perTenMinutes(5)];
      assert.equal(await grantsOf(store, 'a', rules, 1), 1);
      await store.note('a', rules, []);
      assert.equal((await refusalOf(store, 'a', rules)).keepShare, true);
      assert.equal(await grantsOf(store, 'b', rules, 1), 1);
    });
  });
}
