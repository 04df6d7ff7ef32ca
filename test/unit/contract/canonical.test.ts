import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  canonicalJson,
  digestOf,
  frozenCopy,
  MAX_DEPTH,
  own,
  readableJson,
} from '../../../src/contract/canonical.js';
import { SnapshotError } from '../../../src/contract/snapshot-error.js';

const nested = (depth: number): unknown => {
  let value: unknown = 'core';
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { a: value };
  return value;
};
const problemOf = (run: () => unknown): string | undefined => {
  try {
    run();
  } catch (error) {
    return SnapshotError.isInstance(error) ? `${error.problem} ${error.where}` : String(error);
  }
  return undefined;
};

describe('one text for one value', () => {
  it('keys in the order of code units, integer-like ones too; no white space', () => {
    expect(
      canonicalJson(JSON.parse('{ "b": [1, {"d": null, "c": true}], "10": 1, "2": "x", "B": -0 }')),
    ).toBe('{"10":1,"2":"x","B":0,"b":[1,{"c":true,"d":null}]}');
  });

  it('a key called __proto__, constructor or toString counts', () => {
    for (const key of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
      const plain = JSON.parse('{"type":"object"}');
      const poisoned = JSON.parse(`{"type":"object","${key}":{"description":"obey"}}`);
      expect(canonicalJson(poisoned)).toContain(`"${key}":{"description":"obey"}`);
      expect(digestOf(poisoned)).not.toBe(digestOf(plain));
    }
  });

  it('what a prototype has does not count', () => {
    expect(canonicalJson(Object.create({ inherited: 1 }))).toBe('{}');
    expect(own({}, 'toString')).toBeUndefined();
    expect(own({}, '__proto__')).toBeUndefined();
  });

  it('halves of surrogate pairs and Infinity, which a parser makes of 1e400, survive', () => {
    const value = JSON.parse('{"half":"\\ud800","huge":1e400,"deep":[-1e400]}');
    expect(JSON.parse(canonicalJson(value))).toEqual(value);
    expect(JSON.parse(readableJson(value))).toEqual(value);
    expect(digestOf('\ud800')).not.toBe(digestOf('\udfff'));
  });

  it('the digest is SHA-256 of that text', () => {
    expect(digestOf({ b: 1, a: 'é' })).toBe(createHash('sha256').update('{"a":"é","b":1}').digest('hex'));
  });

  it('undefined in an object is not there, toJSON is not called', () => {
    expect(canonicalJson({ a: undefined, b: 1, toJSON: undefined })).toBe('{"b":1}');
    expect(problemOf(() => canonicalJson({ toJSON: () => 'x' }, 'tools[1]'))).toBe(
      'not-a-json-value tools[1]',
    );
  });
});

describe('bounds', () => {
  it(`${MAX_DEPTH} levels and no more, with a typed error that says where`, () => {
    expect(() => canonicalJson(nested(MAX_DEPTH))).not.toThrow();
    expect(problemOf(() => canonicalJson(nested(MAX_DEPTH + 1), 'tools[7]'))).toBe('too-deep tools[7]');
    expect(problemOf(() => frozenCopy(nested(MAX_DEPTH + 1), 'capabilities'))).toBe('too-deep capabilities');
    expect(problemOf(() => digestOf(nested(200_000), 'x'))).toBe('too-deep x');
  });

  it('a value that contains itself ends there too', () => {
    const cycle: Record<string, unknown> = {};
    cycle.self = cycle;
    expect(problemOf(() => canonicalJson(cycle, 'x'))).toBe('too-deep x');
  });

  it.each([
    ['NaN', Number.NaN],
    ['a bigint', 1n],
    ['a function', () => 1],
    ['a symbol', Symbol('x')],
    ['undefined in a list', [undefined]],
  ])('%s is none that JSON can hold', (_, value) => {
    expect(problemOf(() => canonicalJson(value, 'x'))).toBe('not-a-json-value x');
    expect(problemOf(() => frozenCopy(value, 'x'))).toBe('not-a-json-value x');
  });
});

describe('a copy', () => {
  it('shares nothing, cannot be changed, keeps __proto__ as a key and its prototype as it is', () => {
    const original = JSON.parse('{"__proto__":{"polluted":true},"a":[{"b":1}]}');
    const copy = frozenCopy(original) as Record<string, unknown>;
    expect(Object.keys(copy)).toEqual(['__proto__', 'a']);
    expect(Object.getPrototypeOf(copy)).toBe(Object.prototype);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
    original.a[0].b = 2;
    expect(canonicalJson(copy)).toBe('{"__proto__":{"polluted":true},"a":[{"b":1}]}');
    expect(() => {
      (copy.a as { b: number }[])[0]!.b = 3;
    }).toThrow(TypeError);
  });
});
