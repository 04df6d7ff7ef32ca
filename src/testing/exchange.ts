/**
 * One HTTP request to the MCP endpoint, and what all transports do with it alike.
 *
 * Guarantees that a request is answered in one way only: honestly, cut, or as scripted. Never knows which
 * transport it serves.
 */
import type { IncomingMessage } from 'node:http';
import { isErrorResponse, type JsonRpcRequest, type JsonRpcResponse } from '../json-rpc.js';
import type { Answer } from './answer.js';
import { type Emit, perform } from './methods.js';
import { refuse } from './refusals.js';
import type { LogEntry } from './request-log.js';
import { type RequestFacts, sendScripted } from './scripted-replies.js';
import type { ServerState } from './server-state.js';
import type { Session } from './sessions.js';
import type { SseChannel } from './sse.js';
import type { TrafficHold } from './traffic-hold.js';
import type { ScriptedReply, ScriptedRequest } from './types.js';

export interface Exchange {
  readonly request: IncomingMessage;
  readonly path: string;
  readonly body: string;
  readonly answer: Answer;
  readonly entry: LogEntry;
  readonly hold: TrafficHold;
}

/** What was posted, before anybody looked at it. */
export type Message = Record<string, unknown>;

export type ReplyFacts = Omit<ScriptedRequest, 'http' | 'headers'>;

/** A transport's part of the endpoint, behind the limit, the scripts and the token. */
export interface Wire {
  handle(exchange: Exchange, message: Message | undefined, token: string | undefined): Promise<void>;
}

export function parseBody(body: string): Message | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null ? (value as Message) : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a POST has the headers that Streamable HTTP asks for; refused where not. */
export function hasPostHeaders({ request, answer }: Exchange): boolean {
  const accept = request.headers.accept ?? '';
  if (!accept.includes('application/json') || !accept.includes('text/event-stream')) {
    const text = 'Not Acceptable: Client must accept both application/json and text/event-stream';
    refuse(answer, 406, -32000, text);
    return false;
  }
  if (!/^application\/json\b/i.test(request.headers['content-type'] ?? '')) {
    refuse(answer, 415, -32000, 'Unsupported Media Type: Content-Type must be application/json');
    return false;
  }
  return true;
}

/** Answers honestly, or as scripted. */
export async function finish(
  state: ServerState,
  exchange: Exchange,
  script: ScriptedReply | undefined,
  facts: ReplyFacts,
  honest: () => void,
): Promise<void> {
  if (script === undefined || 'cut' in script) {
    if (script !== undefined) exchange.answer.cutAfter(script.afterBytes, script.cut);
    honest();
  } else await replyAsScripted(state, script, exchange, facts);
}

export async function replyAsScripted(
  state: ServerState,
  reply: ScriptedReply,
  { request, answer, hold }: Exchange,
  facts: ReplyFacts,
): Promise<void> {
  const headers: Record<string, string> = {};
  for (const name of Object.keys(request.headers)) headers[name] = headerOf(request, name) ?? '';
  const wait = (ms: number) => hold.wait(ms, state.closing);
  await sendScripted(reply, { http: request.method ?? '', headers, ...facts }, answer, wait);
}

/** Does what a request asks, and answers it on its own HTTP answer: as JSON, or as a stream. */
export async function answerRequest(
  { state, exchange, session, message, script }: RequestToAnswer,
  o: {
    openChannel: () => SseChannel;
    finishChannel: (channel: SseChannel) => void;
    /** What may be sent before the answer; everything by default. */
    maySend?: ((early: object) => boolean) | undefined;
    /** The answer as this transport's revision wants it. */
    dress?: ((response: JsonRpcResponse) => JsonRpcResponse) | undefined;
  },
): Promise<void> {
  const { answer, hold } = exchange;
  const isReplaced = script !== undefined && !('cut' in script);
  if (script !== undefined && 'cut' in script) answer.cutAfter(script.afterBytes, script.cut);
  const mode = state.options.answer;
  let channel: SseChannel | undefined;
  const open = () => {
    channel = o.openChannel();
    channel.connect(answer);
  };
  const emit: Emit = (early) => {
    if (o.maySend?.(early) === false) return false;
    if (channel === undefined && mode !== 'json' && !isReplaced) open();
    const target = channel ?? session.listener;
    target?.send(early);
    return target !== undefined;
  };
  if (mode === 'sse' && !isReplaced) open();
  const plain = await perform(message, { state, session, emit, hold });
  const response = plain === undefined ? undefined : (o.dress?.(plain) ?? plain);
  if (isReplaced) {
    const facts = { message: { ...message }, answer: response && { ...response }, sessionId: session.id };
    await replyAsScripted(state, script, exchange, facts);
  } else if (channel !== undefined) {
    if (response !== undefined) channel.send(response);
    o.finishChannel(channel);
  } else if (response !== undefined) answer.sendJson(200, response, {}, state.options.compress);
  // A cancelled call is not answered, yet the connection must be given back.
  else answer.send(202, {});
}

export interface RequestToAnswer {
  readonly state: ServerState;
  readonly exchange: Exchange;
  readonly session: Session;
  readonly message: JsonRpcRequest;
  readonly script: ScriptedReply | undefined;
}

export function cancelIfAsked(session: Session, message: { method: string; params?: unknown }): void {
  if (message.method !== 'notifications/cancelled') return;
  const id = asParams(message.params)?.requestId;
  if (typeof id === 'string' || typeof id === 'number') {
    session.calls.get(id)?.abort(new Error('the call was cancelled'));
  }
}

/** The client's response to a question of ours. One that nobody waits for any more is ignored. */
export function deliver(session: Session, response: JsonRpcResponse): void {
  const question = typeof response.id === 'number' ? session.questions.get(response.id) : undefined;
  if (question === undefined) return;
  if (isErrorResponse(response)) {
    question.reject(Object.assign(new Error(response.error.message), { code: response.error.code }));
  } else question.resolve(response.result);
}

export function scriptFacts({ http, rpcMethod, tool, headers }: LogEntry): RequestFacts {
  return { http, method: rpcMethod, tool, isResume: headers['last-event-id'] !== undefined };
}

export function headerOf(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}

export function asParams(value: unknown): { readonly [key: string]: unknown } | undefined {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
}
