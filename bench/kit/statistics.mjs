// What many rounds come to.

/** The middle one; of an even number the mean of the two in the middle. Undefined of none. */
export function median(values) {
  if (values.length === 0) return undefined;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** The value that `share` (0 to 1) of them do not exceed; nearest rank. Undefined of none. */
export function quantile(values, share) {
  if (values.length === 0) return undefined;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}

/**
 * How a cost grows with a size: the slope of its logarithm over the size's, by least squares. 1 is linear, 2 is
 * quadratic, 0 is no growth. `points` are `[size, cost]`, at least two sizes.
 */
export function growthExponent(points) {
  const logs = points.map(([size, cost]) => [Math.log(size), Math.log(cost)]);
  const mean = (at) => logs.reduce((sum, pair) => sum + pair[at], 0) / logs.length;
  const [sizeMean, costMean] = [mean(0), mean(1)];
  const spread = logs.reduce((sum, [size]) => sum + (size - sizeMean) ** 2, 0);
  return logs.reduce((sum, [size, cost]) => sum + (size - sizeMean) * (cost - costMean), 0) / spread;
}
