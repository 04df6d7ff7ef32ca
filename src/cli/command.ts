/**
 * What a command of `mcp-holdfast` is, and all that it may touch of the world.
 *
 * Guarantees that a command can be run inside a test: its output, environment, clock and end come from `CommandIo`.
 * Never names a stream, a variable or a clock of the process; only `index.ts` does.
 */
import type { Clock } from '../clock.js';
import type { HttpFetch } from '../http/exchange.js';

export interface Command {
  /** As typed: `snapshot`. */
  readonly name: string;
  /** One line for the list of commands. */
  readonly summary: string;
  /** What `--help` shows; lines of at most 100 characters, no line break at the end. */
  readonly help: string;
  /**
   * `args` are the words after the command's name; `--help` was dealt with before. Resolves to the exit status
   * (`exit-codes.ts`). May throw: a `UsageError` ends in 2, a `HostedMcpError` in the status of its cause (one clear
   * line on stderr each), anything else is a defect.
   */
  run(args: readonly string[], io: CommandIo): Promise<number>;
}

/** Text, whole. Nothing is buffered beyond what the stream itself does. */
export interface TextOutput {
  /** `done`: told when it has left, or why it could not. */
  write(text: string, done?: (error?: Error | null) => void): unknown;
}

export interface CommandIo {
  /** The result, and nothing else: with `--json` pure JSON. */
  readonly stdout: TextOutput;
  /** Progress, warnings, failures. */
  readonly stderr: TextOutput;
  /** Chunks of standard input, for `-`. */
  readonly stdin: AsyncIterable<Uint8Array | string>;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether a person looks at it: colours on stdout, progress on stderr. */
  readonly isTTY: { readonly stdout: boolean; readonly stderr: boolean };
  /** Ended by Ctrl-C: the command stops, undoes what it began, and rejects or resolves; the exit status is then 130. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** What relative paths start from. */
  readonly cwd: string;
  /** In place of undici, for tests. */
  readonly fetch?: HttpFetch | undefined;
}

/** The command line, a file or the environment cannot be used as given. Its message says which, where and what to do; never a secret. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
