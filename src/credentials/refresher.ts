/**
 * When a token is renewed, and what callers see meanwhile: the same for every OAuth grant.
 *
 * Guarantees one renewal at a time however many callers ask; that callers are not delayed while the token
 * lives; that a refused generation costs one forced renewal and a straggler's refusal of an older one none;
 * and that every failure is latched or backed off rather than repeated per caller. A caller's abort detaches
 * that caller only. Never sends its secret to a second origin, and a renewal that has left is finished and
 * stored even when the provider is closed.
 */
import { type Clock, sleep, untilAborted } from '../clock.js';
import type { Disposer } from '../disposer.js';
import { HostedMcpError } from '../errors.js';
import { Background } from './background.js';
import { foreignOriginError } from './credential.js';
import { CredentialEvents } from './credential-events.js';
import { within } from './deadline.js';
import type { Dpop } from './dpop.js';
import type { Grant } from './grant.js';
import { ageOf, type HeldToken, Holding } from './held-token.js';
import { Latches } from './latches.js';
import type { Moment } from './moment.js';
import { DEFAULT_MAX_WAIT_MS, known, type ResolvedRefreshPolicy } from './options.js';
import { abortedError, closedError, FORGOTTEN, isAborted, problemError } from './problem.js';
import {
  type AcquireOptions,
  AT_HAND,
  type Credential,
  type CredentialEvent,
  type CredentialStore,
  type ProviderAtHand,
} from './provider.js';
import { Rejections } from './rejections.js';
import { type Demand, Renewal, type RenewalResult } from './renewal.js';
import { ScopeStepUp } from './scope-step-up.js';
import { type Seed, SeedUse } from './seed.js';
import { Served } from './served.js';
import { SharedRecord } from './shared-record.js';
import type { IssuedToken } from './token-endpoint.js';

export interface RefresherOptions {
  readonly id: string;
  readonly grant: Grant;
  readonly policy: ResolvedRefreshPolicy;
  readonly clock: Clock;
  readonly store?: CredentialStore | undefined;
  readonly seed?: Seed | undefined;
  /** Tokens are bound to its key (RFC 9449). */
  readonly dpop?: Dpop | undefined;
  /** RFC 8707; undefined: the first target's address. A function: known when the first token is asked for. */
  readonly resource?: string | (() => string | undefined) | undefined;
  readonly scope?: string | (() => string | undefined) | undefined;
}

const DRAIN_MS = 15_000;
/** A caller's own timer would say no more than that time is up; what stood in the way is told just before it. */
const TELL_BEFORE_MS = 20;

export class Refresher implements ProviderAtHand {
  readonly id: string;
  readonly #options: RefresherOptions;
  readonly #clock: Clock;
  readonly #events = new CredentialEvents();
  readonly #holding: Holding;
  readonly #latches: Latches;
  readonly #rejections: Rejections;
  readonly #record: SharedRecord | undefined;
  readonly #renewal: Renewal;
  readonly #background: Background;
  readonly #seed: SeedUse;
  readonly #served: Served;
  readonly #stepUp: ScopeStepUp;
  readonly #closing = new AbortController();
  #origin: string | undefined;
  #target: URL | undefined;
  #isLoaded = false;
  #loading: Promise<void> | undefined;
  #flight: Promise<RenewalResult> | undefined;
  #recheck: Promise<boolean> | undefined;
  #backoff: Promise<void> | undefined;
  #forgotten = false;
  #closed: Promise<void> | undefined;

