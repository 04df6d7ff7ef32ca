/**
 * The `rateLimit` options, resolved once. Bad values are refused by name before any I/O.
 */
import type { Clock } from '../clock.js';
import type { CredentialProvider } from '../credentials/provider.js';
import { OptionReader } from '../option-reader.js';
import { deriveKey, isStableId } from './key.js';
import { isLocalStore, memoryRateLimitStore } from './memory-store.js';
import type { RateLimitStore, Rule } from './types.js';

/**
 * A limit on the requests to the endpoint, kept on this side. Without `limit` or `rules` there is none, and only
 * the pauses that the server asks for are kept.
 *
 * @example
 * // Sixty a minute, shared by all replicas that use this credential.
 * rateLimit: { limit: 60, intervalMs: 60_000, store: redisRateLimitStore(redis), replicas: 3 }
 */
export interface RateLimitOptions {
  /** At most so many requests in every window of `intervalMs`, wherever it begins. Short for one rule. */
  limit?: number | undefined;
  intervalMs?: number | undefined;
  /** Several limits at once: a request goes when all of them leave room. Instead of `limit`. */
  rules?: readonly Rule[] | undefined;
  /**
   * The bucket's name, not secret. Derived from the endpoint and the credential's id; with a shared store it is
   * required where the credential has no id of its own (an API key, a token from a variable or a function).
   */
  key?: string | undefined;
  /** Where the bucket lives. In memory, one for each credential provider. */
  store?: RateLimitStore | undefined;
  /** How many replicas share the store: what is the share of each while it is away. 3; in memory 1. */
  replicas?: number | undefined;
  /**
   * While the store is away: each replica keeps to its share ('local-share', the default), nothing goes
   * ('closed', `ERR_STORE_UNAVAILABLE`), or everything does ('open').
   */
  onStoreDown?: 'local-share' | 'closed' | 'open' | undefined;
  /** The longest wait for the limit; who cannot go in time is refused at once (`ERR_RATE_WAIT_EXCEEDED`). 50,000. */
  maxWaitMs?: number | undefined;
  /** The longest pause that a server can impose. 300,000. */
  maxPauseMs?: number | undefined;
  /** Whether 429, `Retry-After` and the like pause the requests. true. */
  respectServer?: boolean | undefined;
}

export const RATE_LIMIT_DEFAULTS = Object.freeze({
  /** Below the 60 s after which the SDK's own timer gives up without a reason. */
  maxWaitMs: 50_000,
  /** Real servers ask for minutes at the most; beyond that it is a mistake or a quota of another kind. */
  maxPauseMs: 300_000,
  onStoreDown: 'local-share' as const,
  /** Of a shared store: who runs fewer gets less than the limit during an outage, never more. */
  replicas: 3,
  respectServer: true,
});

/** A limit beyond it needs no limiter. */
const MAX_LIMIT = 1_000_000;
const MAX_REPLICAS = 100_000;
const MAX_RULES = 16;

export interface ResolvedRateLimit {
  /** None: only the server's pauses are kept. */
  readonly rules: readonly Rule[];
  readonly key: string;
  /** Undefined where there are no rules. */
  readonly store: RateLimitStore | undefined;
  readonly replicas: number;
  readonly onStoreDown: 'local-share' | 'closed' | 'open';
  readonly maxWaitMs: number;
  readonly maxPauseMs: number;
  readonly respectServer: boolean;
}

interface RateLimitContext {
  readonly credentials: CredentialProvider;
  readonly url: URL;
  readonly clock: Clock;
}

