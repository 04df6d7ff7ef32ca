/**
 * Asks gates, one after the other.
 *
 * Guarantees that they are asked in order and that a gate which throws, is late or answers nonsense denies (fail
 * closed), with its name on the error. Costs no turn of the event loop and no timer where a gate answers at once. Never
 * sends anything.
 */
import type { Clock } from '../clock.js';
import { HostedMcpError, type HostedMcpErrorCode } from '../errors.js';
import type { CallChain, CallFacts, Gate, GateContext, ListedTool, ToolResult } from './gate.js';
import { isObject, isThenable } from './value.js';

export type GateStep = 'before' | 'after' | 'tools' | 'instructions';
/** How a gate answered; `failed`: it threw or gave no verdict. */
export type GateAnswer = 'allow' | 'deny' | 'replace' | 'failed' | 'late' | 'left';

/** Who asks: one call, or one reading of a list. */
export interface Asker {
  readonly clock: Clock;
  readonly key: object;
  readonly connection: object;
  /** The caller has left: nobody is asked for it. */
  readonly ended: boolean;
  /** Made when somebody reads it. */
  readonly signal: AbortSignal;
  /** Stops the caller's timer; what it gives starts it again. */
  hold?(): () => void;
  report(chain: CallChain): void;
  onAsked?(gate: string, step: GateStep, answer: GateAnswer, ms: number): void;
}

/** A person may have to look; anything longer sets its own time. */
const GATE_TIMEOUT_MS = 30_000;
const LATE = Symbol('late');

type Arguments = Readonly<Record<string, unknown>> | undefined;

/** Asks every `before` in order; gives the arguments the call may go out with. */
export function askBefore(
  gates: readonly Gate[],
  call: CallFacts,
  asker: Asker,
): Arguments | Promise<Arguments> {
  const failure = failures('ERR_DENIED', call.method, call.tool, false);
  return each(
    gates,
    call.arguments,
    asker,
    'before',
    'the call',
    'arguments',
    failure,
    (gate, args, context) => {
      const facts = args === call.arguments ? call : { ...call, ...(args && { arguments: args }) };
      return gate.before?.(facts, context);
    },
  );
}

/** Asks every `after` in order; gives the result that may be delivered. */
export function askAfter(
  gates: readonly Gate[],
  call: CallFacts,
  result: ToolResult,
  asker: Asker,
): ToolResult | Promise<ToolResult> {
  const failure = failures('ERR_RESULT_REFUSED', call.method, call.tool, true);
  return each(gates, result, asker, 'after', 'the result', 'result', failure, (gate, current, context) =>
    gate.after?.(call, current, context),
  );
}

/** Asks every `tools`; gives the list that a model may read. */
export function askTools(
  gates: readonly Gate[],
  list: readonly ListedTool[],
  asker: Asker,
): readonly ListedTool[] | Promise<readonly ListedTool[]> {
  const failure = failures('ERR_RESULT_REFUSED', 'tools/list', undefined, true);
  return each(
    gates,
    list,
    asker,
    'tools',
    'the list of tools',
    'replace',
    failure,
    (gate, current, context) => gate.tools?.(current, context),
  );
}

/** Asks every `instructions`; gives the text that a model may read. */
export function askInstructions(
  gates: readonly Gate[],
  text: string,
  method: string,
  asker: Asker,
): string | Promise<string> {
  const failure = failures('ERR_RESULT_REFUSED', method, undefined, true);
  const what = "the server's instructions";
  return each(gates, text, asker, 'instructions', what, 'replace', failure, (gate, current, context) =>
    gate.instructions?.(current, context),
  );
}

type Failure = (gate: Gate, how: string, reason: string, cause?: unknown) => HostedMcpError;

/** One gate after the other from `from` on, in the same turn for as long as they answer at once. */
function each<T>(
  gates: readonly Gate[],
  given: T,
  asker: Asker,
  step: GateStep,
  what: string,
  replacedBy: 'arguments' | 'result' | 'replace',
  failure: Failure,
  question: (gate: Gate, current: T, context: GateContext) => unknown,
  from = 0,
): T | Promise<T> {
  let current = given;
  for (let at = from; at < gates.length; at += 1) {
    const gate = gates[at] as Gate;
    if (gate[step] === undefined) continue;
    // Nobody is asked, least of all a person, for a caller who has left.
    if (asker.ended) throw asker.signal.reason;
    const context = new Asking(asker, gate, step, failure);
    const judge = (verdict: unknown): T => {
      if (verdict === 'allow') {
        context.told('allow');
        return current;
      }
      if (isObject(verdict) && typeof verdict.deny === 'string') {
        context.told('deny');
        throw failure(gate, `refused ${what}: ${verdict.deny}`, verdict.deny);
      }
      const replacement = isObject(verdict) ? verdict[replacedBy] : undefined;
      if (replacement === undefined || !isSameKind(replacement, given, step)) {
        context.told('failed');
        throw failure(gate, 'gave no verdict, which refuses', 'gate gave no verdict');
      }
      context.told('replace');
      return replacement as T;
    };
    let answer: unknown;
    try {
      answer = question(gate, current, context);
    } catch (error) {
      throw context.failed(error);
    }
    if (isThenable(answer)) {
      return context
        .settled(answer)
        .then((verdict) =>
          each(gates, judge(verdict), asker, step, what, replacedBy, failure, question, at + 1),
        );
    }
    context.end();
    if (answer === 'allow') context.told('allow');
    else current = judge(answer);
  }
  return current;
}

