/**
 * Which generation of the credential is in use.
 *
 * Guarantees that a source which is new at every use is recognised, so that it does not cost a probe a
 * call. Never holds a secret.
 */
import {
  type AcquireOptions,
  AT_HAND,
  type Credential,
  type ProviderAtHand,
} from '../credentials/provider.js';

const NEW_AT_EACH_USE = 2;

export class CredentialUse {
  readonly #provider: ProviderAtHand;
  readonly #target: URL;
  #asked = 0;
  #answered = 0;
  #sharedUpTo = 0;
  #uses = 0;
  #freshInRow = 0;
  /** The generation seen last. */
  generation = 0;

  constructor(provider: ProviderAtHand, target: URL) {
    this.#provider = provider;
    this.#target = target;
  }

  /** A source that is new at every acquire: there the first refusal decides, no probe. */
  get isAlwaysNew(): boolean {
    return this.#freshInRow >= NEW_AT_EACH_USE;
  }

  /** Undefined where it has to be waited for: by `acquire`. */
  atHand(): Credential | undefined {
    const credential = this.#provider[AT_HAND]?.(this.#target);
    if (credential === undefined) return undefined;
    this.#asked += 1;
    return this.#given(credential, this.#asked);
  }

  async acquire(options?: AcquireOptions): Promise<Credential> {
    this.#asked += 1;
    const order = this.#asked;
    return this.#given(await this.#provider.acquire(this.#target, options), order);
  }

  #given(credential: Credential, order: number): Credential {
    // One that was asked for earlier and is older only arrives late.
    if (credential.generation < this.generation && order < this.#answered) return credential;
    this.#answered = Math.max(order, this.#answered);
    if (credential.generation !== this.generation) {
      this.#freshInRow = this.#uses === 1 && credential.expiresAtMs === undefined ? this.#freshInRow + 1 : 0;
      this.generation = credential.generation;
      this.#uses = 0;
      this.#sharedUpTo = this.#asked;
    }
    // Those who asked while it was on its way share one use.
    if (this.#uses === 0 || order > this.#sharedUpTo) this.#uses += 1;
    return credential;
  }
}
