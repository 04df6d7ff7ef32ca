import { describe, expect, it, vi } from 'vitest';
import { manualClock } from '../../../src/testing/index.js';

interface Counted {
  counts(): Record<'RECEIVED' | 'QUEUED' | 'RUNNING' | 'EXECUTING', number>;
}

const made = vi.hoisted(() => [] as Counted[]);

vi.mock('bottleneck/light.js', async (original) => {
  const { default: Bottleneck } = await original<{ default: new (options: object) => Counted }>();
  return {
    default: class extends Bottleneck {
      constructor(options: object) {
        super(options);
        made.push(this);
      }
    },
  };
});

const { WaitingLine } = await import('../../../src/rate-limit/waiting-line.js');

/** Jobs that bottleneck still holds, in all that were made. */
const held = () =>
  made.reduce((sum, each) => sum + Object.values(each.counts()).reduce((jobs, count) => jobs + count, 0), 0);

describe('what is left in bottleneck of those who gave up', () => {
  it('is no more than of those who wait, or a few', async () => {
    const clock = manualClock();
    const line = new WaitingLine(clock, () => {});
    const living = Array.from({ length: 5 }, () => line.join('call', Number.POSITIVE_INFINITY));
    for (let round = 0; round < 60; round++) {
      const leaving = Array.from({ length: 4 }, () => line.join('call', Number.POSITIVE_INFINITY));
      await clock.settle();
      for (const waiter of leaving) {
        waiter.promise.catch(() => {});
        waiter.leave('gone');
      }
    }
    // A bottleneck that was given up lets go of its jobs one after the other.
    await vi.waitUntil(() => held() <= 5 + 16);
    expect(made.length).toBeGreaterThan(5);
    while (await line.hand(0));
    await Promise.all(living.map(({ promise }) => promise));
    await vi.waitUntil(() => held() === 0);
  });
});
