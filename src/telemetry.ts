/**
 * What a connection tells a telemetry system, and what it takes from one.
 *
 * Guarantees plain data: names, numbers and codes, never an argument or a result, and a session id only where it
 * is asked for. Never imports a telemetry library: `mcp-holdfast/otel` is one that fits, an app may write another.
 */
import type { Executed, HostedMcpErrorCode } from './errors.js';
import type { RequestId } from './json-rpc.js';

/** Where a connection leads. */
export interface TelemetryServer {
  /** `pipe`: a local process. */
  readonly transport: 'tcp' | 'pipe';
  /** Host name or address; of a local process, none. */
  readonly address?: string;
  readonly port?: number;
  /** Of HTTP, where it is certain. */
  readonly httpVersion?: string;
}

/** A JSON-RPC request has been handed in. */
export interface TelemetryRequest {
  readonly requestId: RequestId;
  readonly method: string;
  readonly tool?: string;
  readonly prompt?: string;
  /** Of a resource, without user, query and fragment: those may hold secrets. */
  readonly resourceUri?: string;
  /** Epoch milliseconds. */
  readonly startedAtMs: number;
}

/** What befell a request that is under way. */
export type TelemetryRequestEvent =
  /** The session that it was sent on. */
  | { readonly type: 'session-lost'; readonly session: number }
  | { readonly type: 'session-replaced'; readonly previous: number; readonly current: number }
  /** It has waited: for a session, a credential, the rate limit. */
  | { readonly type: 'session-wait'; readonly durationMs: number }
  | { readonly type: 'credential-wait'; readonly durationMs: number }
  | { readonly type: 'rate-wait'; readonly durationMs: number }
  /** Its answer was cut off, and is asked for by its cursor. */
  | { readonly type: 'stream-cut'; readonly ageMs: number; readonly idleMs: number }
  /** The answer was had after a cut. */
  | { readonly type: 'stream-resumed' };

/** How a request ended. */
export interface TelemetryEnd {
  /** From hand-in to end. */
  readonly durationMs: number;
  readonly executed: Executed;
  /** Times it left this process. */
  readonly attempts: number;
  readonly protocolVersion?: string;
  /** Of the session it was last sent on: its number, and what tells it apart from others. */
  readonly session?: number;
  readonly fingerprint?: string;
  /** A secret; only where `wantsSessionId` is set. */
  readonly sessionId?: string;
  readonly failure?: TelemetryFailure;
}

export interface TelemetryFailure {
  /** A JSON-RPC error code in digits, `tool_error`, a `HostedMcpErrorCode`, or `_OTHER`. */
  readonly type: string;
  /** The server's own error code. */
  readonly rpcCode?: number;
  /**
   * In our words, or the server's: those cleaned, cut to 200 characters, and without our secrets and the request's own
   * values as far as they can be found in it.
   */
  readonly description?: string;
}

/** What happened on a connection. */
export type TelemetryEvent =
  | {
      readonly type: 'session-ended';
      readonly durationMs: number;
      readonly protocolVersion: string;
      /** Dropped by the server. */
      readonly lost: boolean;
    }
  /** By the server's loss of it, or by our own change of credential. */
  | { readonly type: 'session-replaced'; readonly cause: 'server' | 'credential' }
  | { readonly type: 'credential-refreshed' | 'credential-adopted' }
  | { readonly type: 'credential-failed'; readonly code: HostedMcpErrorCode }
  /** Of the stream that carries notifications, or of an answer. */
  | { readonly type: 'stream-cut'; readonly stream: 'listen' | 'response' };

/** One request. What its methods throw harms nothing. */
export interface RequestTelemetry {
  /** Goes into `params._meta` where the app has put nothing under the same names. */
  readonly context: Readonly<Record<string, string>>;
  /** Runs `fn` at once and once; what it starts belongs to this request. */
  within(fn: () => void): void;
  /** `atMs`: epoch milliseconds. */
  event(event: TelemetryRequestEvent, atMs: number): void;
  /** Called once. */
  end(end: TelemetryEnd): void;
}

/** One connection. What its methods throw harms nothing. */
export interface ConnectionTelemetry {
  /** Called in the caller's own turn, so that its active context can be seen. */
  request(request: TelemetryRequest): RequestTelemetry | undefined;
  event(event: TelemetryEvent): void;
}

/** The option `telemetry`: `otel()` of `mcp-holdfast/otel`, or one of your own. */
export interface Telemetry {
  /** Session ids, which are secrets, are to be told. */
  readonly wantsSessionId?: boolean | undefined;
  /** A connection is being made, before any I/O; what this throws, its maker gets. */
  connection(server: TelemetryServer): ConnectionTelemetry;
}

/** Refuses what cannot be used, before any I/O. */
export function checkTelemetry(telemetry: Telemetry | undefined): Telemetry | undefined {
  if (telemetry !== undefined && typeof telemetry?.connection !== 'function')
    throw new TypeError('telemetry must have the method connection(), as otel() of mcp-holdfast/otel has');
  return telemetry;
}
