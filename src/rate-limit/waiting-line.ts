/**
 * The line of callers that wait for a token.
 *
 * Guarantees that each token handed in goes to the best waiter (priority, then first come), and that who gives
 * up is gone at once, takes no token and leaves nothing behind. The order is kept by `bottleneck` with an empty
 * reservoir. Never decides when there is a token.
 */
/// <reference path="./bottleneck-light.d.ts" />
import Bottleneck from 'bottleneck/light.js';
import type { Clock, Timer } from '../clock.js';
import type { Disposer } from '../disposer.js';
import type { Urgency } from './toll.js';

/** Who goes first. A recovery behind queued calls would starve: they wait for it. */
export const RATE_PRIORITY = Object.freeze({
  /** Opening a session anew, and probing it. */
  recovery: 0,
  /** Answers to the server's own requests, and cancels. */
  reply: 1,
  /** Streams that are opened again, answers that are asked for by their cursor. */
  reopen: 2,
  read: 3,
  call: 4,
} satisfies Record<Urgency, number>);

export interface Waiter {
  /** When its wait ends, on the monotonic clock. */
  readonly untilMs: number;
  /** Resolves with the token's instant; rejects with what `leave` was given or the signal's reason. */
  readonly promise: Promise<number>;
  leave(reason: unknown): void;
}

interface Place extends Waiter {
  readonly priority: number;
  go(atMs: number): void;
}

/** A token on its way to whoever is best when it is there. */
interface Token {
  readonly atMs: number;
  done(isTaken: boolean): void;
}

/** A job cannot be taken out of bottleneck: when most are dead, and it is more than a few, the line is made anew. */
const MOST_DEAD = 16;
/** bottleneck reads the wall clock: set back by an hour, it would hold a token for an hour. It takes some 5 ms. */
const STUCK_MS = 500;

export class WaitingLine {
  readonly #clock: Clock;
  readonly #onLeftEmpty: () => void;
  /** The living, by priority, first come first. */
  readonly #places: readonly Set<Place>[] = Object.values(RATE_PRIORITY).map(() => new Set());
  #length = 0;
  #turnstile: Turnstile | undefined;
  #handing: Token | undefined;
  #watchdog: Timer | undefined;

  /** `onLeftEmpty`: the last waiter has given up. */
  constructor(clock: Clock, onLeftEmpty: () => void) {
    this.#clock = clock;
    this.#onLeftEmpty = onLeftEmpty;
  }

  /** Those that wait. */
  get length(): number {
    return this.#length;
  }

  /** How many would go before one that came now. */
  ahead(urgency: Urgency): number {
    return this.#places.slice(0, RATE_PRIORITY[urgency] + 1).reduce((sum, { size }) => sum + size, 0);
  }

  /** Those that wait, the best first. */
  inOrder(): Waiter[] {
    return this.#places.flatMap((places) => [...places]);
  }

