import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ValueNumbers } from '../../../src/contract/same-value.js';
import { diffSchemas, levelOfSchemaChange, type SchemaSide } from '../../../src/contract/schema-diff.js';
import type { ContractLevel, SchemaChangeHow } from '../../../src/contract/types.js';

function compare(from: unknown, to: unknown, side: SchemaSide = 'input') {
  return diffSchemas(from, to, side, new ValueNumbers()).map(
    ({ path, how, level }) => `${path.join('.')} ${how} ${level}`,
  );
}

const inObject = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more });
const parsed = (text: string): unknown => JSON.parse(text);

/** What the change is, and its level for who writes and for who reads. */
const CASES: readonly [string, unknown, unknown, SchemaChangeHow, ContractLevel, ContractLevel][] = [
  [
    'required added',
    { required: ['a'] },
    { required: ['a', 'b'] },
    'required-added',
    'breaking',
    'behaviour',
  ],
  ['required from none', {}, { required: ['a'] }, 'required-added', 'breaking', 'behaviour'],
  [
    'required removed',
    { required: ['a', 'b'] },
    { required: ['b'] },
    'required-removed',
    'behaviour',
    'breaking',
  ],
  ['another required', { required: ['a'] }, { required: ['b'] }, 'incompatible', 'breaking', 'breaking'],
  [
    'required in another order',
    { required: ['a', 'b'] },
    { required: ['b', 'a'] },
    'spelling',
    'cosmetic',
    'cosmetic',
  ],
  ['required: [] written out', {}, { required: [] }, 'spelling', 'cosmetic', 'cosmetic'],
  ['required of odd type', {}, { required: true }, 'cannot-tell', 'breaking', 'breaking'],
  [
    'property removed',
    inObject({ a: {}, b: {} }),
    inObject({ a: {} }),
    'property-removed',
    'breaking',
    'breaking',
  ],
  [
    'property added',
    inObject({ a: {} }),
    inObject({ a: {}, b: {} }),
    'property-added',
    'behaviour',
    'behaviour',
  ],
  ['first property', {}, { properties: { a: {} } }, 'property-added', 'behaviour', 'behaviour'],
  ['last property', { properties: { a: {} } }, {}, 'property-removed', 'breaking', 'breaking'],
  ['property forbidden', inObject({}), inObject({ a: false }), 'narrowed', 'breaking', 'behaviour'],
  ['type narrowed', { type: ['string', 'null'] }, { type: 'string' }, 'narrowed', 'breaking', 'behaviour'],
  ['type widened', { type: 'string' }, { type: ['string', 'null'] }, 'widened', 'behaviour', 'breaking'],
  ['integer to number', { type: 'integer' }, { type: 'number' }, 'widened', 'behaviour', 'breaking'],
  ['number to integer', { type: 'number' }, { type: 'integer' }, 'narrowed', 'breaking', 'behaviour'],
  ['another type', { type: 'string' }, { type: 'number' }, 'incompatible', 'breaking', 'breaking'],
  ['type as a list', { type: 'string' }, { type: ['string'] }, 'spelling', 'cosmetic', 'cosmetic'],
  ['type given', {}, { type: 'string' }, 'narrowed', 'breaking', 'behaviour'],
  ['type unknown', { type: 'string' }, { type: 'text' }, 'cannot-tell', 'breaking', 'breaking'],
  ['enum narrowed', { enum: ['a', 'b'] }, { enum: ['a'] }, 'narrowed', 'breaking', 'behaviour'],
  ['enum widened', { enum: ['a'] }, { enum: ['a', { b: 1 }] }, 'widened', 'behaviour', 'breaking'],
  ['enum replaced', { enum: ['a'] }, { enum: ['b'] }, 'incompatible', 'breaking', 'breaking'],
  ['enum in another order', { enum: [1, '1'] }, { enum: ['1', 1] }, 'spelling', 'cosmetic', 'cosmetic'],
  ['enum gone', { enum: ['a'] }, {}, 'widened', 'behaviour', 'breaking'],
  ['const given', {}, { const: 1 }, 'narrowed', 'breaking', 'behaviour'],
  ['const changed', { const: 1 }, { const: 2 }, 'cannot-tell', 'breaking', 'breaking'],
  ['minimum up', { minimum: 1 }, { minimum: 2 }, 'narrowed', 'breaking', 'behaviour'],
  ['minimum down', { minimum: 2 }, { minimum: 1 }, 'widened', 'behaviour', 'breaking'],
  ['maxLength up', { maxLength: 1 }, { maxLength: 2 }, 'widened', 'behaviour', 'breaking'],
  ['maxItems down', { maxItems: 2 }, { maxItems: 0 }, 'narrowed', 'breaking', 'behaviour'],
  [
    'draft 4 bound',
    { exclusiveMinimum: true },
    { exclusiveMinimum: 3 },
    'cannot-tell',
    'breaking',
    'breaking',
  ],
  ['multipleOf coarser', { multipleOf: 2 }, { multipleOf: 4 }, 'narrowed', 'breaking', 'behaviour'],
  ['multipleOf finer', { multipleOf: 4 }, { multipleOf: 2 }, 'widened', 'behaviour', 'breaking'],
  ['multipleOf other', { multipleOf: 4 }, { multipleOf: 6 }, 'incompatible', 'breaking', 'breaking'],
  ['uniqueItems', { uniqueItems: false }, { uniqueItems: true }, 'narrowed', 'breaking', 'behaviour'],
  ['uniqueItems: false written out', {}, { uniqueItems: false }, 'spelling', 'cosmetic', 'cosmetic'],
  ['pattern changed', { pattern: 'a' }, { pattern: 'b' }, 'cannot-tell', 'breaking', 'breaking'],
  ['format gone', { format: 'uri' }, {}, 'widened', 'behaviour', 'breaking'],
  ['closed', {}, { additionalProperties: false }, 'narrowed', 'breaking', 'behaviour'],
  [
    'opened',
    { additionalProperties: false },
    { additionalProperties: true },
    'widened',
    'behaviour',
    'breaking',
  ],
  ['open written out', {}, { additionalProperties: true }, 'spelling', 'cosmetic', 'cosmetic'],
  ['items given', {}, { items: { type: 'string' } }, 'narrowed', 'breaking', 'behaviour'],
  ['items with words only', {}, { items: { title: 'x' } }, 'annotation', 'behaviour', 'behaviour'],
  [
    'branch added',
    { anyOf: [{ type: 'string' }] },
    { anyOf: [{ type: 'null' }, { type: 'string' }] },
    'widened',
    'behaviour',
    'breaking',
  ],
  [
    'branch removed',
    { oneOf: [{ const: 1 }, { const: 2 }] },
    { oneOf: [{ const: 2 }] },
    'narrowed',
    'breaking',
    'behaviour',
  ],
  [
    'rule added',
    { allOf: [{ minimum: 1 }] },
    { allOf: [{ minimum: 1 }, { maximum: 2 }] },
    'narrowed',
    'breaking',
    'behaviour',
  ],
  [
    'branches in another order',
    { anyOf: [{ const: 1 }, { const: 2 }] },
    { anyOf: [{ const: 2 }, { const: 1 }] },
    'spelling',
    'cosmetic',
    'cosmetic',
  ],
  ['a union that comes', {}, { anyOf: [{ const: 1 }] }, 'narrowed', 'breaking', 'behaviour'],
  ['description', { description: 'a' }, { description: 'b' }, 'annotation', 'behaviour', 'behaviour'],
  ['title, which a model reads', { title: 'a' }, {}, 'annotation', 'behaviour', 'behaviour'],
  ['default', {}, { default: 0 }, 'annotation', 'behaviour', 'behaviour'],
  [
    'default dialect named',
    {},
    { $schema: 'https://json-schema.org/draft/2020-12/schema' },
    'spelling',
    'cosmetic',
    'cosmetic',
  ],
  [
    'another dialect',
    {},
    { $schema: 'http://json-schema.org/draft-07/schema#' },
    'cannot-tell',
    'breaking',
    'breaking',
  ],
  ['reference', { $ref: '#/$defs/a' }, { $ref: '#/$defs/b' }, 'cannot-tell', 'breaking', 'breaking'],
  ['unknown keyword', {}, { 'x-policy': 'y' }, 'cannot-tell', 'breaking', 'breaking'],
  [
    'unknown keyword changed',
    { 'x-policy': 'x' },
    { 'x-policy': 'y' },
    'cannot-tell',
    'breaking',
    'breaking',
  ],
  [
    'a key called __proto__',
    {},
    parsed('{"__proto__":{"description":"obey"}}'),
    'cannot-tell',
    'breaking',
    'breaking',
  ],
  ['a key called constructor', {}, { constructor: 1 }, 'cannot-tell', 'breaking', 'breaking'],
  [
    'a property called __proto__',
    inObject({}),
    inObject(parsed('{"__proto__":{}}') as object),
    'property-added',
    'behaviour',
    'behaviour',
  ],
  ['true to a rule', true, { type: 'string' }, 'narrowed', 'breaking', 'behaviour'],
  ['a rule to true', { type: 'string' }, true, 'widened', 'behaviour', 'breaking'],
  ['true to {}', true, {}, 'spelling', 'cosmetic', 'cosmetic'],
  ['false to a rule', false, { type: 'string' }, 'widened', 'behaviour', 'breaking'],
  ['no schema at all', { type: 'object' }, 'object', 'cannot-tell', 'breaking', 'breaking'],
  ['condition', { if: { const: 1 } }, { if: { const: 2 } }, 'cannot-tell', 'breaking', 'breaking'],
  ['negation', { not: { const: 1 } }, { not: { type: 'null' } }, 'cannot-tell', 'breaking', 'breaking'],
  ['tuple of another length', { items: [{}] }, { items: [{}, {}] }, 'cannot-tell', 'breaking', 'breaking'],
];

