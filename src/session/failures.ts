/**
 * How it is said that there is no session.
 */
import { HostedMcpError } from '../errors.js';

/** The app's own set-up threw or did not end in time, twice. */
export class SetUpFailed extends HostedMcpError {
  constructor(cause: unknown) {
    const known = HostedMcpError.isInstance(cause) ? cause.reason : undefined;
    super('ERR_SESSION_UNSTABLE', 'The set-up of the session (session.onEstablished) failed', {
      retryable: true,
      retryAfterMs: 5_000,
      reason: known ?? 'onEstablished threw',
      cause,
    });
  }
}

export function closedError(): HostedMcpError {
  return new HostedMcpError('ERR_CLOSED', 'The connection was ended here');
}

export function unstableError(reason: string, restMs: number): HostedMcpError {
  return new HostedMcpError(
    'ERR_SESSION_UNSTABLE',
    'Sessions do not last here: either requests reach different nodes without session affinity, or the server restarts in a loop',
    { retryable: true, retryAfterMs: Math.ceil(restMs), reason },
  );
}
