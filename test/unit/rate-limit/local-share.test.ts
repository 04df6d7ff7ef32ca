import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LocalShare } from '../../../src/rate-limit/local-share.js';
import { keptIntervalMs, type Rule } from '../../../src/rate-limit/types.js';

const RULE: Rule = { limit: 30, intervalMs: 30_000 };
const KEPT = 30_600;

/** All instants from `fromMs` at which a replica that always wants to would go by its share. */
function goes(share: LocalShare, fromMs: number, toMs: number): number[] {
  const at: number[] = [];
  for (let nowMs = fromMs; nowMs <= toMs; ) {
    const waitMs = share.waitMs(nowMs);
    if (waitMs === 0) {
      share.record(nowMs);
      at.push(nowMs);
    } else nowMs += waitMs;
  }
  return at;
}

describe('LocalShare', () => {
  it('is a part of the limit for each replica, spaced over the window', () => {
    const share = new LocalShare([RULE], 3);
    expect(goes(share, 100_000, 100_000 + KEPT)).toEqual(
      Array.from({ length: 11 }, (_, n) => 100_000 + n * 3_060),
    );
  });

  it('is one at the least', () => {
    const share = new LocalShare([{ limit: 2, intervalMs: 1_000 }], 50);
    expect(goes(share, 0, 5_000)).toEqual([0, 1_250, 2_500, 3_750, 5_000]);
  });

  it('counts own grants of before the outage', () => {
    const share = new LocalShare([RULE], 3);
    for (let n = 0; n < 10; n++) share.record(1_000 + n);
    share.begin(2_000, 10);
    // The share is used up until the burst is out of the window; from then on it is spaced.
    expect(goes(share, 2_000, 50_000).slice(0, 3)).toEqual([31_600, 34_660, 37_720]);
  });

  it.each([
    ['what the store had left', 21, 3],
    ['nothing, where nothing was left', 30, 0],
    ['nothing, where less was left than replicas', 28, 0],
    ['half, where that is not known', undefined, 5],
  ])('divides in the first window %s', (_name, used, count) => {
    const share = new LocalShare([RULE], 3);
    share.begin(1_000, used);
    const at = goes(share, 1_000, 1_000 + KEPT - 1);
    expect(at).toHaveLength(count);
    // Then the ordinary share.
    expect(goes(share, 1_000 + KEPT, 1_000 + 2 * KEPT - 1)).toHaveLength(10);
  });

  it('takes own grants for used even if the store said less', () => {
    const share = new LocalShare([RULE], 3);
    for (let n = 0; n < 6; n++) share.record(500);
    share.begin(1_000, 0);
    expect(goes(share, 1_000, 1_000 + KEPT - 1).filter((at) => at < 500 + KEPT)).toHaveLength(4);
  });

  it('keeps every rule; of several, each may be fuller than the store said', () => {
    const share = new LocalShare([RULE, { limit: 60, intervalMs: 600_000 }], 3);
    share.begin(0, 3);
    // 30 of 60 assumed used: ten in the long window. 15 of 30: five in the short one.
    expect(goes(share, 0, KEPT - 1)).toHaveLength(5);
    expect(goes(share, KEPT, 611_999)).toHaveLength(5);
  });

  it('no window holds more than the share, whenever the replica wants to go', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: 5_000 }),
        fc.array(fc.integer({ min: 0, max: 3_000 }), { maxLength: 100 }),
        (limit, replicas, intervalMs, waits) => {
          const rule = { limit, intervalMs };
          const share = new LocalShare([rule], replicas);
          const count = Math.max(1, Math.floor(limit / replicas));
          const at: number[] = [];
          let nowMs = 0;
          for (const waitMs of waits) {
            nowMs += waitMs;
            if (share.waitMs(nowMs) > 0) continue;
            share.record(nowMs);
            at.push(nowMs);
          }
          for (const start of at) {
            const window = at.filter((each) => each >= start && each < start + keptIntervalMs(rule));
            expect(window.length).toBeLessThanOrEqual(count);
          }
        },
      ),
    );
  });

  it('tells own grants of the longest window as milliseconds ago', () => {
    const share = new LocalShare([RULE, { limit: 5, intervalMs: 1_000 }], 3);
    share.record(0);
    share.record(10_000);
    expect(share.ownAgoMs(20_000)).toEqual([20_000, 10_000]);
    expect(share.ownAgoMs(KEPT)).toEqual([KEPT - 10_000]);
  });
});
