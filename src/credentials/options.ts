/**
 * When an OAuth token is renewed: the defaults, each with its reason, and their checking.
 *
 * Guarantees that a bad value is refused with a `TypeError` naming the option before any I/O, and that a
 * resolved policy has every field. Never reads a clock.
 */
import type { RefreshPolicy } from './provider.js';

export type ResolvedRefreshPolicy = {
  readonly [K in keyof RefreshPolicy]-?: NonNullable<RefreshPolicy[K]>;
};

export const REFRESH_DEFAULTS: ResolvedRefreshPolicy = Object.freeze({
  /** A quarter of the lifetime is left for a token endpoint that is down, and short tokens scale with it. */
  fraction: 0.75,
  /** Long tokens are renewed late: each renewal may cost a session that is bound to the token. */
  maxWindowMs: 300_000,
  /** Below this one slow token request would eat the window; never more than half the lifetime. */
  minWindowMs: 10_000,
  /** Of the window, only ever earlier: 100 replicas with one-hour tokens spread over half a minute. */
  jitter: 0.1,
  /** A host frozen between requests must not spend a rotating refresh token that nobody stores. */
  background: 'active',
  /** Slower than this is an outage; store leases are this plus five seconds. */
  tokenTimeoutMs: 10_000,
  /** For tokens that do not tell: short enough to be renewed before most servers drop them. */
  assumedLifetimeMs: 300_000,
  /** Resource servers refuse expired tokens; serving one only makes sense where they are known not to. */
  serveExpired: false,
});

/** How long an `acquire` without `maxWaitMs` waits: longer than one token request that times out. */
export const DEFAULT_MAX_WAIT_MS = 15_000;
/** Longer claims are not believed: a day is the longest a revoked key should go unnoticed. */
export const MAX_LIFETIME_MS = 86_400_000;
/** Back-off after a token endpoint failed: full jitter between 0 and a ceiling that doubles up to the maximum. */
export const BACKOFF_BASE_MS = 500;
export const BACKOFF_MAX_MS = 30_000;
/** The store is near and the app's own: soon after it is back nobody waits any more. */
export const STORE_BACKOFF_MAX_MS = 2_000;
/** A refused credential stays refused this long, so that a server that always answers 401 costs one token request. */
export const REFUSAL_LATCH_MS = 60_000;
/** `background: 'active'` goes on this long after the last acquire, or one lifetime if that is longer. */
export const ACTIVE_FOR_MS = 300_000;
/** A lease outlives the token request by this much, so that storing the answer is covered, too. */
export const LEASE_EXTRA_MS = 5_000;
/** What must be left of a lease, beyond the token timeout, at the moment a token request leaves. */
export const LEASE_MARGIN_MS = 1_000;
/** A store that answers slower than this counts as down. */
export const STORE_TIMEOUT_MS = 5_000;
/** Retry-After beyond this is taken for a mistake. */
export const MAX_RETRY_AFTER_MS = 3_600_000;

/** Fills in `REFRESH_DEFAULTS` and checks every field. */
export function resolveRefreshPolicy(policy: RefreshPolicy | undefined): ResolvedRefreshPolicy {
  if (policy === undefined) return REFRESH_DEFAULTS;
  if (typeof policy !== 'object' || policy === null) throw new TypeError('refresh must be an object');
  const given = policy as Record<string, unknown>;
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(REFRESH_DEFAULTS, name)) throw new TypeError(`refresh.${name} is not an option`);
  }
  const number = (name: keyof RefreshPolicy, min: number, max: number): number => {
    const value = given[name] ?? REFRESH_DEFAULTS[name];
    if (typeof value !== 'number' || !Number.isFinite(value) || value < min || value > max) {
      throw new TypeError(`refresh.${name} must be a number from ${min} to ${max}`);
    }
    return value;
  };
  const background = policy.background ?? REFRESH_DEFAULTS.background;
  if (background !== 'active' && background !== 'always' && background !== 'never') {
    throw new TypeError("refresh.background must be 'active', 'always' or 'never'");
  }
  const serveExpired = policy.serveExpired ?? REFRESH_DEFAULTS.serveExpired;
  if (typeof serveExpired !== 'boolean') throw new TypeError('refresh.serveExpired must be true or false');
  const resolved: ResolvedRefreshPolicy = {
    fraction: number('fraction', 0.05, 1),
    maxWindowMs: number('maxWindowMs', 0, MAX_LIFETIME_MS),
    minWindowMs: number('minWindowMs', 0, MAX_LIFETIME_MS),
    jitter: number('jitter', 0, 1),
    background,
    tokenTimeoutMs: number('tokenTimeoutMs', 1, 600_000),
    assumedLifetimeMs: number('assumedLifetimeMs', 1_000, MAX_LIFETIME_MS),
    serveExpired,
  };
  if (resolved.minWindowMs > resolved.maxWindowMs) {
    throw new TypeError('refresh.minWindowMs must not be greater than refresh.maxWindowMs');
  }
  return Object.freeze(resolved);
}

export interface TokenTimes {
  readonly lifetimeMs: number;
  /** From here on a renewal is due; callers still get the token. */
  readonly softAfterMs: number;
  /** From here on callers wait for the renewal. */
  readonly hardAfterMs: number;
}

/** The points in a token's life, in milliseconds after its request was started. `random` is in [0, 1). */
export function tokenTimes(lifetimeMs: number, policy: ResolvedRefreshPolicy, random: number): TokenTimes {
  const life = Math.min(lifetimeMs, MAX_LIFETIME_MS);
  const window = Math.min(Math.max(life * (1 - policy.fraction), policy.minWindowMs), policy.maxWindowMs);
  const spread = Math.min(window * (1 + policy.jitter * random), life / 2);
  const hardAfterMs = life - Math.min(2_000, life * 0.1);
  return { lifetimeMs: life, softAfterMs: Math.min(life - spread, hardAfterMs), hardAfterMs };
}

/** An option that may be known only when it is used. */
export function known(value: string | (() => string | undefined) | undefined): string | undefined {
  return typeof value === 'function' ? value() : value;
}
