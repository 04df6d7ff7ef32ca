import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Clock } from '../../../src/clock.js';
import { isLocalStore, memoryRateLimitStore } from '../../../src/rate-limit/memory-store.js';
import { keptIntervalMs, type Rule } from '../../../src/rate-limit/types.js';

/** A clock that only a test's own hand moves, and no timer. */
function handClock() {
  const hand = { ms: 0 };
  const clock: Clock = {
    now: () => hand.ms,
    monotonic: () => hand.ms,
    setTimeout: () => {
      throw new Error('no timers here');
    },
  };
  return { hand, clock };
}

const ONE: Rule = { limit: 3, intervalMs: 1_000 };
const KEPT = keptIntervalMs(ONE);

function memory() {
  const { hand, clock } = handClock();
  const store = memoryRateLimitStore({ clock });
  const grants = async (count: number, rules: readonly Rule[] = [ONE], key = 'k') => {
    let granted = 0;
    for (let n = 0; n < count; n++) if ('grantedInMs' in (await store.take(key, rules))) granted += 1;
    return granted;
  };
  return { hand, store, grants };
}

const rule = fc.record({
  limit: fc.integer({ min: 1, max: 6 }),
  intervalMs: fc.integer({ min: 1, max: 3_000 }),
  key: fc.constantFrom(undefined, 'shared', 'a'),
});
const step = fc.record({
  waitMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 1_500 })),
  key: fc.constantFrom('a', 'b'),
});

