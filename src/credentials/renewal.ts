/**
 * One renewal: the way from a token that is due to the next one, across replicas.
 *
 * Guarantees that a rotating refresh token is sent only under a lease whose remaining time, checked on the
 * monotonic clock as the last thing before the request leaves, covers the request; that what another replica
 * stored is adopted instead of asked for again; and that a token received is stored before it is served.
 * Never decides when to renew and never backs off: that is `refresher.ts`.
 */
import { type Clock, sleep, type Timer } from '../clock.js';
import type { Grant } from './grant.js';
import { ageOf, type Holding } from './held-token.js';
import { elapsedSince, type Moment, momentOf } from './moment.js';
import { LEASE_EXTRA_MS, LEASE_MARGIN_MS, type ResolvedRefreshPolicy } from './options.js';
import { closedError, type Problem, problemOf } from './problem.js';
import type { Lease, StoredRecord } from './provider.js';
import type { Secret } from './secret.js';
import { type SharedRecord, storeError } from './shared-record.js';
import type { IssuedToken, TokenOutcome } from './token-endpoint.js';

/** What the token must be good for. */
export interface Demand {
  /** A generation the server refused: another value is wanted. */
  readonly refused?: number | undefined;
  /** The scope to ask for where it differs from the one held. */
  readonly scope?: string | undefined;
  /** A token is wanted although the one held is young: its scope does not do. */
  readonly anew?: boolean | undefined;
}

export type RenewalResult =
  | { readonly kind: 'minted' }
  | { readonly kind: 'adopted' }
  /** The refresh token is spent or revoked. */
  | { readonly kind: 'dead'; readonly problem: Problem }
  | { readonly kind: 'refused'; readonly oauthError?: string | undefined; readonly problem: Problem }
  | {
      readonly kind: 'unavailable';
      readonly problem: Problem;
      readonly retryAfterMs?: number | undefined;
    };

export interface RenewalOptions {
  readonly grant: Grant;
  readonly holding: Holding;
  readonly record: SharedRecord | undefined;
  readonly policy: ResolvedRefreshPolicy;
  readonly clock: Clock;
  /** Ends waits for a lease; a request that has left is not stopped by it. */
  readonly closing: AbortSignal;
  /** The configured refresh token, if it is not the one that died. */
  untriedSeed(): Secret | undefined;
}

const IN_DOUBT_TRIES = 2;
const IN_DOUBT_WITHIN_MS = 2_000;
const SECOND_LOOK_MS = 100;
const LEASE_ROUNDS = 3;
const SAVE_TRIES = 3;
/** A pair that could not be stored is tried again this often. */
const UNSAVED_RETRY_MS = 5_000;

export class Renewal {
  readonly #options: RenewalOptions;
  readonly #clock: Clock;
  readonly #holding: Holding;
  /** A pair is held that the store does not have yet. */
  #unsaved = false;
  /** The store failed during this run, and the grant can do without it. */
  #withoutStore = false;
  #saveTimer: Timer | undefined;

  constructor(options: RenewalOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#holding = options.holding;
  }

