/**
 * Trying again, for what may be tried again: handshakes and the protocol's reads.
 *
 * Guarantees a bound in attempts and in time. The counting is p-retry's; its own timer is not used,
 * because no injected clock can move it. Never wraps a tool call, nor a rotating refresh.
 */
import pRetry from 'p-retry';
import { type Clock, sleep } from '../clock.js';
import { HostedMcpError } from '../errors.js';

export interface RetryPlan {
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  /** The first included. */
  readonly attempts: number;
  /** No attempt begins after it, on the monotonic clock. */
  readonly untilMs: number;
  again(error: unknown): boolean;
  delayMs(attempt: number): number;
}

export async function withRetries<T>(run: (attempt: number) => Promise<T>, plan: RetryPlan): Promise<T> {
  let last: unknown;
  try {
    return await pRetry(
      async (attempt) => {
        try {
          return await run(attempt);
        } catch (error) {
          last = error;
          // p-retry refuses errors of another realm and gives up on a TypeError: it sees only ours.
          throw HostedMcpError.isInstance(error)
            ? error
            : new HostedMcpError('ERR_PROTOCOL', 'An attempt failed', { cause: error });
        }
      },
      {
        retries: Math.max(0, plan.attempts - 1),
        minTimeout: 0,
        maxTimeout: 0,
        shouldRetry: async ({ attemptNumber }) => {
          if (plan.signal?.aborted === true || !plan.again(last)) return false;
          const delayMs = plan.delayMs(attemptNumber);
          if (plan.clock.monotonic() + delayMs >= plan.untilMs) return false;
          await sleep(plan.clock, delayMs, plan.signal);
          return true;
        },
      },
    );
  } catch (error) {
    throw plan.signal?.aborted === true ? plan.signal.reason : (last ?? error);
  }
}
