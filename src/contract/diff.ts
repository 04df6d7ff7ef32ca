/**
 * How two contracts differ.
 *
 * Guarantees that the result is empty exactly when the contracts are equal up to order, that each change has
 * a kind, a level and a path, that applying the changes to the first gives the second, and that an equal tool
 * costs one comparison of digests. Never orders versions; never compares when, where and as what a snapshot was taken.
 */
import { byCodeUnits, isJsonObject, own } from './canonical.js';
import { changeOf, gravestLevel, groupBy, LEVELS, unionOfKeys } from './change.js';
import { coveredBy, parseIgnoredPaths } from './ignore.js';
import { diffLists, diffScopes, type ListPart } from './list-diff.js';
import { findRenames } from './renames.js';
import { ValueNumbers } from './same-value.js';
import { diffToolDefinitions } from './tool-diff.js';
import type {
  ContractChange,
  ContractDiff,
  ContractSide,
  ContractSnapshot,
  DiffOptions,
  JsonObject,
  LeftOutChange,
  ToolContract,
} from './types.js';

/**
 * Compares by name, whatever the order. Digests are trusted: `makeSnapshot` makes and `parseSnapshot` checks them.
 * Throws a `TypeError` for a path of `ignore` that makes no sense.
 */
export function diffContracts(
  from: ContractSnapshot,
  to: ContractSnapshot,
  options: DiffOptions = {},
): ContractDiff {
  const ignored = parseIgnoredPaths(options.ignore);
  const wanted = options.tools && new Set(options.tools);
  const numbers = new ValueNumbers();
  const tools = diffTools(from.tools, to.tools);
  const found = [
    ...diffProtocol(from, to, numbers),
    ...tools,
    ...diffPart('resources', from, to, numbers),
    ...diffPart('prompts', from, to, numbers),
    ...diffPart('grantedScopes', from, to, numbers),
  ];
  const formerNames = new Map(
    tools.filter(({ kind }) => kind === 'tool-renamed').map((change) => [String(change.to), change.name]),
  );
  const unwanted = ({ path, name }: ContractChange) =>
    wanted !== undefined &&
    path[0] === 'tools' &&
    !wanted.has(name) &&
    !wanted.has(formerNames.get(name) ?? name);
  const changes: ContractChange[] = [];
  const leftOut: LeftOutChange[] = [];
  for (const change of inOrder(found)) {
    const by = unwanted(change) ? 'tools' : coveredBy(ignored, change.path);
    if (by === undefined) changes.push(change);
    else leftOut.push({ by, change });
  }
  const level = gravestLevel(changes.map((change) => change.level));
  return {
    identical: found.length === 0,
    ...(level !== undefined && { level }),
    changes,
    leftOut,
    from: sideOf(from),
    to: sideOf(to),
  };
}

function sideOf({ takenAt, environment, url, digest }: ContractSnapshot): ContractSide {
  return {
    takenAt,
    ...(environment !== undefined && { environment }),
    ...(url !== undefined && { url }),
    digest,
  };
}

/** Gravest first, tools before the rest, then by name; the changes of one name come in the order of their paths already. */
function inOrder(changes: readonly ContractChange[]): ContractChange[] {
  const [tools, rest] = [true, false].map((isTool) => {
    const groups = groupBy(
      changes.filter(({ path }) => (path[0] === 'tools') === isTool),
      ({ name }) => name,
    );
    return [...groups].sort(([one], [other]) => byCodeUnits(one, other)).flatMap(([, group]) => group);
  }) as [ContractChange[], ContractChange[]];
  const ordered = tools.concat(rest);
  return LEVELS.flatMap((level) => ordered.filter((change) => change.level === level));
}

function diffProtocol(from: ContractSnapshot, to: ContractSnapshot, numbers: ValueNumbers): ContractChange[] {
  const changes = diffCapabilities(from.capabilities, to.capabilities, ['capabilities'], numbers);
  for (const key of unionOfKeys(from.serverInfo, to.serverInfo)) {
    const [before, after] = [own(from.serverInfo, key), own(to.serverInfo, key)];
    if (numbers.same(before, after)) continue;
    changes.push(
      changeOf('server-info-changed', 'serverInfo', 'cosmetic', ['serverInfo', key], before, after),
    );
  }
  for (const [key, kind] of [
    ['instructions', 'instructions-changed'],
    ['protocolVersion', 'protocol-version-changed'],
  ] as const) {
    if (from[key] !== to[key]) changes.push(changeOf(kind, key, 'behaviour', [key], from[key], to[key]));
  }
  return changes;
}

