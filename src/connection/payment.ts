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
  /** Where the shared count has it. A process that stood still hears of it later. */
  readonly countedAtMs: number;
  /** When the call heard of it. */
  readonly madeAtMs: number;
  /** Somebody had to wait for it, and has not looked around since. */
  waited: boolean;
}

/** What is only asked for again pays by itself, each time. */
export const NOTHING_DUE: Payment = {
  countedAtMs: Number.POSITIVE_INFINITY,
  madeAtMs: Number.POSITIVE_INFINITY,
  waited: false,
};

/** Thrown at the last moment before bytes, it leaves the socket unused. */
export const HELD_BACK = Object.freeze(new Error('held back'));

/** Of the time that a payment holds, so much may have passed since it was heard of when a request begins its way. */
const BEFORE_THE_WAY = 0.5;
const MOST_HELD_BACK = 4;
/** Less is the cost of asking. */
const WAITED_MS = 1;

type Parts = Pick<MessageWayParts, 'limiter' | 'options'>;

/** At once, or waits its turn; throws, or rejects with, an error about the call. */
export function pay(call: Call, parts: Parts): Payment | Promise<Payment> {
  if (call.ended) throw call.signal.reason;
  const urgency = call.method === LISTEN ? 'reopen' : isRead(call.method) ? 'read' : 'call';
  const startedAtMs = parts.options.clock.monotonic();
  // A call makes its signal only where it has to wait.
  const paying = parts.limiter.pay(urgency, { untilMs: call.deadlineMs, signal: () => call.signal });
  if (paying === undefined) return { countedAtMs: startedAtMs, madeAtMs: startedAtMs, waited: false };
  return paid(call, paying, startedAtMs, parts);
}

async function paid(
  call: Call,
  paying: Promise<number>,
  startedAtMs: number,
  { options }: Parts,
): Promise<Payment> {
  let countedAtMs: number;
  try {
    countedAtMs = await paying;
  } catch (error) {
    throw call.ended ? call.signal.reason : unpaidError(call, error);
  }
  const madeAtMs = options.clock.monotonic();
  const waited = madeAtMs - startedAtMs >= WAITED_MS;
  if (waited) call.waits.rateMs += madeAtMs - startedAtMs;
  call.trace?.waited('rateMs', madeAtMs - startedAtMs);
  return { countedAtMs, madeAtMs, waited };
}

/** No pause has begun since, and it was heard of just now: worth beginning the way. */
export function isGood(call: Call, { madeAtMs }: Payment, { limiter, options }: Parts): boolean {
  if (limiter.pausedMs > 0) return false;
  const ageMs = options.clock.monotonic() - madeAtMs;
  return call.heldBack >= MOST_HELD_BACK || ageMs <= limiter.goodForMs * BEFORE_THE_WAY;
}

/**
 * Right before bytes leave: a connection had to be made meanwhile, or this process stood still, and the server would
 * see the request too long after it was counted. Counts on the call.
 */
export function isHeldBackNow(call: Call, { countedAtMs }: Payment, { limiter, options }: Parts): boolean {
  if (call.phase !== 'queued' || call.heldBack >= MOST_HELD_BACK) return false;
  const ageMs = options.clock.monotonic() - countedAtMs;
  if (limiter.pausedMs === 0 && ageMs <= limiter.goodForMs) return false;
  call.heldBack += 1;
  return true;
}
