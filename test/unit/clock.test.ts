import { getEventListeners } from 'node:events';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type Clock, fullJitter, MAX_TIMER_MS, sleep, systemClock, untilAborted } from '../../src/clock.js';
import { manualClock } from '../../src/testing/index.js';

afterEach(() => {
  vi.useRealTimers();
});

describe('systemClock', () => {
  it('follows fake time that begins after it was made', async () => {
    const clock = systemClock();
    vi.useFakeTimers({ now: 1_000 });
    const fired = vi.fn();

    clock.setTimeout(fired, 50);
    vi.advanceTimersByTime(50);

    expect(fired).toHaveBeenCalledOnce();
    expect(clock.now()).toBe(1_050);
  });

  it('a timer that is cleared does not fire, and may be cleared twice', () => {
    vi.useFakeTimers();
    const fired = vi.fn();
    const timer = systemClock().setTimeout(fired, 50);

    timer.clear();
    timer.clear();
    vi.advanceTimersByTime(100);

    expect(fired).not.toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('a delay longer than a timer can be is cut, not fired at once; a negative one is 0', () => {
    const spy = vi.spyOn(globalThis, 'setTimeout');
    const clock = systemClock();

    clock.setTimeout(() => {}, 2 ** 40).clear();
    clock.setTimeout(() => {}, -5).clear();

    expect(spy.mock.calls.map(([, ms]) => ms)).toEqual([MAX_TIMER_MS, 0]);
    spy.mockRestore();
  });

  it('only a background timer lets the process end', () => {
    const made: NodeJS.Timeout[] = [];
    const real = globalThis.setTimeout;
    const spy = vi.spyOn(globalThis, 'setTimeout').mockImplementation(((fn: () => void, ms: number) => {
      const timer = real(fn, ms);
      made.push(timer);
      return timer;
    }) as never);
    const clock = systemClock();

    const timers = [
      clock.setTimeout(() => {}, 9_999),
      clock.setTimeout(() => {}, 9_999, { background: true }),
    ];

    expect(made.map((timer) => timer.hasRef())).toEqual([true, false]);
    for (const timer of timers) timer.clear();
    spy.mockRestore();
  });

  it('its monotonic time does not go back', () => {
    const clock = systemClock();
    const first = clock.monotonic();

    expect(clock.monotonic()).toBeGreaterThanOrEqual(first);
    expect(clock.random?.()).toBeLessThan(1);
  });
});

describe('sleep', () => {
  it('lasts so long', async () => {
    const clock = manualClock();
    const woke = vi.fn();
    sleep(clock, 100).then(woke);

    await clock.advance(99);
    expect(woke).not.toHaveBeenCalled();
    await clock.advance(1);
    expect(woke).toHaveBeenCalledOnce();
  });

  it.each(['during', 'before'])(
    'ends with the signal, aborted %s it, leaving nothing behind',
    async (when) => {
      const clock = manualClock();
      const controller = new AbortController();
      const reason = new Error('enough');
      if (when === 'before') controller.abort(reason);
      const sleeping = sleep(clock, 100, controller.signal).catch((error: unknown) => error);
      controller.abort(reason);

      expect(await sleeping).toBe(reason);
      expect(clock.pendingTimers).toBe(0);
      expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
    },
  );

  it('leaves no listener on a signal that outlives it', async () => {
    const clock = manualClock();
    const { signal } = new AbortController();
    const sleeping = sleep(clock, 100, signal);
    await clock.advance(100);
    await sleeping;

    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });
});

describe('untilAborted', () => {
  it('settles as the promise does', async () => {
    const { signal } = new AbortController();

    expect(await untilAborted(Promise.resolve(1))).toBe(1);
    expect(await untilAborted(Promise.resolve(1), signal)).toBe(1);
    await expect(untilAborted(Promise.reject(new Error('no')), signal)).rejects.toThrow('no');
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('ends with the signal, and what the promise does later is nobody’s unhandled rejection', async () => {
    const controller = new AbortController();
    const reason = new Error('enough');
    let reject!: (error: Error) => void;
    const work = new Promise<never>((_resolve, fail) => {
      reject = fail;
    });
    const waiting = untilAborted(work, controller.signal).catch((error: unknown) => error);

    controller.abort(reason);
    reject(new Error('late'));

    expect(await waiting).toBe(reason);
    await expect(untilAborted(Promise.reject(new Error('late')), controller.signal)).rejects.toBe(reason);
  });
});

describe('fullJitter', () => {
  const clock = (random: number) => ({ random: () => random }) as Clock;

  it('lies between 0 and a ceiling that doubles up to its bound', () => {
    expect([0, 1, 2, 3, 9, 1_000].map((attempt) => fullJitter(clock(0.5), attempt, 100, 500))).toEqual([
      50, 100, 200, 250, 250, 250,
    ]);
    expect(fullJitter(clock(0), 5, 100, 500)).toBe(0);
    expect(fullJitter(clock(0.999), 5, 100, 500)).toBeLessThan(500);
  });

  it('has a source of chance of its own where the clock has none', () => {
    expect(fullJitter({} as Clock, 1, 100, 500)).toBeLessThan(200);
  });
});
