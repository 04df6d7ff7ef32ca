/**
 * Whether another try is worth its cost, and how long to wait for it where the server does not say.
 *
 * Guarantees that retries end when most requests fail, so that they are never what keeps a server down. Never
 * holds back a first try, and knows no clock: only a success earns a retry.
 */
import { type Clock, fullJitter } from '../clock.js';

/** In tenths of a token, for whole numbers do not drift: gRFC A6, "Throttling Retry Attempts", with its example's 10 tokens and ratio 0.1. */
const MAX_TENTHS = 100;
const FAILURE_TENTHS = 10;
const SUCCESS_TENTHS = 1;
/** Retries go on only above half. */
const THRESHOLD_TENTHS = MAX_TENTHS / 2;

const FIRST_BACK_OFF_MS = 1_000;
/** More would outlast most callers. */
const MAX_BACK_OFF_MS = 30_000;

/** One for each bucket: a credential at a server. */
export class RetryBudget {
  #tenths = MAX_TENTHS;

  mayRetry(): boolean {
    return this.#tenths > THRESHOLD_TENTHS;
  }

  /** A request was refused in a way that invites another try: by a limit, or by a server that is away. */
  failed(): void {
    this.#tenths = Math.max(0, this.#tenths - FAILURE_TENTHS);
  }

  succeeded(): void {
    this.#tenths = Math.min(MAX_TENTHS, this.#tenths + SUCCESS_TENTHS);
  }
}

/** The wait before another try after a refusal that does not say how long. `attempt`: how many came before it. */
export function backOffWithoutHint(attempt: number, clock: Clock): number {
  return fullJitter(clock, attempt, FIRST_BACK_OFF_MS, MAX_BACK_OFF_MS);
}
