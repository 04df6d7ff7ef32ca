/**
 * The judge of `npm run test:frameworks`: one that cannot say no is none.
 */
import { describe, expect, it } from 'vitest';
import {
  claimsOnCuts,
  claimsOnRun,
  figuresOf,
  type Play,
  type PlayedCall,
} from '../../scripts/frameworks/judge.mjs';

const SCRIPT = { expiries: ['foreseen', 'sudden'], redeploys: 1 };

const answered = (ticket: string, runs = 1): PlayedCall => ({ ticket, runs, done: true });
const failed = (ticket: string, runs: number, executed?: boolean | 'unknown'): PlayedCall => ({
  ticket,
  runs,
  failure: executed === undefined ? { name: 'TypeError' } : { code: 'ERR_OUTCOME_UNKNOWN', executed },
});
const play = (calls: readonly PlayedCall[], more: Partial<Play> = {}): Play => ({
  opened: { done: true },
  calls,
  closed: true,
  unhandled: [],
  initializes: 1,
  tokenRequests: 3,
  ...more,
});
const broken = (claims: readonly { text: string; holds: boolean }[]) =>
  claims.filter(({ holds }) => !holds).map(({ text }) => text);

describe('a run', () => {
  it.each([
    ['nothing failed', play([answered('a'), answered('b')])],
    ['one call met the redeploy and may have run', play([answered('a'), failed('b', 1, 'unknown')])],
    ['one call met the redeploy and did not run', play([answered('a'), failed('b', 0, false)])],
  ])('%s: every promise was kept', (_name, kept) => {
    expect(broken(claimsOnRun(kept, SCRIPT))).toEqual([]);
  });

  const SAVE_ONE = 'every call is answered, save at most one per redeploy';
  it.each<[string, Play, string[]]>([
    ['a tool that ran twice', play([answered('a', 2)]), ['no tool ran twice']],
    ['a failed call that ran twice', play([failed('a', 2, 'unknown')]), ['no tool ran twice']],
    ['an answer out of nothing', play([answered('a', 0)]), ['every answer has its run']],
    ['two calls lost', play([failed('a', 0, false), failed('b', 1, 'unknown'), answered('c')]), [SAVE_ONE]],
    [
      'an error that says nothing',
      play([failed('a', 1)]),
      ['every failure says whether the call was executed'],
    ],
    [
      'no answer at all',
      play([{ ticket: 'a', runs: 1, silent: true }]),
      ['every failure says whether the call was executed'],
    ],
    ['executed: false of a call that ran', play([failed('a', 1, false)]), ['and that is true']],
    ['executed: true of a call that did not', play([failed('a', 0, true)]), ['and that is true']],
    [
      'a rejection without a handler',
      play([answered('a')], { unhandled: ['x'] }),
      ['no rejection without a handler'],
    ],
    ['no connection', play([], { opened: { failure: { name: 'E' } } }), ['it connects, and closes']],
    ['a close that fails', play([], { closed: false }), ['it connects, and closes']],
    [
      'a token more than there were expiries',
      play([answered('a')], { tokenRequests: 4 }),
      ['one token request to begin with, and one for each expiry'],
    ],
  ])('%s is told', (_name, given, texts) => {
    expect(broken(claimsOnRun(given, SCRIPT))).toEqual(texts);
  });

  it('without a redeploy no call may fail', () => {
    const script = { expiries: ['foreseen', 'foreseen'], redeploys: 0 };
    expect(broken(claimsOnRun(play([failed('a', 0, false)]), script))).toEqual(['every call is answered']);
  });

  it('the figures are of calls', () => {
    const calls = [
      answered('a'),
      answered('b', 2),
      failed('c', 1, 'unknown'),
      { ticket: 'd', runs: 0, silent: true },
    ];
    expect(figuresOf(play(calls))).toMatchObject({
      asked: 4,
      answered: 2,
      failed: 2,
      unanswered: 1,
      ranTwice: 1,
    });
  });
});

describe('lost answers', () => {
  it('the tool ran once, the call failed or was answered, and the next is answered', () => {
    const calls = [
      failed('cut', 1, 'unknown'),
      answered('cut-later'),
      answered('refused'),
      answered('refused-later'),
    ];
    expect(broken(claimsOnCuts(play(calls), ['cut', 'refused']))).toEqual([]);
  });

  it.each<[string, PlayedCall[], string[]]>([
    [
      'run again',
      [answered('cut', 2), answered('cut-later')],
      ['no tool ran twice', 'cut: the tool ran once'],
    ],
    ['not run', [failed('cut', 0, false), answered('cut-later')], ['cut: the tool ran once']],
    ['not made', [], ['cut: the tool ran once', 'cut: the next call is answered']],
    [
      'wedged',
      [failed('cut', 1, 'unknown'), failed('cut-later', 0, false)],
      ['cut: the next call is answered'],
    ],
  ])('%s is told', (_name, calls, texts) => {
    expect(broken(claimsOnCuts(play(calls), ['cut']))).toEqual(texts);
  });
});
