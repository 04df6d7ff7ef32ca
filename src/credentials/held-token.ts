/**
 * The token and refresh token that one provider holds, and their form in a store.
 *
 * Guarantees that a generation moves exactly when the access token's value changed, that age is judged on the
 * stricter of wall and monotonic clock (a clock set back cannot keep a token alive, a suspended machine cannot
 * either), and that an access token stored for another resource is never taken for ours. Does no I/O.
 */
import type { Clock } from '../clock.js';
import { type Dpop, DpopKey, type StoredKey } from './dpop.js';
import { elapsedSince, type Moment, momentOf } from './moment.js';
import { MAX_LIFETIME_MS, type ResolvedRefreshPolicy, type TokenTimes, tokenTimes } from './options.js';
import type { StoredRecord } from './provider.js';
import { Secret } from './secret.js';
import type { IssuedToken } from './token-endpoint.js';
import type { RevokedToken } from './token-revocation.js';
import { jwtLifetimeMs } from './token-value.js';

export interface HeldToken extends TokenTimes {
  readonly generation: number;
  readonly access: Secret;
  /** What the server granted; undefined where it did not say and we did not ask. */
  readonly scope?: string | undefined;
  /** When its request was started. */
  readonly startedAtMs: number;
  readonly startedMonotonicMs: number;
  /** The key it is bound to; undefined: a bearer token. */
  readonly dpop?: DpopKey | undefined;
}

export function ageOf(held: HeldToken, clock: Clock): number {
  return elapsedSince({ atMs: held.startedAtMs, monotonicMs: held.startedMonotonicMs }, clock);
}

/** `data` of a StoredRecord. Its `generation` counts writes; `gen` here counts values of the access token. */
interface StoredData {
  readonly v: 1;
  readonly gen: number;
  readonly access?: string | undefined;
  readonly refresh?: string | undefined;
  readonly atMs?: number | undefined;
  readonly lifeMs?: number | undefined;
  readonly scope?: string | undefined;
  /** The resource and scope the access token was asked for. */
  readonly resource?: string | undefined;
  readonly asked?: string | undefined;
  /** Digest of the configured refresh token that this line of tokens began with. */
  readonly seed?: string | undefined;
  /** The key that the tokens are bound to. */
  readonly dpop?: StoredKey | undefined;
}

export interface HoldingOptions {
  readonly clock: Clock;
  readonly policy: ResolvedRefreshPolicy;
  /** Tokens are bound to its key. */
  readonly dpop?: Dpop | undefined;
}

/** What a provider holds. */
export class Holding {
  readonly #clock: Clock;
  readonly #policy: ResolvedRefreshPolicy;
  readonly #dpop: Dpop | undefined;
  token: HeldToken | undefined;
  refresh: Secret | undefined;
  /** Generation of the stored record this was read from or written as. */
  #version: number | undefined;
  #newestVersion = 0;
  seed: string | undefined;
  resource: string | undefined;
  asked: string | undefined;
  #lastGeneration = 0;

  constructor(options: HoldingOptions) {
    this.#clock = options.clock;
    this.#policy = options.policy;
    this.#dpop = options.dpop;
  }

  get version(): number | undefined {
    return this.#version;
  }

  set version(version: number | undefined) {
    this.#version = version;
    this.#newestVersion = Math.max(this.#newestVersion, version ?? 0);
  }

