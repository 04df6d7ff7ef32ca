import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { digestOf } from '../../../src/contract/canonical.js';
import { wireDigest } from '../../../src/gates/wire-digest.js';

const asSent = (value: unknown) => digestOf(JSON.parse(JSON.stringify(value)));

describe('wireDigest', () => {
  it('is the digest of the canonical JSON of what JSON.stringify sends', () => {
    fc.assert(
      fc.property(fc.object({ withNullPrototype: true, withDate: true, withSparseArray: true }), (value) => {
        expect(wireDigest(value)).toBe(asSent(value));
      }),
      { numRuns: 1_000 },
    );
  });

  it.each([
    ['a date', { at: new Date(0) }],
    ['what is not sent', { a: undefined, b: () => {}, c: Symbol('c'), d: [undefined, () => {}] }],
    ['no numbers', [Number.NaN, Number.POSITIVE_INFINITY, -0, 1e21, 1e-7]],
    ['boxed values', [new String('a'), new Number(1), new Boolean(false)]],
    ['an own way to JSON', { toJSON: () => ({ z: 1, a: [new Date(5)] }) }],
    [
      'a class, a map',
      [
        new (class A {
          x = 1;
          y = new Map([[1, 2]]);
        })(),
      ],
    ],
    ['odd keys', JSON.parse('{"__proto__": 1, "constructor": 2, "10": 3, "9": 4, "\\ud800": "\\udc00"}')],
  ])('%s', (_what, value) => {
    expect(wireDigest(value)).toBe(asSent(value));
  });

  it('differs where the wire does', () => {
    const digests = [
      { a: 1 },
      { a: '1' },
      { a: [1] },
      { a: null },
      {},
      [],
      null,
      { a: 1, b: undefined, c: 1 },
    ].map(wireDigest);
    expect(new Set(digests).size).toBe(digests.length);
  });

  it('throws where there is no JSON, or too much of it', () => {
    const ring: Record<string, unknown> = {};
    ring.self = ring;
    let deep: unknown = 1;
    for (let n = 0; n < 300; n += 1) deep = [deep];
    for (const value of [ring, deep, { a: 1n }]) expect(() => wireDigest(value)).toThrow();
  });
});
