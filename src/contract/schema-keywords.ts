/**
 * What a change of one JSON Schema keyword does to the set of valid values.
 *
 * Guarantees that an answer other than 'cannot-tell' holds for the keyword taken by itself (JSON Schema
 * 2020-12). Never guesses: values of an unexpected type cannot be told.
 */
import { isJsonObject } from './canonical.js';
import type { ValueNumbers } from './same-value.js';
import type { SchemaChangeHow } from './types.js';

/** Keywords that make no value invalid; what a model reads, all the same. */
export const ANNOTATIONS: ReadonlySet<string> = new Set([
  'title',
  'description',
  '$comment',
  'default',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
]);

/** The dialect of MCP schemas that name none (MCP 2025-11-25, "JSON Schema Usage"). */
const DEFAULT_DIALECT = /^https?:\/\/json-schema\.org\/draft\/2020-12\/schema#?$/;
const TYPES = ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'];

/** Two schemas of which at least one is `true`, `false` or not there (which is `true`). */
export function compareBooleans(from: unknown, to: unknown): SchemaChangeHow {
  const [before, after] = [strictness(from), strictness(to)];
  if (before === undefined || after === undefined) return 'cannot-tell';
  if (before === after) return hasWords(from) || hasWords(to) ? 'annotation' : 'spelling';
  return before < after ? 'narrowed' : 'widened';
}

/** A rule that is there or not; of two different ones nothing is known. */
export function compareConstraint(from: unknown, to: unknown): SchemaChangeHow {
  if (from === undefined) return 'narrowed';
  return to === undefined ? 'widened' : 'cannot-tell';
}

export function compareBound(from: unknown, to: unknown, kind: 'least' | 'most'): SchemaChangeHow {
  const numbers = [from, to].every((value) => value === undefined || typeof value === 'number');
  // The boolean form of exclusiveMinimum and exclusiveMaximum (draft 4) is one of the things not understood.
  if (!numbers) return 'cannot-tell';
  if (from === undefined || to === undefined) return compareConstraint(from, to);
  const rose = Number(to) > Number(from);
  return rose === (kind === 'least') ? 'narrowed' : 'widened';
}

export function compareMultiple(from: unknown, to: unknown): SchemaChangeHow {
  if (from === undefined || to === undefined) return compareConstraint(from, to);
  if (!Number.isInteger(from) || !Number.isInteger(to) || Number(from) <= 0 || Number(to) <= 0) {
    return 'cannot-tell';
  }
  if (Number(to) % Number(from) === 0) return 'narrowed';
  return Number(from) % Number(to) === 0 ? 'widened' : 'incompatible';
}

export function compareUnique(from: unknown, to: unknown): SchemaChangeHow {
  const [before, after] = [from ?? false, to ?? false];
  if (typeof before !== 'boolean' || typeof after !== 'boolean') return 'cannot-tell';
  if (before === after) return 'spelling';
  return after ? 'narrowed' : 'widened';
}

export function compareType(from: unknown, to: unknown): SchemaChangeHow {
  const [before, after] = [typesOf(from), typesOf(to)];
  return before && after ? compareSets(before, after) : 'cannot-tell';
}

export function compareEnum(from: unknown, to: unknown, numbers: ValueNumbers): SchemaChangeHow {
  const lists = [from, to].every((value) => value === undefined || Array.isArray(value));
  if (!lists) return 'cannot-tell';
  if (from === undefined || to === undefined) return compareConstraint(from, to);
  const [before, after] = [from, to].map(
    (list) => new Set((list as unknown[]).map((value) => numbers.of(value))),
  ) as [Set<number>, Set<number>];
  return compareSets(before, after);
}

export function compareRequired(from: unknown, to: unknown): SchemaChangeHow {
  const [before, after] = [namesOf(from), namesOf(to)];
  if (!before || !after) return 'cannot-tell';
  const added = !contains(before, after);
  const removed = !contains(after, before);
  if (added && removed) return 'incompatible';
  if (added) return 'required-added';
  return removed ? 'required-removed' : 'spelling';
}

/** Naming the dialect that holds anyway changes nothing. */
export function compareDialect(from: unknown, to: unknown): SchemaChangeHow {
  const isDefault = (value: unknown) =>
    value === undefined || (typeof value === 'string' && DEFAULT_DIALECT.test(value));
  return isDefault(from) && isDefault(to) ? 'spelling' : 'cannot-tell';
}

/** 0 allows everything, 2 nothing, 1 something in between; undefined: no schema. */
function strictness(schema: unknown): 0 | 1 | 2 | undefined {
  if (schema === undefined || schema === true) return 0;
  if (schema === false) return 2;
  if (!isJsonObject(schema)) return undefined;
  return Object.keys(schema).every((key) => ANNOTATIONS.has(key)) ? 0 : 1;
}

function hasWords(schema: unknown): boolean {
  return isJsonObject(schema) && Object.keys(schema).length > 0;
}

function typesOf(value: unknown): Set<string> | undefined {
  if (value === undefined) return new Set(TYPES);
  const list: unknown[] = Array.isArray(value) ? value : [value];
  if (!list.every((type) => typeof type === 'string' && TYPES.includes(type))) return undefined;
  const types = new Set(list as string[]);
  if (types.has('number')) types.add('integer');
  return types;
}

function namesOf(value: unknown): Set<string> | undefined {
  if (value === undefined) return new Set();
  const list = Array.isArray(value) && value.every((name) => typeof name === 'string');
  return list ? new Set(value as string[]) : undefined;
}

function compareSets<T>(from: ReadonlySet<T>, to: ReadonlySet<T>): SchemaChangeHow {
  const narrower = contains(from, to);
  const wider = contains(to, from);
  if (narrower && wider) return 'spelling';
  if (narrower) return 'narrowed';
  return wider ? 'widened' : 'incompatible';
}

function contains<T>(whole: ReadonlySet<T>, part: ReadonlySet<T>): boolean {
  for (const value of part) if (!whole.has(value)) return false;
  return true;
}
