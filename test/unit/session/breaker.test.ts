import { beforeEach, describe, expect, it } from 'vitest';
import { Breaker } from '../../../src/session/breaker.js';
import { type ManualClock, manualClock } from '../../../src/testing/index.js';

const MINUTE = 60_000;

let clock: ManualClock;
let breaker: Breaker;

beforeEach(() => {
  clock = manualClock();
  breaker = new Breaker(clock);
});

/** A session that answers `answered` calls and is lost after `lifeMs`. */
async function session(answered: number, lifeMs = 0): Promise<number | undefined> {
  if (answered > 0) breaker.useful();
  await clock.advance(lifeMs);
  return breaker.lost(answered);
}

describe('Breaker', () => {
  it('trips at the third session in a row that answered nothing', async () => {
    expect([await session(0), await session(0), await session(0)]).toEqual([undefined, undefined, 5_000]);
  });

  it('also at an agent’s pace: usefulness counts, not speed', async () => {
    expect([await session(0, 20_000), await session(0, 20_000), await session(0, 20_000)]).toEqual([
      undefined,
      undefined,
      5_000,
    ]);
  });

  it('a session that was of use begins the row again', async () => {
    expect([await session(0), await session(0), await session(3), await session(0)]).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });

  it('the answers of the lost session itself count, too', () => {
    expect([0, 0, 1, 0].map((answered) => breaker.lost(answered))).toEqual(new Array(4).fill(undefined));
  });

  it('trips at the fifth loss within ten minutes, useful or not', async () => {
    for (let lost = 1; lost <= 4; lost += 1) expect(await session(10, MINUTE)).toBeUndefined();
    expect(await session(10, MINUTE)).toBe(5_000);
  });

  it('does not mind a loss now and then', async () => {
    for (let lost = 1; lost <= 20; lost += 1) expect(await session(10, 3 * MINUTE)).toBeUndefined();
  });

  it('after the rest one useless session is enough, and the rest grows to five minutes', async () => {
    for (let lost = 1; lost <= 2; lost += 1) await session(0);
    const rests: (number | undefined)[] = [];

    for (let trip = 1; trip <= 8; trip += 1) rests.push(await session(0, 5 * MINUTE));

    expect(rests).toEqual([5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
  });

  it('after ten quiet minutes the first rest is short again', async () => {
    for (let lost = 1; lost <= 4; lost += 1) await session(0);
    await clock.advance(11 * MINUTE);
    breaker.useful();

    expect([await session(0), await session(0), await session(0)]).toEqual([undefined, undefined, 5_000]);
  });
});
