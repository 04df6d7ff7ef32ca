/**
 * A call whose answer was cut off: the answer is asked for by its cursor.
 *
 * Guarantees that the call itself is not sent again, and that an answer which the server gave to the session's
 * own stream instead is taken from there. Never decides what the answer means.
 */

import type { Session } from '../session/session.js';
import { RecentIds } from '../streams/recent-ids.js';
import { resumeAnswer } from '../streams/resume.js';
import type { Call } from './ledger.js';
import type { StreamFacts } from './route.js';
import type { MessageWayParts } from './way-parts.js';

interface Resumable {
  readonly from: NonNullable<StreamFacts['resume']>;
  /** Ids of events already seen; grows. */
  readonly seen?: Set<string> | undefined;
  /** The request was sent by a client of before a restart, under another id. */
  readonly adopts?: boolean;
}

export async function resumeCall(
  parts: MessageWayParts,
  call: Call,
  session: Session,
  { from, seen = new RecentIds(), adopts = false }: Resumable,
): Promise<StreamFacts> {
  const { clock, retry } = parts.options;
  const { onresumptiontoken } = call.options;
  if (call.phase === 'queued') call.markSent(session);
  const found = new AbortController();
  call.resumption = found;
  const facts = await resumeAnswer(from, {
    clock,
    wire: parts.wire,
    session,
    id: call.id,
    adopts,
    method: call.method,
    signal: AbortSignal.any([call.signal, found.signal]),
    seen,
    // Where the caller's time is not known, the server may be out of reach for so long.
    untilMs: (openMs) =>
      call.options.deadlineMs === undefined ? openMs + retry.maxElapsedMs : call.deadlineMs,
    pay: (signal) => parts.limiter.pay('reopen', { signal, untilMs: call.options.deadlineMs }),
    credential: async (rejected) =>
      session.phase === 'retired'
        ? session.credential
        : parts.credential.acquire(rejected === undefined ? {} : { rejected }),
    onMessage: (message) => parts.deliver(message, session),
    onEventId: onresumptiontoken,
    onCut: (each) => tellCut(parts, call, session, each),
  }).catch((error: unknown) => {
    if (call.ended) throw error;
    if (call.elsewhere !== undefined) return elsewhereFacts(parts, call, session);
    // No credential to ask with: that says nothing about the call.
    throw call.error('ERR_OUTCOME_UNKNOWN', 'The answer was cut off and could not be asked for again', {
      cause: error,
    });
  });
  if (facts.message !== undefined) call.trace?.happened({ type: 'stream-resumed' });
  return { ...facts, resumed: true };
}

/** The facts of a call whose answer came on the session's own stream. */
export function elsewhereFacts(parts: MessageWayParts, call: Call, session: Session): StreamFacts {
  const { method, elsewhere } = call;
  return {
    method,
    expectsAnswer: true,
    sent: true,
    sessionSent: true,
    status: 200,
    events: 0,
    sessionIds: [],
    relation: 'own',
    ...(elsewhere !== undefined && { message: parts.wire.fitToShow(elsewhere, method, session.cookies) }),
  };
}

export function tellCut(
  parts: MessageWayParts,
  { method, trace }: Call,
  session: Session,
  { ageMs = 0, idleMs = 0 }: StreamFacts,
): void {
  trace?.happened({ type: 'stream-cut', ageMs, idleMs });
  parts.emitter.emit('stream-cut', { session: session.number, ageMs, idleMs, method });
}
