/**
 * `mcp-holdfast snapshot`: what a server offers, as a file for a repository.
 *
 * Guarantees that nothing is written before the whole contract has been read, and that a file that was there is
 * replaced whole or not at all. Never prints a secret: a snapshot has no query, no token and no session in it.
 */
import { formatSnapshot } from '../contract/index.js';
import { COMMON_OPTIONS, readArguments } from './arguments.js';
import type { Command } from './command.js';
import { EXIT } from './exit-codes.js';
import { shownName } from './input-file.js';
import { checkOutput, writeWhole } from './output-file.js';
import { Progress } from './progress.js';
import { findTarget, TARGET_HELP, takeSnapshot } from './target.js';

const OPTIONS = Object.freeze({
  ...COMMON_OPTIONS,
  env: { type: 'string' },
  output: { type: 'string', short: 'o' },
  resources: { type: 'boolean' },
  prompts: { type: 'boolean' },
} as const);

export const snapshot: Command = {
  name: 'snapshot',
  summary: 'record what a server offers, for a repository and its reviews',
  help: `Usage: mcp-holdfast snapshot <url|config> [--env NAME] [-o FILE] [--resources] [--prompts]

Records what a server says of itself: protocol, capabilities, instructions and all tools, whole,
one fact a line. Two snapshots of one contract differ only in when and where they were taken.

  --env NAME        a name for where it was taken, such as production
  -o, --output FILE write to FILE, whole or not at all; without it, or for -, to standard output
  --resources       with the list of resources
  --prompts         with the list of prompts
  --json            with -o: what was written, as JSON (the snapshot itself is JSON in any case)
  --progress        progress on standard error although it is no terminal

${TARGET_HELP}

Exit status: 0 taken; 1 the contract cannot be kept, for instance two tools have one name; 2
unusable arguments, configuration or file; 10 unreachable; 11 TLS; 12 no MCP server; 13
credential.`,

  async run(args, io) {
    const words = readArguments(args, OPTIONS, { min: 1, max: 1, what: 'One address or configuration' });
    const given = words.one('output');
    const output = given === '-' ? undefined : given;
    const target = await findTarget(words.positionals[0] ?? '', io);
    if (output !== undefined) await checkOutput(output, io);
    const progress = new Progress(io, { forced: words.flag('progress') });
    try {
      progress.step(`Reading the contract of ${target.label}`);
      const taken = await takeSnapshot(target, io, {
        environment: words.one('env'),
        resources: words.flag('resources'),
        prompts: words.flag('prompts'),
      });
      // Refuses what could never be read again.
      const text = formatSnapshot(taken);
      progress.end();
      if (output === undefined) {
        io.stdout.write(text);
        return EXIT.ok;
      }
      await writeWhole(output, text, io);
      const { digest, tools } = taken;
      const facts = { file: output, tools: tools.length, digest };
      io.stdout.write(
        words.flag('json')
          ? `${JSON.stringify(facts, null, 2)}\n`
          : `${shownName(output)}: ${tools.length} ${tools.length === 1 ? 'tool' : 'tools'}, contract ${digest.slice(0, 16)}\n`,
      );
      return EXIT.ok;
    } finally {
      progress.end();
    }
  },
};
