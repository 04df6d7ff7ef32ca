/**
 * What a server says about its limits: in the head of any answer, and in a JSON-RPC error.
 *
 * Guarantees a finite number of milliseconds, 0 or more, whatever was sent: nonsense, broken fields and copies
 * that contradict each other are passed over, field by field. Never clamps a long pause: how long is too long
 * is the caller's to know. Never takes what is left of a quota for the truth, except where nothing is left: answers to
 * several replicas arrive out of order.
 */
import type { ResponseHead } from '../http/exchange.js';
import { MAX_SECONDS, retryAfterOf, senderNow, soleValue } from './retry-after.js';
import { type BareItem, type FieldMember, parseStructuredField } from './structured-field.js';

export interface ServerPause {
  /** 0 only where the server says outright that it may be asked again at once. */
  readonly pauseMs: number;
  readonly from: 'retry-after' | 'ratelimit' | 'x-ratelimit';
}

/** A limit as a server publishes it; what it does not say is not there. */
export interface PublishedLimit {
  readonly from: 'ratelimit' | 'x-ratelimit';
  /** The server's word, visible ASCII, at most 64 characters. */
  readonly name?: string;
  readonly limit?: number;
  readonly windowMs?: number;
  /** Where it is not requests that are counted, e.g. `content-bytes`. */
  readonly unit?: string;
  readonly remaining?: number;
  readonly resetMs?: number;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type Field = string | readonly string[] | undefined;

/** JSON-RPC "rate limited" (SEP-3304). */
const RATE_LIMITED = -32023;
/** `X-RateLimit-Reset` is a span or an instant, as the server likes: below 31 years it is a span. */
const LEAST_EPOCH_SECONDS = 1e9;
const LEAST_EPOCH_MS = 1e12;
const MAX_NAME_LENGTH = 64;
/** Of fields that come one by one: up to draft 06, and before there were drafts. */
const SEPARATE_FIELDS = [
  { prefix: 'ratelimit', remaining: 'ratelimit-remaining', reset: 'ratelimit-reset' },
  { prefix: 'x-ratelimit', remaining: 'x-ratelimit-remaining', reset: 'x-ratelimit-reset' },
] as const;

/**
 * How long nothing should be sent, by the head of an answer of any status; undefined where it does not say.
 *
 * `Retry-After` counts under 429 and 503 (elsewhere it means other things: 202, 301, 413) and goes before all
 * others. A quota that is used up counts under every status: the next request would be refused. Under 429, one that
 * does not say what is left counts as used up.
 */
export function serverPause(head: ResponseHead, nowMs: number): ServerPause | undefined {
  const { status, headers } = head;
  const isRefusal = status === 429;
  if (isRefusal || status === 503) {
    const pauseMs = retryAfterOf(head, nowMs);
    if (pauseMs !== undefined) return { pauseMs, from: 'retry-after' };
  }
  if (headers.ratelimit !== undefined && (isRefusal || mayBeUsedUp(headers.ratelimit))) {
    const pauseMs = longestPause(serviceLimits(head), head, isRefusal);
    if (pauseMs > 0) return { pauseMs, from: 'ratelimit' };
  }
  for (const names of SEPARATE_FIELDS) {
    const left = headers[names.remaining];
    if (left === undefined && !isRefusal) continue;
    const remaining = asQuantity(numberOf(left));
    if (!isUsedUp(remaining, isRefusal)) continue;
    const pauseMs = untilReset(numberOf(headers[names.reset]), head, nowMs) ?? 0;
    if (pauseMs > 0) return { pauseMs, from: names.prefix };
  }
  return undefined;
}

/** The limits that the head of an answer publishes, for a person to read: nothing here is acted upon. */
export function rateLimitPolicy(head: ResponseHead, nowMs: number): readonly PublishedLimit[] {
  const found = [
    ...policies(head.headers['ratelimit-policy']),
    // Up to draft 02 the policies stood behind the limit.
    ...policies(head.headers['ratelimit-limit']).filter(({ windowMs }) => windowMs !== undefined),
  ];
  const named = new Map<string | undefined, Mutable<PublishedLimit>>();
  for (const policy of found) if (policy.name !== undefined) named.set(policy.name, policy);
  const unnamed = separateFields(head, 'ratelimit', nowMs);
  for (const state of [...serviceLimits(head), unnamed]) {
    const policy =
      state.name === undefined
        ? found.find(({ name, limit }) => name === undefined && limit === state.limit)
        : named.get(state.name);
    if (policy !== undefined) Object.assign(policy, state);
    else if (saysSomething(state)) found.push(state);
  }
  const other = separateFields(head, 'x-ratelimit', nowMs);
  if (saysSomething(other)) found.push(other);
  return found;
}

/**
 * How long a JSON-RPC error "rate limited" (-32023) asks to wait; undefined for every other error. It goes before
 * what the head says, `Retry-After` too (SEP-3304, RL-9). Other codes may pass on a limit that a tool met elsewhere.
 */
export function pauseOfError(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const { code, data } = error as { code?: unknown; data?: unknown };
  if (code !== RATE_LIMITED || typeof data !== 'object' || data === null) return undefined;
  return asSpan(ownNumber(data, 'retryAfterMs'), 1) ?? asSpan(ownNumber(data, 'retryAfter'), 1_000);
}

function ownNumber(data: object, key: string): number | undefined {
  const value: unknown = Object.hasOwn(data, key) ? (data as Record<string, unknown>)[key] : undefined;
  return typeof value === 'number' ? value : undefined;
}

function asSpan(value: number | undefined, unitMs: number): number | undefined {
  if (value === undefined || !(value >= 0) || value * unitMs > MAX_SECONDS * 1_000) return undefined;
  // JSON knows a minus zero.
  return Math.max(0, Math.ceil(value * unitMs));
}

/** The longest of those that are used up: before it, the next request would be refused. */
function longestPause(limits: readonly PublishedLimit[], head: ResponseHead, isRefusal: boolean): number {
  const spent = limits.filter((limit) => pauseOf(limit, isRefusal) > 0);
  // The place of a request that has been answered is free again, whatever was left while it was under way.
  const free = spent.length === 0 || isRefusal ? undefined : namesOfConcurrency(head);
  let longestMs = 0;
  for (const limit of spent) {
    if (free?.has(limit.name) !== true) longestMs = Math.max(longestMs, pauseOf(limit, isRefusal));
  }
  return longestMs;
}

function pauseOf({ remaining, resetMs }: PublishedLimit, isRefusal: boolean): number {
  return isUsedUp(remaining, isRefusal) ? (resetMs ?? 0) : 0;
}

function isUsedUp(remaining: number | undefined, isRefusal: boolean): boolean {
  return remaining === 0 || (remaining === undefined && isRefusal);
}

/** Without reading it, for this is asked of every answer: nothing is 0 where no number begins with one. */
function mayBeUsedUp(field: string | readonly string[]): boolean {
  return typeof field === 'string' ? /=-?0/.test(field) : field.some((line) => /=-?0/.test(line));
}

function namesOfConcurrency(head: ResponseHead): ReadonlySet<string | undefined> {
  const counted = policies(head.headers['ratelimit-policy']).filter(
    ({ name, unit }) => name !== undefined && unit === 'concurrent-requests',
  );
  return new Set(counted.map(({ name }) => name));
}

/** `RateLimit`: a list of `"name";r=0;t=30` (from draft 08), or `limit=, remaining=, reset=` (draft 07). */
function serviceLimits(head: ResponseHead): readonly Mutable<PublishedLimit>[] {
  const members = parseStructuredField(head.headers.ratelimit);
  if (members === undefined) return [];
  if (members.some(({ key }) => key !== undefined)) return [dictionaryOf(members)];
  const limits = new Map<string, Mutable<PublishedLimit> | undefined>();
  for (const { value, parameters } of members) {
    if (typeof value !== 'string') continue;
    const partition = `${value} ${parameters.get('pk') ?? ''}`;
    const limit = limitOf({
      name: value.slice(0, MAX_NAME_LENGTH),
      remaining: asQuantity(parameters.get('r')),
      resetMs: asSeconds(parameters.get('t')),
    });
    limits.set(partition, limits.has(partition) && !isSame(limits.get(partition), limit) ? undefined : limit);
  }
  return [...limits.values()].filter((limit) => limit !== undefined);
}

function dictionaryOf(members: readonly FieldMember[]): Mutable<PublishedLimit> {
  const values = new Map<string, BareItem | undefined>();
  for (const { key, value } of members) {
    if (key !== undefined) values.set(key, values.has(key) && values.get(key) !== value ? undefined : value);
  }
  return limitOf({
    limit: asQuantity(values.get('limit')),
    remaining: asQuantity(values.get('remaining')),
    resetMs: asSeconds(values.get('reset')),
  });
}

/** `RateLimit-Policy`: `"name";q=100;w=60`, or `100;w=60` (before draft 08). */
function policies(field: Field): Mutable<PublishedLimit>[] {
  return (parseStructuredField(field) ?? []).flatMap(({ value, parameters }) => {
    const limit = asQuantity(typeof value === 'number' ? value : parameters.get('q'));
    const unit = parameters.get('qu');
    if (limit === undefined) return [];
    return limitOf({
      name: typeof value === 'string' ? value.slice(0, MAX_NAME_LENGTH) : undefined,
      limit,
      windowMs: asSeconds(parameters.get('w')) || undefined,
      unit: typeof unit === 'string' && unit !== 'requests' ? unit.slice(0, MAX_NAME_LENGTH) : undefined,
    });
  });
}

/** `RateLimit-Limit`, `-Remaining`, `-Reset`, and the same behind an `X-`. */
function separateFields(
  head: ResponseHead,
  prefix: (typeof SEPARATE_FIELDS)[number]['prefix'],
  nowMs: number,
): Mutable<PublishedLimit> {
  const { headers } = head;
  const [first] = parseStructuredField(headers[`${prefix}-limit`]) ?? [];
  return limitOf(
    {
      limit: asQuantity(first?.value),
      remaining: asQuantity(numberOf(headers[`${prefix}-remaining`])),
      resetMs: untilReset(numberOf(headers[`${prefix}-reset`]), head, nowMs),
    },
    prefix,
  );
}

function untilReset(reset: number | undefined, head: ResponseHead, nowMs: number): number | undefined {
  if (reset === undefined || reset < LEAST_EPOCH_SECONDS) return asSpan(reset, 1_000);
  const atMs = reset < LEAST_EPOCH_MS ? reset * 1_000 : reset;
  return asSpan(Math.max(0, atMs - senderNow(head, nowMs)), 1);
}

function numberOf(field: Field): number | undefined {
  const value = soleValue(field);
  return value !== undefined && /^\d{1,15}(?:\.\d{1,9})?$/.test(value) ? Number(value) : undefined;
}

function asQuantity(value: BareItem | undefined): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : undefined;
}

function asSeconds(value: BareItem | undefined): number | undefined {
  return asSpan(asQuantity(value), 1_000);
}

/** Without the fields that say nothing. */
function limitOf(
  fields: { [K in Exclude<keyof PublishedLimit, 'from'>]?: PublishedLimit[K] | undefined },
  from: PublishedLimit['from'] = 'ratelimit',
): Mutable<PublishedLimit> {
  const limit: Mutable<PublishedLimit> = { from };
  for (const [key, value] of Object.entries(fields))
    if (value !== undefined) Object.assign(limit, { [key]: value });
  return limit;
}

function saysSomething({ limit, remaining, resetMs }: PublishedLimit): boolean {
  return limit !== undefined || remaining !== undefined || resetMs !== undefined;
}

function isSame(one: PublishedLimit | undefined, other: PublishedLimit): boolean {
  return one?.remaining === other.remaining && one?.resetMs === other.resetMs;
}
