/**
 * What a call has paid for the rate limit, and how long that holds.
 *
 * Guarantees that a request leaves about when it was granted, as far as this process can see to it: one that would
 * leave late pays again, for it would crowd the server's window. Never for ever: this process, or its way, may
 * always be so late.
 */

import { isRead, unpaidError } from './failures.js';
import type { Call } from './ledger.js';
import { LISTEN } from './outgoing.js';
import type { MessageWayParts } from './way-parts.js';

export interface Payment {
  readonly madeAtMs: number;
  /** Somebody had to wait for it, and has not looked around since. */
  waited: boolean;
}

/** What is only asked for again pays by itself, each time. */
export const NOTHING_DUE: Payment = { madeAtMs: Number.POSITIVE_INFINITY, waited: false };

/** Thrown at the last moment before bytes, it leaves the socket unused. */
export const HELD_BACK = Object.freeze(new Error('held back'));

/** Of the time that a payment holds, so much may have passed before a request begins its way, and so much when it leaves. */
const BEFORE_THE_WAY = 0.5;
const AT_THE_LAST = 1;
const MOST_HELD_BACK = 4;
/** Less is the cost of asking. */
const WAITED_MS = 1;

type Parts = Pick<MessageWayParts, 'limiter' | 'options'>;

/** Waits its turn; rejects with an error about the call. */
export async function pay(call: Call, { limiter, options }: Parts): Promise<Payment> {
  const urgency = call.method === LISTEN ? 'reopen' : isRead(call.method) ? 'read' : 'call';
  const startedAtMs = options.clock.monotonic();
  try {
    if (call.ended) throw call.signal.reason;
    // A call makes its signal only where it has to wait.
    await limiter.pay(urgency, { untilMs: call.deadlineMs, signal: () => call.signal });
  } catch (error) {
    throw call.ended ? call.signal.reason : unpaidError(call, error);
  }
  const madeAtMs = options.clock.monotonic();
  const waited = madeAtMs - startedAtMs >= WAITED_MS;
  if (waited) call.waits.rateMs += madeAtMs - startedAtMs;
  call.trace?.waited('rateMs', madeAtMs - startedAtMs);
  return { madeAtMs, waited };
}

/** No pause has begun since, and the server will see it about when it was granted. */
export function isGood({ madeAtMs }: Payment, { limiter, options }: Parts, share = BEFORE_THE_WAY): boolean {
  const ageMs = options.clock.monotonic() - madeAtMs;
  return limiter.pausedMs === 0 && ageMs <= limiter.goodForMs * share;
}

/** Right before bytes leave: a connection had to be made meanwhile, or this process stood still. Counts on the call. */
export function isHeldBackNow(call: Call, payment: Payment, parts: Parts): boolean {
  if (call.phase !== 'queued' || call.heldBack >= MOST_HELD_BACK) return false;
  if (isGood(payment, parts, AT_THE_LAST)) return false;
  call.heldBack += 1;
  return true;
}
