/** The judge of a storm: that it says no to whatever is not so, and yes to nothing else. */
import { describe, expect, it } from 'vitest';
import {
  addUp,
  NO_FAULT,
  type Outcome,
  sideBySide,
  tally,
  total,
  verdictOf,
  wrongWith,
} from '../../scripts/storm/judge.mjs';

const TAG = 'v1-7-12';
const answered: Outcome = { end: 'answered', text: TAG };
const failed = (executed: unknown): Outcome => ({ end: 'failed', executed, code: 'ERR_X' });
const untyped: Outcome = { end: 'untyped', because: 'timeout' };

describe('against the ledger', () => {
  it.each<[string, Outcome, number, string | undefined]>([
    ['answered, ran once', answered, 1, undefined],
    ['answered, never ran', answered, 0, 'it was answered and never ran'],
    ['answered, ran twice', answered, 2, 'it ran 2 times'],
    [
      'its answer is of another call',
      { end: 'answered', text: 'v1-7-13' },
      1,
      "it got another call's answer",
    ],
    [
      'its answer is of a call whose number begins alike',
      { end: 'answered', text: 'v1-7-123' },
      1,
      "it got another call's answer",
    ],
    ['its answer is large', { end: 'answered', text: `${TAG}   ` }, 1, undefined],
    ['an answer without words', { end: 'answered' }, 1, undefined],
    ['false, did not run', failed(false), 0, undefined],
    ['false, ran', failed(false), 1, 'ERR_X says it did not run, and it ran'],
    ['unknown, did not run', failed('unknown'), 0, undefined],
    ['unknown, ran', failed('unknown'), 1, undefined],
    ['unknown, ran twice', failed('unknown'), 2, 'it ran 2 times'],
    ['true, ran', failed(true), 1, undefined],
    ['true, did not run', failed(true), 0, 'ERR_X says it ran, and it did not'],
    ['true, ran three times', failed(true), 3, 'it ran 3 times'],
    ['no word of ours', failed('maybe'), 0, 'ERR_X says nothing of it'],
    ['given up by its framework', untyped, 1, undefined],
    ['given up, and it ran twice', untyped, 2, 'it ran 2 times'],
    ['pending', { end: 'pending' }, 0, 'it was pending after its time was up'],
    ['strange', { end: 'strange', what: 'Error x' }, 0, 'it ended in an error that says nothing: Error x'],
  ])('%s', (_, outcome, runs, wrong) => {
    expect(wrongWith({ tag: TAG, outcome, runs })).toBe(wrong);
  });

  it('the event of a call is held against it, too', () => {
    const heard = (executed: unknown) => ({ executed, code: 'ERR_Y' });
    expect(wrongWith({ tag: TAG, outcome: untyped, runs: 1, heard: heard(false) })).toBe(
      'event ERR_Y says it did not run, and it ran',
    );
    expect(wrongWith({ tag: TAG, outcome: untyped, runs: 0, heard: heard(false) })).toBeUndefined();
    expect(wrongWith({ tag: TAG, outcome: failed('unknown'), runs: 0, heard: heard(false) })).toBe(
      'its error says executed unknown, its event false',
    );
  });
});

describe('the table', () => {
  const call = (outcome: Outcome, runs: number, fault?: string, ...met: string[]) => ({
    tag: TAG,
    outcome,
    runs,
    fault,
    met,
  });
  const calls = [
    call(answered, 1),
    call(failed('unknown'), 0, 'cut', 'expired'),
    call(failed('unknown'), 1, 'cut'),
    call(failed(false), 0, undefined, 'expired', 'deployed'),
    call(failed(true), 1, 'refused'),
    call({ end: 'pending' }, 0, 'cut'),
  ];

  it('counts a call for the fault laid on it, else for those of its time, else for none', () => {
    const rows = tally(calls);
    expect([...rows.keys()].sort()).toEqual(['cut', 'deployed', 'expired', NO_FAULT, 'refused'].sort());
    expect(rows.get('cut')).toEqual({
      calls: 3,
      answered: 0,
      false: 0,
      unknown: 2,
      true: 0,
      wrong: 1,
      notRun: 1,
    });
    expect(rows.get('expired')).toMatchObject({ calls: 1, false: 1, notRun: 0 });
    expect(total(calls)).toEqual({
      calls: 6,
      answered: 1,
      false: 1,
      unknown: 2,
      true: 1,
      wrong: 1,
      notRun: 1,
    });
  });

  it('adds up', () => {
    const rows = addUp(addUp(new Map(), tally(calls)), tally(calls));
    expect(rows.get('cut')).toMatchObject({ calls: 6, unknown: 4, notRun: 2 });
  });

  it('an untyped end is what its event says, and unknown without one', () => {
    expect(verdictOf({ outcome: untyped })).toBe('unknown');
    expect(verdictOf({ outcome: untyped, heard: { executed: false } })).toBe('false');
  });
});

describe('handshakes', () => {
  const begun = (client: string, atMs: number) => ({ client, atMs, isEnd: false });
  const ended = (client: string, atMs: number) => ({ client, atMs, isEnd: true });
  const calm = { withinMs: 50, isCalm: () => true };

  it('one after the other are none side by side, nor are those of two clients', () => {
    expect(sideBySide([begun('a', 0), ended('a', 5), begun('a', 10), begun('b', 11)], calm)).toEqual([]);
  });

  it('two of a client at the same moment are', () => {
    expect(sideBySide([begun('a', 0), begun('b', 1), begun('a', 2), ended('a', 5)], calm)).toEqual(['a']);
  });

  it('a second one is none where the first has failed long ago, or may have failed', () => {
    expect(sideBySide([begun('a', 0), begun('a', 60)], calm)).toEqual([]);
    expect(sideBySide([begun('a', 0), begun('a', 10)], { ...calm, isCalm: () => false })).toEqual([]);
  });
});
