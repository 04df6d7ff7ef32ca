import { expect, it } from 'vitest';
import type { Clock } from '../../../src/clock.js';
import { within } from '../../../src/credentials/deadline.js';
import { manualClock } from '../../../src/testing/manual-clock.js';

/** A clock whose process stands still: timers run only when it is let go, at whatever time it is then. */
function stallingClock() {
  let nowMs = 0;
  const timers = new Set<{ dueMs: number; fn: () => void }>();
  const clock: Clock = {
    now: () => nowMs,
    monotonic: () => nowMs,
    setTimeout(fn, ms) {
      const timer = { dueMs: nowMs + ms, fn };
      timers.add(timer);
      return { clear: () => timers.delete(timer) };
    },
  };
  const wakeAt = (ms: number) => {
    nowMs = ms;
    for (const timer of [...timers]) if (timer.dueMs <= nowMs && timers.delete(timer)) timer.fn();
  };
  return { clock, wakeAt, timers };
}

const late = () => new Error('late');

it('ends at its time', async () => {
  const clock = manualClock();
  const ended = within(clock, new Promise(() => {}), 250, late).catch((error: Error) => error.message);
  await clock.advance(249);
  expect(clock.pendingTimers).toBe(1);
  await clock.advance(1);
  expect(await ended).toBe('late');
  expect(clock.pendingTimers).toBe(0);
});

it('a process that stood still does not take its own stillness for the other one’s silence', async () => {
  const { clock, wakeAt, timers } = stallingClock();
  let answer: (value: string) => void = () => {};
  const promise = new Promise<string>((resolve) => {
    answer = resolve;
  });
  const ended = within(clock, promise, 250, late);
  wakeAt(700);
  // It had been here for long, unread.
  answer('here');
  expect(await ended).toBe('here');
  expect(timers.size).toBe(0);
});

it('but gives no more than the stillness took, nor more than the time there was', async () => {
  for (const [wokenAtMs, graceMs] of [
    [300, 50],
    [10_000, 250],
  ] as const) {
    const { clock, wakeAt, timers } = stallingClock();
    const ended = within(clock, new Promise(() => {}), 250, late).catch((error: Error) => error.message);
    wakeAt(wokenAtMs);
    expect(timers.size).toBe(1);
    wakeAt(wokenAtMs + graceMs);
    expect(await ended).toBe('late');
    expect(timers.size).toBe(0);
  }
});

it('one that is a little late is late', async () => {
  const { clock, wakeAt } = stallingClock();
  const ended = within(clock, new Promise(() => {}), 250, late).catch((error: Error) => error.message);
  wakeAt(258);
  expect(await ended).toBe('late');
});
