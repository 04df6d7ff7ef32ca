/**
 * Whether an entry of a configuration is still the one it was.
 *
 * Guarantees that two prints are the same only where the entries say the same, and their placeholders name variables
 * of the same values. Never shows a value: a print is a digest. Reads no file.
 */
import { createHash } from 'node:crypto';
import { isStub, type ServerStub } from '../relay/stub.js';
import { originOf, type ServerEntry } from './entry.js';

const VARIABLE = /\$\{(?:env:)?([A-Za-z_]\w*)(?::-|\})/g;

export interface EntryPrint {
  readonly digest: string;
  /** Of the values that are read at each use: new ones reach the server without a new session. */
  readonly atUse: string;
  /** What the placeholders are read from. */
  readonly variables: object | undefined;
}

export function printOf(entry: ServerEntry | ServerStub): EntryPrint {
  if (isStub(entry)) return { digest: digestOf([entry.name, entry.route]), atUse: '', variables: undefined };
  const { variables } = originOf(entry);
  const values: unknown[] = [];
  const atUse: unknown[] = [];
  const told = JSON.stringify(sorted(entry), (key, value) => {
    const isReadAtUse = entry.url !== undefined && (key === 'token' || key.toLowerCase() === 'authorization');
    if (typeof value === 'string') {
      for (const [, name] of value.matchAll(VARIABLE))
        (isReadAtUse ? atUse : values).push(name, variables[name as string] ?? null);
    }
    return value as unknown;
  });
  return { digest: digestOf([told, values]), atUse: digestOf(atUse), variables };
}

/** What is read at each use is news only where it stands in other variables than those that are read. */
export function isSame(one: EntryPrint, other: EntryPrint): boolean {
  return one.digest === other.digest && (one.variables === other.variables || one.atUse === other.atUse);
}

function digestOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex');
}

/** The order of keys says nothing. */
function sorted(value: unknown): unknown {
  if (value instanceof URL) return value.href;
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const pairs = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(pairs.map(([key, each]) => [key, sorted(each)]));
}
