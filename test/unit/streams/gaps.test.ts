import { describe, expect, it } from 'vitest';
import type { Clock } from '../../../src/clock.js';
import { backOffMs, reopenGapMs } from '../../../src/streams/gaps.js';

const clockAt = (random: number) => ({ random: () => random }) as unknown as Clock;
const LEAST = clockAt(0);
const MOST = clockAt(0.999_999);

describe('after a stream that was open', () => {
  it('the next is opened within 20 ms, spread', () => {
    expect(reopenGapMs(LEAST, 0, undefined, 30_000)).toBe(0);
    expect(reopenGapMs(MOST, 0, undefined, 30_000)).toBeCloseTo(20, 2);
  });

  it('retry: is respected, jitter only adds', () => {
    expect(reopenGapMs(LEAST, 0, 3_000, 30_000)).toBe(3_000);
    const most = reopenGapMs(MOST, 0, 3_000, 30_000);
    expect(most).toBeGreaterThan(3_000);
    expect(most).toBeLessThanOrEqual(3_200);
    expect(reopenGapMs(LEAST, 0, 0, 30_000)).toBe(0);
  });

  it('gaps grow where each brought nothing, up to what the app allows', () => {
    const gaps = [1, 2, 3, 4, 5, 6, 7].map((empty) => reopenGapMs(LEAST, empty, undefined, 30_000));
    expect(gaps).toEqual([50, 500, 2_000, 5_000, 15_000, 30_000, 30_000]);
    expect(reopenGapMs(LEAST, 6, undefined, 4_000)).toBe(4_000);
    expect(reopenGapMs(MOST, 6, undefined, 30_000)).toBeLessThanOrEqual(33_000);
  });
});

it('tries that bring no stream back off, with full jitter over a least', () => {
  const most = [1, 3, 5, 20].map((failures) => backOffMs(MOST, failures, 30_000));
  expect(backOffMs(LEAST, 5, 30_000)).toBe(250);
  expect(most).toEqual(most.toSorted((one, other) => one - other));
  expect(most[0]).toBeLessThan(2_000);
  expect(most.at(-1)).toBeLessThanOrEqual(30_000);
});
