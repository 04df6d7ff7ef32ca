/**
 * One line of generations over several holders of a token, one after the other.
 *
 * Guarantees that a token of a later holder has a higher generation than any of an earlier one, so that a straggler's
 * refusal of an old token costs nothing. Holds no secret.
 */
import type { AcquireOptions, Credential } from '../provider.js';

export class Generations {
  #offset = 0;
  #last = 0;

  /** The highest that was given out. */
  get last(): number {
    return this.#last;
  }

  /** The holder changed. */
  next(): void {
    this.#offset = this.#last;
  }

  outward(credential: Credential): Credential {
    const generation = credential.generation + this.#offset;
    this.#last = Math.max(this.#last, generation);
    return this.#offset === 0 ? credential : { ...credential, generation };
  }

  /** What the holder of now has to know of a refusal; undefined: it was of an earlier one's. */
  inward(rejected: AcquireOptions['rejected']): AcquireOptions['rejected'] {
    if (rejected === undefined || rejected.generation <= this.#offset) return undefined;
    return this.#offset === 0 ? rejected : { ...rejected, generation: rejected.generation - this.#offset };
  }
}
