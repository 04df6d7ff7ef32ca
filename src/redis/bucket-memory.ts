/**
 * What one process remembers of the buckets it shares: enough to notice that Redis has lost one.
 *
 * Guarantees that a bucket which ended by itself, unused, does not count as lost, and that no grant is told twice.
 * Reads the monotonic clock only. Never grows without end.
 */
import type { Clock } from '../clock.js';

/** Bounds memory (a few hundred bytes each). One that is forgotten is a new one: its loss goes unnoticed here. */
const MAX_BUCKETS = 10_000;
/** A limiter notes the instant of a grant a little after the answer that counted it. */
const SAME_INSTANT_MS = 5;

interface Sight {
  readonly epoch: number;
  readonly atMs: number;
}

interface Seen {
  /** The last look that was told of no loss. */
  sight?: Sight | undefined;
  /** Grants of everybody at `sight`. */
  held: number;
  /** The time of shares this process was told of, and has not been away from since. */
  marked: number;
  /** Grants told by `note` to an epoch that has not been looked at: seeding must not tell them again. */
  noted: { epoch: number; atMs: number[] };
}

/** What a replica can say about a lost bucket. */
export interface Seed {
  readonly ago: readonly number[];
  readonly others: number;
  readonly othersAgo: number;
}

export class BucketMemory {
  readonly #clock: Clock;
  readonly #seen = new Map<string, Seen>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  instantsOf(ago: readonly number[]): number[] {
    const now = this.#clock.monotonic();
    return ago.map((each) => now - each);
  }

  /** The epoch that was last seen, if the bucket must still be there (it lives for `livesMs` after a look). */
  knownEpoch(bucket: string, livesMs: number): number {
    const sight = this.#seen.get(bucket)?.sight;
    return sight !== undefined && this.#clock.monotonic() - sight.atMs < livesMs ? sight.epoch : 0;
  }

  looked(bucket: string, epoch: number, held: number, marked: number): void {
    const seen = this.#of(bucket);
    seen.sight = { epoch, atMs: this.#clock.monotonic() };
    seen.held = held;
    seen.marked = marked;
  }

  /** After the limiter's grants were told to the bucket's new epoch. */
  seeded(bucket: string, epoch: number, marked: number): void {
    const seen = this.#of(bucket);
    seen.sight = { epoch, atMs: this.#clock.monotonic() };
    seen.marked = marked;
  }

  /** `atMs`: when they were granted, on the monotonic clock. */
  noted(bucket: string, epoch: number, marked: number, atMs: readonly number[], keptMs: number): void {
    const seen = this.#of(bucket);
    seen.marked = marked;
    if (seen.sight === undefined || seen.sight.epoch === epoch) return;
    const oldestMs = this.#clock.monotonic() - keptMs;
    const before = seen.noted.epoch === epoch ? seen.noted.atMs.filter((at) => at > oldestMs) : [];
    seen.noted = { epoch, atMs: [...before, ...atMs] };
  }

  /** The time of shares that this process knows of; 0 makes Redis take it as one that comes back. */
  marked(bucket: string): number {
    return this.#seen.get(bucket)?.marked ?? 0;
  }

  wasAway(bucket: string): void {
    const seen = this.#seen.get(bucket);
    if (seen !== undefined) seen.marked = 0;
  }

  /**
   * Own grants that the new epoch has not been told of, and how many of others' there were when last looked: some
   * of those may be idle, and come too late to tell.
   */
  seed(bucket: string, epoch: number, ownAgo: readonly number[]): Seed {
    const seen = this.#of(bucket);
    const now = this.#clock.monotonic();
    const told = seen.noted.epoch === epoch ? [...seen.noted.atMs] : [];
    const ago = ownAgo.filter((each) => {
      const same = told.findIndex((at) => Math.abs(now - each - at) <= SAME_INSTANT_MS);
      if (same >= 0) told.splice(same, 1);
      return same < 0;
    });
    const sinceMs = now - (seen.sight?.atMs ?? now);
    const counted = ownAgo.filter((each) => each + SAME_INSTANT_MS >= sinceMs).length;
    return { ago, others: Math.max(0, seen.held - counted), othersAgo: Math.max(0, Math.floor(sinceMs)) };
  }

  #of(bucket: string): Seen {
    const found = this.#seen.get(bucket) ?? { held: 0, marked: 0, noted: { epoch: 0, atMs: [] } };
    // The one used last comes last: the first is the one to forget.
    this.#seen.delete(bucket);
    this.#seen.set(bucket, found);
    if (this.#seen.size > MAX_BUCKETS) this.#seen.delete(this.#seen.keys().next().value as string);
    return found;
  }
}
