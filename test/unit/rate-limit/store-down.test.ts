import { describe, expect, it } from 'vitest';
import { type BucketOptions, useBucket } from '../../../src/rate-limit/bucket.js';
import { manualClock } from '../../../src/testing/index.js';
import { FakeStore, settlements } from './support.js';

/** Kept for 30,600 ms; a third of it is ten, one every 3,060 ms. */
const RULE = { limit: 30, intervalMs: 30_000 };
const GAP = 3_060;

function scene(options: Partial<BucketOptions> = {}) {
  const clock = manualClock();
  const store = new FakeStore(clock);
  const bucket = useBucket({
    clock,
    store,
    key: 'k',
    rules: [RULE],
    replicas: 3,
    onStoreDown: 'local-share',
    ...options,
  });
  const seen = settlements(clock);
  const events: string[] = [];
  bucket.events.on('degraded', ({ reason }) => events.push(`${reason}@${clock.monotonic()}`));
  bucket.events.on('restored', () => events.push(`restored@${clock.monotonic()}`));
  const acquire = (name: string, untilMs = Number.POSITIVE_INFINITY, signal = new AbortController().signal) =>
    seen.watch(name, bucket.acquire({ urgency: 'call', untilMs, signal: () => signal, onWait: () => {} }));
  const many = async (...names: string[]) => {
    for (const name of names) {
      acquire(name);
      await clock.settle();
    }
  };
  return { clock, store, bucket, seen, events, acquire, many };
}

describe('local-share', () => {
  it('lets each replica have its share, spaced, and asks the store no more than about once a second', async () => {
    const { clock, store, seen, events, many } = scene();
    await many('first');
    store.mode = 'fail';
    await clock.advance(900);
    await many('a', 'b', 'c');
    expect(events).toEqual(['unavailable@900']);
    await clock.advance(3 * GAP);
    expect(seen.went).toHaveLength(4);
    const at = seen.went.slice(1).map((each) => Number(each.split('@')[1]));
    // A wait in the line is in steps of a second, each a little late.
    expect(at[0]).toBeGreaterThanOrEqual(GAP);
    for (const [n, ms] of at.entries()) {
      const before = at[n - 1] ?? 0;
      expect(ms - before).toBeGreaterThanOrEqual(GAP);
      expect(ms - before).toBeLessThan(GAP + 250);
    }
    // One ask failed; the rest found out in the background.
    expect(store.takes).toHaveLength(2);
    const gaps = store.notes.map(({ atMs }, n) => atMs - (store.notes[n - 1]?.atMs ?? 900));
    expect(gaps.length).toBeGreaterThan(6);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(800);
    expect(Math.max(...gaps)).toBeLessThan(1_300);
    expect(events).toHaveLength(1);
  });

  it.each([
    ['what the store said less than a second ago', 24, 900, 2],
    ['half of the limit where that was longer ago', 24, 1_100, 5],
  ])('divides in the first window %s', async (_name, used, laterMs, count) => {
    const { clock, store, seen, acquire } = scene();
    store.script.push({ grantedInMs: 0, used });
    acquire('first');
    await clock.settle();
    store.mode = 'fail';
    await clock.advance(laterMs);
    for (let n = 0; n < 20; n++) acquire(`x${n}`);
    await clock.advance(30_599);
    expect(seen.went).toHaveLength(1 + count);
  });

  it('holds the store’s word for as long as it said that nothing comes free', async () => {
    const { clock, store, seen, acquire } = scene();
    store.script.push({ askAgainInMs: 20_000, used: 30 });
    acquire('a');
    await clock.settle();
    store.mode = 'fail';
    await clock.advance(20_200);
    expect(store.takes).toHaveLength(2);
    await clock.advance(30_000);
    expect(seen.went).toEqual([]);
    await clock.advance(1_500);
    expect(seen.went).toHaveLength(1);
  });

  it('waits for a silent store once, for 5 s at the most, and has one question out at a time', async () => {
    const { clock, store, seen, events, many } = scene();
    store.mode = 'hang';
    await many('a');
    await clock.advance(4_999);
    expect(seen.went).toEqual([]);
    await clock.advance(1);
    expect([seen.went, events]).toEqual([['a@5000'], ['timeout@5000']]);
    expect(store.hanging.size).toBe(0);
    await clock.advance(GAP);
    await many('b');
    expect(seen.went[1]).toBe('b@8060');
    expect(store.hanging.size).toBe(1);
    await clock.advance(GAP);
    await many('c');
    expect(seen.went[2]).toBe('c@11120');
    expect([store.takes.length, store.notes.length, store.hanging.size]).toEqual([1, 1, 1]);
  });

  it('many that ask at once pay for one failure, and share what is left', async () => {
    const { clock, store, seen, events, acquire } = scene();
    store.mode = 'fail';
    for (let n = 0; n < 20; n++) acquire(`x${n}`);
    await clock.settle();
    expect([seen.went.length, events]).toEqual([1, ['unavailable@0']]);
    expect(store.takes).toHaveLength(20);
  });

  it('takes a nonsense answer for a failure', async () => {
    for (const answer of [{ grantedInMs: Number.NaN }, { askAgainInMs: -1 }, {}, null, 'yes']) {
      const { store, events, many } = scene();
      store.script.push(answer as never);
      await many('a');
      expect(events).toEqual(['malformed@0']);
    }
  });

  it('refuses nobody for a wait that the store’s return could end', async () => {
    const { clock, store, seen, acquire, many } = scene();
    store.mode = 'fail';
    await many('a');
    acquire('b', 2_900);
    await clock.advance(1_200);
    expect(seen.refused).toEqual([]);
    store.mode = 'up';
    await clock.advance(1_699);
    expect(seen.went.map((each) => each.split('@')[0])).toEqual(['a', 'b']);
    store.mode = 'fail';
    await many('c');
    acquire('d', clock.monotonic() + 1_000);
    await clock.advance(1_000);
    expect(seen.refused).toMatchObject([{ name: 'd', error: { code: 'ERR_RATE_WAIT_EXCEEDED' } }]);
  });
});

