/**
 * Whether a connection is fit for work, for readiness probes. Never asks the server.
 */
import type { Clock } from '../clock.js';
import type { Limiter } from '../rate-limit/limiter.js';
import type { SessionKeeper } from '../session/keeper.js';
import type { ConnectionHealth } from './types.js';

export function healthOf(keeper: SessionKeeper, limiter: Limiter, clock: Clock): ConnectionHealth {
  const { state, failure, sinceMs } = keeper;
  const retryAfterMs = failure?.retryAfterMs ?? (limiter.pausedMs || undefined);
  return {
    ok: state !== 'unstable' && state !== 'blocked' && state !== 'closed',
    state,
    sinceMs: clock.now() - sinceMs,
    ...(failure !== undefined && { code: failure.code, reason: failure.reason ?? failure.message }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  };
}
