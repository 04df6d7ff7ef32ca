/**
 * `mcp-holdfast doctor`: a hosted server examined from inside this environment, with its credential.
 *
 * Guarantees that each finding says what was measured, what it means and what to set; that every session it opens
 * is deleted, also after Ctrl-C; and that no secret is in its output. Never calls a tool that is not read-only.
 */
import { COMMON_OPTIONS, type ReadWords, readArguments } from '../arguments.js';
import { type Command, UsageError } from '../command.js';
import { readSnapshot } from '../input-file.js';
import { Progress } from '../progress.js';
import { findTarget, TARGET_HELP } from '../target.js';
import { aimOf } from './aim.js';
import { lookAtCredential } from './credential.js';
import { measureIdle } from './idle.js';
import { measureLapse } from './lapse.js';
import { drawOn, LimitWatch, tellLimits } from './limits.js';
import { Line } from './line.js';
import { lookAtContract, shakeHands } from './mcp.js';
import { DoctorFailure, Report } from './report.js';
import type { Stage } from './stage.js';
import { formatReport } from './table.js';
import { measureTiming } from './timing.js';
import { lookAtWay } from './way.js';

const OPTIONS = Object.freeze({
  ...COMMON_OPTIONS,
  idle: { type: 'boolean' },
  max: { type: 'string' },
  lapse: { type: 'boolean' },
  limit: { type: 'boolean' },
  calls: { type: 'string' },
  tool: { type: 'string' },
  snapshot: { type: 'string' },
} as const);

/** Three times the usual 60 s, which shows most limits that anybody sets. */
const MAX_SECONDS = 180;
const LONGEST_SECONDS = 24 * 3_600;
/** Enough to see a slow one among them; few enough for any limit. */
const CALLS = 20;
const MOST_CALLS = 1_000;

export const doctor: Command = {
  name: 'doctor',
  summary: 'examine the way to a server from inside this environment',
  help: `Usage: mcp-holdfast doctor <url|config> [--idle] [--lapse] [--limit] [--max SECONDS]
                           [--calls N] [--tool NAME] [--snapshot FILE] [--json]

Looks at the way to a hosted server, with the credential of this environment: DNS, proxy, TLS, redirects;
handshake, tools and contract; lifetime of the token; limits; timing. Says for each finding what was
measured, what it means and what to set.

  --idle            hold a silent stream until the way cuts it: the idle limit
  --lapse           renew the token within a session: does the session survive? If the old token lapses
                    within --max, ask with it, too
  --limit           make up to 10 requests and see what they take from the limit
  --max SECONDS     how long --idle and --lapse wait at most (default ${MAX_SECONDS})
  --calls N         how many calls are timed (default ${CALLS})
  --tool NAME       time this tool, without arguments, instead of ping; only if it is read-only
  --snapshot FILE   compare the contract with a snapshot
  --json            one JSON object instead of the table
  --progress        progress on standard error although it is no terminal

${TARGET_HELP}

Exit status: 0 fine; 1 a finding; 2 unusable arguments, configuration or file; 10 unreachable; 11 TLS;
12 no MCP server; 13 credential.`,

  async run(args, io) {
    const words = readArguments(args, OPTIONS, { min: 1, max: 1, what: 'One address or configuration' });
    const maxMs = wholeNumber(words, 'max', MAX_SECONDS, LONGEST_SECONDS) * 1_000;
    const calls = wholeNumber(words, 'calls', CALLS, MOST_CALLS);
    const file = words.one('snapshot');
    const reviewed = file === undefined ? undefined : await readSnapshot(file, io);
    const target = await findTarget(words.positionals[0] ?? '', io);
    const aim = await aimOf(target, io);
    const report = new Report(aim.shownUrl, io.clock.now());
    const line = new Line(aim, io.clock);
    const progress = new Progress(io, { forced: words.flag('progress') });
    const { clock, signal, env } = io;
    const stage: Stage = { aim, line, report, clock, signal, progress, env };
    try {
      await examine(stage, words, { maxMs, calls, reviewed });
    } catch (error) {
      if (!(error instanceof DoctorFailure)) throw error;
      progress.end();
      io.stderr.write(`mcp-holdfast doctor: ${line.redactor.text(`${report.url}: ${error.message}`)}\n`);
    } finally {
      progress.end();
      await line.close();
    }
    signal.throwIfAborted();
    const { redactor } = line;
    io.stdout.write(
      words.flag('json')
        ? `${JSON.stringify(redactor.value(report.toJSON()), null, 2)}\n`
        : redactor.text(formatReport(report, io.isTTY.stdout && io.env.NO_COLOR === undefined)),
    );
    return report.exitCode;
  },
};

interface Plan {
  readonly maxMs: number;
  readonly calls: number;
  readonly reviewed: Awaited<ReturnType<typeof readSnapshot>> | undefined;
}

async function examine(stage: Stage, words: ReadWords, { maxMs, calls, reviewed }: Plan): Promise<void> {
  await stage.line.learnFixed(stage.signal);
  const { strangers } = await lookAtWay(stage);
  await lookAtCredential(stage);
  const watch = new LimitWatch(stage, strangers);
  try {
    const session = await shakeHands(stage);
    const contract = await lookAtContract(stage, session, reviewed);
    if (words.flag('limit')) await drawOn(stage, session, watch);
    await measureTiming(stage, session, watch, contract, { calls, tool: words.one('tool') });
    if (words.flag('idle')) await measureIdle(stage, maxMs);
    if (words.flag('lapse')) await measureLapse(stage, maxMs);
  } finally {
    watch.stop();
  }
  tellLimits(stage, watch);
}

function wholeNumber(words: ReadWords, name: string, usual: number, most: number): number {
  const given = words.one(name);
  if (given === undefined) return usual;
  const value = /^\d{1,9}$/.test(given) ? Number(given) : 0;
  if (value < 1 || value > most) throw new UsageError(`--${name} must be a whole number from 1 to ${most}.`);
  return value;
}