  constructor(options: RefresherOptions) {
    this.id = options.id;
    this.#options = options;
    this.#clock = options.clock;
    this.#holding = new Holding(options);
    this.#served = new Served(options.dpop);
    this.#latches = new Latches(options.clock);
    this.#rejections = new Rejections(options.clock, (error) => this.#fail(error), options.dpop);
    this.#seed = new SeedUse(options.seed, this.#holding);
    if (options.store !== undefined)
      this.#record = new SharedRecord(options.store, options.id, options.clock);
    this.#renewal = new Renewal({
      grant: options.grant,
      holding: this.#holding,
      record: this.#record,
      policy: options.policy,
      clock: options.clock,
      closing: this.#closing.signal,
      untriedSeed: () => this.#seed.untried(),
    });
    this.#background = new Background({
      clock: options.clock,
      policy: options.policy,
      lifetimeMs: () => this.#holding.token?.lifetimeMs ?? 0,
      dueInMs: () => this.#dueInMs(),
      renew: () => void this.#renew(),
    });
    this.#stepUp = new ScopeStepUp({
      holding: this.#holding,
      latches: this.#latches,
      spendsRefreshToken: options.grant.spendsRefreshToken,
      renewWithScope: (scope) => this.#renewWithScope(scope),
      widened: (scope) => this.#events.emit({ type: 'scope-widened', id: this.id, scope }),
    });
  }

  /** As `acquire`, where a token is good and nobody has refused it. */
  [AT_HAND](target: URL): Credential | undefined {
    const { token } = this.#holding;
    if (token === undefined || this.#closed !== undefined || !this.#isLoaded) return undefined;
    if (this.#rejections.latchError(token.generation) !== undefined || !this.#isUsable(token, false))
      return undefined;
    this.#bind(target);
    this.#background.touch();
    return this.#serve(token);
  }

  async acquire(target: URL, options: AcquireOptions = {}): Promise<Credential> {
    if (this.#closed !== undefined) throw closedError();
    if (isAborted(options.signal)) throw abortedError();
    this.#bind(target);
    this.#background.touch();
    try {
      return await untilAborted(this.#obtain(options), options.signal);
    } catch (error) {
      if (HostedMcpError.isInstance(error)) throw error;
      throw isAborted(options.signal) ? abortedError() : error;
    }
  }

  /** A token that was had in another way, as by a user's consent: stored, then served to all. */
  async take(target: URL, issued: IssuedToken, started: Moment): Promise<void> {
    this.#bind(target);
    if (!this.#isLoaded) {
      this.#loading ??= this.#load();
      await this.#loading;
    }
    while (this.#flight !== undefined) await this.#flight;
    this.#forgotten = false;
    await this.#renew(undefined, () => this.#renewal.take(issued, started));
  }

  onEvent(listener: (event: CredentialEvent) => void): Disposer {
    return this.#events.add(listener);
  }

  async forget(): Promise<void> {
    this.#forgotten = this.#options.grant.spendsRefreshToken;
    await this.#flight;
    this.#holding.clear();
    this.#latches.clear();
    this.#seed.drop();
    for (let tries = 0; tries < 3 && this.#record !== undefined; tries++) {
      const stored = await this.#record.read();
      if (stored === undefined || (await this.#record.compareAndSet(stored.generation, undefined))) break;
    }
  }

  /** Takes the tokens back at their issuer and forgets them. Throws `ERR_TOKEN_ENDPOINT` where that failed. */
  async revoke(_options?: { signal?: AbortSignal | undefined }): Promise<'revoked' | 'unsupported'> {
    await this.#flight;
    const tokens = this.#holding.issued();
    void this.forget().catch(() => {});
    return (await this.#options.grant.revoke?.(tokens, this.#options.policy.tokenTimeoutMs)) ?? 'unsupported';
  }

  close(options: { drainMs?: number | undefined } = {}): Promise<void> {
    this.#closed ??= this.#drain(options.drainMs ?? DRAIN_MS);
    return this.#closed;
  }

  async #drain(drainMs: number): Promise<void> {
    this.#background.stop();
    this.#renewal.disarmSave();
    this.#closing.abort(closedError());
    const rest = (async () => {
      await this.#flight;
      await this.#renewal.saveUnsaved();
    })();
    await within(this.#clock, rest, drainMs, closedError).catch(() => {});
    await this.#options.grant.close();
  }

  /** The first target decides; a secret never goes to a second origin. */
  #bind(target: URL): void {
    // Its origin is made anew each time it is asked for.
    if (target === this.#target) return;
    if (this.#origin === undefined) {
      this.#origin = target.origin;
      // RFC 8707, 2: without a fragment.
      this.#holding.resource = known(this.#options.resource) ?? target.href.replace(/#.*$/, '');
      this.#holding.asked = known(this.#options.scope);
    } else if (this.#origin !== target.origin) {
      throw foreignOriginError();
    }
    this.#target = target;
  }

  async #obtain(options: AcquireOptions): Promise<Credential> {
    const { maxWaitMs = DEFAULT_MAX_WAIT_MS } = options;
    const deadlineMs = this.#clock.monotonic() + maxWaitMs - Math.min(TELL_BEFORE_MS, maxWaitMs / 2);
    if (!this.#isLoaded) {
      this.#loading ??= this.#load();
      await this.#wait(this.#loading, deadlineMs);
    }
    this.#rejections.note(options, this.#holding.token);
    if (options.scope !== undefined) {
      await this.#stepUp.widen(options.scope, options.rejected, (work) => this.#wait(work, deadlineMs));
    }
    let minted = false;
    for (;;) {
      // Nobody waits any more: this loop must not start renewals for a caller that left.
      if (isAborted(options.signal)) throw abortedError();
      if (this.#closed !== undefined) throw closedError();
      const token = this.#holding.token;
      const rejection = this.#rejections.latchError(token?.generation);
      if (rejection !== undefined) throw rejection;
      if (token !== undefined && this.#isUsable(token, minted)) return this.#serve(token);
      const dead = this.#latches.dead;
      if (dead !== undefined) {
        if (await this.#isStillDead(deadlineMs)) throw problemError(dead.problem);
        continue;
      }
      if (this.#forgotten) throw problemError(FORGOTTEN);
      if (this.#flight === undefined) {
        const refusal = this.#latches.refusal();
        if (refusal !== undefined) throw refusal;
        const waitMs = this.#latches.waitMs();
        if (waitMs > 0) {
          if (token !== undefined && this.#maySkipRenewal(token)) return this.#serve(token);
          if (this.#clock.monotonic() + waitMs > deadlineMs) throw this.#latches.outage();
          await this.#sitOut(waitMs);
          continue;
        }
      }
      const result = await this.#wait(this.#renew(), deadlineMs);
      minted = result.kind === 'minted';
    }
  }

  /** `justMinted`: this caller waited for this very token; it may be shorter-lived than the margin. */
  #isUsable(token: HeldToken, justMinted: boolean): boolean {
    if (token.generation === this.#rejections.refused) return false;
    return justMinted || ageOf(token, this.#clock) < token.hardAfterMs;
  }

  #maySkipRenewal({ generation }: HeldToken): boolean {
    const mayServe = this.#options.policy.serveExpired && this.#latches.isOut;
    return mayServe && generation !== this.#rejections.refused;
  }

  #serve(token: HeldToken): Credential {
    const ageMs = ageOf(token, this.#clock);
    if (
      ageMs >= token.softAfterMs &&
      this.#flight === undefined &&
      this.#latches.mayRenew &&
      !this.#forgotten
    ) {
      void this.#renew();
    } else if (!this.#background.isArmed) {
      this.#background.arm();
    }
    return this.#served.of(token, this.#origin as string);
  }

  /** Single flight: whoever comes while it runs gets the same one. */
  #renew(demand?: Demand, work?: () => Promise<RenewalResult>): Promise<RenewalResult> {
    this.#flight ??= this.#run(demand, work).finally(() => {
      this.#flight = undefined;
      this.#background.arm();
      if (this.#closed === undefined) this.#renewal.armSave();
    });
    return this.#flight;
  }

  async #run(demand?: Demand, work?: () => Promise<RenewalResult>): Promise<RenewalResult> {
    this.#background.disarm();
    const { refused } = this.#rejections;
    const before = this.#holding.token?.generation;
    const result = await (work?.() ?? this.#renewal.run(demand ?? { refused }));
    const token = this.#holding.token;
    switch (result.kind) {
      case 'minted':
      case 'adopted':
        this.#latches.clear();
        if (token !== undefined && result.kind === 'minted') {
          this.#latches.space(token.lifetimeMs);
          this.#rejections.noteMinted(token, before);
        }
        this.#tell(result.kind === 'minted' ? 'refreshed' : 'adopted');
        break;
      case 'dead':
        this.#latches.dead = { version: this.#holding.version, problem: result.problem };
        this.#fail(problemError(result.problem));
        break;
      case 'refused':
        if (demand?.anew === true && result.oauthError === 'invalid_scope') break;
        this.#latches.refuse(result.problem, result.oauthError);
        this.#fail(problemError(result.problem));
        break;
      case 'unavailable':
        this.#latches.fail(result.problem, result.retryAfterMs);
        this.#fail(this.#latches.outage() ?? problemError(result.problem));
        break;
    }
    return result;
  }

  #tell(type: 'refreshed' | 'adopted'): void {
    const token = this.#holding.token;
    if (token === undefined) return;
    const expiresAtMs = token.startedAtMs + token.lifetimeMs;
    this.#events.emit({ type, id: this.id, generation: token.generation, expiresAtMs });
  }

  #fail(error: HostedMcpError): void {
    this.#events.emit({ type: 'failed', id: this.id, error });
  }

  async #renewWithScope(scope: string): Promise<RenewalResult> {
    // One under way asks for the old scope.
    while (this.#flight !== undefined) await this.#flight;
    return await this.#renew({ scope, anew: true });
  }

  async #load(): Promise<void> {
    if (this.#record !== undefined) {
      try {
        await this.#renewal.adoptChanged(this.#record);
      } catch (error) {
        // The store is asked again by the renewal, which knows whether it can do without.
        if (!HostedMcpError.isInstance(error)) throw error;
      }
    }
    this.#seed.plant();
    this.#isLoaded = true;
  }

  /** True where the latch holds: the store still has what died. One look at the store for all callers. */
  async #isStillDead(deadlineMs: number): Promise<boolean> {
    if (this.#record === undefined) return true;
    this.#recheck ??= this.#lookAgain(this.#record).finally(() => {
      this.#recheck = undefined;
    });
    return await this.#wait(this.#recheck, deadlineMs);
  }

  async #lookAgain(record: SharedRecord): Promise<boolean> {
    try {
      if (!(await this.#renewal.adoptChanged(record))) return true;
    } catch {
      return true;
    }
    this.#latches.clear();
    this.#tell('adopted');
    return false;
  }

  /** One timer and one listener for all who wait out a back-off. */
  #sitOut(waitMs: number): Promise<void> {
    this.#backoff ??= sleep(this.#clock, waitMs, this.#closing.signal).finally(() => {
      this.#backoff = undefined;
    });
    return this.#backoff;
  }

  /** Waits for shared work as long as this caller can. */
  async #wait<T>(work: Promise<T>, deadlineMs: number): Promise<T> {
    const leftMs = Math.max(0, deadlineMs - this.#clock.monotonic());
    const onTimeout = () =>
      this.#latches.outage() ??
      new HostedMcpError('ERR_TOKEN_ENDPOINT', 'No token arrived in the time this call can wait', {
        retryable: true,
        reason: 'timeout',
      });
    return await within(this.#clock, work, leftMs, onTimeout);
  }

  /** How long until a renewal is due; undefined where there is nothing to renew. */
  #dueInMs(): number | undefined {
    const token = this.#holding.token;
    if (token === undefined || this.#flight !== undefined || this.#forgotten) return undefined;
    if (this.#latches.dead !== undefined || this.#latches.refusal() !== undefined) return undefined;
    return Math.max(token.softAfterMs - ageOf(token, this.#clock), this.#latches.aheadWaitMs(), 0);
  }
}
