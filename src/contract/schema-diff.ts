/**
 * How two JSON Schemas differ, keyword by keyword, and what that means for who writes or reads the value.
 *
 * Guarantees that schemas which differ give at least one change, that a keyword which is not understood
 * counts as breaking, and that the cost grows with the schemas' size. Never follows a `$ref`: a changed
 * definition is reported where it stands. Branches of `oneOf` are taken not to overlap, as those of `anyOf`.
 */
import { isJsonObject, own } from './canonical.js';
import { gravestLevel, unionOfKeys } from './change.js';
import type { ValueNumbers } from './same-value.js';
import {
  ANNOTATIONS,
  compareBooleans,
  compareBound,
  compareConstraint,
  compareDialect,
  compareEnum,
  compareMultiple,
  compareRequired,
  compareType,
  compareUnique,
} from './schema-keywords.js';
import type { ContractLevel, JsonObject, SchemaChangeHow } from './types.js';
import { differOnlyInHidden } from './visible.js';

/** `input`: what the caller writes. `output`: what the caller reads. */
export type SchemaSide = 'input' | 'output';

export interface SchemaChange {
  readonly path: readonly string[];
  readonly how: SchemaChangeHow;
  readonly level: ContractLevel;
  readonly from?: unknown;
  readonly to?: unknown;
  readonly onlyInvisible?: true;
}

/** What the same change means on either side: who writes fears fewer valid values, who reads fears more. */
export function levelOfSchemaChange(how: SchemaChangeHow, side: SchemaSide): ContractLevel {
  switch (how) {
    case 'property-removed':
    case 'incompatible':
    case 'cannot-tell':
      return 'breaking';
    case 'required-added':
    case 'narrowed':
      return side === 'input' ? 'breaking' : 'behaviour';
    case 'required-removed':
    case 'widened':
      return side === 'input' ? 'behaviour' : 'breaking';
    case 'property-added':
    case 'annotation':
      return 'behaviour';
    case 'spelling':
      return 'cosmetic';
  }
}

/** `undefined` stands for a schema that is not there, which allows everything. */
export function diffSchemas(
  from: unknown,
  to: unknown,
  side: SchemaSide,
  numbers: ValueNumbers,
): SchemaChange[] {
  const comparison = new SchemaComparison(side, numbers, mentionsNegation(from) || mentionsNegation(to));
  comparison.schema(from, to, []);
  return comparison.changes;
}

type Path = readonly string[];
type Compare = (at: SchemaComparison, from: unknown, to: unknown, path: Path) => void;

class SchemaComparison {
  readonly changes: SchemaChange[] = [];
  readonly #side: SchemaSide;
  readonly numbers: ValueNumbers;
  /** Under `not` and `if` more means less, and a definition may be used there. */
  readonly #negated: boolean;
  #inDefinitions = false;

  constructor(side: SchemaSide, numbers: ValueNumbers, negated: boolean) {
    this.#side = side;
    this.numbers = numbers;
    this.#negated = negated;
  }

