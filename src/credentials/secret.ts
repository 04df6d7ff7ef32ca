/**
 * One secret value in memory.
 *
 * Guarantees that printing, logging, serialising or inspecting whatever holds a secret shows a placeholder:
 * the value sits in a private field and leaves through `reveal()` only. Never compares or hashes itself.
 */
const INSPECT = Symbol.for('nodejs.util.inspect.custom');

export class Secret {
  readonly #value: string;
  readonly #label: string;

  constructor(value: string, generation?: number | undefined) {
    this.#value = value;
    this.#label = generation === undefined ? '[redacted]' : `[redacted gen=${generation}]`;
  }

  /** The value itself; for the line that writes a header or a request body. */
  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return this.#label;
  }

  toJSON(): string {
    return this.#label;
  }

  [INSPECT](): string {
    return this.#label;
  }
}