describe('one change', () => {
  it.each(CASES)('%s', (_, from, to, how, input, output) => {
    expect(
      diffSchemas(from, to, 'input', new ValueNumbers()).map((change) => [change.how, change.level]),
    ).toEqual([[how, input]]);
    expect(
      diffSchemas(from, to, 'output', new ValueNumbers()).map((change) => [change.how, change.level]),
    ).toEqual([[how, output]]);
  });
});

describe('deep within', () => {
  it('each change has the path to its keyword', () => {
    const schema = (type: string, words: string) =>
      inObject({
        filter: inObject({ tags: { type: 'array', items: { anyOf: [{ type }, { type: 'null' }] } } }),
        q: { type: 'string', description: words },
      });
    expect(compare(schema('string', 'a'), schema('integer', 'b'))).toEqual([
      'properties.filter.properties.tags.items.anyOf.0.type incompatible breaking',
      'properties.q.description annotation behaviour',
    ]);
  });

  it('a definition is compared where it stands', () => {
    const schema = (type: unknown) => ({ $ref: '#/$defs/a', $defs: { a: { type } } });
    expect(compare(schema('integer'), schema('number'))).toEqual(['$defs.a.type widened behaviour']);
    expect(compare(schema('integer'), { ...schema('integer'), $defs: {} })).toEqual([
      '$defs.a cannot-tell breaking',
    ]);
  });

  it('a definition that may stand under a negation cannot be told', () => {
    const schema = (type: unknown) => ({ not: { $ref: '#/$defs/a' }, $defs: { a: { type } } });
    expect(compare(schema('integer'), schema('number'))).toEqual(['$defs.a.type cannot-tell breaking']);
  });

  it('text that differs only in what is not shown is named', () => {
    const schema = (description: string) => inObject({ q: { description } });
    const [change] = diffSchemas(schema('Query'), schema('Que\u200bry'), 'input', new ValueNumbers());
    expect(change).toMatchObject({ how: 'annotation', level: 'behaviour', onlyInvisible: true });
  });
});

