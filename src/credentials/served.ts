/**
 * The credential made of the token that is held.
 *
 * Guarantees one object for one token: whoever asks again in its time gets the same. Never made before it is asked for.
 */
import { makeCredential } from './credential.js';
import type { Dpop } from './dpop.js';
import type { HeldToken } from './held-token.js';
import type { Credential } from './provider.js';

export class Served {
  readonly #dpop: Dpop | undefined;
  #last: { readonly token: HeldToken; readonly credential: Credential } | undefined;

  constructor(dpop: Dpop | undefined) {
    this.#dpop = dpop;
  }

  of(token: HeldToken, origin: string): Credential {
    if (this.#last?.token !== token) this.#last = { token, credential: this.#make(token, origin) };
    return this.#last.credential;
  }

  #make(token: HeldToken, origin: string): Credential {
    return makeCredential({
      generation: token.generation,
      origin,
      header: 'authorization',
      prefix: 'Bearer ',
      secret: token.access,
      expiresAtMs: token.startedAtMs + token.lifetimeMs,
      scope: token.scope,
      bound: this.#dpop && token.dpop && { key: token.dpop, site: this.#dpop.resource },
    });
  }
}
