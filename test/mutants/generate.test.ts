/** The mutants that `npm run mutants` makes: what each rule changes, and that the lists beside it are up to date. */
import { existsSync, readFileSync } from 'node:fs';
import { transformSync } from 'esbuild';
import { describe, expect, it } from 'vitest';
import { ACCEPTED } from '../../scripts/mutants/accepted.mjs';
import { mutantsOf } from '../../scripts/mutants/generate.mjs';
import { MODULES } from '../../scripts/mutants/list.mjs';

const changes = (text: string) =>
  mutantsOf('a.ts', text).map(({ rule, was, now }) => `${rule}: ${was} → ${now}`);

describe('a rule', () => {
  it.each([
    ['comparisons', 'f(a === b);', 'equality: a === b → a !== b'],
    ['boundaries', 'f(a < b);', 'boundary: a < b → a <= b'],
    ['chains', 'f(a && b);', 'logic: a && b → a || b'],
    ['operands of chains', 'f(a && !b);', 'negation: !b → b'],
    ['conditions', 'if (a) f();', 'negation: a → !(a)'],
    ['choices', 'f(a ? 1 : 2);', 'negation: a → !(a)'],
    ['sums', 'f(a + b);', 'arithmetic: a + b → a - b'],
    ['fallbacks', 'f(a ?? b);', 'fallback: a ?? b → (a)'],
    ['first assignments', 'a ??= b;', 'assignment: a ??= b → a = b'],
    ['extremes', 'f(Math.min(a, b));', 'extreme: Math.min → Math.max'],
    ['small numbers', 'const A = 3;', 'constant: 3 → 4'],
    ['large numbers', 'const A = 5_000;', 'constant: 5_000 → 10000'],
    ['truths', 'const a = true;', 'constant: true → false'],
    ['calls', 'f();', 'dropped: f(); → (dropped)'],
    ['early returns', 'function f() { if (a) return b; }', 'dropped: return b; → (dropped)'],
    ['early throws', 'function f() { if (a) { throw b; } }', 'dropped: throw b; → (dropped)'],
    ['continues', 'for (;;) { if (a) continue; f(); }', 'dropped: continue; → (dropped)'],
    ['spread parts', 'const a = { ...b };', 'dropped: ...b → (dropped)'],
    [
      'verdicts that it did not run',
      "const executed = a ? false : 'unknown';",
      "constant: false → 'unknown'",
    ],
    [
      'verdicts that it may have run',
      "const executed = a ? false : 'unknown';",
      "constant: 'unknown' → false",
    ],
    ['codes', "f('ERR_TIMEOUT');", "constant: 'ERR_TIMEOUT' → 'ERR_PROTOCOL'"],
    ['kinds', "const a = { kind: 'cut' };", "constant: 'cut' → 'other'"],
  ])('for %s', (_name, text, expected) => {
    expect(changes(text)).toContain(expected);
  });

  it.each([
    ['types', "interface A { b: 1 | true; c: 'unknown' }"],
    ['imports', "import { a } from 'b';"],
    ['the last return', 'function f(a) { return a; }'],
    ['texts', "const a = 'some words';"],
  ])('leaves %s alone', (_name, text) => {
    expect(changes(text)).toEqual([]);
  });
});

describe.each(MODULES)('$file', ({ file, tests }) => {
  const text = readFileSync(file, 'utf8');
  const mutants = mutantsOf(file, text);

  it('has mutants, each with a name of its own, that can be run', () => {
    expect(mutants.length).toBeGreaterThan(30);
    expect(new Set(mutants.map(({ key }) => key)).size).toBe(mutants.length);
    for (const mutant of mutants) {
      expect(mutant.text).not.toBe(text);
      expect(() => transformSync(mutant.text, { loader: 'ts' }), mutant.key).not.toThrow();
    }
  });

  it('is judged by tests that exist', () => {
    expect(tests.filter((name) => !existsSync(name))).toEqual([]);
  });

  it('has no accepted mutant that is none any more, and a reason for each', () => {
    const accepted = ACCEPTED[file] ?? {};
    const keys = new Set(mutants.map(({ key }) => key));

    expect(Object.keys(accepted).filter((key) => !keys.has(key))).toEqual([]);
    expect(Object.values(accepted).every((reason) => reason.length > 20)).toBe(true);
  });
});

it('reasons are given for modules of the list alone, and there are 150 mutants at least', () => {
  const files = MODULES.map(({ file }) => file);

  expect(Object.keys(ACCEPTED).filter((file) => !files.includes(file))).toEqual([]);
  const count = files.reduce((sum, file) => sum + mutantsOf(file, readFileSync(file, 'utf8')).length, 0);
  expect(count).toBeGreaterThan(150);
});
