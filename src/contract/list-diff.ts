/**
 * How two lists of resources or prompts differ.
 *
 * Guarantees that lists which differ in more than order give at least one change. Never drops an entry: of a
 * name that is there more than once the whole group is reported.
 */
import { byCodeUnits, canonicalJson, isJsonObject, own } from './canonical.js';
import { changeOf, groupBy, unionOfKeys } from './change.js';
import type { ValueNumbers } from './same-value.js';
import type { ContractChange, ContractLevel, JsonObject } from './types.js';

export type ListPart = 'resources' | 'prompts';

const KINDS = Object.freeze({
  resources: Object.freeze({
    added: 'resource-added',
    removed: 'resource-removed',
    changed: 'resource-changed',
    duplicated: 'resource-duplicated',
  }),
  prompts: Object.freeze({
    added: 'prompt-added',
    removed: 'prompt-removed',
    changed: 'prompt-changed',
    duplicated: 'prompt-duplicated',
  }),
} as const);

/** What a model or its host reads, without a call failing for it. */
const READ_FIELDS: ReadonlySet<string> = new Set(['name', 'description', 'annotations', 'size', '_meta']);
const SHOWN_FIELDS: ReadonlySet<string> = new Set(['title', 'icons']);

/** By what an entry is asked for: a resource by its URI, a prompt by its name; without one, by the whole. */
export function entryName(part: ListPart, entry: JsonObject): string {
  const name = own(entry, part === 'resources' ? 'uri' : 'name');
  return typeof name === 'string' ? name : canonicalJson(entry);
}

export function diffLists(
  part: ListPart,
  from: readonly JsonObject[],
  to: readonly JsonObject[],
  numbers: ValueNumbers,
): ContractChange[] {
  const [before, after] = [from, to].map((list) => groupBy(list, (entry) => entryName(part, entry))) as [
    Map<string, JsonObject[]>,
    Map<string, JsonObject[]>,
  ];
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((name) =>
    diffGroup(part, name, before.get(name) ?? [], after.get(name) ?? [], numbers),
  );
}

function diffGroup(
  part: ListPart,
  name: string,
  from: readonly JsonObject[],
  to: readonly JsonObject[],
  numbers: ValueNumbers,
): ContractChange[] {
  const kinds = KINDS[part];
  const path = [part, name];
  if (from.length > 1 || to.length > 1) {
    const [before, after] = [from, to].map((group) =>
      group
        .map((entry) => numbers.of(entry))
        .sort()
        .join(),
    );
    return before === after ? [] : [changeOf(kinds.duplicated, name, 'breaking', path, from, to)];
  }
  const [[before], [after]] = [from, to];
  if (before === undefined) return [changeOf(kinds.added, name, 'behaviour', path, undefined, after)];
  if (after === undefined) return [changeOf(kinds.removed, name, 'breaking', path, before, undefined)];
  return unionOfKeys(before, after)
    .map((field) => [field, own(before, field), own(after, field)] as const)
    .filter(([, one, other]) => !numbers.same(one, other))
    .map(([field, one, other]) => {
      const level =
        part === 'prompts' && field === 'arguments' ? levelOfArguments(one, other) : levelOfField(field);
      return changeOf(kinds.changed, name, level, [...path, field], one, other);
    });
}

function levelOfField(field: string): ContractLevel {
  if (SHOWN_FIELDS.has(field)) return 'cosmetic';
  return READ_FIELDS.has(field) ? 'behaviour' : 'breaking';
}

/** An argument that is gone, or that has to be given now, fails callers; anything else does not. */
function levelOfArguments(from: unknown, to: unknown): ContractLevel {
  const [before, after] = [argumentsOf(from), argumentsOf(to)];
  if (!before || !after) return 'breaking';
  for (const name of before.keys()) if (!after.has(name)) return 'breaking';
  for (const [name, required] of after) if (required && before.get(name) !== true) return 'breaking';
  return 'behaviour';
}

/** Name to whether it is required; undefined for what is no list of arguments. */
function argumentsOf(value: unknown): Map<string, boolean> | undefined {
  if (value === undefined) return new Map();
  if (!Array.isArray(value)) return undefined;
  const found = new Map<string, boolean>();
  for (const argument of value as unknown[]) {
    const name = isJsonObject(argument) ? own(argument, 'name') : undefined;
    if (typeof name !== 'string') return undefined;
    found.set(name, found.get(name) === true || own(argument as JsonObject, 'required') === true);
  }
  return found;
}

export function diffScopes(from: readonly string[], to: readonly string[]): ContractChange[] {
  const [before, after] = [from, to].map((scopes) => [...new Set(scopes)].sort(byCodeUnits)) as [
    string[],
    string[],
  ];
  const kept = new Set(after);
  const lost = before.some((scope) => !kept.has(scope));
  if (!lost && before.length === after.length) return [];
  return [
    changeOf('scopes-changed', 'grantedScopes', lost ? 'breaking' : 'behaviour', ['grantedScopes'], from, to),
  ];
}
