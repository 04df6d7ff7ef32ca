/**
 * Where a connection asks its gates: before a call leaves, right before it leaves, before its result is delivered, and
 * before a model reads what a server says of itself.
 *
 * Guarantees that what leaves is what the gates let pass: another definition of the tool, other arguments or a
 * verdict that no longer stands are asked for anew. Costs nothing where there are no gates. Never sends a call.
 */
import { HostedMcpError } from '../errors.js';
import type { Emitter } from '../events.js';
import { askAfter, askBefore, askInstructions, askTools } from '../gates/ask.js';
import type { AuditWriter } from '../gates/audit-writer.js';
import type { CallFacts, Gate, ListedTool, ToolResult } from '../gates/gate.js';
import { ToolBook } from '../gates/tool-book.js';
import { ownGateOf } from '../gates/turn.js';
import { isThenable } from '../gates/value.js';
import {
  isErrorResponse,
  isRequest,
  type JsonRpcError,
  type JsonRpcMessage,
  type JsonRpcResponse,
  type JsonRpcResult,
} from '../json-rpc.js';
import type { ResolvedHostedOptions } from '../options.js';
import type { Redactor } from '../redactor.js';
import type { ResolvedSessionOptions } from '../session/options.js';
import type { Session, SessionInfo } from '../session/session.js';
import { AuditUse } from './audit-use.js';
import { callFacts } from './call-facts.js';
import { GateRecord, type RecordParts, Sayings } from './gate-record.js';
import type { Call } from './ledger.js';
import type { Stats } from './stats.js';
import type { ConnectionEvents } from './types.js';

export interface GateUseParts {
  readonly options: ResolvedHostedOptions;
  readonly stats: Stats;
  readonly emitter: Emitter<ConnectionEvents>;
  readonly redactor: Redactor;
  /** The session that takes new calls. */
  session(): Session | undefined;
  /** Reads the list of tools on the connection's own account. */
  readTools(): Promise<unknown>;
}

export class GateUse {
  /** The tools as they were listed last. */
  readonly book = new ToolBook();
  readonly audit: AuditUse | undefined;
  readonly #parts: GateUseParts;
  readonly #gates: readonly Gate[];
  readonly #writer: AuditWriter | undefined;
  readonly #record: RecordParts;
  /** Requests for a list from its beginning, and what the book knew then. */
  readonly #listings = new WeakMap<Call, number>();
  /** What the app is shown of a session whose instructions a gate has replaced. */
  readonly #shown = new WeakMap<SessionInfo, SessionInfo>();
  #reading: Promise<void> | undefined;

  constructor(parts: GateUseParts) {
    const { options, emitter, stats } = parts;
    this.#parts = parts;
    this.#gates = options.gates;
    this.#writer = options.audit;
    if (options.audit !== undefined)
      this.audit = new AuditUse(options.audit, { options, redactor: parts.redactor, book: this.book });
    const sayings = new Sayings();
    this.#record = {
      clock: options.clock,
      connection: this,
      keepsVerdicts: options.audit !== undefined,
      report: (chain) => emitter.emit('call-chain', chain),
      took: (gate, ms) => stats.gate(gate, ms),
      saying: (gate, step, verdict) => sayings.of(gate, step, verdict),
    };
    if (!this.#isActive) return;
    // Without the notifications that were lost, nobody else would say so.
    for (const event of ['session-established', 'stream-gap'] as const)
      emitter.on(event, () => this.book.changed());
  }

