/**
 * A failure that is known before anybody asks for it: latched, or waiting for its `retryAfterMs`.
 *
 * Guarantees that every caller gets an error object of its own (own stack, own wait) with the same code and
 * words. Never holds a foreign error, only what `HostedMcpError` keeps of one.
 */
import { HostedMcpError, type HostedMcpErrorCode, type HostedMcpErrorFields } from '../errors.js';

export interface Problem {
  readonly code: HostedMcpErrorCode;
  readonly what: string;
  readonly fields?: HostedMcpErrorFields | undefined;
}

/** The error of a problem; `more` overrides its fields. Nothing of a credential's failure ever reached a server's tool. */
export function problemError(problem: Problem, more: HostedMcpErrorFields = {}): HostedMcpError {
  return new HostedMcpError(problem.code, problem.what, { ...problem.fields, ...more, executed: false });
}

/** The problem that a thrown value stands for; one of ours keeps its code, a foreign one gets `fallback`. */
export function problemOf(error: unknown, fallback: Problem): Problem {
  if (!HostedMcpError.isInstance(error)) {
    return { ...fallback, fields: { ...fallback.fields, cause: error } };
  }
  return {
    code: error.code,
    // The constructor adds the sentence about the call again.
    what: error.message.replace(/ The call did not run\.$/, ''),
    fields: {
      retryable: error.retryable,
      retryAfterMs: error.retryAfterMs,
      status: error.status,
      reason: error.reason,
      requiredScope: error.requiredScope,
      authorizationUrl: error.authorizationUrl,
      serverText: error.serverText,
      cause: error.cause,
    },
  };
}

export function abortedError(): HostedMcpError {
  return new HostedMcpError('ERR_ABORTED', 'The caller gave up waiting for a credential');
}

export function closedError(): HostedMcpError {
  return new HostedMcpError('ERR_CLOSED', 'The credential provider is closed');
}

export const FORGOTTEN: Problem = Object.freeze({
  code: 'ERR_REAUTHORIZATION_REQUIRED',
  what: 'The credential was forgotten',
  fields: { reason: 'forgotten' },
});

/** A function, because what a signal says may change between two looks. */
export function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}
