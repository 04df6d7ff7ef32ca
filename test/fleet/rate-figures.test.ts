/**
 * The figures that scenarios are judged by: a judge that cannot say no is none.
 */
import { describe, expect, it } from 'vitest';
import {
  fullestWindow,
  longestGaps,
  mostIn,
  padMs,
  shares,
  timesWithinPad,
  usage,
} from '../../scripts/fleet/figures.mjs';

const at = (...times: number[]) => times.map((atMs) => ({ atMs }));

describe('the figures', () => {
  it('the fullest window may begin anywhere, and its end is not in it', () => {
    expect(mostIn([], 100)).toBe(0);
    expect(mostIn([0, 50, 99], 100)).toBe(3);
    expect(mostIn([0, 50, 100], 100)).toBe(2);
    // Never more than three in windows counted from the start, four across their edge.
    expect(mostIn([0, 80, 90, 110, 120, 290], 100)).toBe(4);
    expect(mostIn([120, 0, 110, 80, 290, 90], 100)).toBe(4);
    expect(fullestWindow(at(0, 80, 90, 110, 120, 290), 100)).toEqual(at(80, 90, 110, 120));
  });

  it('what the machine held up beyond the pad is taken off, and nothing else', () => {
    const requests = [
      { atMs: 1_000, grantedAtMs: 990, stalledMs: 0 },
      { atMs: 2_000, grantedAtMs: 1_750, stalledMs: 0 },
      { atMs: 3_000, grantedAtMs: 2_000, stalledMs: 0 },
      { atMs: 4_000, grantedAtMs: 3_990, stalledMs: 300 },
    ];
    expect(padMs(6_000)).toBe(250);
    expect(padMs(60_000)).toBe(1_200);
    expect(timesWithinPad(requests, 6_000)).toEqual([1_000, 2_000, 2_000, 3_940]);
    expect(timesWithinPad(requests, 6_000, { countStalls: false })).toEqual([1_000, 2_000, 2_000, 4_000]);
  });

  it('usage and shares are of whole padded windows from the first request on', () => {
    const rule = { limit: 4, intervalMs: 1_000 };
    const requests = [0, 10, 20, 30, 1_250, 1_260, 1_270, 2_499, 2_500].map((atMs, index) => ({
      atMs: 7_000 + atMs,
      replica: index % 4 === 0 ? 'a' : 'b',
    }));
    expect(usage(requests, rule, 2)).toBe(1);
    expect(usage(requests.slice(1), rule, 2)).toBe(1);
    expect(usage(requests.slice(0, 6), rule, 2)).toBe(0.75);
    expect(shares(requests, rule, 2)).toEqual({ a: 0.25, b: 0.75 });
  });

  it('the longest gap counts from the beginning to the end', () => {
    const requests = [
      { atMs: 100, client: 'a' },
      { atMs: 400, client: 'a' },
      { atMs: 900, client: 'b' },
    ];
    expect(longestGaps(requests, ['a', 'b', 'c'], 0, 1_000)).toEqual([600, 900, 1_000]);
  });
});
