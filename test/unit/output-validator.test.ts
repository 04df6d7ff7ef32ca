import { describe, expect, it } from 'vitest';
import { guardedValidator } from '../../src/output-validator.js';

function validator(schema: object, given?: Parameters<typeof guardedValidator>[0]) {
  const reports: string[] = [];
  const validate = guardedValidator(given, (error) => reports.push(error.message)).getValidator(
    schema as never,
  );
  return { validate, reports };
}
const text = (pattern: string) => ({
  type: 'object',
  properties: { a: { type: 'string', pattern } },
  required: ['a'],
});
const ATTACK = { a: `${'a'.repeat(60)}!` };

describe('guardedValidator', () => {
  it('checks as the SDK does', () => {
    const { validate, reports } = validator(text('^[a-z]+$'));

    expect(validate({ a: 'abc' })).toMatchObject({ valid: true, data: { a: 'abc' } });
    expect(validate({ a: 'ABC' }).valid).toBe(false);
    expect(validate({}).valid).toBe(false);
    expect(reports).toEqual([]);
  });

  it.each([
    '^(a+)+$',
    '^(a*)*$',
    '^(a+)*b$',
    '^(?:a+)+$',
    '^(?<x>a+)+$',
    '^((a+))+$',
    '^((ab?c+)d)+$',
    '^(a{1,})+$',
    '^(a+){2,}$',
    '^([a-z]+)*$',
    '^(\\w+\\s?)+$',
    '^(a|a+)+$',
    '(x+x+)+y',
    '^(a|a)+$',
    '^(a|ab|b)*$',
    '^(\\w|\\d)+$',
    '^([a-z]|a)+$',
    '^(a?){60}a{60}$',
    '^((a|a)b?)+$',
    '^(.|a)+$',
  ])('does not run %s, and says so', (pattern) => {
    const { validate, reports } = validator(text(pattern));
    const started = performance.now();

    expect(validate(ATTACK).valid).toBe(true);

    expect(performance.now() - started).toBeLessThan(200);
    expect(reports).toHaveLength(1);
  });

  it.each([
    '^[a-z]+$',
    '^a+b*c{2,3}$',
    '^(abc)+$',
    '^(a|b)c+$',
    '^\\(a+\\)+$',
    '^[(+)+]+$',
    '^\\d{4}-\\d{2}$',
  ])('lets %s be checked', (pattern) => {
    expect(validator(text(pattern)).reports).toEqual([]);
  });

  it('finds patterns wherever they stand', () => {
    const places = [
      { type: 'object', properties: { a: { items: { anyOf: [{ pattern: '(a+)+$' }] } } } },
      { type: 'object', $defs: { x: { pattern: '(a+)+$' } } },
      { type: 'object', patternProperties: { '(a+)+$': {} } },
    ];
    for (const schema of places) expect(validator(schema).reports).toHaveLength(1);
  });

  it('a property that is called pattern is no pattern', () => {
    const { validate, reports } = validator({
      type: 'object',
      properties: { pattern: { type: 'string' } },
      required: ['pattern'],
    });

    expect(validate({ pattern: '(a+)+' }).valid).toBe(true);
    expect(validate({ pattern: 1 }).valid).toBe(false);
    expect(reports).toEqual([]);
  });

  it.each([
    ['quadratic', '^a*a*b$', 8_000, 9_000],
    ['cubic', '^a*a*a*b$', 400, 500],
    ['of the fifth degree', '^a*a*a*a*a*b$', 30, 200],
  ])('a pattern that is %s is matched against short texts only', (_name, pattern, short, long) => {
    const { validate } = validator(text(pattern));
    const started = performance.now();

    expect(validate({ a: 'a'.repeat(short) }).valid).toBe(false);
    expect(validate({ a: 'a'.repeat(long) }).valid).toBe(true);
    expect(validate({ a: ['a'.repeat(long)] }).valid).toBe(true);

    expect(performance.now() - started).toBeLessThan(5_000);
    expect(validate({ a: 'ab' }).valid).toBe(true);
  });

  it('without patterns a long text is checked as any other', () => {
    const { validate } = validator({ type: 'object', properties: { a: { type: 'string', maxLength: 10 } } });

    expect(validate({ a: 'a'.repeat(100_000) }).valid).toBe(false);
  });

  it.each([
    ['an unknown type', { type: 'strnig' }],
    ['a reference to nothing', { $ref: '#/$defs/none' }],
    ['a pattern that is none', text('(')],
    ['no object at all', 7],
  ])('%s costs the check of this tool only', (_name, schema) => {
    const { validate, reports } = validator(schema as object);

    expect(validate({ anything: true }).valid).toBe(true);
    expect(reports).toHaveLength(1);
  });

  it('uses the app’s own validator where there is one', () => {
    const { validate } = validator(
      { type: 'object' },
      { getValidator: () => () => ({ valid: false, data: undefined, errorMessage: 'ours' }) },
    );

    expect(validate({})).toMatchObject({ valid: false, errorMessage: 'ours' });
  });

  it('the report quotes nothing of the server', () => {
    const { reports } = validator(text('(IGNORE ALL+)+'));

    expect(reports[0]).not.toContain('IGNORE');
  });
});