  join(urgency: Urgency, untilMs: number, signal?: AbortSignal | undefined): Waiter {
    const priority = RATE_PRIORITY[urgency];
    let resolve!: (atMs: number) => void;
    let reject!: (reason: unknown) => void;
    const promise = new Promise<number>((onGo, onLeave) => {
      resolve = onGo;
      reject = onLeave;
    });
    const onAbort = () => place.leave(signal?.reason);
    const place: Place = {
      priority,
      untilMs,
      promise,
      leave: (reason) => {
        if (!this.#remove(place)) return;
        signal?.removeEventListener('abort', onAbort);
        reject(reason);
        if (this.#length === 0) this.#onLeftEmpty();
      },
      go: (atMs) => {
        this.#remove(place);
        signal?.removeEventListener('abort', onAbort);
        resolve(atMs);
      },
    };
    this.#places[priority]?.add(place);
    this.#length += 1;
    this.#turnstile ??= new Turnstile(this.#clock);
    this.#enter(place, this.#turnstile);
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted === true) onAbort();
    return place;
  }

  /** Gives one token, of that instant, to the best waiter. False: there is none any more. One at a time. */
  async hand(atMs: number): Promise<boolean> {
    const turnstile = this.#turnstile;
    if (turnstile === undefined) return false;
    const held = this.#clock.track?.();
    const handed = new Promise<boolean>((done) => {
      this.#handing = { atMs, done };
    });
    void turnstile.turn();
    const watch = () => {
      this.#watchdog = this.#clock.setTimeout(() => {
        void this.#makeAnew().turn();
        watch();
      }, STUCK_MS);
    };
    watch();
    try {
      return await handed;
    } finally {
      this.#watchdog?.clear();
      this.#handing = undefined;
      held?.dispose();
      this.#tidy();
    }
  }

  #enter(place: Place, turnstile: Turnstile): void {
    turnstile.add(place.priority, () => {
      if (turnstile !== this.#turnstile) return;
      // A token that comes to one who has gone passes to the next. And a crowd is taken in 2 ms each: until the
      // last of it stands in the queue, somebody better may be outside.
      const isBest = turnstile.isComplete && this.#places[place.priority]?.has(place) === true;
      const next = isBest ? place : this.#best();
      const token = this.#handing;
      if (token === undefined) return;
      token.done(next !== undefined);
      next?.go(token.atMs);
    });
  }

  #best(): Place | undefined {
    for (const places of this.#places) {
      for (const place of places) return place;
    }
    return undefined;
  }

  #remove(place: Place): boolean {
    if (this.#places[place.priority]?.delete(place) !== true) return false;
    this.#length -= 1;
    this.#tidy();
    return true;
  }

  /** Drops bottleneck when nobody waits, and makes it anew when most in it are dead. */
  #tidy(): void {
    const turnstile = this.#turnstile;
    if (turnstile === undefined) return;
    if (this.#length === 0) {
      turnstile.abandon();
      this.#turnstile = undefined;
      this.#handing?.done(false);
      return;
    }
    const dead = turnstile.jobs - this.#length;
    // Not while a token is on its way through it.
    if (this.#handing === undefined && dead >= MOST_DEAD && dead > this.#length) this.#makeAnew();
  }

  #makeAnew(): Turnstile {
    this.#turnstile?.abandon();
    const anew = new Turnstile(this.#clock);
    this.#turnstile = anew;
    for (const places of this.#places) {
      for (const place of places) this.#enter(place, anew);
    }
    return anew;
  }
}

/** One bottleneck that lets a job through with each turn. */
class Turnstile {
  readonly #clock: Clock;
  readonly #bottleneck = new Bottleneck({ reservoir: 0 });
  #added = 0;
  #queued = 0;
  /** bottleneck hands over by real timers, which no manual clock sees. */
  #held: Disposer | undefined;
  /** Those not let through yet. */
  jobs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#bottleneck.on('queued', () => this.#onQueued());
  }

  add(priority: number, task: () => void): void {
    this.jobs += 1;
    this.#added += 1;
    this.#held ??= this.#clock.track?.();
    this.#bottleneck
      .schedule({ priority }, () => {
        this.jobs -= 1;
        task();
      })
      // Only after `abandon`: the waiters have been told, or stand in another one.
      .catch(() => {});
  }

  /** All that were added stand in its queue. */
  get isComplete(): boolean {
    return this.#queued === this.#added;
  }

  async turn(): Promise<void> {
    await this.#bottleneck.incrementReservoir(1);
    this.#stir();
  }

  /** Drops what is in it, with bottleneck's own timers. */
  abandon(): void {
    this.#release();
    if (this.jobs > 0) void this.#bottleneck.stop({ dropWaitingJobs: true });
  }

  #release(): void {
    this.#held?.dispose();
    this.#held = undefined;
  }

  #onQueued(): void {
    this.#queued += 1;
    if (this.isComplete) this.#release();
    else this.#stir();
  }

  /** It gets on, which a manual clock takes for traffic. */
  #stir(): void {
    this.#clock.track?.().dispose();
  }
}
