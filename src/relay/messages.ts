/**
 * What crosses a relay: JSON-RPC messages, each with the time it has.
 *
 * Guarantees that a message says which process of the server it was meant for. Never carries an instant: clocks of
 * two sides need not agree, so a deadline is how many milliseconds are left.
 */
import {
  isNotification,
  isRequest,
  isResponse,
  type JsonRpcMessage,
  type JsonRpcNotification,
  type JsonRpcRequest,
  type JsonRpcResponse,
} from '../json-rpc.js';

export interface RelaySendOptions {
  /** Milliseconds in which the one who is asked has to have answered; whoever asks waits longer than that. */
  readonly deadlineMs: number;
  /** The asker has given up. */
  readonly signal: AbortSignal;
}

/**
 * A way to a server that cannot be dialed: takes one message there and brings back its answer, or the answer and
 * notifications that came before it. To a notification nothing is answered: an empty list.
 */
export type RelaySend = (
  message: JsonRpcMessage,
  options: RelaySendOptions,
) => Promise<JsonRpcMessage | readonly JsonRpcMessage[]>;

/** In `_meta` of the answer to `initialize`, and then of each request: which process is meant. */
export const GENERATION = 'mcp-holdfast/generation';

/** The process a message is meant for; nothing where its sender does not know of any. */
export function generationOf(message: JsonRpcMessage): number | undefined {
  const holder = 'method' in message ? message.params : 'result' in message ? message.result : undefined;
  const meta = holder?._meta;
  if (typeof meta !== 'object' || meta === null || !Object.hasOwn(meta, GENERATION)) return undefined;
  const value = (meta as Record<string, unknown>)[GENERATION];
  return typeof value === 'number' ? value : undefined;
}

/** The same message, meant for that process. */
export function meantFor(message: JsonRpcMessage, generation: number | undefined): JsonRpcMessage {
  if (generation === undefined || !('method' in message)) return message;
  const meta = { ...(message.params?._meta as object | undefined), [GENERATION]: generation };
  return { ...message, params: { ...message.params, _meta: meta } };
}

/** Parameters or a result without the mark: the server, and the client, get what the other one wrote. */
export function withoutGeneration<T extends { readonly [key: string]: unknown }>(value: T): T {
  const meta = value._meta;
  if (typeof meta !== 'object' || meta === null || !Object.hasOwn(meta, GENERATION)) return value;
  const { [GENERATION]: _, ...others } = meta as Record<string, unknown>;
  const { _meta, ...rest } = value;
  return (Object.keys(others).length === 0 ? rest : { ...rest, _meta: others }) as T;
}

/** `tools/call` and its tool, for an error's fields. */
export function askedBy(message: JsonRpcMessage): { method?: string; tool?: string } {
  if (!isRequest(message)) return {};
  const name = (message as JsonRpcRequest).params?.name;
  return {
    method: message.method,
    ...(message.method === 'tools/call' && typeof name === 'string' && { tool: name }),
  };
}

/** What came back for a request: its answer, and the notifications before it. Anything else is nobody's. */
export function split(came: unknown): {
  readonly answer: JsonRpcResponse | undefined;
  readonly notifications: readonly JsonRpcNotification[];
} {
  const all: readonly unknown[] = Array.isArray(came) ? came : [came];
  return { answer: all.find(isResponse), notifications: all.filter(isNotification) };
}
