import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { plainAddress, withoutValues } from '../../../src/connection/telemetry-text.js';

describe('withoutValues', () => {
  it.each([
    ['unknown tool: pay', { name: 'pay', arguments: {} }, 'unknown tool: pay'],
    ['no user alice', { arguments: { user: 'alice' } }, 'no user …'],
    ['no user alice, alice', { arguments: { users: [{ name: 'alice' }] } }, 'no user …, …'],
    ['amount 12345.5 is too much', { arguments: { amount: 12_345.5 } }, 'amount … is too much'],
    ['of 7 there are none', { arguments: { n: 7, is: true, nothing: null } }, 'of 7 there are none'],
    ['no such file:///a?b', { uri: 'file:///a?b' }, 'no such …'],
    ['trace abcd', { _meta: { traceparent: 'abcd' } }, 'trace abcd'],
    ['redacted', { arguments: { a: '…………' } }, 'redacted'],
  ])('%s', (text, params, expected) => {
    expect(withoutValues(text, params)).toBe(expected);
  });

  it('a value that was cut off in the text is found by its beginning', () => {
    const value = `${'secret '.repeat(30)}end`;
    expect(withoutValues(`refused: ${value.slice(0, 100)}`, { arguments: { value } })).toBe('refused: …');
  });

  it('whatever a gate has put in place of it counts as well', () => {
    expect(withoutValues('no alice, no robert', { arguments: { u: 'alice' } }, { u: 'robert' })).toBe(
      'no …, no …',
    );
  });

  it('no value of four characters or more survives, nested however', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ minLength: 4, maxLength: 60 }).filter((value) => !value.includes('…'))),
        fc.string({ maxLength: 40 }),
        (values, between) => {
          const text = withoutValues(values.join(between), { arguments: { deep: [{ values }] } });
          for (const value of values) expect(text).not.toContain(value);
        },
      ),
    );
  });

  it('ends on a circle, on depth and on breadth', () => {
    const circle: Record<string, unknown> = { text: 'alice' };
    circle.self = circle;
    expect(withoutValues('alice', { circle })).toBe('…');
    let deep: unknown = 'alice';
    for (let level = 0; level < 100_000; level++) deep = [deep];
    expect(withoutValues('bob', { deep })).toBe('bob');
    expect(withoutValues('bob', { wide: Array.from({ length: 200_000 }, () => 'x'.repeat(9)) })).toBe('bob');
  });

  it('nothing to look at', () => {
    expect(withoutValues('bob', undefined, null, 'bobs', 7)).toBe('bob');
  });
});

describe('plainAddress', () => {
  it.each([
    ['file:///a/b', 'file:///a/b'],
    ['postgres://user:pw@db:5432/x', 'postgres://db:5432/x'],
    ['https://user@host/p@th?key=1#x', 'https://host/p@th'],
    ['https://a@b@host/', 'https://host/'],
    ['note:7?token=x', 'note:7'],
    ['no address at all', 'no address at all'],
    [`x:${'y'.repeat(400)}`, `x:${'y'.repeat(254)}`],
  ])('%s', (uri, plain) => {
    expect(plainAddress(uri)).toBe(plain);
  });
});