  /** Throws, or rejects, with the refusal of a gate; undefined: the call may go on. Asked again, it asks for what has changed. */
  before(call: Call): Promise<void> | undefined {
    if (call.method !== 'tools/call') {
      if (this.#isActive && call.method === 'tools/list' && call.message.params?.cursor === undefined)
        this.#listings.set(call, this.book.version);
      return undefined;
    }
    const own = ownGateOf(call.message.params);
    if (own === undefined && !this.#isActive) return undefined;
    call.gates ??= new GateRecord(
      call,
      own === undefined ? this.#gates : [own, ...this.#gates],
      this.#record,
    );
    const record = call.gates;
    if (this.#writer?.mayCall === false) throw refusedForAudit(call);
    if (record.gates.length === 0) return undefined;
    const needy = this.book.isStale ? record.gates.find(({ needsTools }) => needsTools === true) : undefined;
    if (needy === undefined) return this.#ask(call, record);
    return call
      .waitFor(this.#read(), 'the list of tools')
      .catch((error: unknown) => {
        throw call.ended ? error : unreadable(call, needy, error);
      })
      .then(() => this.#ask(call, record));
  }

  /** Synchronous, right before the exchange: whether what `before` let pass is what would leave. */
  stand(call: Call): boolean {
    const record = call.gates;
    if (record === undefined) return true;
    if (this.#writer?.mayCall === false) return false;
    if (record.gates.length === 0) return true;
    if (this.book.isStale && record.gates.some(({ needsTools }) => needsTools === true)) return false;
    return this.#holds(call, record);
  }

  /** The answer as it may be delivered. */
  answered(
    call: Call,
    session: Session,
    message: JsonRpcResponse,
  ): JsonRpcResponse | Promise<JsonRpcResponse> {
    if (call.method === 'tools/call') return this.#result(call, session, message);
    if (!this.#isActive || isErrorResponse(message)) return message;
    if (call.method === 'tools/list') return this.#list(call, message);
    const { instructions } = message.result;
    if (call.method !== 'server/discover' || typeof instructions !== 'string') return message;
    return this.#instructions(instructions, call.method, call.signal, (text) =>
      text === instructions ? message : { ...message, result: { ...message.result, instructions: text } },
    );
  }

  /** What a server sends beside its answers. */
  heard(message: JsonRpcMessage, session: Session | undefined): void {
    if ('method' in message && message.method === 'notifications/tools/list_changed') this.book.changed();
    if (this.audit !== undefined && isRequest(message)) this.audit.asked(message, session);
  }

  /** Before anything of a new session is shown: rejects where a gate refuses its instructions. */
  async established({ info }: Session, signal: AbortSignal): Promise<void> {
    const { instructions } = info;
    if (instructions === undefined) return;
    await this.#instructions(instructions, 'initialize', signal, (text) => {
      if (text !== instructions) this.#shown.set(info, Object.freeze({ ...info, instructions: text }));
    });
  }

  /** Whether the contract's gate, or one of the app's, judges by what the tools are. */
  get watchesTools(): boolean {
    return (
      this.#parts.options.contract?.watch === true || this.#gates.some((gate) => gate.needsTools === true)
    );
  }

  /** The session that takes new calls, as the app may see it. */
  get session(): SessionInfo | undefined {
    const session = this.#parts.session();
    return session && this.shown(session.info);
  }

  /** With a set-up whose calls the audit hears of. */
  get sessionOptions(): ResolvedSessionOptions {
    const { session } = this.#parts.options;
    return this.audit?.watched(session) ?? session;
  }

  /** A session as the app may see it. */
  shown(info: SessionInfo): SessionInfo {
    return this.#shown.get(info) ?? info;
  }

  /** The answer to a handshake as the app may see it. */
  shownResult({ info, result }: Session): Readonly<Record<string, unknown>> {
    const { instructions } = this.shown(info);
    return instructions === info.instructions ? result : { ...result, instructions };
  }

  get #isActive(): boolean {
    return this.#gates.length > 0 || this.#writer !== undefined;
  }

  #facts(call: Call): CallFacts {
    return callFacts(call, this.session, this.book.get(call.tool));
  }

  #ask(call: Call, record: GateRecord): Promise<void> | undefined {
    const again = record.facts !== undefined;
    if (again && this.#holds(call, record)) return undefined;
    const facts = this.#facts(call);
    const gates = again ? record.gates.filter(({ oncePerCall }) => oncePerCall !== true) : record.gates;
    const args = askBefore(gates, facts, record);
    if (isThenable(args)) return args.then((given) => this.#passed(call, record, facts, given));
    this.#passed(call, record, facts, args);
    return undefined;
  }

  #passed(call: Call, record: GateRecord, facts: CallFacts, args: CallFacts['arguments']): void {
    call.rewritten = args === facts.arguments ? undefined : args;
    record.facts = args === facts.arguments || args === undefined ? facts : { ...facts, arguments: args };
    for (const gate of record.gates) {
      if (gate.stands === undefined || isStanding(gate, record.facts, record)) continue;
      throw new HostedMcpError('ERR_DENIED', `The gate "${gate.name}" did not let pass what would be sent`, {
        method: call.method,
        tool: call.tool,
        gate: gate.name,
        reason: 'a later gate has changed what this one let pass',
      });
    }
  }

  #holds(call: Call, record: GateRecord): boolean {
    const { facts } = record;
    if (facts === undefined || facts.toolDigest !== this.book.get(call.tool)?.digest) return false;
    for (const gate of record.gates)
      if (gate.stands !== undefined && !isStanding(gate, facts, record)) return false;
    return true;
  }

  /** One reading for all that need it; again where something changed while it was under way. */
  #read(): Promise<void> {
    this.#reading ??= this.#readWhileStale().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readWhileStale(): Promise<void> {
    for (let reads = 0; this.book.isStale && reads < MOST_READS; reads += 1) {
      const { version } = this.book;
      await this.#parts.readTools();
      this.book.readAt(version);
    }
  }

