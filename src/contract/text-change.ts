/**
 * Two versions of a text side by side, so that a reader sees where they differ.
 *
 * Guarantees that each part that differs is shown in full, invisible characters escaped, and that look-alikes at
 * the first difference are told apart by their code points. Never shortens anything but what is equal.
 */
import { codePoints, visible } from './visible.js';

export interface ShownTextChange {
  readonly from: readonly string[];
  readonly to: readonly string[];
  /** Where the first difference is, if both have text there. */
  readonly note?: string;
}

/** Of a long line, how much that is equal is shown on either side of the difference. */
const CONTEXT = 60;
/** Lines up to here are shown whole. */
const LINE_LENGTH = 160;
/** Up to so many differing characters are spelled out in the note; of more, the first. */
const SPELLED_LENGTH = 8;

export function showTextChange(from: string, to: string): ShownTextChange {
  const [before, after] = [from.split('\n'), to.split('\n')];
  const first = commonStart(before, after);
  const last = commonEnd(before, after, first);
  const [gone, come] = [before.slice(first, before.length - last), after.slice(first, after.length - last)];
  const [one, other] = [gone[0], come[0]];
  if (one === undefined || other === undefined) return { from: gone.map(visible), to: come.map(visible) };
  const pair = gone.length === 1 && come.length === 1 ? cutPair(one, other) : undefined;
  return {
    from: pair ? [pair.from] : gone.map(visible),
    to: pair ? [pair.to] : come.map(visible),
    note: noteOf(one, other, before.length > 1 || after.length > 1 ? first + 1 : undefined),
  };
}

function cutPair(from: string, to: string): { from: string; to: string } {
  const [one, other] = [Array.from(from), Array.from(to)];
  if (Math.max(one.length, other.length) <= LINE_LENGTH) return { from: visible(from), to: visible(to) };
  const start = commonStart(one, other);
  const end = commonEnd(one, other, start);
  const cut = (characters: readonly string[]) => {
    const left = Math.max(0, start - CONTEXT);
    const right = Math.min(characters.length, characters.length - end + CONTEXT);
    return `${left > 0 ? '… ' : ''}${visible(characters.slice(left, right).join(''))}${right < characters.length ? ' …' : ''}`;
  };
  return { from: cut(one), to: cut(other) };
}

function noteOf(from: string, to: string, line: number | undefined): string {
  const [one, other] = [Array.from(from), Array.from(to)];
  const start = commonStart(one, other);
  const end = commonEnd(one, other, start);
  const [gone, come] = [one.slice(start, one.length - end), other.slice(start, other.length - end)];
  const place = `${line === undefined ? '' : `line ${line}, `}character ${start + 1}`;
  const long = Math.max(gone.length, come.length) > SPELLED_LENGTH;
  const [before, after] = [gone, come].map((text) => spelled(text, long ? 1 : SPELLED_LENGTH));
  return `first difference: ${place}: ${before} → ${after}`;
}

function spelled(characters: readonly string[], length: number): string {
  if (characters.length === 0) return 'nothing';
  const text = characters.slice(0, length).join('');
  const shown = `"${visible(text)}"${characters.length > length ? '…' : ''}`;
  // Letters beyond ASCII may look like others: their numbers do not.
  return /^[ -~]+$/.test(text) ? shown : `${shown} (${codePoints(text)})`;
}

function commonStart(one: readonly string[], other: readonly string[]): number {
  const most = Math.min(one.length, other.length);
  let at = 0;
  while (at < most && one[at] === other[at]) at++;
  return at;
}

function commonEnd(one: readonly string[], other: readonly string[], start: number): number {
  const most = Math.min(one.length, other.length) - start;
  let count = 0;
  while (count < most && one[one.length - 1 - count] === other[other.length - 1 - count]) count++;
  return count;
}
