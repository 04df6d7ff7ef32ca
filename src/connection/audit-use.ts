/**
 * What a connection tells the audit: one entry for each call of a tool and each refusal of one, for each request that
 * a server makes, and for the end by `revoke()`.
 *
 * Guarantees that every call which left this process has its entry when its caller hears of its end, with the ledger's
 * word on what happened. Arguments and results stand there as digests, save for what the app shows by path; no
 * token, no session id.
 */
import { HostedMcpError } from '../errors.js';
import type { AuditWriter } from '../gates/audit-writer.js';
import type { CallFacts } from '../gates/gate.js';
import { shownArguments } from '../gates/shown-arguments.js';
import type { ToolBook } from '../gates/tool-book.js';
import { turnOf } from '../gates/turn.js';
import { sha256, wireDigest } from '../gates/wire-digest.js';
import { isErrorResponse, type JsonRpcRequest, type JsonRpcResponse } from '../json-rpc.js';
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

/** By this the simulator, and some servers' own logs, tell calls apart. */
const CALL_ID = 'mcp-holdfast/callId';
/** Beyond that, shown arguments make a line that nobody reads. */
const MOST_SHOWN = 64 * 1024;
const MOST_TEXT = 1_000;
const PLAIN = /^[ -~]*$/;
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** Of an answer, as the server gave it: SHA-256 of its result as `JSON.stringify` writes it. */
export function answerFacts(message: JsonRpcResponse): NonNullable<GateRecord['answer']> {
  return isErrorResponse(message)
    ? { digest: sha256(JSON.stringify(message.error)), isError: true, rpcCode: message.error.code }
    : { digest: sha256(JSON.stringify(message.result)), isError: message.result.isError === true };
}

export class AuditUse {
  readonly #parts: AuditUseParts;
  readonly #writer: AuditWriter;
  /** Origin and path: the rest may hold a secret. */
  readonly #server: string;

  constructor(writer: AuditWriter, parts: AuditUseParts) {
    this.#parts = parts;
    this.#writer = writer;
    const { origin, protocol, pathname } = parts.options.url;
    this.#server = `${origin === 'null' ? protocol : origin}${pathname}`;
  }

  /** A call has ended, by an answer or with `error`. */
  ended(call: Call, error: unknown, durationMs: number): void {
    if (call.method !== 'tools/call') return;
    const known = HostedMcpError.isInstance(error) ? error : undefined;
    const record = call.gates;
    const facts = record?.facts ?? callFacts(call, call.session?.info, this.#parts.book.get(call.tool));
    const answer = record?.answer;
    const verdicts = record?.verdicts ?? [];
    this.#take({
      ...this.#ofCall(facts, call.id),
      ...(call.session !== undefined && { session: call.session.number }),
      credential: { id: this.#parts.options.credentials.id, generation: record?.generation },
      gates:
        verdicts.length === 0 ? undefined : verdicts.map(({ ms, ...said }) => ({ ...said, ms: rounded(ms) })),
      attempts: call.attempts,
      executed: error === undefined ? true : (known?.executed ?? call.executed),
      durationMs: rounded(durationMs),
      code: error === undefined ? undefined : (known?.code ?? 'ERR_PROTOCOL'),
      gate: known?.gate,
      isError: answer?.isError === true ? true : undefined,
      rpcCode: answer?.rpcCode,
      result: answer?.digest,
    });
  }

  /** A request of the server. */
  asked({ method, id, params }: JsonRpcRequest, session: Session | undefined): void {
    this.#take({
      direction: 'in',
      method,
      requestId: id,
      session: session?.number,
      params: digestOr(() => sha256(JSON.stringify(params ?? null))),
    });
  }

  revoked(reason: string | undefined, outcome: { readonly token: string; readonly session: string }): void {
    this.#take({ event: 'revoked', reason: reason?.slice(0, MOST_TEXT), ...outcome });
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
        const known = HostedMcpError.isInstance(error) ? error : undefined;
        const tool = typeof params.name === 'string' ? params.name : undefined;
        const args = params.arguments as CallFacts['arguments'];
        this.#take({
          ...this.#ofCall({
            method: 'tools/call',
            ...(tool !== undefined && { tool }),
            ...(args && { arguments: args }),
            ...(params._meta !== undefined && { meta: params._meta as Record<string, unknown> }),
          }),
          by: 'session set-up',
          session: setup.session.number,
          executed: error === undefined ? true : (known?.executed ?? 'unknown'),
          durationMs: rounded(this.#parts.options.clock.monotonic() - startedMs),
          code: error === undefined ? undefined : (known?.code ?? 'ERR_PROTOCOL'),
          result: result === undefined ? undefined : digestOr(() => sha256(JSON.stringify(result))),
        });
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

  #ofCall(facts: CallFacts, id?: string | number): Record<string, unknown> {
    const { settings } = this.#writer;
    const callId = facts.meta?.[CALL_ID];
    const shown = shownArguments(settings.clear, facts);
    return {
      direction: 'out',
      method: facts.method,
      requestId: id,
      callId: typeof callId === 'string' ? callId.slice(0, MOST_TEXT) : undefined,
      actor: this.#actor(facts),
      turn: turnOf(facts)?.slice(0, MOST_TEXT),
      tool: facts.tool?.slice(0, MOST_TEXT),
      toolDigest: facts.toolDigest,
      arguments: digestOr(() => wireDigest(facts.arguments ?? null)),
      shown: shown === undefined ? undefined : this.#bounded(shown),
    };
  }

  #actor(facts: CallFacts): string | null | undefined {
    const { actor } = this.#writer.settings;
    if (typeof actor !== 'function') return actor;
    try {
      const named = actor(facts);
      return typeof named === 'string' ? named.slice(0, MOST_TEXT) : undefined;
    } catch {
      // Somebody it was, and nobody can say who.
      return null;
    }
  }

  #bounded(shown: unknown): unknown {
    const clean = this.#parts.redactor.value(shown);
    return (JSON.stringify(clean)?.length ?? 0) > MOST_SHOWN ? 'more than is shown' : clean;
  }

  #take(entry: Record<string, unknown>): void {
    const { clock } = this.#parts.options;
    const time = new Date(clock.now()).toISOString();
    const body = JSON.stringify({ time, server: this.#server, ...entry });
    this.#writer.take(PLAIN.test(body) ? body : visibleBody(body), clock);
  }
}

/** What is not shown stands as its escape: in JSON the same text, and nothing that a terminal obeys. */
function visibleBody(body: string): string {
  return body.replace(HIDDEN, (character) => {
    let escaped = '';
    for (let at = 0; at < character.length; at += 1)
      escaped += `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`;
    return escaped;
  });
}

/** A value that has no JSON has no digest. */
function digestOr(digest: () => string): string | null {
  try {
    return digest();
  } catch {
    return null;
  }
}

function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}
