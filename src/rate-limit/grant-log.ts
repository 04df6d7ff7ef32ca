/**
 * The instants of grants, oldest first.
 *
 * Guarantees that adding, dropping and looking at the n-th cost the same however many there are, and that no
 * more are kept than was said. Never reads a clock.
 */

const FIRST_CAPACITY = 8;

/** A ring that doubles when it is full; its capacity is a power of two. */
export class GrantLog {
  readonly #maxSize: number;
  #ring = new Float64Array(FIRST_CAPACITY);
  #head = 0;
  #size = 0;

  constructor(maxSize = Number.POSITIVE_INFINITY) {
    this.#maxSize = maxSize;
  }

  get size(): number {
    return this.#size;
  }

  /** An instant before the last one counts as that one: grants stand in order. */
  push(atMs: number): void {
    if (this.#size === this.#maxSize) this.drop(1);
    if (this.#size === this.#ring.length) this.#grow();
    const newest = this.newest(0);
    this.#ring[(this.#head + this.#size) & (this.#ring.length - 1)] =
      newest === undefined ? atMs : Math.max(newest, atMs);
    this.#size += 1;
  }

  /** The n-th, the oldest being 0. */
  oldest(n: number): number | undefined {
    return n < this.#size ? this.#ring[(this.#head + n) & (this.#ring.length - 1)] : undefined;
  }

  /** The n-th from the end, the last being 0. */
  newest(n: number): number | undefined {
    return n < this.#size ? this.oldest(this.#size - 1 - n) : undefined;
  }

  /** Drops the oldest `count`. */
  drop(count: number): void {
    const dropped = Math.min(count, this.#size);
    this.#head = (this.#head + dropped) & (this.#ring.length - 1);
    this.#size -= dropped;
  }

  /** Drops all that are not after `atMs`. */
  forget(atMs: number): void {
    for (let oldest = this.oldest(0); oldest !== undefined && oldest <= atMs; oldest = this.oldest(0)) {
      this.drop(1);
    }
  }

  /** How many are after `atMs`. */
  countAfter(atMs: number): number {
    let low = 0;
    let high = this.#size;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.oldest(middle) as number) <= atMs) low = middle + 1;
      else high = middle;
    }
    return this.#size - low;
  }

  /** As milliseconds ago, oldest first. */
  agoMs(nowMs: number): number[] {
    return Array.from({ length: this.#size }, (_, n) => Math.max(0, nowMs - (this.oldest(n) as number)));
  }

  #grow(): void {
    const grown = new Float64Array(this.#ring.length * 2);
    for (let n = 0; n < this.#size; n++) grown[n] = this.oldest(n) as number;
    this.#ring = grown;
    this.#head = 0;
  }
}
