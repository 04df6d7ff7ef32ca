/**
 * Verdicts in words: the error a caller gets.
 *
 * Guarantees that `executed` is the ledger's or the verdict's word, and that nothing of the server's text
 * stands in the message: it goes to `serverText`, cleaned.
 */
import { cleanServerText, HostedMcpError, type HostedMcpErrorFields } from '../errors.js';
import { isErrorResponse } from '../json-rpc.js';
import type { Verdict } from './classify.js';
import type { ExchangeFacts } from './facts.js';
import type { Call } from './ledger.js';

/** Requests that the protocol defines as reads: asking twice changes nothing. */
const READS: ReadonlySet<string> = new Set([
  'tools/list',
  'resources/list',
  'resources/read',
  'resources/templates/list',
  'prompts/list',
  'prompts/get',
  'completion/complete',
  'tasks/get',
  'tasks/list',
  'ping',
  'server/discover',
  'subscriptions/listen',
]);

export function isRead(method: string): boolean {
  return READS.has(method);
}

/**
 * What stopped a repetition knows nothing of the try before it: that the rate limit, a credential, the contract or the
 * session did not let it go out does not say that the call did not run.
 */
export function asTheLedgerSays(call: Call, error: HostedMcpError): HostedMcpError {
  if (error.executed !== false || !call.mayHaveRun) return error;
  const { code, gate, reason, status, retryAfterMs, requiredScope, authorizationUrl, diff, serverText } =
    error;
  return call.error(code, 'The call was cut off, and could not go out once more', {
    ...{ gate, reason, status, retryAfterMs, requiredScope, authorizationUrl, diff, serverText },
  });
}

/** The rate limit leaves no request in time. */
export function unpaidError(call: Call, error: unknown): unknown {
  if (!HostedMcpError.isInstance(error)) return error;
  const { code, reason, retryAfterMs } = error;
  const fields = { retryable: true, reason, retryAfterMs };
  if (code !== 'ERR_RATE_WAIT_EXCEEDED') return call.error(code, 'The rate limit cannot be kept now', fields);
  return reason === 'paused'
    ? call.error('ERR_RATE_LIMITED', 'The server asked for a longer pause than the call has time', fields)
    : call.error(
        'ERR_RATE_WAIT_EXCEEDED',
        'The call would wait longer for the rate limit than it may',
        fields,
      );
}

export function failureOf(
  verdict: Verdict,
  call: Call,
  facts: ExchangeFacts,
  extra: HostedMcpErrorFields = {},
): HostedMcpError {
  const text = isErrorResponse(facts.message) ? facts.message.error.message : facts.text;
  const fields: HostedMcpErrorFields = {
    status: facts.status,
    retryAfterMs: facts.retryAfterMs,
    serverText: text === undefined || text === '' ? undefined : cleanServerText(text),
    ...extra,
  };
  const task = isErrorResponse(facts.message) ? undefined : facts.message?.result.task;
  if (typeof task === 'object' && task !== null && 'taskId' in task && typeof task.taskId === 'string')
    fields.taskId = task.taskId;
  switch (verdict.kind) {
    case 'not-sent':
      return call.error(
        'ERR_NOT_SENT',
        verdict.timeout ? 'The server could not be reached in time' : 'The server could not be reached',
        {
          ...fields,
          executed: false,
          retryable: true,
          cause: verdict.code === undefined ? undefined : { code: verdict.code },
        },
      );
    case 'cut':
      return call.error(
        verdict.timeout ? 'ERR_TIMEOUT' : 'ERR_OUTCOME_UNKNOWN',
        verdict.timeout ? 'The server did not begin to answer in time' : 'The answer was cut off on its way',
        { ...fields, cause: verdict.code === undefined ? undefined : { code: verdict.code } },
      );
    case 'credential':
      return call.error('ERR_CREDENTIAL_REJECTED', 'The server refused the credential', {
        ...fields,
        executed: verdict.executed,
      });
    case 'scope':
      return call.error('ERR_INSUFFICIENT_SCOPE', 'The credential does not cover this request', {
        ...fields,
        executed: verdict.executed,
        requiredScope: verdict.requiredScope,
      });
    case 'limited':
      return call.error('ERR_RATE_LIMITED', 'The server refused the request for its rate limit', {
        ...fields,
        executed: verdict.executed,
        retryable: true,
      });
    case 'session-lost':
      return call.error('ERR_SESSION_LOST', 'The server does not know the session any more', {
        ...fields,
        executed: verdict.executed,
        retryable: true,
      });
    case 'failed':
      return call.error(verdict.code, sentenceCase(verdict.reason), {
        ...fields,
        executed: verdict.executed,
        retryable: verdict.executed === false,
      });
    default:
      return call.error('ERR_PROTOCOL', 'The answer could not be understood', fields);
  }
}

function sentenceCase(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A function of the app (`session.isLost`, `retry.safeTools`, a credential's `headers`) threw something of its own. */
export function brokenOnTheWay(call: Call, cause: unknown): HostedMcpError {
  return call.error('ERR_PROTOCOL', 'A function that was asked on the way of the call failed', { cause });
}
