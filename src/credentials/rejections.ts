/**
 * What a server's refusals of a token lead to.
 *
 * Guarantees that a refused generation is renewed once for all who report it, that a refusal of an older
 * generation or of a proof that can be made better leads to nothing, and that a server which refuses the answer to its
 * own refusal, too, costs one token request a minute at most; one that answered calls under it first has ended it, and
 * may do so ten times a minute. Does no I/O and sets no timer.
 */
import type { Clock } from '../clock.js';
import type { HostedMcpError } from '../errors.js';
import type { Dpop } from './dpop.js';
import type { HeldToken } from './held-token.js';
import { REFUSAL_LATCH_MS } from './options.js';
import { problemError } from './problem.js';
import type { AcquireOptions, Rejection } from './provider.js';

/** In the time of one latch. A server that ends more tokens than that gives none worth asking for. */
const MAX_ENDED_EARLY = 10;

export class Rejections {
  readonly #clock: Clock;
  readonly #onLatch: (error: HostedMcpError) => void;
  readonly #dpop: Dpop | undefined;
  #refused: number | undefined;
  /** The generation that was made for a refusal, and when. */
  #answer: { readonly generation: number; readonly atMs: number } | undefined;
  #latched: { readonly generation: number; readonly untilMs: number } | undefined;
  #endedAtMs: number[] = [];

  constructor(clock: Clock, onLatch: (error: HostedMcpError) => void, dpop?: Dpop | undefined) {
    this.#clock = clock;
    this.#onLatch = onLatch;
    this.#dpop = dpop;
  }

  /** The generation a server refused: not to be served any more. */
  get refused(): number | undefined {
    return this.#refused;
  }

  /** A caller reports a refusal. */
  note({ rejected, scope }: AcquireOptions, token: HeldToken | undefined): void {
    // A 403 for want of scope says that the token itself is fine.
    if (rejected === undefined || (scope !== undefined && rejected.status === 403)) return;
    if (this.#isOfProof(rejected)) return;
    if (token === undefined || rejected.generation < token.generation) return;
    if (this.latchError(token.generation) !== undefined) return;
    const answer = this.#answer;
    const sinceMs = answer === undefined ? 0 : this.#clock.monotonic() - answer.atMs;
    // Half of a short life later it is more likely to have ended than to be wrong.
    const isAtOnce = sinceMs < Math.min(REFUSAL_LATCH_MS, token.lifetimeMs / 2);
    const isNoAnswer = answer?.generation === token.generation && isAtOnce;
    if (isNoAnswer && !(rejected.hadAnswered === true && this.#mayEndEarly())) this.#latch(token.generation);
    else this.#refused = token.generation;
  }

  /** A token that arrived while another was refused answers that refusal; the same value again is no answer. */
  noteMinted(token: HeldToken, before: number | undefined): void {
    if (this.#refused === undefined || this.#refused !== before) return;
    if (token.generation === before) {
      this.#latch(token.generation);
      return;
    }
    this.#answer = { generation: token.generation, atMs: this.#clock.monotonic() };
    this.#refused = undefined;
  }

  /** Why this generation is not given out for now. */
  latchError(generation: number | undefined): HostedMcpError | undefined {
    if (this.#latched === undefined || this.#latched.generation !== generation) return undefined;
    const leftMs = this.#latched.untilMs - this.#clock.monotonic();
    if (leftMs <= 0) {
      this.#latched = undefined;
      return undefined;
    }
    return problemError(
      {
        code: 'ERR_CREDENTIAL_REJECTED',
        what: 'The server refused the credential and the one that was obtained for that refusal',
        fields: { reason: 'rejected' },
      },
      { retryAfterMs: Math.ceil(leftMs) },
    );
  }

  /** The proof was refused, not the token, and the next one will be another: with a nonce, or dated by the server's clock. */
  #isOfProof({ challenge, dpopNonce }: Rejection): boolean {
    const site = this.#dpop?.resource;
    if (site === undefined) return false;
    site.heard({ dpopNonce });
    // Without a nonce there is none to use: then it is a refusal like any other.
    if (challenge === 'use_dpop_nonce') return dpopNonce !== undefined;
    return challenge === 'invalid_dpop_proof' && site.correctClock();
  }

  /** A token that served for a while and was then ended: by a revocation, a deploy, a test. */
  #mayEndEarly(): boolean {
    const nowMs = this.#clock.monotonic();
    this.#endedAtMs = this.#endedAtMs.filter((atMs) => nowMs - atMs < REFUSAL_LATCH_MS);
    if (this.#endedAtMs.length >= MAX_ENDED_EARLY) return false;
    this.#endedAtMs.push(nowMs);
    return true;
  }

  #latch(generation: number): void {
    this.#latched = { generation, untilMs: this.#clock.monotonic() + REFUSAL_LATCH_MS };
    // When the latch ends the value is tried once more: servers mend, too.
    this.#refused = undefined;
    const error = this.latchError(generation);
    if (error !== undefined) this.#onLatch(error);
  }
}