describe('a store that is back', () => {
  it('is told first what went without it, then asked', async () => {
    const { clock, store, seen, events, many } = scene();
    store.mode = 'fail';
    await many('a');
    await clock.advance(GAP);
    await many('b');
    expect(seen.went).toHaveLength(2);
    store.mode = 'up';
    store.notes.length = 0;
    await clock.advance(2_000);
    await many('c');
    // c stands in line for the share; the question in the background finds the store.
    expect(store.notes).toEqual([{ atMs: 5_060, agoMs: [5_060, 2_000] }]);
    await clock.advance(1_100);
    expect(seen.went[2]).toMatch(/^c@/);
    expect(store.takes).toHaveLength(2);
    expect(store.takes[1]?.ownAgoMs).toHaveLength(2);
    expect(events).toEqual(['unavailable@0', `restored@${store.takes[1]?.atMs}`]);
    // Nothing is told twice.
    await clock.advance(60_000);
    await many('d');
    expect(store.notes).toHaveLength(1);
  });

  it('is told of grants made while it was being told', async () => {
    const { clock, store, many } = scene({ onStoreDown: 'open' });
    store.mode = 'fail';
    await many('a');
    await clock.advance(1_200);
    let open!: () => void;
    const slow = new Promise<void>((resolve) => {
      open = resolve;
    });
    const note = store.note.bind(store);
    store.note = async (...args) => {
      await note(...args);
      await slow;
    };
    store.mode = 'up';
    await many('b', 'c');
    expect(store.notes.map(({ agoMs }) => agoMs)).toEqual([[1_200]]);
    open();
    await clock.settle();
    expect(store.notes.map(({ agoMs }) => agoMs)).toEqual([[1_200], [0, 0]]);
    await many('d');
    expect(store.notes).toHaveLength(2);
    expect(store.takes).toHaveLength(2);
  });

  it.each([
    ['a token', { grantedInMs: 0, used: 3 }, 2],
    ['its full count', { askAgainInMs: 20_000, used: 30 }, 1],
    ['that its count is not complete', { askAgainInMs: 3_000, keepShare: true }, 1],
  ])('is not taken for back by an answer from before: %s', async (_name, answer, went) => {
    const { clock, store, seen, events, acquire } = scene();
    let late!: (answer: object) => void;
    const coming = new Promise<object>((resolve) => {
      late = resolve;
    });
    store.script.push(coming as never, 'fail');
    acquire('slow');
    acquire('failed');
    await clock.settle();
    expect([seen.went, events]).toEqual([['failed@0'], ['unavailable@0']]);
    late(answer);
    await clock.settle();
    expect([seen.went.length, events.length, store.notes.length]).toEqual([went, 1, 0]);
    // What went without it is still to be told.
    await clock.advance(1_500);
    acquire('next');
    await clock.settle();
    expect(store.notes[0]?.agoMs).toEqual([store.notes[0]?.atMs]);
  });

  it.each([
    ['where somebody waits', true],
    ['where nobody does, with the next refusal', false],
  ])('is told what is left of a pause that it missed: %s', async (_name, waits) => {
    const { clock, store, bucket, seen, events, many } = scene();
    store.mode = 'fail';
    await many('a');
    bucket.pause(60_000);
    if (waits) await many('b');
    await clock.advance(20_000);
    expect(store.pauses).toEqual([]);
    store.mode = 'up';
    await clock.advance(5_000);
    bucket.pause(60_000);
    await clock.settle();
    // 60 s at 0, and the store back at 20 s: found within a second or so. Another 60 s at 25 s.
    const missed = store.pauses.slice(0, -1);
    expect(missed.map((forMs) => forMs > 38_000 && forMs <= 40_000)).toEqual(waits ? [true] : []);
    expect(store.pauses.at(-1)).toBe(60_000);
    expect(seen.went).toEqual(['a@0']);
    expect(events).toEqual(['unavailable@0']);
    await clock.advance(60_000);
    expect(seen.went).toHaveLength(waits ? 2 : 1);
  });

  it('a pause that it did not take is an outage; it is told when it is back', async () => {
    const { clock, store, bucket, seen, events, acquire } = scene();
    store.mode = 'fail';
    bucket.pause(3_000);
    await clock.settle();
    expect(events).toEqual(['unavailable@0']);
    expect(bucket.pausedMs).toBe(3_000);
    store.mode = 'up';
    acquire('a');
    await clock.advance(2_999);
    expect(store.notes.map(({ agoMs }) => agoMs)).toEqual([[]]);
    expect(store.pauses).toEqual([3_000, 3_000 - (store.notes[0]?.atMs ?? 0)]);
    expect(seen.went).toEqual([]);
    await clock.advance(1);
    expect(seen.went).toEqual(['a@3000']);
  });

  it('without note is asked for a token, which is let go', async () => {
    const { clock, store, seen, events, many } = scene();
    Object.defineProperty(store, 'note', { value: undefined });
    store.mode = 'fail';
    await many('a');
    await clock.advance(GAP);
    store.mode = 'up';
    await many('b');
    await clock.settle();
    await many('c');
    expect(seen.went).toHaveLength(3);
    expect(events).toEqual(['unavailable@0', 'restored@3060']);
    expect(store.takes).toHaveLength(3);
  });
});

