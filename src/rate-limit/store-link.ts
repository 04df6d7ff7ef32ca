/**
 * A store, as one replica gets on with it.
 *
 * Guarantees that every question ends: with the store's answer, or, while it is away, with what `onStoreDown`
 * says; that one caller at most pays for finding out; and that grants made without the store are told to it
 * before it is asked again. Never waits for a token: that is the bucket's business.
 */
import { type Clock, untilAborted } from '../clock.js';
import { within } from '../credentials/deadline.js';
import { GrantLog } from './grant-log.js';
import { LocalShare } from './local-share.js';
import { storeUnavailable } from './refusal.js';
import {
  ENDS_BY_ITSELF,
  type RateLimitStore,
  type Rule,
  type StoreAtHand,
  TAKE_NOW,
  type Taken,
} from './types.js';

/** Why the shared count does not hold: the store failed, did not answer, answered nonsense, or has lost its count. */
export type DegradedReason = 'unavailable' | 'timeout' | 'malformed' | 'incomplete';

export type LinkAnswer =
  /** `givenAtMs`: on the monotonic clock, the earliest instant at which it may have been counted. */
  | { readonly grantedInMs: number; readonly givenAtMs: number }
  /** `isCertain`: there is no token before then, whatever happens. */
  | { readonly askAgainInMs: number; readonly isCertain: boolean };

export interface StoreLinkOptions {
  readonly clock: Clock;
  readonly store: RateLimitStore;
  readonly key: string;
  readonly rules: readonly Rule[];
  readonly replicas: number;
  readonly onStoreDown: 'local-share' | 'closed' | 'open';
  /** What is left of the pause: told to a store that is back. */
  pausedMs(): number;
  /** The shared count does not hold; told once until `onRestored`. */
  onDegraded(reason: DegradedReason): void;
  onRestored(): void;
  /** The store answers again: it is worth asking at once. */
  onReturn(): void;
}

/** A store has a bound of its own; this one is for a store that forgot. */
const ASK_TIMEOUT_MS = 5_000;
/** A store that is away is looked for so often. */
const PROBE_EVERY_MS = 1_000;
const PROBE_JITTER = 0.2;
/** What the store said of its count holds for so long. */
const FRESH_MS = 1_000;

type State = { readonly kind: 'shared' } | Degraded;

type Degraded =
  /** The store answers, but not with its full count: either it said so, or it has just been told what it missed. */
  | { readonly kind: 'sharing' }
  | {
      readonly kind: 'down';
      nextProbeMs: number;
      probe: Promise<void> | undefined;
      /** It answers again, and is being told what it missed: nothing goes past it any more. */
      isReturning: boolean;
    };

const SHARED: State = Object.freeze({ kind: 'shared' });
const SHARING: Degraded = Object.freeze({ kind: 'sharing' });

class StoreFailure extends Error {
  constructor(readonly reason: 'timeout' | 'malformed') {
    super(reason);
  }
}

export class StoreLink {
  readonly #options: StoreLinkOptions;
  readonly #share: LocalShare;
  /** Grants the store does not know of. */
  #untold: GrantLog;
  #state: State = SHARED;
  /** The store's last word on its count, and until when it holds. */
  #said: { readonly used: number; readonly freshUntilMs: number } | undefined;
  /** The store has given its full count since the last time it was lost. */
  #heardInFull = true;
  #isPauseUntold = false;
  #isTellingPause = false;
  /** Ends what goes on in the background. */
  #background = new AbortController();
  /** One function for good: a store may know a limiter by it. */
  readonly #ownGrantsAgoMs = () => this.#share.ownAgoMs(this.#nowMs);

  constructor(options: StoreLinkOptions) {
    this.#options = options;
    this.#share = new LocalShare(options.rules, options.replicas);
    this.#untold = this.#emptyLog();
  }

  get longestMs(): number {
    return this.#share.longestMs;
  }

