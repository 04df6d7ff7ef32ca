/**
 * What stands between a caller and a new token: a dead refresh token, a refusal, an outage.
 *
 * Guarantees that a failure costs one token request and not one per caller, and that each latch names what
 * lifts it. Does no I/O and sets no timer.
 */
import { type Clock, fullJitter } from '../clock.js';
import type { HostedMcpError } from '../errors.js';
import { BACKOFF_BASE_MS, BACKOFF_MAX_MS, REFUSAL_LATCH_MS, STORE_BACKOFF_MAX_MS } from './options.js';
import { type Problem, problemError } from './problem.js';

/** Full jitter can come out at nothing; this keeps a loop of waiting callers from spinning. */
const MIN_BACKOFF_MS = 20;

/** Between renewals ahead of expiry; half the lifetime where that is shorter. */
const MIN_SPACING_MS = 5_000;

/** Errors of a token endpoint that only another configuration cures. */
const FOR_GOOD = new Set(['invalid_client', 'unauthorized_client', 'unsupported_grant_type']);

export class Latches {
  readonly #clock: Clock;
  /** The refresh token of this store version is spent or revoked: lifted by another version. */
  dead: { readonly version: number | undefined; readonly problem: Problem } | undefined;
  #refusal: { readonly untilMs: number; readonly problem: Problem } | undefined;
  #outage: { readonly failures: number; readonly notBeforeMs: number; readonly problem: Problem } | undefined;
  #spacedUntilMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The token endpoint said no for good, or the configuration is wrong. */
  refuse(problem: Problem, oauthError: string | undefined): void {
    const forGood = oauthError !== undefined && FOR_GOOD.has(oauthError);
    this.#refusal = {
      problem,
      untilMs: forGood ? Number.POSITIVE_INFINITY : this.#clock.monotonic() + REFUSAL_LATCH_MS,
    };
  }

  /** The token endpoint or the store is down: not before the back-off, or what the server asked for, is over. */
  fail(problem: Problem, retryAfterMs: number | undefined): void {
    const failures = this.#outage?.failures ?? 0;
    const maxMs = problem.code === 'ERR_STORE_UNAVAILABLE' ? STORE_BACKOFF_MAX_MS : BACKOFF_MAX_MS;
    const backoffMs = Math.max(MIN_BACKOFF_MS, fullJitter(this.#clock, failures, BACKOFF_BASE_MS, maxMs));
    this.#outage = {
      failures: failures + 1,
      problem,
      notBeforeMs: this.#clock.monotonic() + Math.max(backoffMs, retryAfterMs ?? 0),
    };
  }

  /** A token arrived. */
  clear(): void {
    this.dead = undefined;
    this.#refusal = undefined;
    this.#outage = undefined;
  }

  /** A token of this lifetime was just made: one that is due at once must not make a loop. */
  space(lifetimeMs: number): void {
    this.#spacedUntilMs = this.#clock.monotonic() + Math.min(MIN_SPACING_MS, lifetimeMs / 2);
  }

  /** How long nobody need be in a hurry: a renewal ahead of expiry waits for this, one that callers wait for does not. */
  aheadWaitMs(): number {
    return Math.max(this.waitMs(), this.#spacedUntilMs - this.#clock.monotonic());
  }

  refusal(): HostedMcpError | undefined {
    if (this.#refusal === undefined) return undefined;
    if (this.#clock.monotonic() >= this.#refusal.untilMs) {
      this.#refusal = undefined;
      return undefined;
    }
    return problemError(this.#refusal.problem);
  }

  get isOut(): boolean {
    return this.#outage !== undefined;
  }

  /** How long no token request may be made; 0 where one may. */
  waitMs(): number {
    return Math.max(0, (this.#outage?.notBeforeMs ?? 0) - this.#clock.monotonic());
  }

  outage(): HostedMcpError | undefined {
    if (this.#outage === undefined) return undefined;
    return problemError(this.#outage.problem, { retryable: true, retryAfterMs: Math.ceil(this.waitMs()) });
  }

  /** Nothing forbids a renewal in the background now. */
  get mayRenew(): boolean {
    return this.dead === undefined && this.refusal() === undefined && this.aheadWaitMs() <= 0;
  }
}