/** Arguments and results are objects, a list is a list of named tools, instructions are a text. */
function isSameKind(replacement: unknown, given: unknown, step: GateStep): boolean {
  if (step === 'instructions') return typeof replacement === 'string';
  if (step === 'tools')
    return (
      Array.isArray(replacement) &&
      replacement.every((tool) => isObject(tool) && typeof tool.name === 'string')
    );
  return isObject(replacement) && (isObject(given) || given === undefined);
}

/** One question to one gate. Its signal is made where the gate reads it. */
class Asking implements GateContext {
  readonly #asker: Asker;
  readonly #gate: Gate;
  readonly #step: GateStep;
  readonly #failure: Failure;
  readonly #startedMs: number;
  #controller: AbortController | undefined;
  #isOver = false;

  constructor(asker: Asker, gate: Gate, step: GateStep, failure: Failure) {
    this.#asker = asker;
    this.#gate = gate;
    this.#step = step;
    this.#failure = failure;
    this.#startedMs = asker.clock.monotonic();
  }

  get clock(): Clock {
    return this.#asker.clock;
  }
  get key(): object {
    return this.#asker.key;
  }
  get connection(): object {
    return this.#asker.connection;
  }
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#isOver) this.#controller.abort();
    return this.#controller.signal;
  }

  report(chain: CallChain): void {
    this.#asker.report(chain);
  }

  told(answer: GateAnswer): void {
    const { clock, onAsked } = this.#asker;
    if (onAsked !== undefined)
      this.#asker.onAsked?.(this.#gate.name, this.#step, answer, clock.monotonic() - this.#startedMs);
  }

  end(reason?: unknown): void {
    this.#isOver = true;
    this.#controller?.abort(reason);
  }

  failed(error: unknown): unknown {
    this.end();
    if (this.#asker.ended) {
      this.told('left');
      return this.#asker.signal.reason;
    }
    if (isRefusal(error, this.#step)) {
      this.told('deny');
      // Its own refusal, in its own words; whose it is stands on it.
      if (error.gate === undefined)
        Object.defineProperty(error, 'gate', {
          value: this.#gate.name,
          enumerable: true,
          configurable: true,
        });
      return error;
    }
    this.told(error === LATE ? 'late' : 'failed');
    return error === LATE
      ? this.#failure(this.#gate, 'did not answer in time, which refuses', 'gate did not answer in time')
      : this.#failure(this.#gate, 'failed, which refuses', 'gate failed', error);
  }

  /** Waits for an answer that is on its way: as long as the gate may take, and as the caller is there. */
  settled(answer: PromiseLike<unknown>): Promise<unknown> {
    const { clock, signal } = this.#asker;
    const resume =
      this.#gate.stopsTimer === true && this.#step === 'before' ? this.#asker.hold?.() : undefined;
    return new Promise((resolve, reject) => {
      const over = () => {
        timer.clear();
        signal.removeEventListener('abort', onAbort);
        resume?.();
      };
      const fail = (error: unknown) => {
        over();
        reject(this.failed(error));
      };
      const onAbort = () => {
        this.end(signal.reason);
        fail(signal.reason);
      };
      const timer = clock.setTimeout(() => fail(LATE), this.#gate.timeoutMs ?? GATE_TIMEOUT_MS);
      signal.addEventListener('abort', onAbort, { once: true });
      answer.then(
        (verdict) => {
          if (this.#isOver) return;
          over();
          this.end();
          resolve(verdict);
        },
        (error: unknown) => {
          if (!this.#isOver) fail(error);
        },
      );
    });
  }
}

/** What a gate throws to refuse by a code of its own. An error of another call that it made is none. */
function isRefusal(error: unknown, step: GateStep): error is HostedMcpError {
  return step === 'before'
    ? HostedMcpError.isInstance(error, 'ERR_DENIED', 'ERR_CALL_LIMIT') && error.executed === false
    : HostedMcpError.isInstance(error, 'ERR_RESULT_REFUSED') && error.executed === true;
}

/** Makes the errors of gates; after the tool has run they say so. */
const failures =
  (code: HostedMcpErrorCode, method: string, tool: string | undefined, executed: boolean): Failure =>
  (gate, how, reason, cause) =>
    new HostedMcpError(code, `The gate "${gate.name}" ${how}`, {
      method,
      tool,
      gate: gate.name,
      reason,
      executed,
      cause,
    });