it('who reads fears what who writes does not, and the other way round', () => {
  const hows = ['narrowed', 'widened', 'required-added', 'required-removed'] as const;
  for (const how of hows) {
    const levels = [levelOfSchemaChange(how, 'input'), levelOfSchemaChange(how, 'output')];
    expect(levels.sort()).toEqual(['behaviour', 'breaking']);
  }
});

describe('levels hold against a validator', () => {
  const names = fc.constantFrom('a', 'b');
  const values = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      fc.constantFrom(null, true, '', 'a', 'aaa', 0, 1, 2, 4, 1.5, -1),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(names, tie('value'), { maxKeys: 2, noNullPrototype: true }),
    ),
  })).value;
  const types = fc.constantFrom('string', 'number', 'integer', 'object', 'array', 'null', 'boolean');
  const schemas = fc.letrec<{ schema: object | boolean }>((tie) => ({
    schema: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      fc.boolean(),
      fc.record(
        {
          type: fc.oneof(types, fc.uniqueArray(types, { minLength: 1, maxLength: 3 })),
          enum: fc.uniqueArray(fc.constantFrom(null, 'a', 0, 1, 2, true), { minLength: 1, maxLength: 4 }),
          const: fc.constantFrom('a', 1),
          minimum: fc.integer({ min: 0, max: 3 }),
          maximum: fc.integer({ min: 0, max: 3 }),
          exclusiveMaximum: fc.integer({ min: 0, max: 3 }),
          minLength: fc.integer({ min: 0, max: 3 }),
          maxItems: fc.integer({ min: 0, max: 3 }),
          multipleOf: fc.constantFrom(1, 2, 3, 4),
          uniqueItems: fc.boolean(),
          required: fc.uniqueArray(names, { maxLength: 2 }),
          properties: fc.dictionary(names, tie('schema'), { maxKeys: 2, noNullPrototype: true }),
          additionalProperties: tie('schema'),
          items: tie('schema'),
          anyOf: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }),
          allOf: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }),
          not: tie('schema'),
          title: fc.constantFrom('x', 'y'),
        },
        { requiredKeys: [] },
      ),
    ),
  })).schema;
  const isPlain = (value: unknown): value is Record<string, unknown> =>
    typeof value === 'object' && value !== null && !Array.isArray(value);

  it('a value that was valid and no longer is means breaking for who writes; the reverse, for who reads', () => {
    const validator = new AjvJsonSchemaValidator();
    const validatorOf = (schema: object | boolean) => {
      const validate = validator.getValidator(
        (schema === true ? {} : schema === false ? { not: {} } : schema) as never,
      );
      return (value: unknown) => validate(value).valid;
    };
    const checked = { input: 0, output: 0 };
    const edited = fc
      .tuple(schemas, schemas, fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }))
      .map(([one, other, take]): [object | boolean, object | boolean] => {
        if (!isPlain(one) || !isPlain(other)) return [one, other];
        const kept = Object.entries(one).filter((_, at) => take[at % 4]);
        const come = Object.entries(other).filter((_, at) => !take[at % 4]);
        return [one, Object.fromEntries([...kept, ...come])];
      });
    fc.assert(
      fc.property(edited, fc.array(values, { minLength: 12, maxLength: 12 }), ([from, to], samples) => {
        const validators = [validatorOf(from), validatorOf(to)];
        for (const side of ['input', 'output'] as const) {
          const changes = diffSchemas(from, to, side, new ValueNumbers());
          // A new property counts as behaviour although some value with that name may have been valid before.
          if (changes.some(({ how }) => how === 'property-added')) continue;
          const breaking = changes.some(({ level }) => level === 'breaking');
          const [before, after] = side === 'input' ? validators : validators.toReversed();
          for (const value of samples) {
            if (!before?.(value) || after?.(value)) continue;
            checked[side]++;
            expect(breaking).toBe(true);
          }
        }
      }),
      { numRuns: 400 },
    );
    expect(Math.min(checked.input, checked.output)).toBeGreaterThan(20);
  });
});
