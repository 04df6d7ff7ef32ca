import { setMaxListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { type Bucket, useBucket } from '../../../src/rate-limit/bucket.js';
import { keptIntervalMs, type RateLimitStore, type Rule, type Taken } from '../../../src/rate-limit/types.js';
import { type ManualClock, manualClock } from '../../../src/testing/index.js';

const RULE: Rule = { limit: 12, intervalMs: 6_000 };
const KEPT = keptIntervalMs(RULE);
const REPLICAS = 3;

/** A log as a server would keep it, that can go away and come back, with its count or without. */
class SharedLog {
  #stamps: number[] = [];
  #isDown = false;
  /** Replicas that are not back from an outage. */
  #missing = new Set<number>();
  #sharedUntilMs = 0;
  readonly #clock: ManualClock;

  constructor(clock: ManualClock) {
    this.#clock = clock;
  }

  goAway(): void {
    this.#isDown = true;
  }

  comeBack(log: 'kept' | 'lost'): void {
    this.#isDown = false;
    if (log === 'lost') this.#stamps = [];
    this.#missing = new Set(Array.from({ length: REPLICAS }, (_, n) => n));
    this.#sharedUntilMs = this.#clock.monotonic() + KEPT;
  }

  replica(id: number): RateLimitStore {
    return {
      take: async (_key, _rules, options) => {
        this.#check();
        const nowMs = this.#clock.monotonic();
        const seed = this.#stamps.length === 0 && this.#missing.has(id);
        if (seed) this.#add(options?.ownGrantsAgoMs?.() ?? []);
        this.#missing.delete(id);
        return this.#take(nowMs);
      },
      note: async (_key, _rules, agoMs) => {
        this.#check();
        this.#missing.delete(id);
        this.#add(agoMs);
      },
      pause: async () => this.#check(),
    };
  }

  #take(nowMs: number): Taken {
    this.#stamps = this.#stamps.filter((at) => at > nowMs - KEPT);
    const used = this.#stamps.length;
    if (this.#missing.size > 0 && nowMs < this.#sharedUntilMs) {
      return { askAgainInMs: this.#sharedUntilMs - nowMs, used, keepShare: true };
    }
    const blocking = this.#stamps[used - RULE.limit];
    if (blocking !== undefined) return { askAgainInMs: blocking + KEPT - nowMs, used };
    this.#stamps.push(nowMs);
    return { grantedInMs: 0, used: used + 1 };
  }

  #add(agoMs: readonly number[]): void {
    const nowMs = this.#clock.monotonic();
    this.#stamps = [...this.#stamps, ...agoMs.map((ago) => nowMs - ago)].sort((a, b) => a - b);
  }

  #check(): void {
    if (this.#isDown) throw new Error('away');
  }
}

interface Went {
  readonly replica: number;
  readonly atMs: number;
}

function fleet(seed: number) {
  const clock = manualClock(undefined, { seed });
  const log = new SharedLog(clock);
  const went: Went[] = [];
  const ending = new AbortController();
  setMaxListeners(0, ending.signal);
  const events: string[] = [];
  const buckets = Array.from({ length: REPLICAS }, (_, replica) => {
    const bucket = useBucket({
      clock,
      store: log.replica(replica),
      key: 'k',
      rules: [RULE],
      replicas: REPLICAS,
      onStoreDown: 'local-share',
    });
    bucket.events.on('degraded', ({ reason }) => events.push(`${replica} ${reason}`));
    bucket.events.on('restored', () => events.push(`${replica} restored`));
    return bucket;
  });
  /** A caller that always wants to go. */
  const want = async (bucket: Bucket, replica: number) => {
    for (;;) {
      await bucket.acquire({
        urgency: 'call',
        untilMs: Number.POSITIVE_INFINITY,
        signal: () => ending.signal,
        onWait: () => {},
      });
      went.push({ replica, atMs: clock.monotonic() });
    }
  };
  const saturate = (callers: number) =>
    buckets.forEach((bucket, replica) => {
      for (let n = 0; n < callers; n++) want(bucket, replica).catch(() => {});
    });
  const inAnyWindow = () =>
    Math.max(
      ...went.map(
        ({ atMs }) => went.filter((each) => each.atMs >= atMs && each.atMs < atMs + RULE.intervalMs).length,
      ),
    );
  const between = (fromMs: number, toMs: number) => went.filter(({ atMs }) => atMs >= fromMs && atMs < toMs);
  return { clock, log, went, events, ending, buckets, saturate, inAnyWindow, between };
}

