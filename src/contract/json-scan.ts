/**
 * Reads through JSON text for what `JSON.parse` does not tell: where it stops being JSON, and keys written twice.
 *
 * Guarantees one pass over the text, without recursion, and the same answer on every engine. Never builds values.
 */

export interface JsonScan {
  /** Where the text stops being the beginning of JSON; its length if it only ends too early; undefined if it is whole. */
  readonly faultAt?: number;
  /** Where the second of two members with one key stands. JSON.parse keeps the last; a reviewer may have read the first. */
  readonly repeatedAt?: number;
}

type Expected = 'value' | 'value-or-end' | 'key' | 'key-or-end' | 'colon' | 'comma-or-end' | 'nothing';

/** Sets of keys for the objects that are open, `undefined` for arrays. */
type Open = (Set<string> | undefined)[];

const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
/** A scalar, or a sign, that the end of the text may have cut. */
const CUT_SCALAR = /(?:-?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][+-]?)?|-|t|tr|tru|f|fa|fal|fals|n|nu|nul)$/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[\da-fA-F]{4})/y;
const CUT_ESCAPE = /\\(?:u[\da-fA-F]{0,3})?$/y;

export function scanJson(text: string): JsonScan {
  const open: Open = [];
  let expected: Expected = 'value';
  let repeatedAt: number | undefined;
  let at = skip(text, 0);
  while (at < text.length) {
    const character = text.charAt(at);
    const inside = open.at(-1);
    if (
      (character === '}' && (expected === 'key-or-end' || (expected === 'comma-or-end' && inside))) ||
      (character === ']' && (expected === 'value-or-end' || (expected === 'comma-or-end' && !inside)))
    ) {
      open.pop();
      expected = open.length === 0 ? 'nothing' : 'comma-or-end';
      at++;
    } else if (character === ',' && expected === 'comma-or-end') {
      expected = inside ? 'key' : 'value';
      at++;
    } else if (character === ':' && expected === 'colon') {
      expected = 'value';
      at++;
    } else if (
      character === '"' &&
      expected !== 'comma-or-end' &&
      expected !== 'colon' &&
      expected !== 'nothing'
    ) {
      const end = endOfString(text, at);
      if (end.faultAt !== undefined) return { faultAt: end.faultAt };
      if (expected === 'key' || expected === 'key-or-end') {
        const key: string = JSON.parse(text.slice(at, end.at));
        if (inside?.has(key)) repeatedAt ??= at;
        inside?.add(key);
        expected = 'colon';
      } else expected = open.length === 0 ? 'nothing' : 'comma-or-end';
      at = end.at;
    } else if (expected === 'value' || expected === 'value-or-end') {
      if (character === '{' || character === '[') {
        open.push(character === '{' ? new Set() : undefined);
        expected = character === '{' ? 'key-or-end' : 'value-or-end';
        at++;
      } else {
        const end = matchEnd(SCALAR, text, at);
        if (end !== text.length && matchEnd(CUT_SCALAR, text, at) !== undefined) {
          return { faultAt: text.length };
        }
        if (end === undefined) return { faultAt: at };
        expected = open.length === 0 ? 'nothing' : 'comma-or-end';
        at = end;
      }
    } else return { faultAt: at };
    at = skip(text, at);
  }
  if (expected !== 'nothing') return { faultAt: text.length };
  return repeatedAt === undefined ? {} : { repeatedAt };
}

function endOfString(text: string, start: number): { at: number; faultAt?: number } {
  let at = start + 1;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === 0x22) return { at: at + 1 };
    if (code < 0x20) return { at, faultAt: at };
    if (code === 0x5c) {
      const end = matchEnd(ESCAPE, text, at);
      if (end === undefined) {
        return { at, faultAt: matchEnd(CUT_ESCAPE, text, at) === undefined ? at : text.length };
      }
      at = end;
    } else at++;
  }
  return { at, faultAt: text.length };
}

function skip(text: string, start: number): number {
  let at = start;
  for (let code = text.charCodeAt(at); isWhiteSpace(code); code = text.charCodeAt(at)) at++;
  return at;
}

function isWhiteSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

function matchEnd(pattern: RegExp, text: string, at: number): number | undefined {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : undefined;
}
