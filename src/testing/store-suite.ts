/**
 * What every credential store has to do, as tests.
 *
 * Guarantees to run under node:test, vitest and jest alike: it takes `describe` and `it` and asserts with
 * node:assert. Never waits: the one thing that needs time, a lease's end, is tested with a lease of 0 ms.
 */
import assert from 'node:assert/strict';
import type { CredentialStore, StoredRecord } from '../credentials/provider.js';

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
