/**
 * The simulator's own limit.
 *
 * Guarantees that no window of `intervalMs`, wherever it begins, has more admitted requests than `limit`, and that a
 * place is free again at the very moment its request has left the window. Never counts what it refused.
 */
import type { Answer } from './answer.js';
import type { ScriptedHeaders, ServerRateLimit } from './types.js';

export type RateLimitSettings = Readonly<{
  [K in keyof ServerRateLimit]-?: Exclude<ServerRateLimit[K], undefined>;
}>;

/** How a bucket stands after a request. */
export interface Standing {
  readonly isAdmitted: boolean;
  readonly remaining: number;
  /** Until there is more room than now. */
  readonly resetMs: number;
}

/** SEP-3304. */
const RATE_LIMITED = -32023;
const POLICY_NAME = 'simulator';
const TENANT = Symbol('tenant');

export class RateLimiter {
  /** By subject; undefined: those that nobody knows. Moments of admission, the oldest first. */
  readonly #buckets = new Map<string | symbol | undefined, number[]>();

  /** Admits a request, or not. `atMs` is not before that of the last one. */
  judge({ limit, intervalMs, per }: RateLimitSettings, subject: string | undefined, atMs: number): Standing {
    const key = per === 'tenant' ? TENANT : subject;
    const within = (this.#buckets.get(key) ?? []).filter((admittedAtMs) => atMs - admittedAtMs < intervalMs);
    const isAdmitted = within.length < limit;
    if (isAdmitted) within.push(atMs);
    this.#buckets.set(key, within);
    // Where a lower limit was set meanwhile, more than one has to leave first.
    const nextToLeave = within[Math.max(0, within.length - limit)] ?? atMs;
    return {
      isAdmitted,
      remaining: Math.max(0, limit - within.length),
      resetMs: nextToLeave + intervalMs - atMs,
    };
  }
}

/** What every answer says of the limit. */
export function answerHeaders(
  { limit, intervalMs, headers }: RateLimitSettings,
  { remaining, resetMs }: Standing,
  nowMs: number,
): ScriptedHeaders {
  if (headers === 'ratelimit') {
    return {
      'ratelimit-policy': `"${POLICY_NAME}";q=${limit};w=${seconds(intervalMs)}`,
      ratelimit: `"${POLICY_NAME}";r=${remaining};t=${seconds(resetMs)}`,
    };
  }
  if (headers === 'x-ratelimit') {
    return {
      'x-ratelimit-limit': String(limit),
      'x-ratelimit-remaining': String(remaining),
      'x-ratelimit-reset': String(seconds(nowMs + resetMs)),
    };
  }
  return {};
}

export function refuseForLimit(
  answer: Answer,
  { limit, headers, body }: RateLimitSettings,
  { remaining, resetMs }: Standing,
  id: unknown,
): void {
  const hint: ScriptedHeaders = headers === 'retry-after' ? { 'retry-after': String(seconds(resetMs)) } : {};
  if (body === 'text') {
    answer.send(429, { ...hint, 'content-type': 'text/plain' }, 'Too Many Requests');
    return;
  }
  const data = { retryAfterMs: Math.ceil(resetMs), limit, remaining };
  const error = { code: RATE_LIMITED, message: 'Rate limited', data };
  answer.sendJson(429, { jsonrpc: '2.0', id: isId(id) ? id : null, error }, hint);
}

function isId(id: unknown): boolean {
  return typeof id === 'string' || typeof id === 'number';
}

/** Rounded up: who waits so long is not refused again. */
function seconds(ms: number): number {
  return Math.ceil(ms / 1_000);
}
