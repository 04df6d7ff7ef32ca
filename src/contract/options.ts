/**
 * The `contract` options, resolved once. Bad values are refused by name before any I/O.
 */
import { OptionReader } from '../option-reader.js';
import { parseIgnoredPaths } from './ignore.js';
import type { ContractDiff, ContractSnapshot } from './types.js';

/** What a change does. `close` ends the connection. */
export type ContractAction = 'reject' | 'warn' | 'close' | 'ignore';

/**
 * A watch on what the server says of itself: compared at connect, after every recovery, after a gap in
 * notifications, and when the server says that its tools have changed.
 *
 * @example
 * contract: { pinned: parseSnapshot(await readFile('contract.json', 'utf8')), tools: ['search'] }
 */
export interface ContractOptions {
  /** The reviewed contract. Without one, the first list of the connection is the pin. */
  pinned?: ContractSnapshot | undefined;
  /**
   * What a change does: calls to tools that differ, are gone or were not pinned are refused before anything is sent
   * ('reject', the default with `pinned`), or it is only told ('warn', the default without), or the connection ends
   * ('close'), or nothing ('ignore'). A function decides after looking; 'accept' makes the new contract the pin. One
   * that throws rejects.
   */
  onChange?: ContractAction | ((diff: ContractDiff) => 'accept' | 'reject' | 'warn' | 'close') | undefined;
  /** The tools that this app uses: changes of others do not count. All. */
  tools?: readonly string[] | undefined;
  /** Paths that do not count, such as 'tools.*.title'; what they cover is reported. */
  ignore?: readonly string[] | undefined;
  /** Also compared so often. Off. */
  recheckMs?: number | undefined;
  /** `false`: only `snapshot()` reads the contract, and nothing is compared. true. */
  watch?: boolean | undefined;
}

export interface ResolvedContract {
  readonly pinned: ContractSnapshot | undefined;
  readonly onChange: ContractAction | ((diff: ContractDiff) => unknown);
  readonly tools: readonly string[] | undefined;
  readonly ignore: readonly string[] | undefined;
  readonly recheckMs: number | undefined;
  readonly watch: boolean;
}

const ACTIONS = ['reject', 'warn', 'close', 'ignore'] as const;

/** Throws `TypeError` naming the option that cannot be used; undefined where there is nothing to watch. */
export function resolveContract(options: ContractOptions | undefined): ResolvedContract | undefined {
  if (options === undefined) return undefined;
  const read = new OptionReader('contract', options);
  const pinned = read.any('pinned') as ContractSnapshot | undefined;
  if (pinned !== undefined && !isSnapshot(pinned)) {
    throw new TypeError('contract.pinned must be a snapshot: what parseSnapshot or snapshot() gives');
  }
  const onChange = read.any('onChange') as ResolvedContract['onChange'] | undefined;
  if (onChange !== undefined && typeof onChange !== 'function' && !ACTIONS.includes(onChange)) {
    throw new TypeError(`contract.onChange must be a function or one of ${ACTIONS.join(', ')}`);
  }
  const ignore = texts(read.any('ignore'), 'contract.ignore');
  try {
    parseIgnoredPaths(ignore);
  } catch (error) {
    throw new TypeError('contract.ignore must be paths such as "tools.*.title"', { cause: error });
  }
  const resolved = {
    pinned,
    onChange: onChange ?? (pinned === undefined ? 'warn' : 'reject'),
    tools: texts(read.any('tools'), 'contract.tools'),
    ignore,
    recheckMs: read.duration('recheckMs', 1),
    watch: read.oneOf('watch', [true, false] as const) ?? true,
  } as const;
  read.done();
  return Object.freeze(resolved);
}

function isSnapshot(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { holdfast, digest, tools } = value as Partial<ContractSnapshot>;
  return holdfast === 1 && typeof digest === 'string' && Array.isArray(tools);
}

function texts(value: unknown, name: string): readonly string[] | undefined {
  if (value === undefined) return undefined;
  if (!Array.isArray(value) || !value.every((each) => typeof each === 'string')) {
    throw new TypeError(`${name} must be an array of texts`);
  }
  return Object.freeze([...value]);
}
