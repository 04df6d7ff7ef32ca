/**
 * `mcp-holdfast check`: tools that an app refers to and an environment lacks.
 *
 * Guarantees that every reference is told with file, line and column, and that what could not be looked at is no
 * success. Never runs or parses an app's code, never leaves the directory it was given.
 */
import { stat } from 'node:fs/promises';
import { readableJson } from '../contract/canonical.js';
import { type ContractSnapshot, findReferences, missingTools, toolNames } from '../contract/index.js';
import { visible } from '../contract/visible.js';
import { COMMON_OPTIONS, namesIn, readArguments } from './arguments.js';
import { type Command, type CommandIo, UsageError } from './command.js';
import { EXIT } from './exit-codes.js';
import { pathIn, readSnapshot, shownName } from './input-file.js';
import { Progress } from './progress.js';
import { walk } from './walk.js';

const OPTIONS = Object.freeze({
  ...COMMON_OPTIONS,
  snapshot: { type: 'string', multiple: true },
  tools: { type: 'string', multiple: true },
  from: { type: 'string', multiple: true },
} as const);

interface Reference {
  readonly name: string;
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

interface Findings {
  readonly references: Reference[];
  readonly read: { files: number };
  readonly skipped: { large: string[]; binary: number; links: number; snapshots: number };
  readonly unreadable: string[];
}

/** A snapshot lists names without referring to any. */
const IS_SNAPSHOT = /^ {2}"holdfast": \d+,?\r?$/m;

export const check: Command = {
  name: 'check',
  summary: 'which tools that an app refers to are missing in an environment',
  help: `Usage: mcp-holdfast check --snapshot FILE [--snapshot FILE2]... --tools NAME,NAME
       mcp-holdfast check --snapshot FILE --snapshot FILE2... --from DIR

Says which tools an app refers to that are missing in the first snapshot.

  --snapshot FILE   the first is the environment in question; further ones make more names known
  --tools A,B       the names that the app uses
  --from DIR        look for known names in quotes, in the text files under DIR: code, prompts,
                    bindings. Left out are node_modules, .git, symbolic links, binary files, files
                    over 1 MiB, and snapshots. Names put together at run time are not found.
  --json            the findings as JSON
  --progress        progress on standard error although it is no terminal

Known names are the tools of all snapshots and those of --tools. With --from alone a second
snapshot is needed: of one snapshot by itself nothing can be missing.

Exit status: 0 nothing is missing; 1 something is; 2 unusable arguments or files, or a file under
DIR that cannot be read.`,

  async run(args, io) {
    const words = readArguments(args, OPTIONS, { min: 0, max: 0, what: 'Options only' });
    const files = words.all('snapshot');
    const folders = words.all('from');
    const wanted = namesIn(words.all('tools'));
    checkArguments(files, folders, wanted, words.all('tools').length > 0);
    for (const folder of folders) await checkFolder(folder, io);
    const progress = new Progress(io, { forced: words.flag('progress') });
    try {
      progress.step('Reading snapshots');
      const snapshots: ContractSnapshot[] = [];
      for (const file of files) snapshots.push(await readSnapshot(file, io));
      const [first] = snapshots as [ContractSnapshot];
      const absent = missingTools(first, [...wanted, ...toolNames(...snapshots)]);
      const found: Findings = {
        references: [],
        read: { files: 0 },
        skipped: { large: [], binary: 0, links: 0, snapshots: 0 },
        unreadable: [],
      };
      for (const folder of folders) {
        progress.step(`Looking for names in ${shownName(folder)}`);
        await look(folder, absent, found, io);
      }
      progress.end();
      const missing = absent.filter(
        (name) => wanted.includes(name) || found.references.some((each) => each.name === name),
      );
      report(words.flag('json'), files[0] ?? '', missing, found, io);
      if (missing.length > 0) return EXIT.finding;
      return found.unreadable.length > 0 ? EXIT.usage : EXIT.ok;
    } finally {
      progress.end();
    }
  },
};

function checkArguments(
  files: readonly string[],
  folders: readonly string[],
  wanted: readonly string[],
  hasTools: boolean,
): void {
  if (files.length === 0) throw new UsageError('--snapshot FILE is needed: the environment in question.');
  if (files.filter((file) => file === '-').length > 1) {
    throw new UsageError('Only one snapshot can be standard input.');
  }
  if (hasTools && wanted.length === 0) throw new UsageError('--tools names no tool.');
  if (!hasTools && folders.length === 0) {
    throw new UsageError('--tools NAME,NAME or --from DIR is needed: what the app refers to.');
  }
  if (!hasTools && files.length === 1) {
    throw new UsageError(
      '--from needs a second --snapshot, or --tools: of one snapshot by itself nothing can be missing.',
    );
  }
}

async function checkFolder(folder: string, io: CommandIo): Promise<void> {
  const there = await stat(pathIn(io, folder)).catch(() => undefined);
  if (there === undefined) throw new UsageError(`${shownName(folder)}: There is no such directory.`);
  if (!there.isDirectory() && !there.isFile()) {
    throw new UsageError(`${shownName(folder)}: This is no directory and no file.`);
  }
}

async function look(
  folder: string,
  absent: readonly string[],
  found: Findings,
  io: CommandIo,
): Promise<void> {
  const { skipped } = found;
  for await (const step of walk(folder, (path) => pathIn(io, path), io.signal)) {
    if (step.kind === 'unreadable') found.unreadable.push(step.path);
    else if (step.kind === 'skipped') {
      if (step.why === 'large') skipped.large.push(step.path);
      else skipped[step.why === 'link' ? 'links' : 'binary']++;
    } else if (IS_SNAPSHOT.test(step.text)) skipped.snapshots++;
    else {
      found.read.files++;
      for (const reference of findReferences(step.text, absent)) {
        found.references.push({ ...reference, file: step.path });
      }
    }
  }
}

function report(isJson: boolean, file: string, missing: string[], found: Findings, io: CommandIo): void {
  const { references, read, skipped, unreadable } = found;
  if (isJson) {
    const facts = { snapshot: file, missing, references, filesRead: read.files, skipped, unreadable };
    io.stdout.write(`${readableJson(facts)}\n`);
  } else {
    for (const { name, file: at, line, column } of references) {
      io.stdout.write(
        `${visible(at)}:${line}:${column}: ${visible(name)} is missing in ${shownName(file)}\n`,
      );
    }
    const shown = new Set(references.map(({ name }) => name));
    for (const name of missing) {
      if (!shown.has(name)) io.stdout.write(`${visible(name)} is missing in ${shownName(file)}\n`);
    }
    if (missing.length === 0) io.stdout.write(`Nothing is missing in ${shownName(file)}\n`);
  }
  for (const path of skipped.large) io.stderr.write(`${visible(path)}: over 1 MiB, not looked at\n`);
  for (const path of unreadable) io.stderr.write(`${visible(path)}: cannot be read\n`);
}
