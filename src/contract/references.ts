/**
 * Which tools an app refers to, and which of them an environment lacks.
 *
 * Guarantees that names in quotes are found with their place, in time linear in the text, whatever the language
 * of the text and however its quotes are out of step. Never runs or parses code: a name put together at run
 * time, or written with escapes, is not found.
 */
import type { ContractSnapshot } from './types.js';

/** A tool's name in quotes, somewhere in a text. */
export interface ToolReference {
  readonly name: string;
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 code units, of the name's first character. */
  readonly column: number;
}

/** Those of `names`, each once and in their order, that the contract has no tool for. */
export function missingTools(snapshot: ContractSnapshot, names: Iterable<string>): string[] {
  const present = new Set(snapshot.tools.map(({ name }) => name));
  return [...new Set(names)].filter((name) => !present.has(name));
}

/** The names of all tools of all snapshots, each once. */
export function toolNames(...snapshots: readonly ContractSnapshot[]): string[] {
  return [...new Set(snapshots.flatMap(({ tools }) => tools.map(({ name }) => name)))];
}

/**
 * Names of `knownNames` between two quotes of one kind (', " or `) on one line: string literals in code,
 * bindings and configuration, marked words in prompts. Quotes that are themselves escaped, as in code within
 * JSON, count too.
 *
 * @example
 * findReferences(source, toolNames(local, hosted)).filter(({ name }) => missing.includes(name));
 */
export function findReferences(text: string, knownNames: Iterable<string>): ToolReference[] {
  const known = new Set(knownNames);
  known.delete('');
  let longest = 0;
  for (const name of known) longest = Math.max(longest, name.length);
  const found: ToolReference[] = [];
  const opened = new Map<string, number>();
  let line = 1;
  let lineStart = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text.charAt(at);
    if (character === '\n' || (character === '\r' && text[at + 1] !== '\n')) {
      line++;
      lineStart = at + 1;
      opened.clear();
    } else if (character === '"' || character === "'" || character === '`') {
      // Any two neighbouring quotes may be a pair: an apostrophe in prose must not put the rest out of step.
      const start = opened.get(character);
      opened.set(character, at + 1);
      if (start === undefined || at - start > longest + 1) continue;
      const literal = text.slice(start, at);
      const name = known.has(literal) ? literal : literal.replace(/\\$/, '');
      if (known.has(name)) found.push({ name, line, column: start - lineStart + 1 });
    }
  }
  return found;
}