  /**
   * One token, or when to ask again. Rejects with ERR_STORE_UNAVAILABLE (`onStoreDown: 'closed'`) or the
   * signal's reason.
   */
  async take(signal?: AbortSignal | undefined): Promise<LinkAnswer> {
    signal?.throwIfAborted();
    const began = this.#beginProbe();
    // Somebody has to find out; who cannot go without the store may as well wait for the answer.
    if (began !== undefined && this.#options.onStoreDown === 'closed') await untilAborted(began, signal);
    const probe = this.#state.kind === 'down' && this.#state.isReturning ? this.#state.probe : undefined;
    if (probe !== undefined) await untilAborted(probe, signal);
    if (this.#state.kind === 'down') return this.#without();
    const { store, key, rules } = this.#options;
    const askedAtMs = this.#nowMs;
    let taken: Taken;
    try {
      taken = await this.#bounded(
        (bound) => store.take(key, rules, { signal: bound, ownGrantsAgoMs: this.#ownGrantsAgoMs }),
        signal,
      );
      checkTaken(taken);
    } catch (error) {
      signal?.throwIfAborted();
      this.#lost(error);
      return this.#without();
    }
    return await this.#heard(taken, askedAtMs, signal);
  }

  /** As `take`, of a store that is never away: nothing has to be remembered for that. Undefined: it is another. */
  takeNow(): Taken | undefined {
    const { store, key, rules } = this.#options;
    const takes = (store as StoreAtHand)[TAKE_NOW];
    if (takes === undefined) return undefined;
    return takes.call(store, key, rules);
  }

  /** For those who have nothing to ask yet: looks whether the store is back. Gives when to look again. */
  look(): number {
    this.#beginProbe();
    return this.#state.kind === 'down' ? this.#lookInMs() : Number.POSITIVE_INFINITY;
  }

  /** Tells the store of the pause; where that fails it is told when it is back. Never rejects, never waits. */
  pause(): void {
    this.#beginProbe();
    if (this.#state.kind === 'down' && !this.#state.isReturning) return;
    this.#isPauseUntold = true;
    if (!this.#isTellingPause) void this.#tellPause();
  }

  /** Ends what goes on in the background; no timer is left. Usable again afterwards. */
  stop(): void {
    this.#background.abort(STOPPED);
    this.#background = new AbortController();
  }

  async #heard(taken: Taken, askedAtMs: number, signal: AbortSignal | undefined): Promise<LinkAnswer> {
    const nowMs = this.#nowMs;
    // An answer to a question from before the outage: the way back is the probe's.
    const isLate = this.#state.kind === 'down';
    if ('grantedInMs' in taken) {
      this.#share.record(nowMs + taken.grantedInMs);
      if (!isLate) this.#full(taken.used, nowMs);
      return { grantedInMs: taken.grantedInMs, givenAtMs: askedAtMs };
    }
    if (taken.keepShare !== true) {
      // Until it is asked again the bucket is as full as it was.
      if (!isLate) this.#full(taken.used, nowMs + taken.askAgainInMs);
      return { askAgainInMs: taken.askAgainInMs, isCertain: true };
    }
    if (isLate) return this.#without();
    this.#degrade(SHARING, 'incomplete', taken.used);
    // Its count is too low, if anything: what is full by it is full.
    const isFull = taken.used !== undefined && taken.used >= Math.max(...this.#limits);
    const waitMs = isFull ? taken.askAgainInMs : this.#share.waitMs(nowMs);
    if (waitMs > 0) return this.#askAgain(waitMs);
    this.#share.record(nowMs);
    const { store, key, rules } = this.#options;
    try {
      await this.#bounded(async (bound) => store.note?.(key, rules, [0], { signal: bound }), signal);
    } catch (error) {
      this.#untold.push(nowMs);
      signal?.throwIfAborted();
      this.#lost(error);
    }
    return { grantedInMs: 0, givenAtMs: nowMs };
  }

  /** What may be had while the store is away. */
  #without(): LinkAnswer {
    const { onStoreDown } = this.#options;
    if (onStoreDown === 'closed') throw storeUnavailable(PROBE_EVERY_MS);
    const nowMs = this.#nowMs;
    const waitMs = onStoreDown === 'open' ? 0 : this.#share.waitMs(nowMs);
    if (waitMs > 0) return this.#askAgain(waitMs);
    this.#share.record(nowMs);
    this.#untold.push(nowMs);
    return { grantedInMs: 0, givenAtMs: nowMs };
  }

  /** Its full count may be back any second, with more to give than the share. */
  #askAgain(waitMs: number): LinkAnswer {
    return { askAgainInMs: Math.min(waitMs, this.#lookInMs()), isCertain: false };
  }

  #lookInMs(): number {
    const state = this.#state;
    const isProbeToCome = state.kind === 'down' && state.probe === undefined;
    return isProbeToCome ? Math.max(0, state.nextProbeMs - this.#nowMs) : PROBE_EVERY_MS;
  }

  #lost(error: unknown): void {
    if (this.#state.kind === 'down') return;
    const nextProbeMs = this.#nowMs + this.#probeGapMs();
    const reason = error instanceof StoreFailure ? error.reason : 'unavailable';
    this.#degrade({ kind: 'down', nextProbeMs, probe: undefined, isReturning: false }, reason);
  }

  /** `used`: what the store still counts, where it answers: less than there was, if anything. */
  #degrade(next: Degraded, reason: DegradedReason, used = 0): void {
    const previous = this.#state;
    if (previous.kind === next.kind) return;
    this.#state = next;
    if (this.#heardInFull) {
      const nowMs = this.#nowMs;
      const said = this.#said;
      const isFresh = said !== undefined && nowMs <= said.freshUntilMs;
      const known = isFresh ? Math.max(said.used, used) : used;
      this.#share.begin(nowMs, isFresh || used > Math.max(...this.#limits) / 2 ? known : undefined);
      this.#heardInFull = false;
    }
    if (previous.kind === 'shared') this.#options.onDegraded(reason);
  }

  /** The store has given its full count. */
  #full(used: number | undefined, untilMs: number): void {
    this.#said = used === undefined ? undefined : { used, freshUntilMs: untilMs + FRESH_MS };
    this.#heardInFull = true;
    if (this.#state.kind === 'shared') return;
    this.#state = SHARED;
    this.#options.onRestored();
  }

  /** One at a time, and not too often; undefined where none was begun. */
  #beginProbe(): Promise<void> | undefined {
    const state = this.#state;
    if (state.kind !== 'down' || state.probe !== undefined || this.#nowMs < state.nextProbeMs) {
      return undefined;
    }
    const onReturn = () => {
      state.isReturning = true;
    };
    state.probe = this.#probe(onReturn).then(
      () => {
        this.#state = SHARING;
        this.#options.onReturn();
      },
      (error) => {
        state.probe = undefined;
        state.isReturning = false;
        state.nextProbeMs = this.#nowMs + (error === STOPPED ? 0 : this.#probeGapMs());
      },
    );
    return state.probe;
  }

  /** First the store hears what was granted without it: only then its count is worth asking for. */
  async #probe(onReturn: () => void): Promise<void> {
    const { store, key, rules } = this.#options;
    if (store.note === undefined) {
      // Nothing but a token can be asked for; it is let go.
      await this.#inBackground(async (signal) => checkTaken(await store.take(key, rules, { signal })));
      this.#untold.drop(this.#untold.size);
    } else {
      // A second time for what was granted while the first was on its way.
      await this.#tell();
      onReturn();
      while (this.#untold.size > 0) await this.#tell();
    }
    onReturn();
    const pausedMs = this.#options.pausedMs();
    if (pausedMs > 0) await this.#inBackground((signal) => store.pause(key, pausedMs, { signal }));
  }

  async #tell(): Promise<void> {
    const { store, key, rules } = this.#options;
    const told = this.#untold;
    this.#untold = this.#emptyLog();
    told.forget(this.#nowMs - this.#share.longestMs);
    const agoMs = told.agoMs(this.#nowMs);
    try {
      await this.#inBackground(async (signal) => store.note?.(key, rules, agoMs, { signal }));
    } catch (error) {
      for (const ago of this.#untold.agoMs(this.#nowMs)) told.push(this.#nowMs - ago);
      this.#untold = told;
      throw error;
    }
  }

  #emptyLog(): GrantLog {
    return new GrantLog(Math.max(...this.#limits));
  }

  /** Many refusals at once are one pause, or two. */
  async #tellPause(): Promise<void> {
    const { store, key, pausedMs } = this.#options;
    this.#isTellingPause = true;
    try {
      while (this.#isPauseUntold) {
        this.#isPauseUntold = false;
        await this.#inBackground((signal) => store.pause(key, pausedMs(), { signal }));
      }
    } catch (error) {
      if (error !== STOPPED) this.#lost(error);
    } finally {
      this.#isTellingPause = false;
    }
  }

  #inBackground<T>(ask: (signal: AbortSignal | undefined) => Promise<T>): Promise<T> {
    return this.#bounded(ask, this.#background.signal, true);
  }

  async #bounded<T>(
    ask: (signal: AbortSignal | undefined) => Promise<T>,
    signal: AbortSignal | undefined,
    background = false,
  ): Promise<T> {
    const { clock, store } = this.#options;
    if (ENDS_BY_ITSELF in store) return await ask(signal);
    const ending = new AbortController();
    const held = clock.track?.();
    try {
      const asked = (async () => ask(ending.signal))();
      const onTimeout = () => new StoreFailure('timeout');
      return await within(clock, asked, ASK_TIMEOUT_MS, onTimeout, signal, background);
    } catch (error) {
      ending.abort(error);
      throw error;
    } finally {
      held?.dispose();
    }
  }

  get #nowMs(): number {
    return this.#options.clock.monotonic();
  }

  get #limits(): number[] {
    return this.#options.rules.map(({ limit }) => limit);
  }

  #probeGapMs(): number {
    const random = this.#options.clock.random?.() ?? Math.random();
    return PROBE_EVERY_MS * (1 + PROBE_JITTER * (2 * random - 1));
  }
}

const STOPPED = Object.freeze(new Error('stopped'));

function checkTaken(taken: Taken): void {
  if (typeof taken !== 'object' || taken === null) throw new StoreFailure('malformed');
  const ms = 'grantedInMs' in taken ? taken.grantedInMs : taken.askAgainInMs;
  if (!Number.isFinite(ms) || ms < 0) throw new StoreFailure('malformed');
}
