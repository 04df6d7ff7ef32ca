import { setMaxListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { type AcquireRequest, type BucketOptions, useBucket } from '../../../src/rate-limit/bucket.js';
import { memoryRateLimitStore } from '../../../src/rate-limit/memory-store.js';
import type { Urgency } from '../../../src/rate-limit/toll.js';
import { manualClock } from '../../../src/testing/index.js';
import { FakeStore, KEPT, RULE, settlements } from './support.js';

const NEVER = Number.POSITIVE_INFINITY;

function scene(options: Partial<BucketOptions> = {}) {
  const clock = manualClock();
  const store = new FakeStore(clock);
  const bucketOptions: BucketOptions = {
    clock,
    store,
    key: 'k',
    rules: [RULE],
    replicas: 1,
    onStoreDown: 'local-share',
    ...options,
  };
  const bucket = useBucket(bucketOptions);
  const seen = settlements(clock);
  const waits: [string, number][] = [];
  const acquire = (
    name: string,
    {
      urgency = 'call',
      untilMs = NEVER,
      signal,
    }: { urgency?: Urgency; untilMs?: number; signal?: AbortSignal } = {},
    on = bucket,
  ) => {
    const request: AcquireRequest = {
      urgency,
      untilMs,
      signal: () => signal ?? new AbortController().signal,
      onWait: (forMs) => waits.push([name, forMs]),
    };
    seen.watch(name, on.acquire(request));
  };
  const many = async (...names: string[]) => {
    for (const name of names) {
      acquire(name);
      await clock.settle();
    }
  };
  return { clock, store, bucket, bucketOptions, seen, waits, acquire, many };
}

describe('Bucket', () => {
  it('lets callers go at once while there are tokens, the others as they come free, in order', async () => {
    const { clock, store, seen, waits, many } = scene();
    await many('a', 'b', 'c');
    expect([seen.went, clock.pendingTimers]).toEqual([['a@0', 'b@0', 'c@0'], 0]);
    await clock.advance(100);
    await many('d', 'e', 'f', 'g');
    await clock.advance(KEPT - 101);
    expect(seen.went).toHaveLength(3);
    await clock.advance(1);
    expect(seen.went.slice(3)).toEqual(['d@1250', 'e@1250', 'f@1250']);
    await clock.advance(KEPT);
    expect(seen.went.slice(6)).toEqual(['g@2500']);
    expect(waits).toEqual([
      ['d', 1_150],
      ['e', 1_150],
      ['f', 1_150],
      ['g', 1_150 + KEPT],
    ]);
    // 3 at once, d's refusal, d e f, g's refusal, g: who stands in line does not ask.
    expect(store.takes).toHaveLength(9);
    expect(clock.pendingTimers).toBe(0);
  });

  it('keeps two rules at once', async () => {
    const { clock, seen, many } = scene({ rules: [RULE, { limit: 4, intervalMs: 10_000 }] });
    await many('a', 'b', 'c', 'd', 'e');
    await clock.advance(20_000);
    expect(seen.went).toEqual(['a@0', 'b@0', 'c@0', 'd@1250', 'e@10250']);
  });

  it('lets the urgent overtake, without asking again for them', async () => {
    const { clock, store, seen, acquire, many } = scene({ rules: [{ limit: 1, intervalMs: 1_000 }] });
    await many('first', 'call 1', 'call 2');
    const asked = store.takes.length;
    for (const urgency of ['read', 'recovery', 'reply'] as const) {
      acquire(urgency, { urgency });
      await clock.settle();
    }
    expect(store.takes).toHaveLength(asked);
    await clock.advance(10 * KEPT);
    expect(seen.went).toEqual([
      'first@0',
      'recovery@1250',
      'reply@2500',
      'read@3750',
      'call 1@5000',
      'call 2@6250',
    ]);
  });

  it('is one line for all who use the store, the key and the rules', async () => {
    const { clock, bucket, bucketOptions, seen, acquire, many } = scene();
    const again = useBucket({ ...bucketOptions, rules: [{ ...RULE }] });
    expect(again).toBe(bucket);
    expect(useBucket({ ...bucketOptions, key: 'other' })).not.toBe(bucket);
    expect(useBucket({ ...bucketOptions, store: memoryRateLimitStore({ clock }) })).not.toBe(bucket);
    await many('a', 'b', 'c', 'd');
    acquire('e', {}, again);
    acquire('f', { urgency: 'recovery' }, again);
    await clock.advance(KEPT);
    expect(seen.went.slice(3)).toEqual(['f@1250', 'd@1250', 'e@1250']);
  });

  it('is forgotten a window after its last use', async () => {
    const { clock, bucket, bucketOptions, many } = scene();
    await many('a');
    bucket.leave();
    await clock.advance(KEPT - 1);
    expect(useBucket(bucketOptions)).toBe(bucket);
    bucket.leave();
    await clock.advance(KEPT);
    expect(useBucket(bucketOptions)).not.toBe(bucket);
  });

  it('a call works after six idle minutes', async () => {
    const { clock, seen, many } = scene();
    await many('a', 'b', 'c', 'd');
    await clock.advance(KEPT);
    await clock.advance(360_000);
    await many('e');
    expect(seen.went.at(-1)).toBe('e@361250');
  });

  it('an abort ends the wait at once: no token, nobody in line, no timer', async () => {
    const { clock, store, bucket, seen, acquire, many } = scene();
    await many('a', 'b', 'c');
    const controller = new AbortController();
    acquire('d', { signal: controller.signal, untilMs: 60_000 });
    acquire('e', { signal: controller.signal, untilMs: 60_000 });
    await clock.settle();
    expect([bucket.waiting, clock.pendingTimers]).toEqual([2, 3]);
    controller.abort('gone');
    await clock.settle();
    expect(seen.refused).toEqual([
      { name: 'd', atMs: 0, error: 'gone' },
      { name: 'e', atMs: 0, error: 'gone' },
    ]);
    expect([bucket.waiting, clock.pendingTimers]).toEqual([0, 0]);
    const asked = store.takes.length;
    await clock.advance(KEPT);
    expect(store.takes).toHaveLength(asked);
    await many('f', 'g', 'h');
    expect(seen.went.slice(3)).toEqual(['f@1250', 'g@1250', 'h@1250']);
  });

  it('an abort while the store is asked ends the question', async () => {
    const { clock, store, seen, acquire } = scene();
    store.script.push('hang');
    const controller = new AbortController();
    acquire('a', { signal: controller.signal });
    await clock.settle();
    expect(store.hanging.size).toBe(1);
    controller.abort('gone');
    await clock.settle();
    expect(seen.refused).toEqual([{ name: 'a', atMs: 0, error: 'gone' }]);
    expect([store.hanging.size, clock.pendingTimers]).toEqual([0, 0]);
  });

  it('an abort of the last in line while the store is asked for it ends the question, too', async () => {
    const { clock, store, seen, acquire, many } = scene();
    store.script.push({ askAgainInMs: 100 }, 'hang');
    const controller = new AbortController();
    acquire('a', { signal: controller.signal });
    await clock.advance(100);
    expect(store.hanging.size).toBe(1);
    controller.abort('gone');
    await many('b');
    expect(seen.outcomes.map(({ name, atMs }) => [name, atMs])).toEqual([
      ['a', 100],
      ['b', 100],
    ]);
    expect([store.hanging.size, clock.pendingTimers]).toEqual([0, 0]);
  });

  it('the others go on when the one who waited longest gives up', async () => {
    const { clock, seen, acquire, many } = scene();
    const controller = new AbortController();
    await many('a', 'b', 'c');
    acquire('d', { signal: controller.signal });
    await clock.advance(500);
    acquire('e');
    await clock.advance(500);
    controller.abort('gone');
    await clock.advance(250);
    expect(seen.went.at(-1)).toBe('e@1250');
  });
});

describe('a wait that cannot end in time', () => {
  it('is refused at once, with the time it would have taken', async () => {
    const { clock, bucket, seen, acquire, many } = scene();
    await many('a', 'b', 'c');
    await clock.advance(250);
    acquire('too late', { untilMs: 1_250 });
    await clock.settle();
    expect(seen.refused).toMatchObject([
      {
        name: 'too late',
        atMs: 250,
        error: {
          code: 'ERR_RATE_WAIT_EXCEEDED',
          executed: false,
          retryable: true,
          reason: 'limit',
          retryAfterMs: 1_000,
        },
      },
    ]);
    expect([bucket.waiting, clock.pendingTimers]).toEqual([0, 0]);
    acquire('in time', { untilMs: 1_251 });
    await clock.advance(1_000);
    expect(seen.went.at(-1)).toBe('in time@1250');
  });

  it('counts those ahead: a window for each full limit of them', async () => {
    const { clock, seen, acquire, many } = scene();
    await many('a', 'b', 'c', 'd', 'e', 'f');
    // Three ahead: the fourth to come goes a window after the first.
    acquire('g', { untilMs: 2 * KEPT });
    acquire('urgent', { urgency: 'read', untilMs: 2 * KEPT });
    await clock.settle();
    expect(seen.refused).toMatchObject([{ name: 'g', atMs: 0, error: { retryAfterMs: 2 * KEPT } }]);
    await clock.advance(2 * KEPT);
    expect(seen.went.slice(3)).toEqual(['urgent@1250', 'd@1250', 'e@1250', 'f@2500']);
  });

  it('is refused as soon as the store says so, not at the end', async () => {
    const { clock, store, seen, acquire } = scene();
    store.script.push({ askAgainInMs: 100 }, { askAgainInMs: 5_000 });
    acquire('a', { untilMs: 3_000 });
    await clock.settle();
    acquire('b', { untilMs: 6_000 });
    await clock.advance(100);
    expect(seen.refused).toMatchObject([{ name: 'a', atMs: 100, error: { retryAfterMs: 5_000 } }]);
    await clock.advance(5_000);
    expect([seen.went, seen.refused.length]).toEqual([['b@5100'], 1]);
  });

  it('counts those ahead then as well', async () => {
    const { clock, store, seen, acquire } = scene({ rules: [{ limit: 1, intervalMs: 1_000 }] });
    store.script.push({ askAgainInMs: 100 }, { askAgainInMs: 500 });
    acquire('a', { untilMs: 1_800 });
    await clock.settle();
    acquire('b', { untilMs: 1_800 });
    await clock.advance(100);
    // a in 500 ms, b a window after it.
    expect(seen.refused).toMatchObject([{ name: 'b', atMs: 100, error: { retryAfterMs: 500 + KEPT } }]);
    await clock.advance(500);
    expect(seen.went).toEqual(['a@600']);
  });

  it('ends at its time where it could have been in time', async () => {
    const { clock, bucket, seen, acquire, many } = scene({ rules: [{ limit: 1, intervalMs: 1_000 }] });
    await many('a');
    acquire('call', { untilMs: 2_000 });
    await clock.settle();
    acquire('recovery', { urgency: 'recovery' });
    await clock.advance(1_999);
    expect(seen.went).toEqual(['a@0', 'recovery@1250']);
    // Refused when the store said that the next token comes at 2,500.
    expect(seen.refused).toMatchObject([{ name: 'call', atMs: 1_250, error: { retryAfterMs: 1_250 } }]);
    expect([bucket.waiting, clock.pendingTimers]).toEqual([0, 0]);
  });

  it('ends at its time also while the store is silent', async () => {
    const { clock, store, bucket, seen, acquire } = scene();
    store.script.push({ askAgainInMs: 100 }, 'hang');
    acquire('a', { untilMs: 2_000 });
    await clock.advance(2_000);
    expect(seen.refused).toMatchObject([
      { name: 'a', atMs: 2_000, error: { code: 'ERR_RATE_WAIT_EXCEEDED', retryAfterMs: 1 } },
    ]);
    expect([bucket.waiting, clock.pendingTimers, store.hanging.size]).toEqual([0, 0, 0]);
  });

  it('is refused when a thousand wait, save for replies', async () => {
    const { clock, bucket, seen, acquire, many } = scene();
    await many('a', 'b', 'c');
    const controller = new AbortController();
    setMaxListeners(0, controller.signal);
    for (let n = 0; n < 1_000; n++) acquire(`x${n}`, { signal: controller.signal });
    await clock.settle();
    expect(bucket.waiting).toBe(1_000);
    acquire('call');
    acquire('recovery', { urgency: 'recovery' });
    acquire('reply', { urgency: 'reply' });
    await clock.settle();
    expect(bucket.waiting).toBe(1_001);
    expect(seen.refused).toMatchObject([
      { name: 'call', error: { code: 'ERR_RATE_WAIT_EXCEEDED', reason: 'line_full', executed: false } },
      { name: 'recovery', error: { retryable: true, retryAfterMs: KEPT } },
    ]);
    expect(seen.refused[0]?.error?.retryAfterMs).toBe(KEPT + 333 * KEPT);
    await clock.advance(KEPT);
    expect(seen.went[3]).toBe('reply@1250');
    controller.abort('gone');
    await clock.settle();
    expect([bucket.waiting, clock.pendingTimers]).toEqual([0, 0]);
  });
});

describe('a pause', () => {
  it('holds here at once, is told to the store, and ends paced', async () => {
    const { clock, store, bucket, seen, many } = scene();
    const told: number[] = [];
    bucket.events.on('paused', ({ forMs }) => told.push(forMs));
    expect(bucket.pause(2_000)).toBe(2_000);
    expect([bucket.pausedMs, store.pauses]).toEqual([2_000, [2_000]]);
    await many('a', 'b', 'c', 'd');
    await clock.advance(1_000);
    // A shorter one changes nothing, and is not worth a question.
    expect(bucket.pause(500)).toBe(1_000);
    expect([store.pauses, told]).toEqual([[2_000], [2_000, 1_000]]);
    expect(store.takes).toEqual([]);
    await clock.advance(1_000);
    expect(seen.went).toEqual(['a@2000']);
    await clock.advance(5_000);
    expect(seen.went).toHaveLength(4);
    const at = seen.went.map((each) => Number(each.split('@')[1]));
    // A third of a second apart, rounded up.
    for (const [n, ms] of [2_000, 2_334, 2_668, 3_250].entries()) expect(at[n]).toBeCloseTo(ms, -1);
    expect(clock.pendingTimers).toBe(0);
  });

  it('many refusals at once are told as one or two', async () => {
    const { clock, store, bucket } = scene();
    for (let n = 0; n < 50; n++) bucket.pause(1_000 + n);
    await clock.settle();
    expect(store.pauses).toEqual([1_000, 1_049]);
    expect(bucket.pausedMs).toBe(1_049);
  });

  it('that begins while callers wait holds them, and refuses those it is too long for', async () => {
    const { clock, bucket, seen, acquire, many } = scene();
    await many('a', 'b', 'c');
    acquire('d', { untilMs: 3_000 });
    acquire('e', { untilMs: 10_000 });
    await clock.advance(1_000);
    bucket.pause(4_000);
    await clock.settle();
    expect(seen.refused).toMatchObject([
      { name: 'd', atMs: 1_000, error: { reason: 'paused', retryAfterMs: 4_000, executed: false } },
    ]);
    await clock.advance(10_000);
    expect(seen.went.slice(3)).toEqual(['e@5000']);
  });

  it('takes back a grant that was still to come', async () => {
    const { clock, store, bucket, seen, acquire } = scene();
    store.script.push({ grantedInMs: 200 });
    acquire('a');
    await clock.advance(100);
    bucket.pause(1_000);
    await clock.advance(999);
    expect(seen.went).toEqual([]);
    await clock.advance(1);
    expect(seen.went).toEqual(['a@1100']);
    expect(store.takes.map(({ atMs }) => atMs)).toEqual([0, 1_100]);
  });

  it('takes back a grant to the line, too', async () => {
    const { clock, store, bucket, seen, acquire } = scene();
    store.script.push({ askAgainInMs: 100 }, { grantedInMs: 200 });
    acquire('a');
    await clock.advance(200);
    bucket.pause(1_000);
    await clock.advance(1_000);
    expect(seen.went).toEqual(['a@1200']);
    expect(store.takes.map(({ atMs }) => atMs)).toEqual([0, 100, 1_200]);
  });
});

describe('grants that come late', () => {
  it('are waited for', async () => {
    const { clock, store, seen, acquire } = scene();
    store.script.push({ grantedInMs: 200 }, { askAgainInMs: 100 }, { grantedInMs: 150 });
    acquire('a');
    await clock.settle();
    acquire('b');
    await clock.advance(199);
    expect(seen.went).toEqual([]);
    await clock.advance(1);
    expect(seen.went).toEqual(['a@200']);
    await clock.advance(50);
    expect(seen.went).toEqual(['a@200', 'b@250']);
  });

  it('of a process that stood still are thrown away once, and asked for anew', async () => {
    const { clock, store, seen, acquire } = scene();
    // The timer for the grant runs 12 s late.
    const late = { ...clock, monotonic: () => clock.monotonic() + (stopped ? 12_000 : 0) };
    let stopped = false;
    const bucket = useBucket({
      clock: late,
      store,
      key: 'late',
      rules: [RULE],
      replicas: 1,
      onStoreDown: 'local-share',
    });
    store.script.push({ grantedInMs: 200 });
    acquire('a', {}, bucket);
    await clock.settle();
    stopped = true;
    await clock.advance(200);
    expect(seen.went).toHaveLength(1);
    expect(store.takes).toHaveLength(2);
  });

  it.each(['at once', 'in the line'])('a payment gives the instant of its token: one had %s', async (how) => {
    const { clock, store, bucket } = scene();
    if (how === 'in the line') store.script.push({ askAgainInMs: 1_000 });
    store.script.push({ grantedInMs: 200 });
    const signal = new AbortController().signal;
    const paid = bucket.acquire({
      urgency: 'call',
      untilMs: 60_000,
      signal: () => signal,
      onWait: () => {},
    });
    await clock.advance(5_000);
    expect(await paid).toBe(how === 'in the line' ? 1_200 : 200);
  });

  it('a store that always says "at once" does not stop the process', async () => {
    const { clock, store, seen, acquire } = scene();
    store.script.push(...Array.from({ length: 50 }, () => ({ askAgainInMs: 0 })));
    acquire('a');
    await clock.advance(100);
    expect(seen.went).toEqual(['a@50']);
  });
});

describe('among replicas', () => {
  it.each([
    [
      'half the spacing of the fastest rule',
      [
        { limit: 5, intervalMs: 500 },
        { limit: 60, intervalMs: 60_000 },
      ],
      50,
    ],
    ['100 ms at the most', [{ limit: 60, intervalMs: 60_000 }], 100],
  ])('a replica leaves a gap after each token from the line: %s', async (_name, rules, gapMs) => {
    const { clock, store, seen, acquire } = scene({ rules, replicas: 3 });
    store.script.push({ askAgainInMs: 1_000 });
    acquire('a');
    await clock.settle();
    acquire('b');
    acquire('c');
    await clock.advance(2_000);
    const [a = 0, b, c] = seen.went.map((each) => Number(each.split('@')[1]));
    expect([b, c]).toEqual([a + gapMs, a + 2 * gapMs]);
  });

  it('a replica comes a little later than it was told, 5 % or 100 ms at the most, and alone at once', async () => {
    const wakes = async (replicas: number, askAgainInMs: number) => {
      const lateMs: number[] = [];
      const { clock, store, acquire } = scene({ replicas });
      for (let n = 0; n < 20; n++) {
        const startMs = clock.monotonic();
        store.takes.length = 0;
        store.script.push({ askAgainInMs });
        acquire('a');
        await clock.advance(askAgainInMs + 2 * KEPT);
        lateMs.push((store.takes[1]?.atMs ?? 0) - startMs - askAgainInMs);
      }
      return { most: Math.max(...lateMs), least: Math.min(...lateMs), kinds: new Set(lateMs).size };
    };
    const short = await wakes(3, 1_000);
    expect(short.least).toBeGreaterThanOrEqual(0);
    expect(short.most).toBeLessThanOrEqual(50);
    expect(short.kinds).toBeGreaterThan(5);
    const long = await wakes(3, 10_000);
    expect(long.most).toBeGreaterThan(50);
    expect(long.most).toBeLessThanOrEqual(100);
    expect(await wakes(1, 1_000)).toEqual({ most: 0, least: 0, kinds: 1 });
  });
});
