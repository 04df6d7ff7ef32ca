/**
 * What the fuzz properties are made of: how many inputs each gets, and text that is meant to be read wrongly.
 */
import { inspect } from 'node:util';
import fc from 'fast-check';

export interface Fuzz {
  readonly name: string;
  /** Its part of all inputs; cheap ones get more. */
  readonly share: number;
  property(): fc.IPropertyWithHooks<unknown> | fc.IAsyncPropertyWithHooks<unknown>;
}

/** `HOLDFAST_RUNS`, or what fits into an everyday run. */
export function runs(everyday: number): number {
  const given = Number(process.env.HOLDFAST_RUNS);
  return Number.isInteger(given) && given > 0 ? given : everyday;
}

/** Of so many inputs in all, those for one property: at least a few. */
export function runsFor(fuzz: Fuzz, all: readonly Fuzz[], total: number): number {
  const shares = all.reduce((sum, { share }) => sum + share, 0);
  return Math.max(20, Math.round((total * fuzz.share) / shares));
}

/** `HOLDFAST_SEED` and `HOLDFAST_PATH`, as a failure prints them. */
export function replay(): { seed?: number; path?: string } {
  const { HOLDFAST_SEED: seed, HOLDFAST_PATH: path } = process.env;
  return { ...(seed && { seed: Number(seed) }), ...(path && { path }) };
}

/** Text joined from pieces of a grammar, with stray characters between them. */
export function pieces(words: readonly string[], maxLength = 14): fc.Arbitrary<string> {
  const piece = fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...words) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 3 }) },
    { weight: 1, arbitrary: fc.string({ maxLength: 5 }) },
  );
  return fc.array(piece, { maxLength }).map((parts) => parts.join(''));
}

/** A text with some of it cut out, doubled or overwritten. */
export function damaged(text: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const blow = fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    length: fc.nat({ max: 12 }),
    how: fc.constantFrom('cut', 'double', 'over', 'end'),
    by: fc.oneof(
      fc.constantFrom('"', '{', '}', '[', ',', ':', '\\', '\u0000', '1e999'),
      fc.string({ maxLength: 4 }),
    ),
  });
  return fc.tuple(text, fc.array(blow, { maxLength: 3 })).map(([whole, blows]) =>
    blows.reduce((current, { at, length, how, by }) => {
      const from = Math.floor(at * current.length);
      const to = Math.min(current.length, from + length);
      if (how === 'end') return current.slice(0, from);
      const middle = how === 'cut' ? '' : how === 'double' ? current.slice(from, to).repeat(2) : by;
      return current.slice(0, from) + middle + current.slice(to);
    }, whole),
  );
}

const ODD_KEYS = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', ''];

/** JSON with these keys among others, and these values among others. */
export function jsonWith(keys: readonly string[], values: readonly unknown[]): fc.Arbitrary<unknown> {
  const key = fc.oneof(
    { weight: 5, arbitrary: fc.constantFrom(...keys) },
    { weight: 1, arbitrary: fc.constantFrom(...ODD_KEYS) },
    { weight: 1, arbitrary: fc.string({ maxLength: 4 }) },
  );
  return fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.constantFrom(...values),
      fc.constantFrom(null, true, false, 0, -1, 1e308, '', '\u202e', [], {}),
      fc.oneof(fc.integer(), fc.double(), fc.string({ maxLength: 8 })),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.array(fc.tuple(key, tie('value')), { maxLength: 6 }).map((list) => Object.fromEntries(list)),
    ),
  })).value;
}

/** As a server writes it: JSON has no `undefined`, and `1e999` reads as infinity. */
export function jsonText(value: fc.Arbitrary<unknown>): fc.Arbitrary<string> {
  return value.map((each) => JSON.stringify(each) ?? 'null');
}

/** The result, or the error; throws where that is none of those that may come out. */
export function outcome<T>(
  run: () => T,
  isTyped: (error: unknown) => boolean,
): { value: T } | { error: unknown } {
  try {
    return { value: run() };
  } catch (error) {
    if (!isTyped(error)) throw error;
    return { error };
  }
}

export async function outcomeOf<T>(
  promise: Promise<T>,
  isTyped: (error: unknown) => boolean,
): Promise<{ value: T } | { error: unknown }> {
  try {
    return { value: await promise };
  } catch (error) {
    if (!isTyped(error)) throw error;
    return { error };
  }
}

export function must(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(`It does not hold that ${what}.`);
}

/** Everything that printing a value could show. */
export function shown(value: unknown): string {
  return `${inspect(value, { depth: 8, showHidden: true })} ${String(value)}`;
}
