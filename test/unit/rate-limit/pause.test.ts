import { describe, expect, it } from 'vitest';
import { Pause } from '../../../src/rate-limit/pause.js';
import { manualClock } from '../../../src/testing/index.js';

describe('Pause', () => {
  it('lasts as long as the server asked', async () => {
    const clock = manualClock();
    const pause = new Pause(clock, 60_000);
    expect(pause.remainingMs).toBe(0);

    expect(pause.extend(3_000)).toBe(3_000);
    await clock.advance(2_999);
    expect(pause.remainingMs).toBe(1);
    await clock.advance(1);
    expect(pause.remainingMs).toBe(0);
    await clock.advance(1_000);
    expect(pause.remainingMs).toBe(0);
  });

  it('is never made shorter, and says what is left of it', async () => {
    const clock = manualClock();
    const pause = new Pause(clock, 60_000);
    pause.extend(10_000);
    await clock.advance(1_000);

    expect(pause.extend(2_000)).toBe(9_000);
    expect(pause.remainingMs).toBe(9_000);
    expect(pause.extend(20_000)).toBe(20_000);
  });

  it('no server can impose more than the ceiling', () => {
    const pause = new Pause(manualClock(), 60_000);

    expect(pause.extend(86_400_000)).toBe(60_000);
    expect(pause.extend(Number.POSITIVE_INFINITY)).toBe(60_000);
    expect(pause.remainingMs).toBe(60_000);
  });

  it('a pause of nothing is none', () => {
    const pause = new Pause(manualClock(), 60_000);

    expect(pause.extend(0)).toBe(0);
    expect(pause.remainingMs).toBe(0);
  });

  it('sets no timer', () => {
    const clock = manualClock();
    new Pause(clock, 60_000).extend(1_000);
    expect(clock.pendingTimers).toBe(0);
  });
});
