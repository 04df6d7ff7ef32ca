import { describe, expect, it } from 'vitest';
import { OptionReader } from '../../src/option-reader.js';

const reader = (options: unknown, group = 'group') => new OptionReader(group, options as object);

describe('OptionReader', () => {
  it('undefined means unset, 0 is a value', () => {
    const read = reader({ a: 0, b: undefined });

    expect([read.duration('a'), read.duration('b'), read.duration('c')]).toEqual([0, undefined, undefined]);
    expect(() => read.done()).not.toThrow();
  });

  it('no options at all are none', () => {
    const read = reader(undefined);

    expect(read.any('a')).toBeUndefined();
    expect(() => read.done()).not.toThrow();
  });

  it.each([['text'], [7], [null], [[1]], [true]])('refuses %j for a group', (options) => {
    expect(() => reader(options)).toThrow(new TypeError('group must be an object'));
  });

  it.each([[-1], [Number.NaN], [Number.POSITIVE_INFINITY], [2 ** 31], ['5'], [null], [5n]])(
    'refuses %s for a duration',
    (value) => {
      expect(() => reader({ waitMs: value }).duration('waitMs')).toThrow(
        new TypeError('group.waitMs must be a number of milliseconds from 0 to 2147483647'),
      );
    },
  );

  it('a duration may have a least value, and a fraction', () => {
    expect(() => reader({ a: 0 }).duration('a', 1)).toThrow('from 1 to');
    expect(reader({ a: 1.5 }).duration('a', 1)).toBe(1.5);
    expect(reader({ a: 2 ** 31 - 1 }).duration('a')).toBe(2 ** 31 - 1);
  });

  it.each([[0], [11], [1.5], ['3'], [Number.NaN]])('refuses %s for a count from 1 to 10', (value) => {
    expect(() => reader({ n: value }).count('n', 1, 10)).toThrow(
      new TypeError('group.n must be a whole number from 1 to 10'),
    );
  });

  it('takes one of several', () => {
    expect(reader({ a: false }).oneOf('a', ['auto', true, false])).toBe(false);
    expect(() => reader({ a: 'never' }).oneOf('a', ['auto', true])).toThrow(
      new TypeError('group.a must be one of "auto", true'),
    );
  });

  it('takes functions', () => {
    const fn = () => 1;

    expect(reader({ fn }).func('fn')).toBe(fn);
    expect(() => reader({ fn: {} }).func('fn')).toThrow(new TypeError('group.fn must be a function'));
  });

  it('refuses the name that nobody asked for', () => {
    const read = reader({ limit: 1, limti: 2 });
    read.count('limit', 1, 5);

    expect(() => read.done()).toThrow(new TypeError('group.limti is not an option'));
  });

  it('at the top an option has no group before it', () => {
    const read = reader({ clok: 1 }, '');

    expect(() => read.done()).toThrow(new TypeError('clok is not an option'));
  });

  it('reads own properties only, and changes nothing', () => {
    const given = Object.freeze(Object.create({ inherited: 1 }, { own: { value: 2, enumerable: true } }));
    const read = reader(given);

    expect([read.any('inherited'), read.any('own'), read.any('toString')]).toEqual([undefined, 2, undefined]);
    expect(() => read.done()).not.toThrow();
  });
});