  /**
   * The record is one that ours replaced: the store lost writes, as a failover may. Both numbers must say so: a record
   * that was deleted and written anew is younger, whatever its number.
   */
  isNewerThan(record: StoredRecord): boolean {
    const { atMs } = parseStored(record.data) ?? {};
    if (this.token === undefined || this.#version === undefined || atMs === undefined) return false;
    return record.generation < this.#newestVersion && atMs < this.token.startedAtMs;
  }

  /** Takes an issued token. Answers what was put in its place, for the record; nothing is lost if that fails. */
  take(issued: IssuedToken, started: Moment): HeldToken {
    const value = issued.accessToken.reveal();
    const lifetimeMs = Math.min(
      issued.expiresInMs ?? Number.POSITIVE_INFINITY,
      jwtLifetimeMs(value) ?? Number.POSITIVE_INFINITY,
    );
    const known = Number.isFinite(lifetimeMs) ? lifetimeMs : this.#policy.assumedLifetimeMs;
    // RFC 6749, 6: a reply without a refresh token leaves the old one in force.
    if (issued.refreshToken !== undefined) this.refresh = issued.refreshToken;
    const key = issued.dpop && (this.#dpop?.use(issued.dpop) ?? issued.dpop);
    return this.#hold(value, started, known, issued.scope ?? this.asked, this.#generationFor(value), key);
  }

  /** An access token that the app brought along. */
  takeSeed(value: string, lifetimeMs: number, scope: string | undefined): void {
    this.#hold(value, momentOf(this.#clock), lifetimeMs, scope, this.#generationFor(value));
  }

  /** Takes a stored record. False where its data cannot be read. */
  adopt(record: StoredRecord): boolean {
    const data = parseStored(record.data);
    if (data === undefined) return false;
    this.version = record.generation;
    if (data.refresh !== undefined) this.refresh = new Secret(data.refresh);
    if (data.seed !== undefined) this.seed = data.seed;
    const stored = DpopKey.read(data.dpop);
    const key = stored && this.#dpop?.use(stored);
    // A token without a key is none to who asks for bound ones, and one with a key none to who has no use for that.
    const fits = this.#dpop === undefined ? data.dpop === undefined : key !== undefined;
    const isOurs = fits && data.resource === this.resource && data.asked === this.asked;
    if (!isOurs || data.access === undefined || data.atMs === undefined || data.lifeMs === undefined) {
      this.#lastGeneration = Math.max(this.#lastGeneration, data.gen);
      return true;
    }
    const ageMs = Math.max(0, this.#clock.now() - data.atMs);
    const started = { atMs: data.atMs, monotonicMs: this.#clock.monotonic() - ageMs };
    const isSame = this.token?.access.reveal() === data.access;
    const generation = isSame
      ? (this.token as HeldToken).generation
      : Math.max(data.gen, this.#lastGeneration + 1);
    this.#hold(data.access, started, data.lifeMs, data.scope, generation, key);
    return true;
  }

  /** The record to write after version `version`. */
  toRecord(): StoredRecord {
    const key = this.#dpop?.key;
    // There is one key in a record: a token of another one would be of no use to anybody.
    const token = this.token?.dpop === key ? this.token : undefined;
    const data: StoredData = {
      v: 1,
      gen: Math.max(this.#lastGeneration, this.token?.generation ?? 0),
      access: token?.access.reveal(),
      refresh: this.refresh?.reveal(),
      atMs: token?.startedAtMs,
      lifeMs: token?.lifetimeMs,
      scope: token?.scope,
      resource: this.resource,
      asked: this.asked,
      seed: this.seed,
      dpop: key?.reveal(),
    };
    // Above every number seen: the same number must never stand for two records.
    const generation = Math.max(this.#version ?? this.#firstVersion(), this.#newestVersion) + 1;
    // The record outlives the access token where a refresh token stands in it.
    const expires = this.refresh === undefined && token !== undefined;
    return {
      generation,
      data: JSON.stringify(data),
      ...(expires ? { expiresAtMs: Math.round(token.startedAtMs + token.lifetimeMs) } : {}),
    };
  }

  /** What an issuer would have to take back; the one that brings others first. */
  issued(): RevokedToken[] {
    const { refresh, token } = this;
    return [
      ...(refresh === undefined ? [] : [{ token: refresh, hint: 'refresh_token' as const }]),
      ...(token === undefined ? [] : [{ token: token.access, hint: 'access_token' as const }]),
    ];
  }

  clear(): void {
    this.token = undefined;
    this.refresh = undefined;
    this.#version = undefined;
    this.#newestVersion = 0;
    this.seed = undefined;
    this.#dpop?.forget();
  }

  /** A record that was deleted and written anew must not be taken for the old one, nor overwritten as if it were. */
  #firstVersion(): number {
    return Math.floor((this.#clock.random?.() ?? Math.random()) * 2 ** 32);
  }

  #generationFor(value: string): number {
    if (this.token !== undefined && this.token.access.reveal() === value) return this.token.generation;
    return this.#lastGeneration + 1;
  }

  #hold(
    value: string,
    started: Moment,
    lifetimeMs: number,
    scope: string | undefined,
    generation: number,
    key?: DpopKey | undefined,
  ): HeldToken {
    this.#lastGeneration = Math.max(this.#lastGeneration, generation);
    const random = this.#clock.random?.() ?? Math.random();
    this.token = {
      ...tokenTimes(lifetimeMs, this.#policy, random),
      generation,
      access: new Secret(value, generation),
      scope,
      startedAtMs: started.atMs,
      startedMonotonicMs: started.monotonicMs,
      ...(key !== undefined && { dpop: key }),
    };
    return this.token;
  }
}

function parseStored(text: string): StoredData | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const own = (name: keyof StoredData): unknown =>
    Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
  const string = (name: keyof StoredData) => {
    const found = own(name);
    return typeof found === 'string' ? found : undefined;
  };
  const number = (name: keyof StoredData) => {
    const found = own(name);
    return typeof found === 'number' && Number.isFinite(found) ? found : undefined;
  };
  const gen = number('gen');
  if (own('v') !== 1 || gen === undefined) return undefined;
  const lifeMs = number('lifeMs');
  return {
    v: 1,
    gen,
    access: string('access'),
    refresh: string('refresh'),
    atMs: number('atMs'),
    lifeMs: lifeMs === undefined ? undefined : Math.min(lifeMs, MAX_LIFETIME_MS),
    scope: string('scope'),
    resource: string('resource'),
    asked: string('asked'),
    seed: string('seed'),
    dpop: own('dpop') as StoredKey | undefined,
  };
}
