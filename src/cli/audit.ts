/**
 * `mcp-holdfast audit verify`: whether a log of `auditLog()` is as it was written.
 *
 * Guarantees that a removed, changed, moved or added line is found and named, and that what cannot be seen without a
 * hash kept elsewhere is said. Never shows what a line holds.
 */
import { type AuditVerdict, AuditVerifier } from '../gates/audit-chain.js';
import { COMMON_OPTIONS, readArguments } from './arguments.js';
import { type Command, UsageError } from './command.js';
import { EXIT } from './exit-codes.js';
import { readText, shownName } from './input-file.js';
import { nearest } from './nearest.js';
import { Progress } from './progress.js';

const OPTIONS = Object.freeze({
  ...COMMON_OPTIONS,
  head: { type: 'string' },
  after: { type: 'string' },
} as const);

/** Larger ones are rotated (`maxFileBytes`). */
const FILE_BYTES = 256 * 1024 * 1024;
const MOST_FILES = 10_000;

const WORDS: Readonly<Record<NonNullable<AuditVerdict['reason']>, string>> = Object.freeze({
  changed: 'this line is not as it was written',
  'not in its place': 'this line does not follow the one before it: a line is missing, moved or put in',
  incomplete: 'this line has no end',
  'head missing':
    'the line with the hash of --head is missing: the end was cut off, or the log was written anew',
});

export const audit: Command = {
  name: 'audit',
  summary: 'verify an audit log: find removed, changed or moved lines',
  help: `Usage: mcp-holdfast audit verify FILE... [--head HASH] [--after HASH] [--json]

Reads a log that auditLog() has written and says whether every line is there, unchanged and in its
place. Files of a log that was rotated are given in order: FILE.000000000812 FILE.000000001640 FILE.
- is standard input.

  --head HASH    the hash that was kept elsewhere (the log's head): the line with it must be there.
                 Without it a tail that was cut off, or a log that was written anew as a whole,
                 cannot be seen
  --after HASH   the hash before the first line, where earlier files of the log are not at hand
  --json         the verdict as JSON
  --progress     progress on standard error although it is no terminal

Exit status: 0 every line is in its place; 1 a line is not; 2 unusable input.`,

  async run(args, io) {
    const words = readArguments(args, OPTIONS, { min: 1, max: MOST_FILES, what: '"verify" and a file' });
    const [action = '', ...files] = words.positionals;
    if (action !== 'verify') throw new UsageError(unknownAction(action));
    if (files.length === 0) throw new UsageError('A file expected: mcp-holdfast audit verify FILE.');
    if (files.filter((name) => name === '-').length > 1)
      throw new UsageError('Only one of the files can be standard input.');
    const hasHead = words.one('head') !== undefined;
    const verifier = makeVerifier(words.one('head'), words.one('after'));
    const progress = new Progress(io, { forced: words.flag('progress') });
    let place: { readonly file: string; readonly line: number } | undefined;
    try {
      for (const file of files) {
        progress.step(`Reading ${shownName(file)}`);
        const before = verifier.verdict;
        verifier.text(await readText(file, io, FILE_BYTES));
        const { brokenAtLine, reason } = verifier.verdict;
        if (place === undefined && brokenAtLine !== undefined && reason !== 'head missing')
          place = { file, line: brokenAtLine - before.lines };
      }
    } finally {
      progress.end();
    }
    const { verdict } = verifier;
    if (words.flag('json')) {
      const at = place === undefined ? {} : { file: place.file, brokenAtLineOfFile: place.line };
      io.stdout.write(`${JSON.stringify({ ...verdict, ...at, headGiven: hasHead }, null, 2)}\n`);
    } else io.stdout.write(said(verdict, place, hasHead));
    return verdict.ok ? EXIT.ok : EXIT.finding;
  },
};

function makeVerifier(head: string | undefined, after: string | undefined): AuditVerifier {
  try {
    return new AuditVerifier({ head, after });
  } catch (error) {
    throw new UsageError(`--${(error as Error).message}.`);
  }
}

function said(
  { ok, lines, reason, head }: AuditVerdict,
  place: { readonly file: string; readonly line: number } | undefined,
  hasHead: boolean,
): string {
  if (!ok) {
    const where = place === undefined ? '' : `${shownName(place.file)}:${place.line}: `;
    return `${where}${WORDS[reason ?? 'changed']}.\nVerdict: the log is not as it was written.\n`;
  }
  const count = lines === 1 ? '1 line is' : `${lines} lines are`;
  const limit = hasHead
    ? ''
    : 'Without --head a tail that was cut off, or a log that was written anew, cannot be seen.\n';
  return `${count} in place. Head: ${head}\n${limit}`;
}

function unknownAction(action: string): string {
  const isWord = /^[a-z][a-z-]{0,24}$/i.test(action);
  const meant = isWord ? nearest(action, ['verify']) : undefined;
  return `"verify" expected${meant === undefined ? '' : `; did you mean ${meant}?`}: mcp-holdfast audit verify FILE.`;
}