/** Throws `TypeError` naming the option that cannot be used. No I/O. */
export function resolveRateLimit(
  options: RateLimitOptions | undefined,
  { credentials, url, clock }: RateLimitContext,
): ResolvedRateLimit {
  const read = new OptionReader('rateLimit', options);
  const rules = resolveRules(read);
  const key = read.any('key');
  if (key !== undefined && (typeof key !== 'string' || key === '')) {
    throw new TypeError('rateLimit.key must be a string that is not empty');
  }
  const given = checkStore(read.any('store'));
  if (given !== undefined && rules.length === 0) {
    throw new TypeError('rateLimit.store needs a rule: limit and intervalMs, or rules');
  }
  const isShared = given !== undefined && !isLocalStore(given);
  if (isShared && key === undefined && !isStableId(credentials.id)) {
    throw new TypeError(
      'rateLimit.key is required: these credentials have no id of their own by which replicas could share a bucket',
    );
  }
  const resolved = {
    rules,
    key: key ?? deriveKey(url, credentials.id),
    store: rules.length === 0 ? undefined : (given ?? storeOf(credentials, clock)),
    replicas: read.count('replicas', 1, MAX_REPLICAS) ?? (isShared ? RATE_LIMIT_DEFAULTS.replicas : 1),
    onStoreDown:
      read.oneOf('onStoreDown', ['local-share', 'closed', 'open'] as const) ??
      RATE_LIMIT_DEFAULTS.onStoreDown,
    maxWaitMs: read.duration('maxWaitMs') ?? RATE_LIMIT_DEFAULTS.maxWaitMs,
    maxPauseMs: read.duration('maxPauseMs') ?? RATE_LIMIT_DEFAULTS.maxPauseMs,
    respectServer: read.oneOf('respectServer', [true, false] as const) ?? RATE_LIMIT_DEFAULTS.respectServer,
  };
  read.done();
  return Object.freeze(resolved);
}

function resolveRules(read: OptionReader): readonly Rule[] {
  const limit = read.count('limit', 1, MAX_LIMIT);
  const intervalMs = read.duration('intervalMs', 1);
  const rules = read.any('rules');
  if (rules === undefined) {
    if (limit === undefined && intervalMs === undefined) return Object.freeze([]);
    if (limit === undefined) throw new TypeError('rateLimit.limit is required with intervalMs');
    if (intervalMs === undefined) throw new TypeError('rateLimit.intervalMs is required with limit');
    return Object.freeze([Object.freeze({ limit, intervalMs })]);
  }
  if (limit !== undefined || intervalMs !== undefined) {
    throw new TypeError('rateLimit.rules stands instead of limit and intervalMs');
  }
  if (!Array.isArray(rules) || rules.length === 0 || rules.length > MAX_RULES) {
    throw new TypeError(`rateLimit.rules must be an array of 1 to ${MAX_RULES} rules`);
  }
  return Object.freeze(rules.map((rule, index) => resolveRule(rule, `rateLimit.rules[${index}]`)));
}

function resolveRule(rule: object, path: string): Rule {
  const read = new OptionReader(path, rule ?? Number.NaN);
  const limit = read.count('limit', 1, MAX_LIMIT);
  const intervalMs = read.duration('intervalMs', 1);
  const key = read.any('key');
  read.done();
  if (limit === undefined) throw new TypeError(`${path}.limit is required`);
  if (intervalMs === undefined) throw new TypeError(`${path}.intervalMs is required`);
  if (key !== undefined && (typeof key !== 'string' || key === '')) {
    throw new TypeError(`${path}.key must be a string that is not empty`);
  }
  return Object.freeze(key === undefined ? { limit, intervalMs } : { limit, intervalMs, key });
}

function checkStore(store: unknown): RateLimitStore | undefined {
  if (store === undefined) return undefined;
  if (typeof store !== 'object' || store === null) throw new TypeError('rateLimit.store must be a store');
  const methods = store as Record<string, unknown>;
  for (const name of ['take', 'pause'] as const) {
    if (typeof methods[name] !== 'function') {
      throw new TypeError(`rateLimit.store.${name} must be a function`);
    }
  }
  if (methods.note !== undefined && typeof methods.note !== 'function') {
    throw new TypeError('rateLimit.store.note must be a function');
  }
  return store as RateLimitStore;
}

/**
 * The memory of a provider's own bucket: connections of one process that share a credential share its limit.
 * A table of what belongs to other objects, not state of the module: nothing in it outlives its provider.
 */
const providerStores = new WeakMap<CredentialProvider, RateLimitStore>();

function storeOf(credentials: CredentialProvider, clock: Clock): RateLimitStore {
  const found = providerStores.get(credentials) ?? memoryRateLimitStore({ clock });
  providerStores.set(credentials, found);
  return found;
}
