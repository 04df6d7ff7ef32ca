/**
 * The error of snapshots that cannot be made, written or read.
 *
 * Guarantees that it names what is wrong and where. Never has text of the file or of a server in its message:
 * a tool's name is in `tool`, escaped.
 */
import { visible } from './visible.js';

export type SnapshotProblem =
  /** The text is not JSON. */
  | 'not-json'
  /** The text ends before the snapshot does. */
  | 'cut-short'
  /** JSON, but no snapshot. */
  | 'not-a-snapshot'
  /** Written by a later version of this library. */
  | 'newer-format'
  | 'missing-field'
  | 'wrong-type'
  | 'unknown-field'
  /** An object has the same key twice: a reader and a parser would see different contracts. */
  | 'repeated-key'
  | 'duplicate-tool'
  | 'nameless-tool'
  | 'digest-mismatch'
  | 'too-large'
  | 'too-many-tools'
  | 'too-deep'
  /** A value that JSON cannot hold. */
  | 'not-a-json-value';

const WORDS: Readonly<Record<SnapshotProblem, string>> = Object.freeze({
  'not-json': 'The snapshot is not JSON',
  'cut-short': 'The snapshot ends too early; the file seems to be cut',
  'not-a-snapshot': 'This is not a contract snapshot',
  'newer-format': 'The snapshot is in a newer format than this version reads',
  'missing-field': 'A field of the snapshot is missing',
  'wrong-type': 'A field of the snapshot has the wrong type',
  'unknown-field': 'The snapshot has a field that its format does not know',
  'repeated-key': 'An object of the snapshot has the same key twice',
  'duplicate-tool': 'The snapshot has two tools of one name',
  'nameless-tool': 'A tool has no name',
  'digest-mismatch': 'A digest does not fit what it stands for: the snapshot was changed after it was taken',
  'too-large': 'The snapshot is too large',
  'too-many-tools': 'There are too many tools',
  'too-deep': 'A value is nested too deeply',
  'not-a-json-value': 'A value is none that JSON can hold',
});

const BRAND = Symbol.for('mcp-holdfast.SnapshotError');
const TOOL_LENGTH = 128;

export interface SnapshotErrorPlace {
  /** A field, such as `tools[3].digest`. */
  where?: string | undefined;
  line?: number | undefined;
  column?: number | undefined;
  tool?: string | undefined;
}

/** A snapshot is damaged, or cannot be made of what a server sent. */
export class SnapshotError extends Error {
  override readonly name: string = 'SnapshotError';
  readonly code = 'ERR_SNAPSHOT';
  readonly problem: SnapshotProblem;
  /** The field, such as `tools[3].digest`. */
  declare readonly where?: string;
  /** From 1, where the place in the text is known. */
  declare readonly line?: number;
  declare readonly column?: number;
  /** The name of the tool in question, invisible characters escaped, cut to 128 characters. */
  declare readonly tool?: string;

  constructor(problem: SnapshotProblem, place: SnapshotErrorPlace = {}) {
    const { where, line, column, tool } = place;
    const position = line === undefined ? undefined : `line ${line}, column ${column ?? 1}`;
    const at = [where, position].filter((part) => part !== undefined).join(', ');
    super(at === '' ? `${WORDS[problem]}.` : `${WORDS[problem]} (${at}).`);
    this.problem = problem;
    const known = { where, line, column, tool: tool === undefined ? undefined : shortName(tool) };
    for (const [key, value] of Object.entries(known)) {
      if (value !== undefined) Object.defineProperty(this, key, { value, enumerable: true });
    }
    Object.defineProperty(this, BRAND, { value: true });
  }

  /** Recognises errors of every copy of this library. */
  static isInstance(error: unknown): error is SnapshotError {
    return typeof error === 'object' && error !== null && BRAND in error;
  }
}

function shortName(name: string): string {
  return visible(
    Array.from(name.slice(0, TOOL_LENGTH * 2))
      .slice(0, TOOL_LENGTH)
      .join(''),
  );
}
