/**
 * A clock that stands still until a test moves it.
 *
 * Guarantees that timers run one by one, by due time and then in the order they were set, each with the
 * clock at its own due time, and that loopback traffic comes to rest between them. Never sets a real timer:
 * it waits by turns of the event loop alone.
 */
import type { Clock } from '../clock.js';
import { disposer } from '../disposer.js';

/** 2026-01-01T00:00:00Z: a date, so that a `Date` header or an expiry looks like one. */
const DEFAULT_START_MS = 1_767_225_600_000;
/** A loopback write is readable in the next turn; a few more let promise chains and parsers run. */
const QUIET_TURNS = 6;
/**
 * Traffic that stays under way while nothing moves waits for this very clock. Both must have passed: on a busy
 * machine milliseconds go by without anybody getting on, and turns (about 1 µs each) are our share of it.
 */
const STUCK_TURNS = 4_000;
const STUCK_REAL_MS = 8;

// Taken when the module is loaded: global fake timers of a test runner must not stop this clock.
const nextTurn = setImmediate;
const realNow = performance.now.bind(performance);

export interface ManualClock extends Clock {
  /** Lets traffic come to rest, then moves the clock by `ms`, timer by timer, with a rest after each. */
  advance(ms: number): Promise<void>;
  /** Waits until loopback traffic has come to rest. The clock does not move. */
  settle(): Promise<void>;
  /** Timers that are set and have not run. */
  readonly pendingTimers: number;
  track(): ReturnType<NonNullable<Clock['track']>>;
  random(): number;
}

interface PendingTimer {
  readonly dueMs: number;
  readonly order: number;
  readonly fn: () => void;
}

/**
 * A manual clock at `startAtMs` (epoch milliseconds; the start of 2026 by default). `random()` is a seeded
 * generator, so that jitter is the same in every run.
 */
export function manualClock(
  startAtMs: number = DEFAULT_START_MS,
  options?: { seed?: number | undefined } | undefined,
): ManualClock {
  const timers = new Set<PendingTimer>();
  let elapsedMs = 0;
  let order = 0;
  let tracks = 0;
  let activity = 0;
  let running: Promise<void> = Promise.resolve();
  const random = mulberry32(options?.seed ?? 1);

  const settle = async () => {
    let seen = activity;
    let quietTurns = 0;
    let quietSince = realNow();
    for (;;) {
      await new Promise<void>((resolve) => nextTurn(resolve));
      if (activity !== seen) {
        seen = activity;
        quietTurns = 0;
        quietSince = realNow();
        continue;
      }
      quietTurns += 1;
      if (tracks === 0 && quietTurns >= QUIET_TURNS) return;
      if (quietTurns >= STUCK_TURNS && realNow() - quietSince >= STUCK_REAL_MS) return;
    }
  };

  const earliest = (untilMs: number) => {
    let found: PendingTimer | undefined;
    for (const timer of timers) {
      if (timer.dueMs > untilMs) continue;
      const isEarlier =
        found === undefined ||
        timer.dueMs < found.dueMs ||
        (timer.dueMs === found.dueMs && timer.order < found.order);
      if (isEarlier) found = timer;
    }
    return found;
  };

  const move = async (ms: number) => {
    await settle();
    const targetMs = elapsedMs + ms;
    for (let timer = earliest(targetMs); timer !== undefined; timer = earliest(targetMs)) {
      timers.delete(timer);
      elapsedMs = Math.max(elapsedMs, timer.dueMs);
      timer.fn();
      await settle();
    }
    elapsedMs = targetMs;
  };

  return {
    now: () => startAtMs + elapsedMs,
    monotonic: () => elapsedMs,
    random,
    setTimeout(fn, ms) {
      if (Number.isNaN(ms)) throw new TypeError('setTimeout: ms is not a number');
      activity += 1;
      order += 1;
      const timer = { dueMs: elapsedMs + Math.max(ms, 0), order, fn };
      timers.add(timer);
      return {
        clear() {
          if (timers.delete(timer)) activity += 1;
        },
      };
    },
    track() {
      activity += 1;
      tracks += 1;
      return disposer(() => {
        activity += 1;
        tracks -= 1;
      });
    },
    settle,
    advance(ms) {
      if (!(ms >= 0) || !Number.isFinite(ms)) {
        return Promise.reject(new TypeError('advance: ms must be a number of milliseconds, 0 or more'));
      }
      // One after the other: two advances at once would each see the other's timers half moved.
      const moved = running.then(() => move(ms));
      running = moved.catch(() => {});
      return moved;
    },
    get pendingTimers() {
      return timers.size;
    },
  };
}

/** Tommy Ettinger's public-domain generator: 32 bits of state, good enough for jitter. */
function mulberry32(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
