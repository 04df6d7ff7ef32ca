/**
 * The refresh token an app configures, used where the store has none.
 *
 * Guarantees that a stored pair comes first (the configured token may long be spent), and that a configured
 * token which differs from the one the stored line began with is tried once when that line has died, so that
 * nobody has to empty a store by hand. Keeps no token in clear outside `Secret`.
 */
import { hmacHex } from '../runtime/digest.js';
import type { Holding } from './held-token.js';
import type { Secret } from './secret.js';

export interface Seed {
  readonly refreshToken?: Secret | undefined;
  readonly accessToken?: Secret | undefined;
  /** Of the access token, at the moment the provider is made. */
  readonly lifetimeMs?: number | undefined;
}

export class SeedUse {
  readonly #seed: Seed | undefined;
  readonly #holding: Holding;
  #used = false;

  constructor(seed: Seed | undefined, holding: Holding) {
    this.#seed = seed;
    this.#holding = holding;
  }

  /** After the store was read. */
  plant(): void {
    const seed = this.#seed;
    if (seed === undefined || this.#used || this.#holding.refresh !== undefined) return;
    this.#used = true;
    this.#holding.refresh = seed.refreshToken;
    this.#holding.seed = digestOf(seed.refreshToken);
    if (seed.accessToken !== undefined && seed.lifetimeMs !== undefined) {
      this.#holding.takeSeed(seed.accessToken.reveal(), seed.lifetimeMs, this.#holding.asked);
    }
  }

  /** The configured refresh token where it is another than the one that died; once. */
  untried(): Secret | undefined {
    const token = this.#seed?.refreshToken;
    if (token === undefined || this.#used) return undefined;
    this.#used = true;
    const digest = digestOf(token);
    if (digest === this.#holding.seed) return undefined;
    this.#holding.seed = digest;
    return token;
  }

  /** The credential was forgotten on purpose. */
  drop(): void {
    this.#used = true;
  }
}

function digestOf(token: Secret | undefined): string | undefined {
  if (token === undefined) return undefined;
  return hmacHex('mcp-holdfast seed', token.reveal()).slice(0, 16);
}