describe('a store whose count is not complete', () => {
  it('leaves each replica its share, and hears of each grant before it goes', async () => {
    const { clock, store, seen, events, many } = scene();
    const keepShare = { askAgainInMs: 3_000, used: 4, keepShare: true };
    store.script.push(keepShare, keepShare, keepShare, keepShare, keepShare);
    let told!: () => void;
    const hearing = new Promise<void>((resolve) => {
      told = resolve;
    });
    const note = store.note.bind(store);
    store.note = async (...args) => {
      await hearing;
      await note(...args);
    };
    await many('a');
    expect([seen.went, events]).toEqual([[], ['incomplete@0']]);
    told();
    await clock.settle();
    expect(seen.went).toEqual(['a@0']);
    expect(store.notes).toEqual([{ atMs: 0, agoMs: [0] }]);
    await many('b');
    await clock.advance(GAP - 1);
    expect(seen.went).toHaveLength(1);
    await clock.advance(1_500);
    expect(seen.went).toHaveLength(2);
    await many('c');
    expect(store.notes).toHaveLength(2);
    expect(events[1]).toMatch(/^restored@/);
  });

  it('grants nothing where even that count is full', async () => {
    const { clock, store, seen, many } = scene();
    store.script.push({ askAgainInMs: 900, used: 30, keepShare: true });
    await many('a');
    expect(seen.went).toEqual([]);
    await clock.advance(1_000);
    expect(seen.went).toHaveLength(1);
  });

  it('that does not hear of a grant is away, and is told later', async () => {
    const { clock, store, seen, events, many } = scene();
    store.script.push({ askAgainInMs: 3_000, keepShare: true });
    store.mode = 'fail';
    await many('a');
    expect([seen.went, events]).toEqual([['a@0'], ['incomplete@0']]);
    store.mode = 'up';
    store.notes.length = 0;
    await clock.advance(GAP);
    await many('b');
    expect(store.notes.map(({ agoMs }) => agoMs)).toEqual([[GAP], [0]]);
  });
});

