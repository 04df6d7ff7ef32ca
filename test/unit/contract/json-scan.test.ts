import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { scanJson } from '../../../src/contract/json-scan.js';

const parses = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

describe('where a text stops being JSON', () => {
  it.each([
    ['{"a":x}', 5],
    ['{"a" 1}', 5],
    ['{"a":1,}', 7],
    ['[1,]', 3],
    ['[1}', 2],
    ['{"a":1]', 6],
    ['{a:1}', 1],
    ["{'a':1}", 1],
    ['[01]', 2],
    ['[1.]', 2],
    ['[-]', 1],
    ['["\t"]', 2],
    ['["\\x"]', 2],
    ['["\\u12g4"]', 2],
    ['{} {}', 3],
    ['[tru]', 1],
    [',', 0],
    [']', 0],
    ['[NaN]', 1],
    ['// note\n{}', 0],
  ])('%s', (text, at) => {
    expect(parses(text)).toBe(false);
    expect(scanJson(text)).toEqual({ faultAt: at });
  });

  it('the beginning of a valid text is cut, wherever', () => {
    const whole = JSON.stringify({ a: [1.5e-3, true, null, 'x\u0001"\\'], '"k"': { b: {} }, c: -1 });
    for (let length = 0; length < whole.length; length++) {
      expect(scanJson(whole.slice(0, length)), whole.slice(0, length)).toEqual({ faultAt: length });
    }
    expect(scanJson(whole)).toEqual({});
  });

  it('agrees with the parser', () => {
    const bits = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"a"',
      '"b"',
      '1',
      'true',
      ' ',
      '"',
      '\\',
      '-',
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.json(),
          fc.array(bits, { maxLength: 9 }).map((list) => list.join('')),
          fc.tuple(fc.json(), fc.nat(), fc.string({ maxLength: 1 })).map(([text, at, extra]) => {
            const place = at % text.length;
            return text.slice(0, place) + extra + text.slice(place + 1);
          }),
        ),
        (text) => {
          expect(scanJson(text).faultAt === undefined).toBe(parses(text));
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it('depth is no matter', () => {
    const deep = '['.repeat(200_000) + ']'.repeat(200_000);
    expect(scanJson(deep)).toEqual({});
    expect(scanJson(deep.slice(0, -1))).toEqual({ faultAt: deep.length - 1 });
  });
});

describe('a key twice in one object', () => {
  it.each([
    ['{"a":1,"a":2}', 7],
    ['{"a":{"b":1},"c":[{"d":1,"d":1}]}', 25],
    ['{"a":1,"\\u0061":2}', 7],
    ['{"__proto__":1,"__proto__":2}', 15],
  ])('%s', (text, at) => {
    expect(scanJson(text)).toEqual({ repeatedAt: at });
  });

  it.each([
    '{"a":1,"b":{"a":1}}',
    '[{"a":1},{"a":1}]',
    '{"a":"a","b":"a"}',
    '{"toString":1}',
    '{"a":{"a":{"a":1}}}',
  ])('not in %s', (text) => {
    expect(scanJson(text)).toEqual({});
  });
});