  /** Tries again, now and then, to store what could not be stored. */
  armSave(): void {
    this.disarmSave();
    if (!this.#unsaved) return;
    const again = () => void this.saveUnsaved().then(() => this.armSave());
    this.#saveTimer = this.#clock.setTimeout(again, UNSAVED_RETRY_MS, { background: true });
  }

  disarmSave(): void {
    this.#saveTimer?.clear();
    this.#saveTimer = undefined;
  }

  /** Keeps what was had in another way, and is newer than whatever is stored. Never rejects. */
  async take(issued: IssuedToken, started: Moment): Promise<RenewalResult> {
    this.disarmSave();
    const stored = await this.#options.record?.read().catch(() => undefined);
    if (stored !== undefined) this.#holding.version = stored.generation;
    await this.#keep(issued, started, {});
    return { kind: 'minted' };
  }

  /** Never rejects. */
  async run(demand: Demand): Promise<RenewalResult> {
    const { grant, record } = this.#options;
    this.#withoutStore = false;
    this.disarmSave();
    try {
      // Discovery and modules first: nothing slow may stand between the lease and the request.
      await grant.prepare();
    } catch (error) {
      return failureOf(error);
    }
    if (record === undefined) return await this.#post(demand, undefined);
    let lease: Lease | undefined;
    try {
      if (this.#unsaved) await this.#save();
      for (let round = 0; round < LEASE_ROUNDS; round++) {
        if (await this.#adoptNewer(record, demand)) return { kind: 'adopted' };
        const taken = await this.#takeLease(record, demand);
        if (taken === 'adopted') return { kind: 'adopted' };
        lease = taken;
        const result = await this.#postUnderLease(demand, lease);
        if (result !== 'lease-too-short') return result;
        await record.release(lease);
        lease = undefined;
      }
      return failureOf(storeError('gave leases that ended too soon'));
    } catch (error) {
      // Client credentials spend nothing: two requests are better than none.
      if (!grant.spendsRefreshToken && !this.#options.closing.aborted) {
        this.#withoutStore = true;
        return await this.#post(demand, undefined);
      }
      return failureOf(error);
    } finally {
      if (lease !== undefined) await record.release(lease);
    }
  }

  /** Reads the store; true where it holds another version than ours, no older one, and that was taken. */
  async adoptChanged(record: SharedRecord): Promise<boolean> {
    const stored = await record.read();
    if (stored === undefined) {
      // Deleted by somebody (a log-out elsewhere): what we knew of its version is void.
      this.#holding.version = undefined;
      return false;
    }
    if (stored.generation === this.#holding.version) return false;
    if (this.#holding.isNewerThan(stored)) {
      // Its refresh token is spent: what we hold goes back into the store instead.
      this.#holding.version = stored.generation;
      this.#unsaved = true;
      return false;
    }
    this.#adopt(stored);
    return true;
  }

  /** One more try to store what could not be stored. Never rejects. */
  async saveUnsaved(): Promise<void> {
    if (this.#unsaved) await this.#save();
  }

  #adopt(stored: StoredRecord): void {
    if (!this.#holding.adopt(stored)) throw storeError('holds a damaged record');
    this.#unsaved = false;
  }

  async #adoptNewer(record: SharedRecord, demand: Demand): Promise<boolean> {
    return (await this.adoptChanged(record)) && this.#meets(demand);
  }

  #meets(demand: Demand): boolean {
    const token = this.#holding.token;
    if (token === undefined || token.generation === demand.refused) return false;
    if (demand.anew === true) return false;
    return ageOf(token, this.#clock) < token.softAfterMs;
  }

  async #takeLease(record: SharedRecord, demand: Demand): Promise<Lease | 'adopted'> {
    const leaseMs = this.#options.policy.tokenTimeoutMs + LEASE_EXTRA_MS;
    const startedMs = this.#clock.monotonic();
    for (;;) {
      const lease = await this.#lease(record, leaseMs);
      if (lease !== undefined) {
        let met: boolean;
        try {
          // The holder before us may have stored what we want.
          met = await this.#adoptNewer(record, demand);
        } catch (error) {
          await record.release(lease);
          throw error;
        }
        if (!met) return lease;
        await record.release(lease);
        return 'adopted';
      }
      // To a grant that spends nothing the lease is a saving only.
      const patienceMs = this.#options.grant.spendsRefreshToken
        ? leaseMs + LEASE_MARGIN_MS
        : IN_DOUBT_WITHIN_MS;
      if (this.#clock.monotonic() - startedMs > patienceMs) {
        throw storeError('keeps a lease of another replica beyond its end');
      }
      await this.#pause(25 + 50 * this.#random());
      if (await this.#adoptNewer(record, demand)) return 'adopted';
    }
  }

  /** The monotonic clock of a machine that sleeps may stand still, where the lease runs out: the stricter clock counts. */
  async #lease(record: SharedRecord, leaseMs: number): Promise<Lease | undefined> {
    const asked = momentOf(this.#clock);
    const lease = await record.lease(leaseMs);
    if (lease === undefined) return undefined;
    return {
      remainingMs: () => Math.min(lease.remainingMs(), leaseMs - elapsedSince(asked, this.#clock)),
      release: () => lease.release(),
    };
  }

  async #postUnderLease(demand: Demand, lease: Lease): Promise<RenewalResult | 'lease-too-short'> {
    if (lease.remainingMs() < this.#options.policy.tokenTimeoutMs + LEASE_MARGIN_MS) return 'lease-too-short';
    return await this.#post(demand, lease);
  }

  async #post(demand: Demand, lease: Lease): Promise<RenewalResult | 'lease-too-short'>;
  async #post(demand: Demand, lease: undefined): Promise<RenewalResult>;
  async #post(demand: Demand, lease: Lease | undefined): Promise<RenewalResult | 'lease-too-short'> {
    const { grant, policy, closing } = this.#options;
    if (closing.aborted) return failureOf(closedError());
    if (grant.spendsRefreshToken && this.#holding.refresh === undefined)
      return dead('There is no refresh token');
    let started = momentOf(this.#clock);
    let outcome = await this.#request(demand, lease, policy.tokenTimeoutMs);
    if (outcome.kind === 'held-back') return 'lease-too-short';
    const failedMs = this.#clock.monotonic();
    for (let tries = 0; tries < IN_DOUBT_TRIES && grant.spendsRefreshToken; tries++) {
      // The answer may be lost: we hold nothing but this refresh token, and grace windows are short.
      if (outcome.kind !== 'unavailable' || !outcome.inDoubt) break;
      if (this.#clock.monotonic() - failedMs > IN_DOUBT_WITHIN_MS) break;
      const leftMs = lease === undefined ? policy.tokenTimeoutMs : lease.remainingMs() - LEASE_MARGIN_MS;
      if (leftMs < LEASE_MARGIN_MS) break;
      await sleep(this.#clock, 50 + 250 * this.#random());
      started = momentOf(this.#clock);
      const again = await this.#request(demand, lease, Math.min(policy.tokenTimeoutMs, leftMs));
      if (again.kind === 'held-back') break;
      outcome = again;
    }
    return await this.#settle(outcome, started, demand);
  }

  async #request(demand: Demand, lease: Lease | undefined, timeoutMs: number): Promise<TokenOutcome> {
    const { grant } = this.#options;
    return await grant.request({
      refreshToken: grant.spendsRefreshToken ? this.#holding.refresh : undefined,
      scope: demand.scope ?? this.#holding.asked,
      resource: this.#holding.resource,
      timeoutMs,
      mayLeave: lease === undefined ? undefined : () => lease.remainingMs() > timeoutMs,
    });
  }

  async #settle(outcome: TokenOutcome, started: Moment, demand: Demand): Promise<RenewalResult> {
    switch (outcome.kind) {
      case 'token':
        await this.#keep(outcome, started, demand);
        return { kind: 'minted' };
      case 'refused':
        await this.#keepRotated(outcome.rotated);
        if (outcome.oauthError === 'invalid_grant' && this.#options.grant.spendsRefreshToken) {
          return await this.#afterInvalidGrant(outcome.problem);
        }
        return outcome;
      case 'unavailable':
        await this.#keepRotated(outcome.rotated);
        return outcome;
      case 'held-back':
        return failureOf(storeError('gave a lease that ended too soon'));
    }
  }

  /** An answer that is no good otherwise may have spent the old one. */
  async #keepRotated(rotated: Secret | undefined): Promise<void> {
    if (rotated === undefined) return;
    this.#holding.refresh = rotated;
    await this.#save();
  }

  async #keep(issued: IssuedToken, started: Moment, demand: Demand): Promise<void> {
    if (demand.scope !== undefined) this.#holding.asked = demand.scope;
    this.#holding.take(issued, started);
    await this.#save();
  }

  /** The refresh token may have been rotated by somebody who did not hold our lease: look before giving up. */
  async #afterInvalidGrant(problem: Problem): Promise<RenewalResult> {
    const { record } = this.#options;
    if (record !== undefined) {
      try {
        if (await this.adoptChanged(record)) return { kind: 'adopted' };
        await this.#pause(SECOND_LOOK_MS);
        if (await this.adoptChanged(record)) return { kind: 'adopted' };
      } catch {
        // A store that is down cannot tell; the refusal stands until it can.
      }
    }
    const seed = this.#options.untriedSeed();
    if (seed !== undefined) {
      this.#holding.refresh = seed;
      const started = momentOf(this.#clock);
      const outcome = await this.#request({}, undefined, this.#options.policy.tokenTimeoutMs);
      if (outcome.kind === 'token') {
        await this.#keep(outcome, started, {});
        return { kind: 'minted' };
      }
      if (outcome.kind === 'unavailable') return outcome;
    }
    return dead('The refresh token is expired, revoked or was used elsewhere', problem);
  }

  /** Writes what is held. Never rejects: what cannot be stored now is kept and tried again. */
  async #save(): Promise<void> {
    const { record, grant } = this.#options;
    if (record === undefined || this.#withoutStore) return;
    this.#unsaved = true;
    // A token that can be had again is not worth a wait.
    const maxTries = grant.spendsRefreshToken ? SAVE_TRIES : 2;
    for (let tries = 0; tries < maxTries; tries++) {
      try {
        const next = this.#holding.toRecord();
        if (await record.compareAndSet(this.#holding.version, next)) {
          this.#holding.version = next.generation;
          this.#unsaved = false;
          return;
        }
        await this.#afterLostWrite(record);
        if (!this.#unsaved) return;
      } catch {
        if (!grant.spendsRefreshToken) break;
        await sleep(this.#clock, SECOND_LOOK_MS * 2 ** tries);
      }
    }
    // Client credentials are asked for anew; a pair whose refresh token was rotated must still reach the store.
    if (!grant.spendsRefreshToken) this.#unsaved = false;
  }

  /** Somebody wrote in between, so our lease was lost: what stands there was stored first and is what others use. */
  async #afterLostWrite(record: SharedRecord): Promise<void> {
    const stored = await record.read();
    if (stored === undefined) this.#holding.version = undefined;
    else if (this.#options.grant.spendsRefreshToken) this.#adopt(stored);
    else this.#holding.version = stored.generation;
  }

  async #pause(ms: number): Promise<void> {
    try {
      await sleep(this.#clock, ms, this.#options.closing);
    } catch {
      throw closedError();
    }
  }

  #random(): number {
    return this.#clock.random?.() ?? Math.random();
  }
}

function failureOf(error: unknown): RenewalResult {
  const problem = problemOf(error, {
    code: 'ERR_TOKEN_ENDPOINT',
    what: 'The token could not be renewed',
    fields: { retryable: true },
  });
  // What this runtime has left out will not come.
  const isFinal = problem.code === 'ERR_DISCOVERY' || problem.fields?.reason === 'runtime';
  if (isFinal) return { kind: 'refused', problem };
  return { kind: 'unavailable', problem, retryAfterMs: problem.fields?.retryAfterMs };
}

function dead(what: string, because?: Problem): RenewalResult {
  return {
    kind: 'dead',
    problem: {
      code: 'ERR_REAUTHORIZATION_REQUIRED',
      what,
      fields: {
        status: because?.fields?.status,
        reason: because === undefined ? 'no_refresh_token' : 'invalid_grant',
        serverText: because?.fields?.serverText,
      },
    },
  };
}
