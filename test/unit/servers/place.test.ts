import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type JsonPath, placeInJson } from '../../../src/servers/place.js';

const TEXT = `{
  "a": { "b": [1, [true], {"c": "a"}], "}": "{" },
  "a\\u0062": [ ],
  "b": "\\"a\\": [1"
}`;

it.each<[JsonPath, number, number]>([
  [[], 1, 1],
  [['a'], 2, 3],
  [['a', 'b'], 2, 10],
  [['a', 'b', 0], 2, 16],
  [['a', 'b', 1], 2, 19],
  [['a', 'b', 1, 0], 2, 20],
  [['a', 'b', 2], 2, 27],
  [['a', 'b', 2, 'c'], 2, 28],
  [['a', '}'], 2, 40],
  [['ab'], 3, 3],
  [['b'], 4, 3],
])('%j', (path, line, column) => {
  expect(placeInJson(TEXT, path)).toEqual({ line, column });
});

it.each<JsonPath>([['c'], ['a', 'c'], ['a', 'b', 3], ['ab', 0], ['b', 'a']])(
  'nothing at %s %s %s',
  (...path) => {
    expect(placeInJson(TEXT, path as unknown as JsonPath)).toBeUndefined();
  },
);

it('finds every member of any JSON', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
      const text = JSON.stringify(value, null, 1);
      const lines = text.split('\n');
      const walk = (at: unknown, path: (string | number)[]) => {
        if (typeof at !== 'object' || at === null) return;
        for (const [key, below] of Object.entries(at)) {
          const inner = [...path, Array.isArray(at) ? Number(key) : key];
          const { line, column } = placeInJson(text, inner) ?? { line: 0, column: 0 };
          const here = (lines[line - 1] ?? '').slice(column - 1);
          const expected = Array.isArray(at)
            ? (JSON.stringify(below, null, 1).split('\n')[0] ?? '')
            : JSON.stringify(key);
          expect(here.startsWith(expected)).toBe(true);
          walk(below, inner);
        }
      };
      walk(value, []);
    }),
    { seed: 5, numRuns: 300 },
  );
});
