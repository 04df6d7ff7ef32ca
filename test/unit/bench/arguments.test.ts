/** What the benchmark is asked for. */
import { describe, expect, it } from 'vitest';
import { cellFilter, readArguments } from '../../../bench/arguments.mjs';

const CHOICES = { only: ['cpu', 'memory'], contenders: ['client', 'v1'] };
const read = (...args: string[]) => readArguments(args, CHOICES);

describe('the arguments of the benchmark', () => {
  it('by default: seven rounds of everything, written', () => {
    expect(read()).toMatchObject({ rounds: 7, calls: 1, noWrite: false, only: [], contenders: [] });
  });

  it('--quick makes fewer rounds and writes nothing; a number given beside it holds', () => {
    expect(read('--quick')).toMatchObject({ rounds: 3, noWrite: true });
    expect(read('--rounds', '9', '--quick')).toMatchObject({ rounds: 9, noWrite: true });
  });

  it('names are separated by commas, or given again', () => {
    expect(read('--only', 'cpu,memory').only).toEqual(['cpu', 'memory']);
    expect(read('--only', 'cpu', '--only', 'memory').only).toEqual(['cpu', 'memory']);
  });

  it.each([
    [['--only', 'cpus'], 'cpus'],
    [['--contenders', 'client,v3'], 'v3'],
    [['--answers', 'xml'], 'xml'],
    [['--concurrency', '2'], '2'],
    [['--rounds', '0'], '--rounds'],
    [['--rounds'], '--rounds'],
    [['--only'], '--only'],
    [['--fast'], '--fast'],
    [['toString'], 'toString'],
  ])('refuses %j and says what it did not understand', (args, named) => {
    expect(() => read(...args)).toThrow(RangeError);
    expect(() => read(...args)).toThrow(named);
  });
});

describe('the cells that are measured', () => {
  const chosen = (...args: string[]) => {
    const fits = cellFilter(read(...args));
    const cells: string[] = [];
    for (const kind of ['json', 'sse'])
      for (const size of ['small', 'large'])
        for (const atOnce of [1, 64, 512])
          if (fits(kind, size, atOnce)) cells.push(`${kind} ${size} ${atOnce}`);
    return cells;
  };

  it('are all of them, or those that fit every choice', () => {
    expect(chosen()).toHaveLength(12);
    expect(chosen('--answers', 'sse')).toHaveLength(6);
    expect(chosen('--answers', 'sse,small', '--concurrency', '1,64')).toEqual([
      'sse small 1',
      'sse small 64',
    ]);
    expect(chosen('--answers', 'json,sse', '--concurrency', '512')).toHaveLength(4);
  });
});
