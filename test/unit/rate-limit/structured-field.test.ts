import { describe, expect, it } from 'vitest';
import { parseStructuredField } from '../../../src/rate-limit/structured-field.js';

/** Members as plain objects. */
function read(value: string | readonly string[] | undefined) {
  return parseStructuredField(value)?.map(({ parameters, ...member }) => ({
    ...member,
    ...(parameters.size > 0 && { parameters: Object.fromEntries(parameters) }),
  }));
}

describe('a structured field', () => {
  it.each([
    ['a string with parameters', '"a b";r=0;t=30', [{ value: 'a b', parameters: { r: 0, t: 30 } }]],
    ['a token', 'default;r=5', [{ value: 'default', parameters: { r: 5 } }]],
    ['spaces behind semicolons', '"a";  r=0; t=1', [{ value: 'a', parameters: { r: 0, t: 1 } }]],
    [
      'several items',
      '"a";r=0,"b" ,\t"c"',
      [{ value: 'a', parameters: { r: 0 } }, { value: 'b' }, { value: 'c' }],
    ],
    ['several lines', ['"a"', '"b";r=1'], [{ value: 'a' }, { value: 'b', parameters: { r: 1 } }]],
    ['integers', '100;w=60, -5', [{ value: 100, parameters: { w: 60 } }, { value: -5 }]],
    ['decimals', '1.25', [{ value: 1.25 }]],
    ['escapes in a string', '"a\\"b\\\\,;c"', [{ value: 'a"b\\,;c' }]],
    [
      'bytes, booleans, dates, flags',
      'x;pk=:YWI=:;b=?0;d=@17;f',
      [{ value: 'x', parameters: { pk: 'YWI=', b: false, d: 17, f: true } }],
    ],
    [
      'a dictionary',
      'limit=10, remaining=0;x=1, reset=5',
      [
        { key: 'limit', value: 10 },
        { key: 'remaining', value: 0, parameters: { x: 1 } },
        { key: 'reset', value: 5 },
      ],
    ],
    ['a parameter given twice: the last counts', 'x;r=0;r=7', [{ value: 'x', parameters: { r: 7 } }]],
    ['names that objects have', 'x;constructor=1;__proto__=2', undefined],
    ['blanks around', '  x  ', [{ value: 'x' }]],
  ])('reads %s', (_name, value, expected) => {
    expect(read(value)).toEqual(expected);
  });

  it.each([
    undefined,
    '',
    ' ',
    [],
    ',',
    'a,',
    ',a',
    'a,,b',
    ['a', ''],
    'a b',
    'a;',
    'a;=1',
    'a;R=1',
    'a;r=',
    'a ;r=1',
    'a;r =1',
    '"a',
    '"a\\n"',
    '"\u00e9"',
    '"a\tb"',
    'Limit=5',
    'limit =5',
    'limit=',
    '1234567890123456',
    '1.2345',
    '1.',
    '.5',
    '+5',
    '--5',
    '1e3',
    ':YWI',
    '?2',
    '@x',
    '@',
    ';a=1',
    '%"x"',
    '(a b);r=1',
    'é',
    'a\nb',
  ])('takes %j for none', (value) => {
    expect(read(value)).toBeUndefined();
  });

  it('has at most 8 KiB, all lines together', () => {
    const most = `"${'x'.repeat(8 * 1024 - 2)}"`;
    expect(read(most)).toHaveLength(1);
    expect(read(`${most}x`)).toBeUndefined();
    expect(read(Array.from({ length: 100 }, () => `"${'x'.repeat(100)}"`))).toBeUndefined();
  });
});
