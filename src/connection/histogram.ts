/**
 * Latencies in fixed memory: a histogram with logarithmic buckets.
 *
 * Guarantees percentiles within 5 % of the true value between 10 µs and a day (the maximum is exact), and
 * that histograms of several connections, processes or copies of this library can be added up. Recording
 * allocates nothing. Never keeps a single measured value, never throws on an odd one.
 */

/** A distribution of durations. Every property is read anew at each access. */
export interface Histogram {
  readonly count: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  /** The longest duration, exactly. */
  readonly maxMs: number;
  /** A new histogram with the values of both. */
  merge(other: Histogram): Histogram;
  /** Plain JSON that `LatencyHistogram.from()` reads again. */
  toJSON(): unknown;
}

/** What `toJSON()` writes. The buckets are pairs of index and count; empty ones are left out. */
interface HistogramJson {
  readonly v: 1;
  readonly minMs: number;
  readonly maxMs: number;
  readonly buckets: readonly (readonly [index: number, count: number])[];
}

/** Below it everything is one bucket: finer than any network answer. */
const FLOOR_MS = 0.01;
/** Bucket borders grow by a tenth, so that the middle of a bucket is at most 4.9 % off. Fixed: it is part of the JSON. */
const GROWTH = 1.1;
const CEILING_MS = 24 * 60 * 60 * 1000;
const PER_LOG = 1 / Math.log(GROWTH);
const LOG_FLOOR = Math.log(FLOOR_MS);
const BUCKETS = Math.ceil((Math.log(CEILING_MS) - LOG_FLOOR) * PER_LOG) + 1;

export class LatencyHistogram implements Histogram {
  /** Made with the first value: most histograms of a session that rests have none. */
  #buckets: Float64Array | undefined;
  #count = 0;
  #minMs = Number.POSITIVE_INFINITY;
  #maxMs = 0;

  get #counts(): Float64Array {
    this.#buckets ??= new Float64Array(BUCKETS);
    return this.#buckets;
  }

  /** Reads what `toJSON()` wrote, here or elsewhere. Throws a TypeError for anything else. */
  static from(json: unknown): LatencyHistogram {
    const made = new LatencyHistogram();
    made.#add(checked(json));
    return made;
  }

  /** A duration that is no number counts for nothing; a negative one (a clock that was set back) counts as 0. */
  record(ms: number): void {
    if (!Number.isFinite(ms)) return;
    const value = Math.max(ms, 0);
    const at = value <= FLOOR_MS ? 0 : Math.ceil((Math.log(value) - LOG_FLOOR) * PER_LOG);
    const index = at < BUCKETS ? at : BUCKETS - 1;
    this.#counts[index] = (this.#counts[index] as number) + 1;
    this.#count++;
    if (value < this.#minMs) this.#minMs = value;
    if (value > this.#maxMs) this.#maxMs = value;
  }

  get count(): number {
    return this.#count;
  }
  get p50Ms(): number {
    return this.#percentile(0.5);
  }
  get p90Ms(): number {
    return this.#percentile(0.9);
  }
  get p99Ms(): number {
    return this.#percentile(0.99);
  }
  get maxMs(): number {
    return this.#maxMs;
  }

  merge(other: Histogram): LatencyHistogram {
    const sum = new LatencyHistogram();
    sum.#add(this.toJSON());
    // By way of JSON, for the other one may come from another copy of this library.
    sum.#add(checked(other.toJSON()));
    return sum;
  }

  toJSON(): HistogramJson {
    const buckets: [number, number][] = [];
    this.#buckets?.forEach((count, index) => {
      if (count > 0) buckets.push([index, count]);
    });
    return { v: 1, minMs: this.#count === 0 ? 0 : this.#minMs, maxMs: this.#maxMs, buckets };
  }

  /** Nearest rank; the middle of its bucket, never outside of what was measured. 0 when nothing was. */
  #percentile(share: number): number {
    if (this.#count === 0) return 0;
    const rank = Math.ceil(share * this.#count);
    let seen = 0;
    let index = 0;
    for (; index < BUCKETS - 1; index++) {
      seen += this.#counts[index] as number;
      if (seen >= rank) break;
    }
    const middle = index === 0 ? FLOOR_MS / 2 : FLOOR_MS * GROWTH ** (index - 0.5);
    // The last bucket has no upper border, so its middle says nothing.
    return index === BUCKETS - 1 ? this.#maxMs : Math.min(Math.max(middle, this.#minMs), this.#maxMs);
  }

  #add(json: HistogramJson): void {
    for (const [index, count] of json.buckets) {
      this.#counts[index] = (this.#counts[index] as number) + count;
      this.#count += count;
    }
    if (json.buckets.length === 0) return;
    this.#minMs = Math.min(this.#minMs, json.minMs);
    this.#maxMs = Math.max(this.#maxMs, json.maxMs);
  }
}

function checked(json: unknown): HistogramJson {
  const { v, minMs, maxMs, buckets } = (typeof json === 'object' && json !== null ? json : {}) as {
    [K in keyof HistogramJson]?: unknown;
  };
  const valid =
    v === 1 &&
    isDuration(minMs) &&
    isDuration(maxMs) &&
    minMs <= maxMs &&
    Array.isArray(buckets) &&
    buckets.every(
      (bucket) =>
        Array.isArray(bucket) &&
        bucket.length === 2 &&
        Number.isInteger(bucket[0]) &&
        bucket[0] >= 0 &&
        bucket[0] < BUCKETS &&
        Number.isSafeInteger(bucket[1]) &&
        bucket[1] > 0,
    );
  if (!valid) throw new TypeError('This is not the JSON of a histogram, as its toJSON() writes it.');
  return { v, minMs, maxMs, buckets };
}

function isDuration(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}
