/**
 * What a connection tells the audit: one entry for each call of a tool and each refusal of one, for each request that
 * a server makes, and for the end by `revoke()`.
 *
 * Guarantees that every call which left this process has its entry when its caller hears of its end, with the ledger's
 * word on what happened. Arguments and results stand there as digests, save for what the app shows by path; no
 * token, no session id.
 */
import { type Executed, HostedMcpError } from '../errors.js';
import { digestMember, jsonMember, plainMember, quoted, textMember } from '../gates/audit-text.js';
import type { AuditWriter } from '../gates/audit-writer.js';
import type { CallFacts } from '../gates/gate.js';
import { shownArguments } from '../gates/shown-arguments.js';
import type { ToolBook } from '../gates/tool-book.js';
import { turnOf } from '../gates/turn.js';
import { sha256, wireDigest } from '../gates/wire-digest.js';
import { isErrorResponse, type JsonRpcRequest, type JsonRpcResponse, type RequestId } from '../json-rpc.js';
import type { ResolvedHostedOptions } from '../options.js';
import type { Redactor } from '../redactor.js';
import type { ResolvedSessionOptions, SessionSetup } from '../session/options.js';
import type { Session } from '../session/session.js';
import { callFacts } from './call-facts.js';
import type { GateRecord } from './gate-record.js';
import type { Call } from './ledger.js';

export interface AuditUseParts {
  readonly options: ResolvedHostedOptions;
  readonly redactor: Redactor;
  readonly book: ToolBook;
}

/** What is known at the end of a call. */
interface CallEnd {
  readonly requestId?: RequestId | undefined;
  /** Where it was not the face that called. */
  readonly by?: string | undefined;
  readonly session: number | undefined;
  readonly generation?: number | undefined;
  readonly gates?: string | undefined;
  readonly attempts?: number | undefined;
  readonly executed: Executed;
  readonly durationMs: number;
  readonly error: unknown;
  readonly answer: GateRecord['answer'];
}

/** By this the simulator, and some servers' own logs, tell calls apart. */
const CALL_ID = 'mcp-holdfast/callId';
/** Beyond that, shown arguments make a line that nobody reads. */
const MOST_SHOWN = 64 * 1024;
const MOST_TEXT = 1_000;

export class AuditUse {
  readonly #parts: AuditUseParts;
  readonly #writer: AuditWriter;
  /** Of every entry: the server by origin and path, for the rest may hold a secret. */
  readonly #server: string;
  readonly #credential: string;
  readonly #actorMember: string | undefined;
  /** Most calls are of the tool and under the token of the call before. */
  #toolMembers = { tool: undefined as string | undefined, digest: undefined as string | undefined, text: '' };
  #credentialMember = { generation: undefined as number | undefined, text: '' };
  #timeMs = Number.NaN;
  #timeText = '';

  constructor(writer: AuditWriter, parts: AuditUseParts) {
    this.#parts = parts;
    this.#writer = writer;
    const { origin, protocol, pathname } = parts.options.url;
    this.#server = textMember('server', `${origin === 'null' ? protocol : origin}${pathname}`);
    this.#credential = `,"credential":{"id":${quoted(parts.options.credentials.id)}`;
    this.#credentialMember.text = `${this.#credential}}`;
    const { actor } = writer.settings;
    this.#actorMember = typeof actor === 'function' ? undefined : textMember('actor', actor);
  }

  /** The server's answer, before any gate has seen it; undefined where there is nothing to say of it. */
  answered(message: JsonRpcResponse): GateRecord['answer'] {
    const { results } = this.#writer.settings;
    if (isErrorResponse(message)) {
      const { error } = message;
      return { isError: true, rpcCode: error.code, digest: results ? jsonDigest(error) : undefined };
    }
    const { result } = message;
    const isError = result.isError === true;
    if (!isError && !results) return undefined;
    return { isError, rpcCode: undefined, digest: results ? jsonDigest(result) : undefined };
  }

