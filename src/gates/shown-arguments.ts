/**
 * The arguments that an audit shows in clear, by path.
 *
 * Guarantees that nothing is shown that no path names. Never changes the arguments.
 */
import type { CallFacts } from './gate.js';

/** Undefined: none. Objects keep their keys, arrays their length: what is not shown is `null` there. */
export function shownArguments(paths: readonly string[], { tool, arguments: given }: CallFacts): unknown {
  if (paths.length === 0 || tool === undefined || given === undefined) return undefined;
  const ways = paths.flatMap((path) => {
    // A tool's name may have points of its own.
    const rest = path.startsWith(`${tool}.`)
      ? path.slice(tool.length + 1)
      : path.startsWith('*.')
        ? path.slice(2)
        : '';
    return rest === '' ? [] : [rest.split('.')];
  });
  return ways.length === 0 ? undefined : shown(given, ways);
}

function shown(value: unknown, ways: readonly (readonly string[])[]): unknown {
  if (ways.some((way) => way.length === 0)) return value;
  if (typeof value !== 'object' || value === null) return undefined;
  const under = (key: string) =>
    ways.filter(([first]) => first === '*' || first === key).map((way) => way.slice(1));
  if (Array.isArray(value)) {
    const items = value.map((item, index) => shown(item, under(String(index))));
    return items.every((item) => item === undefined) ? undefined : items.map((item) => item ?? null);
  }
  const entries = Object.keys(value)
    .map((key) => [key, shown((value as Record<string, unknown>)[key], under(key))] as const)
    .filter(([, inner]) => inner !== undefined);
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}
