/**
 * One call as telemetry sees it.
 *
 * Guarantees that a telemetry which throws harms no call, that the caller's message is not changed (what goes out is
 * a copy), and that nothing the app wrote into `_meta` is overwritten. Never tells an argument or a result.
 */
import type { Clock } from '../clock.js';
import { cleanServerText, HostedMcpError } from '../errors.js';
import { isErrorResponse, type JsonRpcRequest, type JsonRpcResponse } from '../json-rpc.js';
import type { Redactor } from '../redactor.js';
import type {
  RequestTelemetry,
  TelemetryEnd,
  TelemetryFailure,
  TelemetryRequest,
  TelemetryRequestEvent,
} from '../telemetry.js';
import type { Call } from './ledger.js';
import { versionOf } from './outgoing.js';
import { plainAddress, withoutValues } from './telemetry-text.js';

/** Its two fields belong together (W3C Trace Context, 3.3): one of the app's own and one of ours would lie. */
const TRACE_CONTEXT = ['traceparent', 'tracestate'];
/** Says nothing of where a trace is, and stands by itself. */
const BAGGAGE = 'baggage';
const WAITS = {
  sessionMs: 'session-wait',
  credentialMs: 'credential-wait',
  rateMs: 'rate-wait',
  gatesMs: undefined,
} as const satisfies Record<keyof Call['waits'], TelemetryRequestEvent['type'] | undefined>;
/** Less is the cost of asking. */
const WAITED_MS = 1;
/** Methods whose parameter `uri` names a resource. */
const OF_RESOURCES = /^resources\/(?:read|subscribe|unsubscribe)$/;

export interface CallTraceParts {
  readonly clock: Clock;
  readonly redactor: Redactor;
  readonly wantsSessionId: boolean;
}

export class CallTrace {
  readonly #call: Call;
  readonly #parts: CallTraceParts;
  readonly #request: RequestTelemetry;

  constructor(call: Call, parts: CallTraceParts, request: RequestTelemetry) {
    this.#call = call;
    this.#parts = parts;
    this.#request = request;
  }

  /** The request with the trace context in its `_meta`. */
  carry(message: JsonRpcRequest): JsonRpcRequest {
    const meta = message.params?._meta;
    // What is no object is the server's to refuse.
    if (meta !== undefined && (typeof meta !== 'object' || meta === null || Array.isArray(meta)))
      return message;
    const given = (meta ?? {}) as Readonly<Record<string, unknown>>;
    const ours = harmless(() => Object.entries(this.#request.context)) ?? [];
    const isTraced = [...TRACE_CONTEXT, ...ours.map(([name]) => name)].some(
      (name) => name !== BAGGAGE && Object.hasOwn(given, name),
    );
    const added = ours.filter(([name]) => (name === BAGGAGE ? !Object.hasOwn(given, name) : !isTraced));
    if (added.length === 0) return message;
    return { ...message, params: { ...message.params, _meta: { ...given, ...Object.fromEntries(added) } } };
  }

  /** Runs `fn`, whose work belongs to this call; undefined where the telemetry did not run it. */
  within<T>(fn: () => T): T | undefined {
    let done: { readonly value: T } | undefined;
    harmless(() =>
      this.#request.within(() => {
        done ??= { value: fn() };
      }),
    );
    return done?.value;
  }

  waited(wait: keyof Call['waits'], durationMs: number): void {
    const type = WAITS[wait];
    if (type !== undefined && durationMs >= WAITED_MS) this.happened({ type, durationMs });
  }

  happened(event: TelemetryRequestEvent): void {
    harmless(() => this.#request.event(event, this.#parts.clock.now()));
  }

  /** By an answer, or with an error. */
  ended(answer: JsonRpcResponse | undefined, error: unknown): void {
    const { session, attempts, executed, startedAtMs } = this.#call;
    const protocolVersion = this.#protocolVersion(answer);
    const failure = answer === undefined ? this.#ofOurs(error) : this.#ofServer(answer);
    const fingerprint = session?.info.fingerprint;
    const sessionId = this.#parts.wantsSessionId ? session?.revealId() : undefined;
    const end: TelemetryEnd = {
      durationMs: this.#parts.clock.monotonic() - startedAtMs,
      executed: HostedMcpError.isInstance(error) ? error.executed : executed,
      attempts,
      ...(protocolVersion !== undefined && { protocolVersion }),
      ...(session !== undefined && { session: session.number }),
      ...(fingerprint !== undefined && { fingerprint }),
      ...(sessionId !== undefined && { sessionId }),
      ...(failure !== undefined && { failure }),
    };
    harmless(() => this.#request.end(end));
  }

  /** Of the session, of a handshake's own answer, or as a request of the later era says it. */
  #protocolVersion(answer: JsonRpcResponse | undefined): string | undefined {
    const { session, method, message } = this.#call;
    if (session !== undefined) return session.info.protocolVersion;
    if (method !== 'initialize' || answer === undefined || isErrorResponse(answer)) return versionOf(message);
    const { protocolVersion } = answer.result;
    return typeof protocolVersion === 'string' ? protocolVersion : undefined;
  }

  #ofServer(answer: JsonRpcResponse): TelemetryFailure | undefined {
    if (!isErrorResponse(answer))
      return this.#call.method === 'tools/call' && answer.result.isError === true
        ? { type: 'tool_error' }
        : undefined;
    const { code, message } = answer.error;
    const text = this.#parts.redactor.text(typeof message === 'string' ? message : '');
    return { type: String(code), rpcCode: code, description: cleanServerText(this.#withoutValues(text)) };
  }

  #ofOurs(error: unknown): TelemetryFailure {
    if (!HostedMcpError.isInstance(error)) return { type: '_OTHER' };
    // A gate's reason is the app's own word, and may quote an argument.
    return { type: error.code, description: this.#withoutValues(this.#parts.redactor.text(error.message)) };
  }

  #withoutValues(text: string): string {
    const { message, rewritten } = this.#call;
    return withoutValues(text, message.params, rewritten);
  }
}

/** A call as it is handed in, with our own secrets taken out of what others named. */
export function requestFacts({ id, method, tool, message }: Call, parts: CallTraceParts): TelemetryRequest {
  const plain = (value: unknown) => (typeof value === 'string' ? parts.redactor.text(value) : undefined);
  const name = plain(tool);
  const prompt = method === 'prompts/get' ? plain(message.params?.name) : undefined;
  const uri = OF_RESOURCES.test(method) ? plain(message.params?.uri) : undefined;
  return {
    requestId: id,
    method,
    ...(name !== undefined && { tool: name }),
    ...(prompt !== undefined && { prompt }),
    ...(uri !== undefined && { resourceUri: plainAddress(uri) }),
    startedAtMs: parts.clock.now(),
  };
}

/** Whatever the app's telemetry does, the call goes on. */
export function harmless<T>(fn: () => T): T | undefined {
  try {
    return fn();
  } catch {
    return undefined;
  }
}