describe('closed', () => {
  it('refuses while the store is away: at once after the first, and until somebody finds it back', async () => {
    const { clock, store, seen, events, many } = scene({ onStoreDown: 'closed' });
    store.mode = 'hang';
    await many('a');
    await clock.advance(5_000);
    await many('b', 'c');
    expect(seen.refused).toMatchObject(
      ['a', 'b', 'c'].map((name) => ({
        name,
        atMs: 5_000,
        error: {
          code: 'ERR_STORE_UNAVAILABLE',
          executed: false,
          retryable: true,
          retryAfterMs: 1_000,
          reason: 'rate_limit_store',
        },
      })),
    );
    expect(String(seen.refused[0]?.error)).toContain('rate limit store');
    await clock.advance(2_000);
    // One finds out, and waits for the answer; the next does not.
    await many('d', 'e');
    expect(seen.refused.map(({ name }) => name)).toEqual(['a', 'b', 'c', 'e']);
    store.mode = 'up';
    await clock.advance(10_000);
    await many('f');
    expect(seen.went).toEqual(['f@17000']);
    expect(events).toEqual(['timeout@5000', 'restored@17000']);
  });

  it('refuses those in line, too', async () => {
    const { clock, store, bucket, seen, acquire } = scene({ onStoreDown: 'closed' });
    store.script.push({ askAgainInMs: 100 }, 'fail');
    acquire('a', 60_000);
    await clock.settle();
    acquire('b', 60_000);
    await clock.advance(105);
    expect(seen.refused).toMatchObject([
      { name: 'a', error: { code: 'ERR_STORE_UNAVAILABLE' } },
      { name: 'b', error: { code: 'ERR_STORE_UNAVAILABLE' } },
    ]);
    expect([bucket.waiting, clock.pendingTimers]).toEqual([0, 0]);
  });
});

describe('open', () => {
  it('lets everybody go, and tells the store afterwards', async () => {
    const { clock, store, seen, events, many } = scene({ onStoreDown: 'open' });
    store.mode = 'fail';
    await many(...Array.from({ length: 50 }, (_, n) => `x${n}`));
    expect(seen.went).toHaveLength(50);
    expect(store.takes).toHaveLength(1);
    store.mode = 'up';
    await clock.advance(1_200);
    await many('y');
    // The store need not hear of more than the limit: it is full then.
    expect(store.notes[0]?.agoMs).toHaveLength(30);
    await many('z');
    expect(store.takes).toHaveLength(2);
    expect(events).toEqual(['unavailable@0', 'restored@1200']);
  });
});