  #result(
    call: Call,
    session: Session,
    message: JsonRpcResponse,
  ): JsonRpcResponse | Promise<JsonRpcResponse> {
    const record = call.gates;
    if (record === undefined) return message;
    if (this.audit !== undefined) record.answer = this.audit.answered(message);
    if (!record.gates.some(({ after }) => after !== undefined)) return message;
    call.phase = 'answered';
    const facts = { ...(record.facts ?? this.#facts(call)), session: this.shown(session.info) };
    // A result of `tools/call` to JSON-RPC is any object; what is no ToolResult is for the gates to refuse.
    const given = isErrorResponse(message) ? asResult(message) : (message.result as unknown as ToolResult);
    const delivered = (result: ToolResult): JsonRpcResponse =>
      result === given
        ? message
        : { jsonrpc: '2.0', id: call.id, result: result as unknown as Record<string, unknown> };
    const result = askAfter(record.gates, facts, given, record);
    return isThenable(result) ? result.then(delivered) : delivered(result);
  }

  #list(call: Call, message: JsonRpcResult): JsonRpcResponse | Promise<JsonRpcResponse> {
    const { tools, nextCursor } = message.result;
    if (!Array.isArray(tools)) return message;
    const version = this.#listings.get(call);
    const isWhole = version !== undefined && nextCursor === undefined;
    if (isWhole) this.book.replace(tools);
    else this.book.learn(tools);
    if (isWhole) this.book.readAt(version);
    // The contract is compared as the server wrote it.
    if (call.options.isOwn === true || !this.#gates.some((gate) => gate.tools !== undefined)) return message;
    const delivered = (list: readonly ListedTool[]): JsonRpcResponse =>
      list === tools ? message : { ...message, result: { ...message.result, tools: list } };
    const list = askTools(this.#gates, tools, this.#asker(call.signal));
    return isThenable(list) ? list.then(delivered) : delivered(list);
  }

  #instructions<T>(
    text: string,
    method: string,
    signal: AbortSignal,
    next: (text: string) => T,
  ): T | Promise<T> {
    const allowed = askInstructions(this.#gates, text, method, this.#asker(signal));
    return isThenable(allowed) ? allowed.then(next) : next(allowed);
  }

  /** Where there is no call whose gates are asked. */
  #asker(signal: AbortSignal) {
    const { clock, report, took } = this.#record;
    return {
      ...{ clock, report, signal, key: {}, connection: this },
      get ended() {
        return signal.aborted;
      },
      onAsked: (gate: string, _step: unknown, _answer: unknown, ms: number) => took(gate, ms),
    };
  }
}

/** A server that changes its tools faster than they can be listed is not waited for. */
const MOST_READS = 3;

/** A gate that throws here says no. */
function isStanding(gate: Gate, facts: CallFacts, record: GateRecord): boolean {
  try {
    const { clock, connection, key } = record;
    const context = {
      ...{ clock, connection, key },
      get signal() {
        return record.signal;
      },
      report: (chain: Parameters<GateRecord['report']>[0]) => record.report(chain),
    };
    return gate.stands?.(facts, context) === true;
  } catch {
    return false;
  }
}

/** What a model would read of a JSON-RPC error is text of the server's as well. */
function asResult({ error }: JsonRpcError): ToolResult {
  return {
    content: [{ type: 'text', text: error.message }],
    isError: true,
    ...(error.data !== undefined && { structuredContent: { data: error.data } }),
  };
}

function refusedForAudit({ method, tool }: Call): HostedMcpError {
  return new HostedMcpError(
    'ERR_DENIED',
    'The audit log takes no lines now, and no call goes out without one',
    {
      method,
      tool,
      gate: 'audit',
      reason: 'audit log cannot be written',
    },
  );
}

function unreadable({ method, tool }: Call, { name }: Gate, cause: unknown): HostedMcpError {
  const known = HostedMcpError.from(cause);
  return new HostedMcpError(
    'ERR_DENIED',
    `The gate "${name}" needs the list of tools, which could not be read`,
    {
      method,
      tool,
      gate: name,
      reason: 'tools cannot be listed',
      retryable: known?.retryable,
      retryAfterMs: known?.retryAfterMs,
      cause,
    },
  );
}
