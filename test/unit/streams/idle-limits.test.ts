import { describe, expect, it } from 'vitest';
import { IdleLimits } from '../../../src/streams/idle-limits.js';

function learn(cuts: readonly [idleMs: number, ageMs: number, survivedMs?: number][]) {
  const limits = new IdleLimits();
  const told = cuts
    .map(([idleMs, ageMs, survivedMs = 0]) => limits.record({ idleMs, ageMs, survivedMs }))
    .filter((each) => each !== undefined);
  return { told, learned: limits.learned, usableMs: limits.usableMs };
}

describe('IdleLimits', () => {
  it.each([
    [
      'two cuts say nothing',
      [
        [60_000, 60_000],
        [60_010, 60_010],
      ],
      undefined,
    ],
    [
      'three that agree are a limit on silence',
      [
        [60_000, 60_000],
        [60_100, 90_000],
        [59_900, 75_000],
      ],
      { kind: 'idle', limitMs: 59_900 },
    ],
    [
      'three of one age although bytes flowed are a limit on age',
      [
        [100, 300_000],
        [9_000, 300_200],
        [2_000, 299_900],
      ],
      { kind: 'age', limitMs: 299_900 },
    ],
    [
      'silence counts before age',
      [
        [3_000, 3_000],
        [3_010, 3_010],
        [2_990, 2_990],
      ],
      { kind: 'idle', limitMs: 2_990 },
    ],
    [
      'three that differ say nothing',
      [
        [60_000, 60_000],
        [30_000, 35_000],
        [45_000, 50_000],
      ],
      undefined,
    ],
    [
      'streams ended at once say nothing',
      [
        [5, 10],
        [4, 9],
        [5, 11],
      ],
      undefined,
    ],
    [
      'whoever let a longer silence pass did not cut for silence',
      [
        [6_000, 300_000, 7_000],
        [6_000, 300_000, 7_000],
        [6_000, 300_000, 7_000],
      ],
      { kind: 'age', limitMs: 300_000 },
    ],
    [
      'only the last three count',
      [
        [5_000, 5_000],
        [60_000, 60_000],
        [60_050, 60_050],
        [60_020, 61_000],
      ],
      { kind: 'idle', limitMs: 60_000 },
    ],
  ] as const)('%s', (_name, cuts, expected) => {
    expect(learn(cuts.map((cut) => [...cut] as [number, number, number?])).learned).toEqual(expected);
  });

  it('tells a limit once, and again when it has moved', () => {
    const steady = Array.from({ length: 5 }, (): [number, number] => [60_000, 60_000]);
    const moved = Array.from({ length: 3 }, (): [number, number] => [30_000, 30_000]);
    expect(learn([...steady, ...moved]).told).toEqual([
      { kind: 'idle', limitMs: 60_000 },
      { kind: 'idle', limitMs: 30_000 },
    ]);
  });

  it('what is safe is the limit less two seconds, or 5 % where that is more', () => {
    const three = (ms: number) =>
      learn([
        [ms, ms],
        [ms, ms],
        [ms, ms],
      ]).usableMs;
    expect([three(10_000), three(60_000), three(1_500)]).toEqual([8_000, 57_000, 0]);
    expect(
      learn([
        [100, 300_000],
        [9_000, 300_000],
        [2_000, 300_000],
      ]).usableMs,
    ).toBeUndefined();
  });
});