  report(found: SchemaChangeHow, path: Path, from: unknown, to: unknown): void {
    const monotone = found === 'annotation' || found === 'spelling';
    const how = this.#inDefinitions && this.#negated && !monotone ? 'cannot-tell' : found;
    const hidden = typeof from === 'string' && typeof to === 'string' && differOnlyInHidden(from, to);
    this.changes.push({
      path,
      how,
      level: levelOfSchemaChange(how, this.#side),
      ...(from !== undefined && { from }),
      ...(to !== undefined && { to }),
      ...(hidden && { onlyInvisible: true }),
    });
  }

  schema(from: unknown, to: unknown, path: Path): void {
    if (this.numbers.same(from, to)) return;
    if (isJsonObject(from) && isJsonObject(to)) this.#keywords(from, to, path);
    else this.report(compareBooleans(from, to), path, from, to);
  }

  /** Maps of schemas by name, such as `properties`. `added` and `removed`: what it means when one comes or goes. */
  map(
    from: unknown,
    to: unknown,
    path: Path,
    added: (schema: unknown) => SchemaChangeHow,
    removed: (schema: unknown) => SchemaChangeHow,
  ): void {
    if ((from !== undefined && !isJsonObject(from)) || (to !== undefined && !isJsonObject(to))) {
      this.report('cannot-tell', path, from, to);
    } else if (from === undefined || to === undefined) {
      const present = Object.values((from ?? to) as JsonObject);
      const hows = present.map((schema) => (from === undefined ? added(schema) : removed(schema)));
      this.report(gravest(hows, this.#side), path, from, to);
    } else {
      for (const key of unionOfKeys(from, to)) {
        const [before, after] = [own(from, key), own(to, key)];
        if (before === undefined) this.report(added(after), [...path, key], before, after);
        else if (after === undefined) this.report(removed(before), [...path, key], before, after);
        else this.schema(before, after, [...path, key]);
      }
    }
  }

  /** `anyOf` and the like. `more`: what one branch more means. */
  branches(from: unknown, to: unknown, path: Path, more: 'widened' | 'narrowed'): void {
    const less = more === 'widened' ? 'narrowed' : 'widened';
    if (from === undefined || to === undefined) {
      // A whole union that comes is a rule that comes, whatever its branches say.
      this.report(
        Array.isArray(from ?? to) ? (from === undefined ? 'narrowed' : 'widened') : 'cannot-tell',
        path,
        from,
        to,
      );
    } else if (!Array.isArray(from) || !Array.isArray(to)) {
      this.report('cannot-tell', path, from, to);
    } else {
      const [before, after] = [this.#countsOf(from), this.#countsOf(to)];
      const [kept, grown] = [containsCounts(after, before), containsCounts(before, after)];
      if (kept && grown) this.report('spelling', path, from, to);
      else if (kept) this.report(more, path, from, to);
      else if (grown) this.report(less, path, from, to);
      else if (from.length === to.length) this.#inOrder(from, to, path);
      else this.report('cannot-tell', path, from, to);
    }
  }

  /** Lists in which the place counts. */
  tuple(from: unknown, to: unknown, path: Path): void {
    if (Array.isArray(from) && Array.isArray(to) && from.length === to.length) this.#inOrder(from, to, path);
    else this.report('cannot-tell', path, from, to);
  }

  definitions(from: unknown, to: unknown, path: Path): void {
    const outer = this.#inDefinitions;
    this.#inDefinitions = true;
    // One that comes is used nowhere until a reference, reported by itself, says so; one that goes may be missed.
    this.map(
      from,
      to,
      path,
      () => 'annotation',
      () => 'cannot-tell',
    );
    this.#inDefinitions = outer;
  }

  #inOrder(from: readonly unknown[], to: readonly unknown[], path: Path): void {
    from.forEach((schema, index) => {
      this.schema(schema, to[index], [...path, String(index)]);
    });
  }

  #keywords(from: JsonObject, to: JsonObject, path: Path): void {
    for (const key of unionOfKeys(from, to)) {
      const [before, after] = [own(from, key), own(to, key)];
      if (this.numbers.same(before, after)) continue;
      const compare = KEYWORDS.get(key) ?? cannotTell;
      compare(this, before, after, [...path, key]);
    }
  }

  #countsOf(values: readonly unknown[]): Map<number, number> {
    const counts = new Map<number, number>();
    for (const value of values) {
      const number = this.numbers.of(value);
      counts.set(number, (counts.get(number) ?? 0) + 1);
    }
    return counts;
  }
}

const cannotTell: Compare = (at, from, to, path) => at.report('cannot-tell', path, from, to);
const annotation: Compare = (at, from, to, path) => at.report('annotation', path, from, to);
const constraint: Compare = (at, from, to, path) => at.report(compareConstraint(from, to), path, from, to);
const subschema: Compare = (at, from, to, path) => {
  at.schema(from, to, path);
};
const minimum: Compare = (at, from, to, path) => at.report(compareBound(from, to, 'least'), path, from, to);
const maximum: Compare = (at, from, to, path) => at.report(compareBound(from, to, 'most'), path, from, to);
const definitions: Compare = (at, from, to, path) => at.definitions(from, to, path);

const properties: Compare = (at, from, to, path) =>
  at.map(
    from,
    to,
    path,
    (schema) => (schema === false ? 'narrowed' : isSchema(schema) ? 'property-added' : 'cannot-tell'),
    (schema) => (schema === false ? 'widened' : 'property-removed'),
  );

/** Rules that hold for whatever a name or pattern picks: one more is a rule more. */
const rulesByName: Compare = (at, from, to, path) =>
  at.map(
    from,
    to,
    path,
    (schema) => compareBooleans(undefined, schema),
    (schema) => compareBooleans(schema, undefined),
  );

const items: Compare = (at, from, to, path) =>
  Array.isArray(from) || Array.isArray(to) ? at.tuple(from, to, path) : at.schema(from, to, path);

/** A Map, because a keyword may be called `__proto__` or `constructor`. */
const KEYWORDS: ReadonlyMap<string, Compare> = new Map<string, Compare>([
  ['type', (at, from, to, path) => at.report(compareType(from, to), path, from, to)],
  ['enum', (at, from, to, path) => at.report(compareEnum(from, to, at.numbers), path, from, to)],
  ['required', (at, from, to, path) => at.report(compareRequired(from, to), path, from, to)],
  ['multipleOf', (at, from, to, path) => at.report(compareMultiple(from, to), path, from, to)],
  ['uniqueItems', (at, from, to, path) => at.report(compareUnique(from, to), path, from, to)],
  ['$schema', (at, from, to, path) => at.report(compareDialect(from, to), path, from, to)],
  ['properties', properties],
  ['patternProperties', rulesByName],
  ['dependentSchemas', rulesByName],
  ['$defs', definitions],
  ['definitions', definitions],
  ['items', items],
  ['prefixItems', (at, from, to, path) => at.tuple(from, to, path)],
  ['allOf', (at, from, to, path) => at.branches(from, to, path, 'narrowed')],
  ['anyOf', (at, from, to, path) => at.branches(from, to, path, 'widened')],
  ['oneOf', (at, from, to, path) => at.branches(from, to, path, 'widened')],
  ...['const', 'pattern', 'format', 'not', 'dependentRequired'].map((key) => [key, constraint] as const),
  ...[
    'additionalProperties',
    'unevaluatedProperties',
    'unevaluatedItems',
    'propertyNames',
    'then',
    'else',
  ].map((key) => [key, subschema] as const),
  ...['minimum', 'minLength', 'minItems', 'minProperties', 'exclusiveMinimum'].map(
    (key) => [key, minimum] as const,
  ),
  ...['maximum', 'maxLength', 'maxItems', 'maxProperties', 'exclusiveMaximum'].map(
    (key) => [key, maximum] as const,
  ),
  ...[...ANNOTATIONS].map((key) => [key, annotation] as const),
]);

function isSchema(value: unknown): boolean {
  return typeof value === 'boolean' || isJsonObject(value);
}

function gravest(hows: readonly SchemaChangeHow[], side: SchemaSide): SchemaChangeHow {
  const level = gravestLevel(hows.map((how) => levelOfSchemaChange(how, side)));
  return hows.find((how) => levelOfSchemaChange(how, side) === level) ?? 'spelling';
}

/** Whether each value of `part` is in `whole`, as often. */
function containsCounts(whole: ReadonlyMap<number, number>, part: ReadonlyMap<number, number>): boolean {
  for (const [number, count] of part) if ((whole.get(number) ?? 0) < count) return false;
  return true;
}

function mentionsNegation(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.some(mentionsNegation);
  return Object.keys(value).some(
    (key) => key === 'not' || key === 'if' || mentionsNegation((value as JsonObject)[key]),
  );
}