describe('three replicas that always want to go', () => {
  it('share one limit, none of them left out', async () => {
    const { clock, went, ending, saturate, inAnyWindow } = fleet(1);
    saturate(3);
    await clock.advance(5 * KEPT);
    expect(inAnyWindow()).toBe(RULE.limit);
    // Five windows, all of them full.
    expect(went.length).toBeGreaterThanOrEqual(5 * RULE.limit);
    for (let replica = 0; replica < REPLICAS; replica++) {
      expect(went.filter((each) => each.replica === replica).length).toBeGreaterThan(8);
    }
    ending.abort('end');
    await clock.settle();
    expect(clock.pendingTimers).toBe(0);
  });

  it.each([
    ['kept its count', 'kept', 1],
    ['kept its count', 'kept', 2],
    ['lost its count', 'lost', 3],
    ['lost its count', 'lost', 4],
  ] as const)(
    'stay inside it while the store is away, and after it has come back and %s',
    async (_, found, seed) => {
      const { clock, log, events, ending, saturate, inAnyWindow, between } = fleet(seed);
      saturate(3);
      await clock.advance(2.5 * KEPT + 100 * seed);
      log.goAway();
      const awayMs = clock.monotonic();
      await clock.advance(3 * KEPT);
      log.comeBack(found);
      const backMs = clock.monotonic();
      await clock.advance(4 * KEPT);
      expect(inAnyWindow()).toBeLessThanOrEqual(RULE.limit);
      // Not by standing still: the share of all three, once what was granted before is out of the window.
      expect(between(awayMs + 1.5 * KEPT, backMs).length).toBeGreaterThanOrEqual(RULE.limit);
      expect(between(backMs + 2 * KEPT, backMs + 4 * KEPT).length).toBeGreaterThan(1.5 * RULE.limit);
      for (let replica = 0; replica < REPLICAS; replica++) {
        expect(events.filter((each) => each === `${replica} unavailable`)).toHaveLength(1);
        expect(events.filter((each) => each === `${replica} restored`)).toHaveLength(1);
      }
      ending.abort('end');
      await clock.settle();
      expect(clock.pendingTimers).toBe(0);
    },
  );

  it('stay inside it when the store goes away before anybody has used it', async () => {
    const { clock, log, ending, saturate, inAnyWindow, went } = fleet(5);
    log.goAway();
    saturate(2);
    await clock.advance(3 * KEPT);
    log.comeBack('lost');
    await clock.advance(3 * KEPT);
    expect(inAnyWindow()).toBeLessThanOrEqual(RULE.limit);
    expect(went.length).toBeGreaterThan(3 * RULE.limit);
    ending.abort('end');
    await clock.settle();
    expect(clock.pendingTimers).toBe(0);
  });

  it('stay inside it when the store comes and goes', async () => {
    const { clock, log, ending, saturate, inAnyWindow, went } = fleet(6);
    saturate(2);
    for (let round = 0; round < 4; round++) {
      await clock.advance(2.2 * KEPT);
      log.goAway();
      await clock.advance(900 + round * 1_700);
      log.comeBack(round % 2 === 0 ? 'kept' : 'lost');
    }
    await clock.advance(2 * KEPT);
    expect(inAnyWindow()).toBeLessThanOrEqual(RULE.limit);
    expect(went.length).toBeGreaterThan(5 * RULE.limit);
    ending.abort('end');
    await clock.settle();
    expect(clock.pendingTimers).toBe(0);
  });
});
