/**
 * How a caller of the limiter is refused.
 *
 * Guarantees that nothing was sent and that the error says when to come again. Never names a key.
 */
import { HostedMcpError } from '../errors.js';

const WORDS = Object.freeze({
  limit: 'The wait for the rate limit would be longer than the call has time',
  paused: 'The server asked for a longer pause than the call has time',
  line_full: 'Too many calls wait for the rate limit',
});

/** `waitMs`: what the wait would have come to, at the least. */
export function waitExceeded(waitMs: number, reason: keyof typeof WORDS): HostedMcpError {
  return new HostedMcpError('ERR_RATE_WAIT_EXCEEDED', WORDS[reason], {
    executed: false,
    retryable: true,
    reason,
    retryAfterMs: Math.max(1, Math.ceil(waitMs)),
  });
}

export function storeUnavailable(retryAfterMs: number): HostedMcpError {
  return new HostedMcpError(
    'ERR_STORE_UNAVAILABLE',
    'The rate limit store does not answer, and nothing may go without it',
    { executed: false, retryable: true, reason: 'rate_limit_store', retryAfterMs },
  );
}
