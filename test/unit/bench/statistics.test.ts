/** What the benchmark makes of many rounds. */
import { describe, expect, it } from 'vitest';
import { growthExponent, median, quantile } from '../../../bench/kit/statistics.mjs';

describe('median', () => {
  it.each([
    [[3, 1, 2], 2],
    [[4, 1, 3, 2], 2.5],
    [[7], 7],
    // As numbers, not as text.
    [[10, 9, 100], 10],
  ])('of %j is %d', (values, expected) => {
    expect(median(values)).toBe(expected);
  });

  it('leaves what it was given as it was, and has nothing to say of nothing', () => {
    const values = [3, 1, 2];
    median(values);
    expect(values).toEqual([3, 1, 2]);
    expect(median([])).toBeUndefined();
  });
});

describe('quantile', () => {
  const hundred = Array.from({ length: 100 }, (_, at) => 100 - at);

  it('is the value that so many do not exceed', () => {
    expect(quantile(hundred, 0.99)).toBe(99);
    expect(quantile(hundred, 0.5)).toBe(50);
    expect(quantile(hundred, 1)).toBe(100);
    expect(quantile([5], 0.01)).toBe(5);
    expect(quantile([], 0.5)).toBeUndefined();
  });
});

describe('growthExponent', () => {
  it.each([
    ['linear growth', (size: number) => 7 * size, 1],
    ['quadratic growth', (size: number) => 3 * size ** 2, 2],
    ['no growth', () => 4, 0],
  ])('of %s', (_, cost, expected) => {
    const points = [10, 1_000, 10_000].map((size): [number, number] => [size, cost(size)]);
    expect(growthExponent(points)).toBeCloseTo(expected, 10);
  });
});
