/**
 * Gates: the steps of the app before a call is sent and before its result is delivered.
 *
 * Guarantees that a list of gates which could not be asked is refused before any I/O. Never asks one: that is
 * `ask.ts`, and it fails closed.
 */
import type { Clock } from '../clock.js';
import type { SessionInfo } from '../session/session.js';
import { isObject } from './value.js';

/** What a server says of its tool (MCP 2025-11-25, `ToolAnnotations`). Its word, not a fact. */
export interface ToolAnnotations {
  readonly readOnlyHint?: boolean;
  readonly destructiveHint?: boolean;
  readonly idempotentHint?: boolean;
  readonly openWorldHint?: boolean;
}

/** A tool call as a gate sees it. */
export interface CallFacts {
  readonly method: string;
  readonly tool?: string;
  /** As the gates before left them. */
  readonly arguments?: Readonly<Record<string, unknown>>;
  /** SHA-256 (hex) of the tool's definition, as it was listed last on this connection. */
  readonly toolDigest?: string;
  readonly annotations?: ToolAnnotations;
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

/** A tool as a server lists it. */
export interface ListedTool {
  readonly name: string;
  readonly [field: string]: unknown;
}

/** An unusual chain of calls, as the event `call-chain` tells it. Holds no arguments. */
export interface CallChain {
  readonly gate: string;
  readonly kind: 'repeated' | 'new-tool' | 'read-then-send';
  readonly tool: string;
  /** The tool whose result came before. */
  readonly after?: string;
  /** Of `repeated`: how often in a row. */
  readonly count?: number;
  readonly turn?: string;
}

/** What a gate is given beside the call. */
export interface GateContext {
  /** Ends when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** The same object for every question about one call, and for no other call. */
  readonly key: object;
  /** The same object for every call of one connection. */
  readonly connection: object;
  /** Makes the connection's event `call-chain`. */
  report(chain: CallChain): void;
}

export type BeforeVerdict = 'allow' | { deny: string } | { arguments: Record<string, unknown> };
export type AfterVerdict = 'allow' | { deny: string } | { result: ToolResult };
export type InspectVerdict = 'allow' | { deny: string } | { replace: unknown };

/**
 * One step of the app on the way of a `tools/call`. `before` may deny or rewrite the arguments, `after`
 * may refuse or replace the result; it sees a JSON-RPC error of the server as a result with `isError`. `tools` and
 * `instructions` see what a model reads before any call, and may refuse or replace it. `timeoutMs` bounds each
 * answer (30 s by default). A step that throws, is late or gives no verdict refuses.
 */
export interface Gate {
  readonly name: string;
  readonly timeoutMs?: number | undefined;
  /**
   * The time that `before` takes is not the call's: `HostedClient` stops the caller's timer for it. A plain transport
   * cannot, so that there `timeoutMs` must not be longer than `retry.maxElapsedMs`.
   */
  readonly stopsTimer?: boolean | undefined;
  /** The server's tools are listed before `before` is asked, where they may have changed since they were read. */
  readonly needsTools?: boolean | undefined;
  /** Asked once for each call, also where the others are asked again because the tool has changed meanwhile. */
  readonly oncePerCall?: boolean | undefined;
  before?(call: CallFacts, context: GateContext): BeforeVerdict | Promise<BeforeVerdict>;
  /**
   * Right before the call leaves, and synchronous: whether the verdict of `before` holds for what would be sent. If
   * not, the gates are asked again.
   */
  stands?(call: CallFacts, context: GateContext): boolean;
  after?(call: CallFacts, result: ToolResult, context: GateContext): AfterVerdict | Promise<AfterVerdict>;
  tools?(list: readonly ListedTool[], context: GateContext): InspectVerdict | Promise<InspectVerdict>;
  instructions?(text: string, context: GateContext): InspectVerdict | Promise<InspectVerdict>;
}

const STEPS = ['before', 'after', 'tools', 'instructions', 'stands'] as const;
const FLAGS = ['stopsTimer', 'needsTools', 'oncePerCall'] as const;

/** Refuses a list that could not be asked, before any I/O. */
export function checkGates(gates: readonly Gate[] | undefined): readonly Gate[] {
  if (gates !== undefined && !Array.isArray(gates)) throw new TypeError('gates must be an array of gates');
  for (const gate of gates ?? []) {
    if (!isObject(gate) || typeof gate.name !== 'string' || gate.name === '')
      throw new TypeError('gates: each gate needs a name');
    const { name, timeoutMs } = gate;
    if (timeoutMs !== undefined && !(Number.isFinite(timeoutMs) && (timeoutMs as number) > 0)) {
      throw new TypeError(`gates: timeoutMs of gate "${name}" must be a positive number of milliseconds`);
    }
    for (const step of STEPS) {
      if (gate[step] !== undefined && typeof gate[step] !== 'function')
        throw new TypeError(`gates: ${step} of gate "${name}" must be a function`);
    }
    for (const flag of FLAGS) {
      if (gate[flag] !== undefined && typeof gate[flag] !== 'boolean')
        throw new TypeError(`gates: ${flag} of gate "${name}" must be true or false`);
    }
  }
  return gates ?? [];
}

/** For a face that cannot stop its caller's timer: throws `TypeError` where a gate may take longer than all waits together. */
export function checkGateTimes(gates: readonly Gate[], maxElapsedMs: number): void {
  for (const { name, stopsTimer, timeoutMs = 0 } of gates) {
    if (stopsTimer === true && timeoutMs > maxElapsedMs) {
      throw new TypeError(
        `gates: timeoutMs of gate "${name}" (${timeoutMs}) is longer than retry.maxElapsedMs (${maxElapsedMs}): only HostedClient can stop its caller's timer`,
      );
    }
  }
}
