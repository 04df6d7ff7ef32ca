/**
 * One run of `mcp-holdfast`: which command, and how its end is told.
 *
 * Guarantees an exit status for every end, one line on stderr for every failure, and status 130 after Ctrl-C (of a
 * service, its own). Never touches the process, so that tests run it as it is.
 */
import { type Command, type CommandIo, UsageError } from './command.js';
import { EXIT, exitCodeOf } from './exit-codes.js';
import { failureLine } from './failure-line.js';
import { nearest } from './nearest.js';
import { TargetFailure } from './target.js';
import { VERSION } from './version.js';

/** A command is loaded when it is asked for: what one needs the others may lack. */
export interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  /** Runs until its input ends: a signal is an end like any other, and nobody has to read what it says. */
  readonly isService?: boolean | undefined;
  load(): Promise<Command>;
}

const PROGRAM = 'mcp-holdfast';

export async function runCli(
  args: readonly string[],
  io: CommandIo,
  commands: readonly CommandEntry[],
): Promise<number> {
  const [first, ...rest] = args;
  if (first === undefined) {
    io.stderr.write(overview(commands));
    return EXIT.usage;
  }
  if (first === '--version' || first === '-V') {
    io.stdout.write(`${VERSION}\n`);
    return EXIT.ok;
  }
  const isHelp = first === '--help' || first === '-h' || first === 'help';
  const name = isHelp ? rest[0] : first;
  if (name === undefined) {
    io.stdout.write(overview(commands));
    return EXIT.ok;
  }
  const entry = commands.find((each) => each.name === name);
  if (entry === undefined) return ended(new UsageError(unknownWords(name, commands)), io, PROGRAM);
  try {
    const command = await entry.load();
    if (isHelp || asksForHelp(rest)) {
      io.stdout.write(`${command.help}\n`);
      return EXIT.ok;
    }
    const status = await command.run(rest, io);
    return io.signal.aborted && entry.isService !== true ? EXIT.interrupted : status;
  } catch (error) {
    return ended(error, io, `${PROGRAM} ${name}`);
  }
}

function ended(error: unknown, io: CommandIo, speaker: string): number {
  if (io.signal.aborted) return EXIT.interrupted;
  const isKnown = error instanceof TargetFailure;
  io.stderr.write(`${speaker}: ${isKnown ? error.message : failureLine(error)}\n`);
  return isKnown ? error.exitCode : exitCodeOf(error);
}

/** Words behind `--` are no options. */
function asksForHelp(words: readonly string[]): boolean {
  const end = words.indexOf('--');
  const options = end < 0 ? words : words.slice(0, end);
  return options.includes('--help') || options.includes('-h');
}

/** What is no plain word is not repeated: it may be an address with a password, or a token. */
function unknownWords(name: string, commands: readonly CommandEntry[]): string {
  const isWord = /^-{0,2}[a-z][a-z-]{0,24}$/i.test(name);
  const what = name.startsWith('-') ? 'option' : 'command';
  if (!isWord) return `A command comes first; see ${PROGRAM} --help.`;
  const known = what === 'option' ? ['--help', '--version'] : [...commands.map((each) => each.name), 'help'];
  const meant = nearest(name, known);
  const advice = meant === undefined ? `see ${PROGRAM} --help.` : `did you mean ${meant}?`;
  return `Unknown ${what} ${name}; ${advice}`;
}

function overview(commands: readonly CommandEntry[]): string {
  const width = Math.max(...commands.map(({ name }) => name.length));
  return `Usage: ${PROGRAM} COMMAND ...

${commands.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`).join('\n')}

  ${PROGRAM} COMMAND --help   what a command takes
  ${PROGRAM} --version        the version of this program

Every command takes --json (machine-readable standard output) and --progress (progress on standard
error although nobody looks at it). After a failure standard output is empty: one line on standard
error and the exit status say what it was. Secrets come from the environment or from files, never
from arguments.

Exit status: 0 fine; 1 something was found; 2 the command line, a file or the environment cannot
be used; 3 diff: behaviour changed; 10 unreachable; 11 TLS; 12 no MCP server; 13 credential; 70 a
fault of this program; 130 stopped by Ctrl-C.
`;
}