describe('memoryRateLimitStore', () => {
  it('grants exactly what a list of all grants would allow, and says when to come again', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(rule, {
          minLength: 1,
          maxLength: 2,
          selector: ({ intervalMs, key }) => `${intervalMs} ${key}`,
        }),
        fc.array(step, { minLength: 1, maxLength: 60 }),
        async (rules, steps) => {
          const { hand, store } = memory();
          const granted: { atMs: number; key: string }[] = [];
          const bucketOf = (each: Rule, key: string) => each.key ?? key;
          const allows = (key: string, atMs: number) =>
            rules.every((each) => {
              const inWindow = granted.filter(
                (grant) =>
                  bucketOf(each, grant.key) === bucketOf(each, key) &&
                  grant.atMs > atMs - keptIntervalMs(each),
              );
              return inWindow.length < each.limit;
            });
          // Two rules of one interval are one log if their keys come to the same.
          const ambiguous = new Set(rules.map(({ intervalMs }) => intervalMs)).size < rules.length;
          fc.pre(!ambiguous);
          for (const { waitMs, key } of steps) {
            hand.ms += waitMs;
            const taken = await store.take(key, rules);
            expect('grantedInMs' in taken).toBe(allows(key, hand.ms));
            if ('grantedInMs' in taken) {
              granted.push({ atMs: hand.ms, key });
            } else {
              expect(allows(key, hand.ms + taken.askAgainInMs)).toBe(true);
              expect(allows(key, hand.ms + taken.askAgainInMs - 1)).toBe(false);
            }
          }
          // At the server: no window of any rule holds more than its limit.
          for (const each of rules) {
            for (const { atMs, key } of granted) {
              const window = granted.filter(
                (grant) =>
                  bucketOf(each, grant.key) === bucketOf(each, key) &&
                  grant.atMs >= atMs &&
                  grant.atMs < atMs + each.intervalMs,
              );
              expect(window.length).toBeLessThanOrEqual(each.limit);
            }
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  it('takes a token under all rules or under none', async () => {
    const { store } = memory();
    const tight: Rule = { limit: 1, intervalMs: 60_000, key: 'tenant' };
    expect(await store.take('user', [ONE, tight])).toMatchObject({ grantedInMs: 0 });
    expect(await store.take('user', [ONE, tight])).toMatchObject({ askAgainInMs: 61_200 });
    // The refusal took nothing of the wide rule: two of three are left.
    expect(await store.take('user', [ONE])).toMatchObject({ grantedInMs: 0, used: 2 });
    expect(await store.take('user', [ONE])).toMatchObject({ grantedInMs: 0, used: 3 });
    expect(await store.take('user', [ONE])).toMatchObject({ askAgainInMs: KEPT, used: 3 });
    expect(await store.take('other', [ONE, tight])).toMatchObject({ askAgainInMs: 61_200 });
  });

  it('pads the window by 250 ms or 2 %', async () => {
    const { hand, grants } = memory();
    expect(await grants(5)).toBe(3);
    hand.ms = 1_249;
    expect(await grants(1)).toBe(0);
    hand.ms = 1_250;
    expect(await grants(5)).toBe(3);
  });

  it('says how full the fullest rule is', async () => {
    const { store } = memory();
    const wide: Rule = { limit: 100, intervalMs: 60_000 };
    await store.take('k', [wide]);
    await store.take('k', [wide]);
    expect(await store.take('k', [wide, ONE])).toEqual({ grantedInMs: 0, used: 3 });
    expect(await store.take('k', [wide, ONE])).toEqual({ grantedInMs: 0, used: 2 });
  });

  it('holds a lowered limit against what the higher one granted', async () => {
    const { hand, store } = memory();
    for (let n = 0; n < 10; n++) {
      await store.take('k', [{ limit: 10, intervalMs: 1_000 }]);
      hand.ms += 10;
    }
    const answer = await store.take('k', [ONE]);
    // Eight of ten have to go: the eighth was granted at 70.
    expect(answer).toMatchObject({ askAgainInMs: 70 + KEPT - 100, used: 10 });
    hand.ms += 'askAgainInMs' in answer ? answer.askAgainInMs : 0;
    expect(await store.take('k', [ONE])).toMatchObject({ grantedInMs: 0 });
  });

  it('grants nothing in a pause, and keeps the spacing of the first rule for one window after it', async () => {
    const { hand, store } = memory();
    const rules = [{ limit: 4, intervalMs: 1_000 }];
    await store.pause('k', 5_000);
    await store.pause('k', 2_000);
    expect(await store.take('k', rules)).toMatchObject({ askAgainInMs: 5_000 });
    hand.ms = 4_999;
    expect(await store.take('k', rules)).toMatchObject({ askAgainInMs: 1 });
    expect(await store.take('other', rules)).toMatchObject({ grantedInMs: 0 });
    const at: number[] = [];
    for (hand.ms = 5_000; hand.ms < 6_400; hand.ms += 10) {
      if ('grantedInMs' in (await store.take('k', rules))) at.push(hand.ms);
    }
    expect(at).toEqual([5_000, 5_250, 5_500, 5_750, 6_250]);
    // The window after the pause is over: a burst is allowed again.
    hand.ms = 9_000;
    for (let n = 0; n < 4; n++) expect(await store.take('k', rules)).toMatchObject({ grantedInMs: 0 });
  });

  it('a pause of a rule’s own key holds for everybody under it', async () => {
    const { store } = memory();
    await store.pause('tenant', 1_000);
    expect(await store.take('user', [ONE, { ...ONE, key: 'tenant' }])).toMatchObject({ askAgainInMs: 1_000 });
    expect(await store.take('user', [ONE])).toMatchObject({ grantedInMs: 0 });
  });

  it('drops buckets that are empty', async () => {
    const { hand, store } = memory();
    const size = () => (store as unknown as { size: number }).size;
    for (let n = 0; n < 5_000; n++) {
      hand.ms += 1;
      await store.take(`k${n}`, [ONE]);
      if (n % 2 === 0) await store.pause(`p${n}`, 10);
    }
    expect(size()).toBeLessThan(3 * KEPT * 2);
    hand.ms += 10 * KEPT;
    await store.take('k', [ONE]);
    expect(size()).toBe(1);
  });

  it('ends with the caller’s signal, taking nothing', async () => {
    const { store, grants } = memory();
    await expect(store.take('k', [ONE], { signal: AbortSignal.abort('gone') })).rejects.toBe('gone');
    await expect(store.pause('k', 1_000, { signal: AbortSignal.abort('gone') })).rejects.toBe('gone');
    expect(await grants(5)).toBe(3);
  });

  it('is known for a local one, a wrapper around it is not', () => {
    const { store } = memory();
    expect(isLocalStore(store)).toBe(true);
    expect(isLocalStore({ take: store.take.bind(store), pause: store.pause.bind(store) })).toBe(false);
  });
});