  /** A call has ended, by an answer or with `error`. */
  ended(call: Call, error: unknown, durationMs: number): void {
    if (call.method !== 'tools/call') return;
    const record = call.gates;
    const facts = record?.facts ?? callFacts(call, call.session?.info, this.#parts.book.get(call.tool));
    this.#take(
      this.#entry(facts, {
        requestId: call.id,
        session: call.session?.number,
        generation: record?.generation,
        gates: record?.verdicts,
        attempts: call.attempts,
        executed: call.executed,
        durationMs,
        error,
        answer: record?.answer,
      }),
    );
  }

  /** A request of the server. */
  asked({ method, id, params }: JsonRpcRequest, session: Session | undefined): void {
    this.#take(
      ',"direction":"in"' +
        textMember('method', method.slice(0, MOST_TEXT)) +
        jsonMember('requestId', id) +
        plainMember('session', session?.number) +
        textMember('params', jsonDigest(params ?? null)),
    );
  }

  revoked(reason: string | undefined, outcome: { readonly token: string; readonly session: string }): void {
    this.#take(
      ',"event":"revoked"' +
        textMember('reason', reason?.slice(0, MOST_TEXT)) +
        textMember('token', outcome.token) +
        textMember('session', outcome.session),
    );
  }

  /** The app's own set-up of a session calls tools past the gates, and not past the audit. */
  watched(options: ResolvedSessionOptions): ResolvedSessionOptions {
    const { onEstablished } = options;
    if (onEstablished === undefined) return options;
    return { ...options, onEstablished: (setup) => onEstablished(this.#watchedSetup(setup)) };
  }

  #watchedSetup(setup: SessionSetup): SessionSetup {
    const told = async <T>(params: Record<string, unknown>, made: Promise<T>): Promise<T> => {
      const startedMs = this.#parts.options.clock.monotonic();
      const tell = (error: unknown, result?: unknown) => {
        const tool = typeof params.name === 'string' ? params.name : undefined;
        const args = params.arguments as CallFacts['arguments'];
        const facts = {
          method: 'tools/call',
          ...(tool !== undefined && { tool }),
          ...(args && { arguments: args }),
          ...(params._meta !== undefined && { meta: params._meta as Record<string, unknown> }),
        };
        const digest = this.#writer.settings.results && result !== undefined ? jsonDigest(result) : undefined;
        this.#take(
          this.#entry(facts, {
            by: 'session set-up',
            session: setup.session.number,
            executed: error === undefined ? true : 'unknown',
            durationMs: this.#parts.options.clock.monotonic() - startedMs,
            error,
            answer: { digest, isError: false, rpcCode: undefined },
          }),
        );
      };
      try {
        const result = await made;
        tell(undefined, result);
        return result;
      } catch (error) {
        tell(error);
        throw error;
      }
    };
    return {
      ...setup,
      callTool: (params, options) => told({ ...params }, setup.callTool(params, options)),
      request: (method, params, options) =>
        method === 'tools/call'
          ? told({ ...params }, setup.request(method, params, options))
          : setup.request(method, params, options),
    };
  }

  #entry(facts: CallFacts, end: CallEnd): string {
    const { settings } = this.#writer;
    const { meta } = facts;
    const { error, answer, gates } = end;
    const known = HostedMcpError.isInstance(error) ? error : undefined;
    const callId = meta?.[CALL_ID];
    const executed = error === undefined ? true : (known?.executed ?? end.executed);
    return (
      ',"direction":"out"' +
      textMember('method', facts.method) +
      (typeof end.requestId === 'number'
        ? plainMember('requestId', end.requestId)
        : jsonMember('requestId', end.requestId)) +
      (typeof callId === 'string' ? textMember('callId', callId.slice(0, MOST_TEXT)) : '') +
      textMember('by', end.by) +
      (this.#actorMember ?? textMember('actor', this.#actor(facts))) +
      (meta === undefined ? '' : textMember('turn', turnOf(facts)?.slice(0, MOST_TEXT))) +
      this.#tool(facts) +
      digestMember('arguments', argumentsDigest(facts)) +
      (settings.clear.length === 0 ? '' : jsonMember('shown', this.#shown(facts))) +
      plainMember('session', end.session) +
      this.#credentialOf(end.generation) +
      (gates === undefined || gates === '' ? '' : `,"gates":[${gates}]`) +
      plainMember('attempts', end.attempts) +
      (executed === 'unknown' ? ',"executed":"unknown"' : plainMember('executed', executed)) +
      `,"durationMs":${rounded(end.durationMs)}` +
      (error === undefined ? '' : textMember('code', known?.code ?? 'ERR_PROTOCOL')) +
      textMember('gate', known?.gate) +
      (answer?.isError === true ? ',"isError":true' : '') +
      plainMember('rpcCode', answer?.rpcCode) +
      digestMember('result', answer?.digest)
    );
  }

  #tool({ tool, toolDigest }: CallFacts): string {
    const last = this.#toolMembers;
    if (tool !== last.tool || toolDigest !== last.digest) {
      const text = textMember('tool', tool?.slice(0, MOST_TEXT)) + digestMember('toolDigest', toolDigest);
      this.#toolMembers = { tool, digest: toolDigest, text };
    }
    return this.#toolMembers.text;
  }

  #credentialOf(generation: number | undefined): string {
    if (generation !== this.#credentialMember.generation) {
      const text = `${this.#credential}${plainMember('generation', generation)}}`;
      this.#credentialMember = { generation, text };
    }
    return this.#credentialMember.text;
  }

  #actor(facts: CallFacts): string | null | undefined {
    const { actor } = this.#writer.settings;
    try {
      const named = typeof actor === 'function' ? actor(facts) : actor;
      return typeof named === 'string' ? named.slice(0, MOST_TEXT) : undefined;
    } catch {
      // Somebody it was, and nobody can say who.
      return null;
    }
  }

  #shown(facts: CallFacts): unknown {
    const shown = shownArguments(this.#writer.settings.clear, facts);
    if (shown === undefined) return undefined;
    const clean = this.#parts.redactor.value(shown);
    return (JSON.stringify(clean)?.length ?? 0) > MOST_SHOWN ? 'more than is shown' : clean;
  }

  /** ISO 8601; many calls end in the same millisecond. */
  #time(): string {
    const nowMs = this.#parts.options.clock.now();
    if (nowMs !== this.#timeMs) {
      this.#timeMs = nowMs;
      this.#timeText = new Date(nowMs).toISOString();
    }
    return this.#timeText;
  }

  #take(members: string): void {
    this.#writer.take(`"time":"${this.#time()}"${this.#server}${members}`, this.#parts.options.clock);
  }
}

function argumentsDigest({ arguments: given }: CallFacts): string | null {
  try {
    return wireDigest(given ?? null);
  } catch {
    return null;
  }
}

/** Of the text that JSON.stringify makes; of what was read as JSON there is always one. */
function jsonDigest(value: unknown): string {
  return sha256(JSON.stringify(value) ?? 'null');
}

/** To a thousandth; put together of whole numbers, which is cheaper than to write a broken one. */
function rounded(ms: number): string {
  const microseconds = Math.max(0, Math.round(ms * 1_000));
  const whole = Math.floor(microseconds / 1_000);
  const rest = microseconds - whole * 1_000;
  return rest === 0 ? `${whole}` : `${whole}.${rest < 10 ? '00' : rest < 100 ? '0' : ''}${rest}`;
}
