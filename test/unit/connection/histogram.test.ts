import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LatencyHistogram } from '../../../src/connection/histogram.js';

function of(values: readonly number[]): LatencyHistogram {
  const histogram = new LatencyHistogram();
  for (const value of values) histogram.record(value);
  return histogram;
}

test('an empty one says 0 to everything', () => {
  expect(of([])).toMatchObject({ count: 0, p50Ms: 0, p90Ms: 0, p99Ms: 0, maxMs: 0 });
});

test('one value is every percentile, exactly', () => {
  expect(of([123.4])).toMatchObject({ count: 1, p50Ms: 123.4, p90Ms: 123.4, p99Ms: 123.4, maxMs: 123.4 });
});

test('percentiles are within 5 % of the true ones', () => {
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0.01, max: 8e7, noNaN: true }), { minLength: 1 }), (values) => {
      const histogram = of(values);
      const sorted = [...values].sort((a, b) => a - b);
      const shares = [
        [0.5, histogram.p50Ms],
        [0.9, histogram.p90Ms],
        [0.99, histogram.p99Ms],
      ] as const;
      for (const [share, measured] of shares) {
        const exact = sorted[Math.ceil(share * sorted.length) - 1] as number;
        expect(Math.abs(measured - exact) / exact).toBeLessThanOrEqual(0.05);
      }
      expect(histogram.maxMs).toBe(Math.max(...values));
      expect(histogram.count).toBe(values.length);
    }),
  );
});

test('the views follow what is recorded', () => {
  const histogram = of([10]);
  histogram.record(1000);
  histogram.record(1000);
  expect(histogram.count).toBe(3);
  expect(histogram.maxMs).toBe(1000);
  expect(histogram.p50Ms).toBeGreaterThan(900);
});

test('odd values do no harm', () => {
  const histogram = of([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]);
  expect(histogram.count).toBe(0);
  histogram.record(-5);
  histogram.record(0);
  expect(histogram).toMatchObject({ count: 2, p50Ms: 0, maxMs: 0 });
  histogram.record(Number.MAX_VALUE);
  expect(histogram).toMatchObject({ count: 3, p99Ms: Number.MAX_VALUE, maxMs: Number.MAX_VALUE });
});

const durations = fc.array(fc.double({ min: 0, max: 1e6, noNaN: true }), { maxLength: 50 });

test('merging is the same as recording everything in one, and changes neither', () => {
  fc.assert(
    fc.property(durations, durations, (some, others) => {
      const left = of(some);
      const right = of(others);
      expect(left.merge(right).toJSON()).toEqual(of([...some, ...others]).toJSON());
      expect(left.toJSON()).toEqual(of(some).toJSON());
      expect(right.toJSON()).toEqual(of(others).toJSON());
    }),
  );
});

test('survives JSON', () => {
  fc.assert(
    fc.property(durations, (values) => {
      const histogram = of(values);
      const again = LatencyHistogram.from(JSON.parse(JSON.stringify(histogram)));
      expect(again.toJSON()).toEqual(histogram.toJSON());
      expect([again.count, again.p50Ms, again.p90Ms, again.p99Ms, again.maxMs]).toEqual([
        histogram.count,
        histogram.p50Ms,
        histogram.p90Ms,
        histogram.p99Ms,
        histogram.maxMs,
      ]);
    }),
  );
});

test('merges with one of another copy of this library', () => {
  const foreign = of([5, 6]);
  const other = { ...shape(foreign), merge: () => expect.unreachable(), toJSON: () => foreign.toJSON() };
  expect(of([1]).merge(other)).toMatchObject({ count: 3, maxMs: 6 });
});

function shape(histogram: LatencyHistogram) {
  const { count, p50Ms, p90Ms, p99Ms, maxMs } = histogram;
  return { count, p50Ms, p90Ms, p99Ms, maxMs };
}

test.each([
  undefined,
  null,
  'x',
  [],
  {},
  { v: 2, minMs: 0, maxMs: 0, buckets: [] },
  { v: 1, minMs: 2, maxMs: 1, buckets: [] },
  { v: 1, minMs: 0, maxMs: Number.NaN, buckets: [] },
  { v: 1, minMs: 0, maxMs: 1, buckets: [[-1, 1]] },
  { v: 1, minMs: 0, maxMs: 1, buckets: [[1e6, 1]] },
  { v: 1, minMs: 0, maxMs: 1, buckets: [[1, -1]] },
  { v: 1, minMs: 0, maxMs: 1, buckets: [[1, 1.5]] },
  { v: 1, minMs: 0, maxMs: 1, buckets: [[1]] },
  { v: 1, minMs: 0, maxMs: 1, buckets: 'none' },
])('refuses JSON that is not its own: %j', (json) => {
  expect(() => LatencyHistogram.from(json)).toThrow(TypeError);
});
