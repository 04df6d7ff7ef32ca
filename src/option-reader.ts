/**
 * Reads one group of options.
 *
 * Guarantees a `TypeError` that names the option, for a value that cannot be used and for a name that
 * does not exist. Never changes the object it reads; `undefined` means unset, 0 is a value.
 */
import { MAX_TIMER_MS } from './clock.js';

export class OptionReader {
  readonly #group: string;
  readonly #options: Readonly<Record<string, unknown>>;
  readonly #asked = new Set<string>();

  constructor(group: string, options: object | undefined) {
    if (
      options !== undefined &&
      (typeof options !== 'object' || options === null || Array.isArray(options))
    ) {
      throw new TypeError(`${group} must be an object`);
    }
    this.#group = group;
    this.#options = (options ?? {}) as Record<string, unknown>;
  }

  /** Milliseconds. */
  duration(name: string, minMs = 0): number | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    if (typeof value !== 'number' || !Number.isFinite(value) || value < minMs || value > MAX_TIMER_MS) {
      throw new TypeError(
        `${this.#path(name)} must be a number of milliseconds from ${minMs} to ${MAX_TIMER_MS}`,
      );
    }
    return value;
  }

  count(name: string, min: number, max: number): number | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
      throw new TypeError(`${this.#path(name)} must be a whole number from ${min} to ${max}`);
    }
    return value;
  }

  oneOf<const T extends readonly unknown[]>(name: string, allowed: T): T[number] | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    if (!allowed.includes(value)) {
      throw new TypeError(
        `${this.#path(name)} must be one of ${allowed.map((each) => JSON.stringify(each)).join(', ')}`,
      );
    }
    return value as T[number];
  }

  func<F>(name: string): F | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    if (typeof value !== 'function') throw new TypeError(`${this.#path(name)} must be a function`);
    return value as F;
  }

  /** A value that somebody else checks. */
  any(name: string): unknown {
    return this.#take(name);
  }

  /** Refuses what nobody asked for: a misspelt option does nothing, silently. */
  done(): void {
    for (const name of Object.keys(this.#options)) {
      if (!this.#asked.has(name) && this.#options[name] !== undefined) {
        throw new TypeError(`${this.#path(name)} is not an option`);
      }
    }
  }

  #take(name: string): unknown {
    this.#asked.add(name);
    return Object.hasOwn(this.#options, name) ? this.#options[name] : undefined;
  }
  #path(name: string): string {
    return this.#group === '' ? name : `${this.#group}.${name}`;
  }
}
