/**
 * What the refusal of a GET means for a stream that is to be opened again.
 *
 * Guarantees that a server which still counts the last stream as open is told from one that wants none. Reads
 * words only where the status alone says nothing.
 */
import type { ExchangeFacts } from '../connection/facts.js';
import { isErrorResponse } from '../json-rpc.js';

/** Asking again brings the same: a redirect elsewhere, an unknown coding, a header that cannot be written. */
const FOR_GOOD: ReadonlySet<string> = new Set([
  'redirect',
  'encoding',
  'invalid-request',
  'too-large',
  'unsupported',
]);
/** Servers on other SDKs say 400 where the TypeScript one says 409. */
const TAKEN_WORDS = /\b(?:already|multiple|only one|conflict)\b/i;

export function isForGood({ failure }: ExchangeFacts): boolean {
  return failure !== undefined && FOR_GOOD.has(failure.kind);
}

/** The place of the stream that was cut is not free yet: the server, or a proxy before it, has not noticed. */
export function isTaken(facts: ExchangeFacts): boolean {
  if (facts.status === 409) return true;
  if (facts.status !== 400) return false;
  return TAKEN_WORDS.test(isErrorResponse(facts.message) ? facts.message.error.message : (facts.text ?? ''));
}

/** Nobody was there to answer, or nobody had time to. */
export function isAway({ status }: ExchangeFacts): boolean {
  return status === undefined || status === 429 || (status >= 500 && status !== 501);
}
