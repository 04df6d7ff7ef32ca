/**
 * Equality of JSON values at every level of two trees, at a cost that grows with their size alone.
 *
 * Guarantees that equal values, and no others, have the same number within one `ValueNumbers`. Never walks
 * a value twice. Holds on to what it was asked about, so one is made for each comparison and dropped after it.
 */
import { byCodeUnits, isJsonObject } from './canonical.js';

export class ValueNumbers {
  readonly #numbers = new Map<string, number>();
  readonly #known = new Map<object, number>();

  of(value: unknown): number {
    if (typeof value !== 'object' || value === null)
      return this.#numberOf(`${typeof value} ${String(value)}`);
    let number = this.#known.get(value);
    if (number === undefined) {
      number = this.#numberOf(this.#shape(value));
      this.#known.set(value, number);
    }
    return number;
  }

  same(one: unknown, other: unknown): boolean {
    return one === other || this.of(one) === this.of(other);
  }

  /** Of a value whose parts have their numbers, the text that is the same for equal values only. */
  #shape(value: object): string {
    if (!isJsonObject(value)) return `[${(value as unknown[]).map((item) => this.of(item)).join(',')}`;
    return `{${Object.keys(value)
      .filter((key) => value[key] !== undefined)
      .sort(byCodeUnits)
      .map((key) => `${JSON.stringify(key)}:${this.of(value[key])}`)
      .join(',')}`;
  }

  #numberOf(shape: string): number {
    let number = this.#numbers.get(shape);
    if (number === undefined) {
      number = this.#numbers.size;
      this.#numbers.set(shape, number);
    }
    return number;
  }
}
