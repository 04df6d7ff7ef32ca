/**
 * Gates: the steps of the app before a call is sent and before its result is delivered.
 *
 * Guarantees that they are asked in order and that a gate which throws, times out or answers nonsense
 * denies (fail closed), with its name on the error. Never sends anything.
 */
import { type Clock, sleep } from '../clock.js';
import { HostedMcpError } from '../errors.js';
import type { SessionInfo } from '../session/session.js';

/** A tool call as a gate sees it. */
export interface CallFacts {
  readonly method: string;
  readonly tool?: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
  readonly session?: SessionInfo;
  readonly meta?: Readonly<Record<string, unknown>>;
}

/** A tool's result, as the server sent it. */
export interface ToolResult {
  content: readonly { readonly type: string; readonly [field: string]: unknown }[];
  structuredContent?: Readonly<Record<string, unknown>> | undefined;
  isError?: boolean | undefined;
  _meta?: Readonly<Record<string, unknown>> | undefined;
}

export type BeforeVerdict = 'allow' | { deny: string } | { arguments: Record<string, unknown> };
export type AfterVerdict = 'allow' | { deny: string } | { result: ToolResult };

/**
 * One step of the app on the way of a `tools/call`. `before` may deny or rewrite the arguments, `after`
 * may refuse or replace the result. `timeoutMs` bounds each answer (30 s by default).
 */
export interface Gate {
  readonly name: string;
  readonly timeoutMs?: number | undefined;
  before?(call: CallFacts, options: { signal: AbortSignal }): BeforeVerdict | Promise<BeforeVerdict>;
  after?(
    call: CallFacts,
    result: ToolResult,
    options: { signal: AbortSignal },
  ): AfterVerdict | Promise<AfterVerdict>;
}

/** A person may have to look; anything longer sets its own time. */
const GATE_TIMEOUT_MS = 30_000;

/** Refuses a list that could not be asked, before any I/O. */
export function checkGates(gates: readonly Gate[] | undefined): readonly Gate[] {
  for (const gate of gates ?? []) {
    if (typeof gate?.name !== 'string' || gate.name === '')
      throw new TypeError('gates: each gate needs a name');
    if (gate.timeoutMs !== undefined && !(Number.isFinite(gate.timeoutMs) && gate.timeoutMs > 0)) {
      throw new TypeError(
        `gates: timeoutMs of gate "${gate.name}" must be a positive number of milliseconds`,
      );
    }
    for (const step of ['before', 'after'] as const) {
      if (gate[step] !== undefined && typeof gate[step] !== 'function') {
        throw new TypeError(`gates: ${step} of gate "${gate.name}" must be a function`);
      }
    }
  }
  return gates ?? [];
}

/** Asks every `before` in order; gives the arguments the call may go out with. */
export async function askBefore(
  gates: readonly Gate[],
  call: CallFacts,
  clock: Clock,
  signal: AbortSignal,
  onAsked?: (gate: string, ms: number) => void,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  let args = call.arguments;
  for (const gate of gates) {
    if (gate.before === undefined) continue;
    const facts = args === call.arguments ? call : { ...call, ...(args && { arguments: args }) };
    const failure = failureBy(gate, call, false);
    const verdict = await ask(gate, clock, signal, failure, onAsked, (options) =>
      gate.before?.(facts, options),
    );
    if (verdict === 'allow') continue;
    if (isObject(verdict) && typeof verdict.deny === 'string')
      throw failure(`refused the call: ${verdict.deny}`, verdict.deny);
    if (isObject(verdict) && isObject(verdict.arguments)) args = verdict.arguments;
    else throw failure('gave no verdict, which refuses', 'gate gave no verdict');
  }
  return args;
}

/** Asks every `after` in order; gives the result that may be delivered. */
export async function askAfter(
  gates: readonly Gate[],
  call: CallFacts,
  result: ToolResult,
  clock: Clock,
  signal: AbortSignal,
  onAsked?: (gate: string, ms: number) => void,
): Promise<ToolResult> {
  let current = result;
  for (const gate of gates) {
    if (gate.after === undefined) continue;
    const given = current;
    const failure = failureBy(gate, call, true);
    const verdict = await ask(gate, clock, signal, failure, onAsked, (options) =>
      gate.after?.(call, given, options),
    );
    if (verdict === 'allow') continue;
    if (isObject(verdict) && typeof verdict.deny === 'string')
      throw failure(`refused the result: ${verdict.deny}`, verdict.deny);
    if (isObject(verdict) && isObject(verdict.result)) current = verdict.result as unknown as ToolResult;
    else throw failure('gave no verdict, which refuses', 'gate gave no verdict');
  }
  return current;
}

async function ask(
  gate: Gate,
  clock: Clock,
  signal: AbortSignal,
  failure: ReturnType<typeof failureBy>,
  onAsked: ((gate: string, ms: number) => void) | undefined,
  question: (options: { signal: AbortSignal }) => unknown,
): Promise<unknown> {
  // Nobody is asked, least of all a person, for a caller who has left.
  if (signal.aborted) throw signal.reason;
  const started = clock.monotonic();
  const asking = new AbortController();
  const onAbort = () => asking.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  const late = Symbol('late');
  try {
    const answer = Promise.resolve(question({ signal: asking.signal }));
    const bound = sleep(clock, gate.timeoutMs ?? GATE_TIMEOUT_MS, asking.signal).then(() => late);
    bound.catch(() => {});
    const verdict = await Promise.race([answer, bound]);
    if (verdict === late)
      throw failure('did not answer in time, which refuses', 'gate did not answer in time');
    return verdict;
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw HostedMcpError.isInstance(error) ? error : failure('failed, which refuses', 'gate failed');
  } finally {
    signal.removeEventListener('abort', onAbort);
    asking.abort();
    onAsked?.(gate.name, clock.monotonic() - started);
  }
}

/** Makes the errors of one gate; after the tool has run they say so. */
const failureBy = (gate: Gate, call: CallFacts, ran: boolean) => (how: string, reason: string) =>
  new HostedMcpError(ran ? 'ERR_RESULT_REFUSED' : 'ERR_DENIED', `The gate "${gate.name}" ${how}`, {
    method: call.method,
    tool: call.tool,
    gate: gate.name,
    reason,
    executed: ran,
  });

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
