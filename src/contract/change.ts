/**
 * Small things that every part of a comparison needs: levels, and changes of texts and fields.
 *
 * Guarantees that a change has `from` and `to` exactly where there is a value. Never decides what a part is worth.
 */
import { byCodeUnits } from './canonical.js';
import type { ContractChange, ContractChangeKind, ContractLevel, JsonObject } from './types.js';
import { differOnlyInHidden } from './visible.js';

/** Gravest first. */
export const LEVELS: readonly ContractLevel[] = Object.freeze(['breaking', 'behaviour', 'cosmetic']);

export function gravestLevel(levels: Iterable<ContractLevel>): ContractLevel | undefined {
  const found = new Set(levels);
  return LEVELS.find((level) => found.has(level));
}

export function changeOf(
  kind: ContractChangeKind,
  name: string,
  level: ContractLevel,
  path: readonly string[],
  from: unknown,
  to: unknown,
): ContractChange {
  const hidden = typeof from === 'string' && typeof to === 'string' && differOnlyInHidden(from, to);
  return {
    kind,
    name,
    // Whoever hides something in a title wants it to work on somebody other than its reader.
    level: hidden && level === 'cosmetic' ? 'behaviour' : level,
    path,
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
    ...(hidden && { onlyInvisible: true as const }),
  };
}

export function unionOfKeys(one: JsonObject, other: JsonObject): string[] {
  return [...new Set([...Object.keys(one), ...Object.keys(other)])].sort(byCodeUnits);
}

/** Entries by name. A name may be there more than once. */
export function groupBy<T>(entries: readonly T[], nameOf: (entry: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const entry of entries) {
    const name = nameOf(entry);
    const group = groups.get(name);
    if (group) group.push(entry);
    else groups.set(name, [entry]);
  }
  return groups;
}
