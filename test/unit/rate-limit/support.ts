/** Helpers of the limiter's tests: a store that does as it is told, and one log shared by replicas. */
import { memoryRateLimitStore } from '../../../src/rate-limit/memory-store.js';
import {
  keptIntervalMs,
  type RateLimitStore,
  type Rule,
  type Taken,
  type TakeOptions,
} from '../../../src/rate-limit/types.js';
import type { ManualClock } from '../../../src/testing/index.js';

export const RULE: Rule = { limit: 3, intervalMs: 1_000 };
/** 1,250 ms: a window of `RULE` as it is kept. */
export const KEPT = keptIntervalMs(RULE);

export interface Outcome {
  name: string;
  atMs: number;
  error?: { code?: string; retryAfterMs?: number; reason?: string; executed?: unknown; retryable?: unknown };
}

/** Notes when each promise settles, in order. */
export function settlements(clock: ManualClock) {
  const outcomes: Outcome[] = [];
  const watch = (name: string, promise: Promise<unknown> | undefined) => {
    if (promise === undefined) outcomes.push({ name, atMs: clock.monotonic() });
    else
      promise.then(
        () => outcomes.push({ name, atMs: clock.monotonic() }),
        (error) => outcomes.push({ name, atMs: clock.monotonic(), error }),
      );
  };
  return {
    outcomes,
    watch,
    get went() {
      return outcomes.filter(({ error }) => error === undefined).map(({ name, atMs }) => `${name}@${atMs}`);
    },
    get refused() {
      return outcomes.filter(({ error }) => error !== undefined);
    },
  };
}

type Answer = Taken | 'fail' | 'hang' | Error;

/** Memory behind a switch: fails, hangs, or answers from a script; counts what it was asked. */
export class FakeStore implements RateLimitStore {
  readonly inner: RateLimitStore;
  mode: 'up' | 'fail' | 'hang' = 'up';
  /** Answers to the next takes, first in, first out; then as `mode` says. */
  readonly script: Answer[] = [];
  readonly takes: { atMs: number; ownAgoMs: readonly number[] }[] = [];
  readonly notes: { atMs: number; agoMs: readonly number[] }[] = [];
  readonly pauses: number[] = [];
  /** The signals of questions that are still out. */
  readonly hanging = new Set<AbortSignal | undefined>();
  readonly #clock: ManualClock;

  constructor(clock: ManualClock) {
    this.#clock = clock;
    this.inner = memoryRateLimitStore({ clock });
  }

  async take(key: string, rules: readonly Rule[], options: TakeOptions = {}): Promise<Taken> {
    this.takes.push({ atMs: this.#clock.monotonic(), ownAgoMs: options.ownGrantsAgoMs?.() ?? [] });
    const answer = this.script.length > 0 ? (this.script.shift() as Answer) : this.mode;
    if (answer === 'hang') return await this.#hang(options.signal);
    if (answer === 'fail') throw new Error('no answer');
    if (answer instanceof Error) throw answer;
    return answer === 'up' ? await this.inner.take(key, rules, options) : answer;
  }

  async pause(key: string, forMs: number, options: { signal?: AbortSignal | undefined } = {}) {
    this.pauses.push(forMs);
    if (this.mode === 'fail') throw new Error('no answer');
    if (this.mode === 'hang') await this.#hang(options.signal);
    await this.inner.pause(key, forMs);
  }

  async note(
    _key: string,
    _rules: readonly Rule[],
    agoMs: readonly number[],
    options: { signal?: AbortSignal | undefined } = {},
  ) {
    this.notes.push({ atMs: this.#clock.monotonic(), agoMs });
    if (this.mode === 'fail') throw new Error('no answer');
    if (this.mode === 'hang') await this.#hang(options.signal);
  }

  #hang(signal: AbortSignal | undefined): Promise<never> {
    this.hanging.add(signal);
    return new Promise((_, reject) => {
      signal?.addEventListener('abort', () => {
        this.hanging.delete(signal);
        reject(signal.reason);
      });
    });
  }
}
