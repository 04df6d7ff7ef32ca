import { expect, it } from 'vitest';
import { Breaker } from '../../../src/session/breaker.js';
import { manualClock } from '../../../src/testing/index.js';

const MINUTE = 60_000;

/** A breaker that has met so many losses of sessions that were of use, at once. */
function after(losses: number) {
  const clock = manualClock();
  const breaker = new Breaker(clock);
  const met = Array.from({ length: losses }, () => breaker.lost(10));
  return { clock, breaker, met };
}

it('a useful session that is lost is not the first of a useless row', () => {
  const { breaker } = after(1);

  expect([breaker.lost(0), breaker.lost(0)]).toEqual([undefined, undefined]);
});

it('a loss of exactly ten minutes ago counts, one of a moment longer does not', async () => {
  const exact = after(4);
  await exact.clock.advance(10 * MINUTE);
  expect(exact.breaker.lost(10)).toBe(5_000);

  const longer = after(4);
  await longer.clock.advance(10 * MINUTE + 1);
  expect(longer.breaker.lost(10)).toBeUndefined();
});

it('after a rest for too many losses the next one is enough, useful or not', () => {
  expect(after(6).met.slice(-2)).toEqual([5_000, 10_000]);
  expect(after(7).met.slice(-3)).toEqual([5_000, 10_000, 20_000]);
});

it('after such a rest one useless session is enough even when the losses are forgotten', async () => {
  const { breaker, clock } = after(5);
  await clock.advance(11 * MINUTE);

  expect(breaker.lost(0)).toBe(5_000);
});

it('but a useful one is not', async () => {
  const { breaker, clock } = after(5);
  await clock.advance(11 * MINUTE);

  expect([breaker.lost(1), breaker.lost(0), breaker.lost(0)]).toEqual([undefined, undefined, undefined]);
});
