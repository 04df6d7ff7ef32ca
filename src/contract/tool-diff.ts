/**
 * How two definitions of one tool differ, field by field.
 *
 * Guarantees that definitions which differ give at least one change, and that a field this library does not
 * know counts as breaking. Never compares names: whoever calls this has paired the two.
 */
import { isJsonObject, own } from './canonical.js';
import { changeOf, unionOfKeys } from './change.js';
import { ValueNumbers } from './same-value.js';
import { diffSchemas, type SchemaSide } from './schema-diff.js';
import type { ContractChange, ContractLevel, JsonObject } from './types.js';

export function diffToolDefinitions(name: string, from: JsonObject, to: JsonObject): ContractChange[] {
  const numbers = new ValueNumbers();
  return unionOfKeys(from, to).flatMap((field) => {
    const [before, after] = [own(from, field), own(to, field)];
    if (field === 'name' || numbers.same(before, after)) return [];
    return diffField(name, field, before, after, numbers);
  });
}

function diffField(
  name: string,
  field: string,
  from: unknown,
  to: unknown,
  numbers: ValueNumbers,
): ContractChange[] {
  const path = ['tools', name, field];
  switch (field) {
    case 'description':
      return [changeOf('description-changed', name, 'behaviour', path, from, to)];
    case 'title':
      return [changeOf('title-changed', name, 'cosmetic', path, from, to)];
    case 'annotations':
      return diffAnnotations(name, path, from, to, numbers);
    case 'inputSchema':
      return schemaChanges('input', name, path, from, to, numbers);
    case 'outputSchema':
      return schemaChanges('output', name, path, from, to, numbers);
    default:
      return [changeOf('tool-field-changed', name, levelOfField(field), path, from, to)];
  }
}

/** `_meta` is free for anything, which hosts act on; `execution` says how a tool may be called. */
function levelOfField(field: string): ContractLevel {
  if (field === 'icons') return 'cosmetic';
  return field === '_meta' ? 'behaviour' : 'breaking';
}

function diffAnnotations(
  name: string,
  path: readonly string[],
  from: unknown,
  to: unknown,
  numbers: ValueNumbers,
): ContractChange[] {
  if (!isJsonObject(from) || !isJsonObject(to)) {
    return [changeOf('annotations-changed', name, 'behaviour', path, from, to)];
  }
  return unionOfKeys(from, to)
    .filter((key) => !numbers.same(own(from, key), own(to, key)))
    .map((key) => {
      const [before, after] = [own(from, key), own(to, key)];
      return key === 'title'
        ? changeOf('title-changed', name, 'cosmetic', [...path, key], before, after)
        : changeOf('annotations-changed', name, 'behaviour', [...path, key], before, after);
    });
}

function schemaChanges(
  side: SchemaSide,
  name: string,
  path: readonly string[],
  from: unknown,
  to: unknown,
  numbers: ValueNumbers,
): ContractChange[] {
  const kind = side === 'input' ? 'input-schema-changed' : 'output-schema-changed';
  return diffSchemas(from, to, side, numbers).map(({ how, level, ...change }) => ({
    kind,
    name,
    level,
    how,
    ...change,
    path: [...path, ...change.path],
  }));
}
