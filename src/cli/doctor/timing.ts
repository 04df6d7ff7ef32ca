/**
 * How long a question and its answer take on this way.
 *
 * Guarantees that only a tool which calls itself read-only is called, and that what is left of a published limit
 * is not used up. Never counts an answer that failed.
 */

import type { ContractSnapshot } from '../../contract/types.js';
import { isErrorResponse } from '../../json-rpc.js';
import type { Session } from '../../session/session.js';
import { UsageError } from '../command.js';
import type { LimitWatch } from './limits.js';
import { shown } from './report.js';
import type { Stage } from './stage.js';

export interface TimingOptions {
  readonly calls: number;
  readonly tool: string | undefined;
}

const LEAVE = 2;

/** Throws a `UsageError` for a tool that must not be called. */
export async function measureTiming(
  { line, report, progress, signal, clock }: Stage,
  session: Session,
  watch: LimitWatch,
  contract: ContractSnapshot | undefined,
  { calls, tool }: TimingOptions,
): Promise<void> {
  if (tool !== undefined) checkTool(tool, contract);
  const of = tool ?? (session.info.era === 'stateless' ? 'server/discover' : 'ping');
  progress.step(`timing ${shown(of, 40)}`);
  const durations: number[] = [];
  let failed = 0;
  while (durations.length + failed < calls && watch.left > LEAVE && !watch.isRefused) {
    const startedMs = clock.monotonic();
    const asked =
      tool === undefined
        ? line.ping(session, { signal })
        : line.ask(session, 'tools/call', { name: tool, arguments: {} }, { signal });
    const { message, relation } = await asked;
    signal.throwIfAborted();
    const isAnswer = relation === 'own' && (tool === undefined || !isErrorResponse(message));
    if (isAnswer) durations.push(clock.monotonic() - startedMs);
    else failed += 1;
  }
  durations.sort((one, other) => one - other);
  const p50Ms = percentile(durations, 0.5);
  const p99Ms = percentile(durations, 0.99);
  report.note('timing', { of, count: durations.length, failed, p50Ms, p99Ms });
  const name = shown(of, 40);
  const short = durations.length + failed < calls ? `; stopped early, for the rate limit` : '';
  report.add({
    section: 'timing',
    name,
    level: failed > 0 ? 'finding' : short === '' ? 'ok' : 'note',
    measured:
      p50Ms === null
        ? `no answer to time (${failed} failed)${short}`
        : `p50 ${p50Ms} ms, p99 ${p99Ms} ms of ${durations.length}${failed > 0 ? `, ${failed} failed` : ''}${short}`,
  });
}

function checkTool(tool: string, contract: ContractSnapshot | undefined): void {
  const found = contract?.tools.find(({ name }) => name === tool)?.definition;
  if (found === undefined) throw new UsageError('--tool: the server has no such tool.');
  const annotations = found.annotations as { readOnlyHint?: unknown } | undefined;
  if (annotations?.readOnlyHint !== true) {
    throw new UsageError(
      '--tool: this tool does not call itself read-only (readOnlyHint), so it is not called.',
    );
  }
}

/** Nearest rank, to a tenth of a millisecond. */
function percentile(sorted: readonly number[], rank: number): number | null {
  const value = sorted[Math.max(0, Math.ceil(sorted.length * rank) - 1)];
  return value === undefined ? null : Math.round(value * 10) / 10;
}
