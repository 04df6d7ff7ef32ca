/**
 * `mcp-holdfast diff`: two contracts compared, for people, for machines, for a pull request.
 *
 * Guarantees that the exit status is the gravest change's level, that what was left out is said, and that a name which
 * neither side has is refused: it would hide every change of the tool that was meant. Never colours what is no terminal.
 */

import { readableJson } from '../contract/canonical.js';
import { type ContractSnapshot, diffContracts, formatDiff, toolNames } from '../contract/index.js';
import { visible } from '../contract/visible.js';
import { COMMON_OPTIONS, namesIn, readArguments } from './arguments.js';
import { type Command, type CommandIo, UsageError } from './command.js';
import { EXIT } from './exit-codes.js';
import { readSnapshot } from './input-file.js';
import { nearest } from './nearest.js';
import { Progress } from './progress.js';
import { findTarget, isAddress, namesEntry, TARGET_HELP, takeSnapshot } from './target.js';

const OPTIONS = Object.freeze({
  ...COMMON_OPTIONS,
  markdown: { type: 'boolean' },
  ignore: { type: 'string', multiple: true },
  tools: { type: 'string', multiple: true },
} as const);

export const diff: Command = {
  name: 'diff',
  summary: 'compare two snapshots: what changed, and how grave it is',
  help: `Usage: mcp-holdfast diff A B [--json|--markdown] [--ignore PATH]... [--tools NAME,NAME]

Compares two contracts. Each change has a level: breaking (calls that worked may fail), behaviour
(nothing fails, but a model acts differently), cosmetic.

A and B are snapshot files, or - for standard input. An address, or FILE#NAME for the server NAME
of a configuration file, is read on the spot.

  --json            the differences as JSON
  --markdown        for a comment on a pull request
  --ignore PATH     leave out what is under PATH, such as "tools.*.title"; what was left out is said
  --tools A,B       only these tools count
  --progress        progress on standard error although it is no terminal

${TARGET_HELP}

Exit status: 0 the same, or cosmetic changes only; 1 breaking; 3 behaviour; 2 unusable input; for
a server also 10 unreachable, 11 TLS, 12 no MCP server, 13 credential.`,

  async run(args, io) {
    const words = readArguments(args, OPTIONS, { min: 2, max: 2, what: 'Two snapshots' });
    const [one = '', other = ''] = words.positionals;
    if (words.flag('json') && words.flag('markdown')) {
      throw new UsageError('--json and --markdown exclude each other.');
    }
    checkOperands(one, other);
    const progress = new Progress(io, { forced: words.flag('progress') });
    try {
      const [from, to] = await readBoth(one, other, io, progress);
      progress.step('Comparing');
      const tools = words.all('tools').length === 0 ? undefined : namesIn(words.all('tools'));
      checkTools(tools, from, to);
      const found = compared(() => diffContracts(from, to, { ignore: words.all('ignore'), tools }));
      progress.end();
      if (words.flag('json')) io.stdout.write(`${readableJson(found)}\n`);
      else {
        const color = io.isTTY.stdout && !io.env.NO_COLOR && io.env.TERM !== 'dumb';
        io.stdout.write(formatDiff(found, words.flag('markdown') ? { as: 'markdown' } : { color }));
      }
      if (found.level === 'breaking') return EXIT.finding;
      return found.level === 'behaviour' ? EXIT.behaviour : EXIT.ok;
    } finally {
      progress.end();
    }
  },
};

function checkOperands(one: string, other: string): void {
  if (one === '-' && other === '-') throw new UsageError('Only one of the two can be standard input.');
  if (isAddress(one) && isAddress(other)) {
    throw new UsageError(
      'The credential of the environment is for one address: take a snapshot of one, or name entries of a configuration file.',
    );
  }
}

async function readBoth(
  one: string,
  other: string,
  io: CommandIo,
  progress: Progress,
): Promise<[ContractSnapshot, ContractSnapshot]> {
  const operands = [one, other];
  const read: (ContractSnapshot | undefined)[] = [];
  const targets = await Promise.all(
    operands.map(async (operand) =>
      isAddress(operand) || (await namesEntry(operand, io)) ? findTarget(operand, io) : undefined,
    ),
  );
  // Files first: one that cannot be used is found before a server is asked.
  for (const [at, operand] of operands.entries()) {
    if (targets[at] === undefined) read[at] = await readSnapshot(operand, io);
  }
  const parts = {
    resources: read.some((each) => each?.resources !== undefined),
    prompts: read.some((each) => each?.prompts !== undefined),
  };
  for (const [at, target] of targets.entries()) {
    if (target === undefined) continue;
    progress.step(`Reading the contract of ${target.label}`);
    read[at] = await takeSnapshot(target, io, parts);
  }
  return read as [ContractSnapshot, ContractSnapshot];
}

function checkTools(tools: readonly string[] | undefined, ...sides: readonly ContractSnapshot[]): void {
  if (tools === undefined) return;
  if (tools.length === 0) throw new UsageError('--tools names no tool.');
  const known = toolNames(...sides);
  const strange = tools.find((name) => !known.includes(name));
  if (strange === undefined) return;
  const meant = nearest(strange, known);
  const advice = meant === undefined ? '' : ` Did you mean ${visible(meant)}?`;
  throw new UsageError(`--tools: neither side has a tool ${visible(strange)}.${advice}`);
}

/** Paths of `--ignore` are refused by the comparison itself. */
function compared<T>(compare: () => T): T {
  try {
    return compare();
  } catch (error) {
    if (error instanceof TypeError && error.message.startsWith('ignore:')) {
      throw new UsageError(`--${error.message}.`);
    }
    throw error;
  }
}
