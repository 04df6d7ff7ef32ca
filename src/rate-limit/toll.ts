/**
 * What every request to the endpoint pays before it leaves, as the connection's parts see it.
 *
 * Guarantees that nobody who has nothing to wait for loses a turn: then there is no promise.
 */

/** Who goes first where requests have to wait. */
export type Urgency = 'recovery' | 'reply' | 'reopen' | 'read' | 'call';

export interface PayOptions {
  /** On the monotonic clock: a payment that cannot be made by then is refused at once. */
  readonly untilMs?: number | undefined;
  /** As a function where it is made only for those who have to wait. */
  readonly signal?: AbortSignal | (() => AbortSignal) | undefined;
}

export interface Toll {
  /** Milliseconds for which the server wants no request at all. */
  readonly pausedMs: number;
  /** Undefined: it may leave now. Rejects with ERR_RATE_WAIT_EXCEEDED or the signal's reason. */
  pay(urgency: Urgency, options?: PayOptions): Promise<unknown> | undefined;
}
