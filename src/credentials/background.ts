/**
 * Renewal without a caller: the timer to the next due moment.
 *
 * Guarantees that with `'active'` nothing is renewed for a process that has stopped asking (or was frozen and
 * thawed): a rotating refresh token must not be spent unseen. A timer is a hint only: every acquire judges for
 * itself. Never keeps the process alive.
 */
import type { Clock, Timer } from '../clock.js';
import { elapsedSince, type Moment, momentOf } from './moment.js';
import { ACTIVE_FOR_MS, type ResolvedRefreshPolicy } from './options.js';

export interface BackgroundOptions {
  readonly clock: Clock;
  readonly policy: ResolvedRefreshPolicy;
  /** How long until something is due; undefined: nothing to wait for. */
  dueInMs(): number | undefined;
  lifetimeMs(): number;
  renew(): void;
}

export class Background {
  readonly #options: BackgroundOptions;
  #timer: Timer | undefined;
  #lastAcquire: Moment;
  #stopped = false;

  constructor(options: BackgroundOptions) {
    this.#options = options;
    this.#lastAcquire = momentOf(options.clock);
  }

  /** A caller asked for the credential. */
  touch(): void {
    this.#lastAcquire = momentOf(this.#options.clock);
  }

  get isArmed(): boolean {
    return this.#timer !== undefined;
  }

  arm(): void {
    this.disarm();
    const dueMs = this.#isWanted() ? this.#options.dueInMs() : undefined;
    if (dueMs === undefined) return;
    this.#timer = this.#options.clock.setTimeout(() => this.#fire(), dueMs, { background: true });
  }

  disarm(): void {
    this.#timer?.clear();
    this.#timer = undefined;
  }

  stop(): void {
    this.#stopped = true;
    this.disarm();
  }

  #fire(): void {
    this.#timer = undefined;
    const dueMs = this.#isWanted() ? this.#options.dueInMs() : undefined;
    if (dueMs === undefined) return;
    if (dueMs > 0) this.arm();
    else this.#options.renew();
  }

  #isWanted(): boolean {
    if (this.#stopped) return false;
    const { policy, clock } = this.#options;
    if (policy.background !== 'active') return policy.background === 'always';
    return elapsedSince(this.#lastAcquire, clock) <= Math.max(ACTIVE_FOR_MS, this.#options.lifetimeMs());
  }
}