function diffCapabilities(
  from: JsonObject,
  to: JsonObject,
  path: readonly string[],
  numbers: ValueNumbers,
): ContractChange[] {
  return unionOfKeys(from, to).flatMap((key) => {
    const [before, after] = [own(from, key), own(to, key)];
    if (numbers.same(before, after)) return [];
    const at = [...path, key];
    if (isJsonObject(before) && isJsonObject(after)) return diffCapabilities(before, after, at, numbers);
    const had = before !== undefined && before !== false;
    const has = after !== undefined && after !== false;
    if (had && has) return [changeOf('capability-changed', 'capabilities', 'breaking', at, before, after)];
    // Neither had nor has it: `false` came or went.
    if (!had && !has) return [changeOf('capability-changed', 'capabilities', 'cosmetic', at, before, after)];
    return [
      has
        ? changeOf('capability-added', 'capabilities', 'behaviour', at, before, after)
        : changeOf('capability-removed', 'capabilities', 'breaking', at, before, after),
    ];
  });
}

function diffTools(from: readonly ToolContract[], to: readonly ToolContract[]): ContractChange[] {
  const [before, after] = [groupBy(from, nameOf), groupBy(to, nameOf)];
  const removed: ToolContract[] = [];
  const added: ToolContract[] = [];
  // One list for each tool: a single schema may give more changes than a call takes arguments.
  const changes: ContractChange[][] = [];
  for (const [name, ones] of before) {
    const others = after.get(name) ?? [];
    if (ones.length > 1 || others.length > 1) changes.push(diffDuplicates(name, ones, others));
    else changes.push(diffPair(name, ones[0], others[0], removed));
  }
  for (const [name, [only, ...more]] of after) {
    if (before.has(name) || only === undefined) continue;
    if (more.length > 0) changes.push(diffDuplicates(name, [], [only, ...more]));
    else added.push(only);
  }
  const renames = findRenames(removed, added);
  const paired = new Set(renames.flatMap((rename) => [rename.from, rename.to]));
  for (const { from: former, to: latter } of renames) {
    const path = ['tools', former.name];
    changes.push([changeOf('tool-renamed', former.name, 'breaking', path, former.name, latter.name)]);
    changes.push(diffToolDefinitions(latter.name, former.definition, latter.definition));
  }
  for (const { name, definition } of removed.filter((tool) => !paired.has(tool))) {
    changes.push([changeOf('tool-removed', name, 'breaking', ['tools', name], definition, undefined)]);
  }
  for (const { name, definition } of added.filter((tool) => !paired.has(tool))) {
    changes.push([changeOf('tool-added', name, 'behaviour', ['tools', name], undefined, definition)]);
  }
  return changes.flat();
}

function diffPair(
  name: string,
  from: ToolContract | undefined,
  to: ToolContract | undefined,
  removed: ToolContract[],
): ContractChange[] {
  if (from === undefined) return [];
  if (to === undefined) {
    removed.push(from);
    return [];
  }
  return from.digest === to.digest ? [] : diffToolDefinitions(name, from.definition, to.definition);
}

function diffDuplicates(
  name: string,
  from: readonly ToolContract[],
  to: readonly ToolContract[],
): ContractChange[] {
  const [before, after] = [from, to].map((group) =>
    group
      .map(({ digest }) => digest)
      .sort(byCodeUnits)
      .join(),
  );
  if (before === after) return [];
  const [ones, others] = [from, to].map((group) => group.map(({ definition }) => definition));
  return [changeOf('tool-duplicated', name, 'breaking', ['tools', name], ones, others)];
}

function diffPart(
  part: ListPart | 'grantedScopes',
  from: ContractSnapshot,
  to: ContractSnapshot,
  numbers: ValueNumbers,
): ContractChange[] {
  const [before, after] = [from[part], to[part]];
  if (before === undefined && after === undefined) return [];
  if (before === undefined || after === undefined) {
    return [changeOf('part-not-compared', part, 'cosmetic', [part], before, after)];
  }
  return part === 'grantedScopes'
    ? diffScopes(before as readonly string[], after as readonly string[])
    : diffLists(part, before as readonly JsonObject[], after as readonly JsonObject[], numbers);
}

function nameOf(tool: ToolContract): string {
  return tool.name;
}
