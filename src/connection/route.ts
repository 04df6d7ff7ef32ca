/**
 * How one message travels, and what is known when it has.
 */
import type { Credential } from '../credentials/provider.js';
import type { ExchangeHandle } from '../http/exchange.js';
import type { CookieJar } from '../http/headers.js';
import type { JsonRpcMessage, JsonRpcResponse, RequestId } from '../json-rpc.js';
import type { Urgency } from '../rate-limit/toll.js';
import type { Session } from '../session/session.js';
import type { SseEvent } from '../streams/sse-reader.js';
import type { ExchangeFacts } from './facts.js';

/** One HTTP request, as the `exchange` event tells it. */
export interface ExchangeDone {
  /** JSON-RPC method, or the HTTP method of a stream or a DELETE. */
  readonly method: string;
  readonly status?: number;
  readonly sent: boolean;
  readonly bytes: number;
  readonly durationMs: number;
  /** The session's number. */
  readonly session?: number;
}

/** How one message travels. */
export interface Route {
  readonly session?: Session | undefined;
  readonly credential: Credential;
  /** Sent as `MCP-Protocol-Version`, save with `initialize`. */
  readonly protocolVersion?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Takes the affinity cookies of a session that is being opened. */
  readonly cookies?: CookieJar | undefined;
  /** How it pays for the rate limit; 'paid' where its sender has seen to it. As a recovery by default. */
  readonly toll?: 'paid' | { readonly urgency: Urgency; readonly untilMs?: number | undefined } | undefined;
  /** The moment before bytes leave; throwing stops it. */
  onSent?(): void;
  /** Ends the exchange when it aborts; its listener goes with the answer. */
  readonly signal?: AbortSignal | undefined;
  /** Gets the handle before anything is dispatched. */
  attach?(handle: ExchangeHandle): void;
  /** Messages beside the answer. */
  onMessage(message: JsonRpcMessage): void;
  onEventId?(id: string): void;
}

/** The same way with something changed. A way may be an object of any class: it is not to be spread. */
export function routeWith(way: Route, changes: Partial<Route>): Route {
  return {
    session: way.session,
    credential: way.credential,
    protocolVersion: way.protocolVersion,
    headers: way.headers,
    cookies: way.cookies,
    toll: way.toll,
    signal: way.signal,
    onSent: () => way.onSent?.(),
    attach: (handle) => way.attach?.(handle),
    onMessage: (message) => way.onMessage(message),
    onEventId: (id) => way.onEventId?.(id),
    ...changes,
  };
}

/** A GET: the listen stream, or a response stream taken up again. */
export interface StreamRoute extends Route {
  readonly cursor?: string | undefined;
  /** The request whose answer the stream owes; none for the listen stream. */
  readonly expects?: RequestId | undefined;
  /** JSON-RPC method for the facts. */
  readonly method: string;
  /** The head has arrived and is an event stream. */
  onOpen?(): void;
  /** Bytes of the stream have arrived, be they a comment. */
  onBytes?(): void;
  /** Takes the events as they are: what they carry is not looked at here. */
  onEvent?(event: SseEvent): void;
  /** Ids of events already seen; grows. */
  readonly seen?: Set<string>;
  /** An answer on a stream that owes none. */
  onAnswer?(message: JsonRpcResponse): void;
  /** The stream belongs to a request of another id, from before a restart: its answer is given ours. */
  readonly adopts?: boolean;
}

/** What else is known of an event stream at its end. */
export interface StreamFacts extends ExchangeFacts {
  readonly events: number;
  /** Of a stream that ended: since its request left, and since its last byte. */
  readonly ageMs?: number;
  readonly idleMs?: number;
  readonly lastEventId?: string;
  readonly retryMs?: number;
  /** Of a GET that was to bring the answer of a request sent before. */
  readonly resumed?: boolean;
  /** The raw `Mcp-Session-Id` values of the answer: only `initialize` may set one. */
  readonly sessionIds: readonly string[];
}
