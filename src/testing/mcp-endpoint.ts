/**
 * The MCP endpoint: Streamable HTTP of 2025-11-25 and before, with the faults that were asked for.
 *
 * Guarantees the order of an honest server: limit, token, form of the request, session, version, method. A
 * scripted reply that runs nothing comes before all of them. Never lets a client that went away stop a
 * tool: a closed connection is no cancellation.
 */
import type { IncomingMessage } from 'node:http';
import {
  isErrorResponse,
  isNotification,
  isRequest,
  isResponse,
  type JsonRpcRequest,
  type JsonRpcResponse,
  toolOf,
} from '../json-rpc.js';
import type { Answer } from './answer.js';
import { type Emit, initializeResult, negotiatedVersion, perform } from './methods.js';
import { KNOWN_VERSIONS } from './options.js';
import { refuse, refuseSession, refuseToken } from './refusals.js';
import { bearerOf, type LogEntry } from './request-log.js';
import { type RequestFacts, sendScripted } from './scripted-replies.js';
import type { ServerState } from './server-state.js';
import { Session } from './sessions.js';
import { SseChannel } from './sse.js';
import type { TrafficHold } from './traffic-hold.js';
import type { ScriptedReply, ScriptedRequest } from './types.js';

/** One HTTP request to the endpoint. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly body: string;
  readonly answer: Answer;
  readonly entry: LogEntry;
  readonly hold: TrafficHold;
}

type Message = Record<string, unknown>;

export class McpEndpoint {
  readonly #state: ServerState;

  constructor(state: ServerState) {
    this.#state = state;
  }

  async handle(exchange: Exchange): Promise<void> {
    const { request, answer, entry } = exchange;
    const state = this.#state;
    const message = request.method === 'POST' ? parse(exchange.body) : undefined;
    this.#note(exchange, message);
    if (state.throttledUntilMs > state.clock.monotonic()) {
      state.log.counts.rejectedByLimit += 1;
      const seconds = Math.ceil((state.throttledUntilMs - state.clock.monotonic()) / 1000);
      answer.send(429, { 'retry-after': String(seconds), 'content-type': 'text/plain' }, 'Too Many Requests');
      return;
    }
    const skipping = state.scripts.take(scriptFacts(entry), 'skip');
    if (skipping !== undefined) {
      const sessionId = headerOf(request, 'mcp-session-id');
      await this.#sendScripted(skipping, exchange, { message, answer: undefined, sessionId });
      return;
    }
    const token = bearerOf(request.headers.authorization);
    if (state.options.auth && (token === undefined || state.issuer.judge(token) !== 'valid')) {
      const { challenge } = state.options;
      refuseToken(answer, { origin: state.origin, challenge, wasGiven: token !== undefined });
      return;
    }
    if (request.method === 'POST') await this.#post(exchange, message, token);
    else if (request.method === 'GET' && state.options.listen) await this.#get(exchange, token);
    else if (request.method === 'DELETE' && state.options.sessions) await this.#delete(exchange, token);
    else {
      const allowed = [
        'POST',
        ...(state.options.listen ? ['GET'] : []),
        ...(state.options.sessions ? ['DELETE'] : []),
      ];
      refuse(answer, 405, -32000, 'Method not allowed.', { allow: allowed.join(', ') });
    }
  }

  /** Counts and logs, before anything is judged. */
  #note({ request, entry }: Exchange, message: Message | undefined): void {
    const { counts } = this.#state.log;
    counts.requests += 1;
    if (request.method === 'GET') counts.listens += 1;
    if (request.method === 'DELETE') counts.deletes += 1;
    if (typeof message?.method === 'string') {
      entry.rpcMethod = message.method;
      if (message.method === 'initialize') counts.initializes += 1;
      if (message.method === 'ping') counts.pings += 1;
      const tool = toolOf({ method: message.method, params: asParams(message.params) });
      if (tool !== undefined) entry.tool = tool;
    }
    if (typeof message?.id === 'string' || typeof message?.id === 'number') entry.rpcId = message.id;
  }

  async #post(exchange: Exchange, message: Message | undefined, token: string | undefined): Promise<void> {
    const { request, answer } = exchange;
    const accept = request.headers.accept ?? '';
    if (!accept.includes('application/json') || !accept.includes('text/event-stream')) {
      const text = 'Not Acceptable: Client must accept both application/json and text/event-stream';
      return refuse(answer, 406, -32000, text);
    }
    if (!/^application\/json\b/i.test(request.headers['content-type'] ?? '')) {
      return refuse(answer, 415, -32000, 'Unsupported Media Type: Content-Type must be application/json');
    }
    if (message === undefined) return refuse(answer, 400, -32700, 'Parse error');
    if (!isRequest(message) && !isNotification(message) && !isResponse(message)) {
      return refuse(answer, 400, -32600, 'Invalid Request');
    }
    const node = this.#pickNode(exchange, message);
    if (isRequest(message) && message.method === 'initialize') {
      await this.#initialize(exchange, message, token, node);
      return;
    }
    const session = this.#admit(exchange, token, node);
    if (session === undefined) return;
    const script = this.#state.scripts.take(scriptFacts(exchange.entry), 'run');
    if (isRequest(message)) {
      await this.#answerRequest(exchange, message, session, script);
      return;
    }
    if (isNotification(message)) cancelIfAsked(session, message);
    else deliver(session, message);
    const isHandshake = 'method' in message && message.method === 'notifications/initialized';
    await this.#finish(exchange, script, { message, answer: undefined, sessionId: session.id }, () => {
      const status = isHandshake ? this.#state.options.handshakeStatus : 202;
      if (status === 200) answer.sendJson(200, null);
      else answer.send(status, {});
    });
  }

  async #initialize(
    exchange: Exchange,
    message: JsonRpcRequest,
    token: string | undefined,
    node: number,
  ): Promise<void> {
    const state = this.#state;
    const { answer, entry } = exchange;
    const brought = headerOf(exchange.request, 'mcp-session-id');
    if (state.options.sessions && brought !== undefined) {
      if (state.nodes.find(node, brought) === undefined) {
        refuseSession(answer, state.options.sessionLostStatus);
      } else refuse(answer, 400, -32600, 'Invalid Request: Server already initialized');
      return;
    }
    const script = state.scripts.take(scriptFacts(entry), 'run');
    const session = new Session({ token, protocolVersion: negotiatedVersion(state, message) });
    const response = initializeResult(state, session, message);
    if (state.options.sessions) {
      state.nodes.add(node, session);
      entry.sessionLabel = state.labels.issued('session', session.id);
      answer.extraHeaders['mcp-session-id'] = session.id;
    }
    const facts = { message: { ...message }, answer: { ...response }, sessionId: session.id };
    await this.#finish(exchange, script, facts, () => {
      if (state.options.answer !== 'sse') {
        answer.sendJson(200, response, {}, state.options.compress);
        return;
      }
      const channel = this.#openChannel(session, false);
      channel.connect(answer);
      channel.send(response);
      this.#finishChannel(session, channel);
    });
  }

  async #answerRequest(
    exchange: Exchange,
    message: JsonRpcRequest,
    session: Session,
    script: ScriptedReply | undefined,
  ): Promise<void> {
    const state = this.#state;
    const { answer, hold } = exchange;
    const isReplaced = script !== undefined && !('cut' in script);
    if (script !== undefined && 'cut' in script) answer.cutAfter(script.afterBytes, script.cut);
    const mode = state.options.answer;
    let channel: SseChannel | undefined;
    const open = () => {
      channel = this.#openChannel(session, false);
      channel.connect(answer);
      return channel;
    };
    const emit: Emit = (early) => {
      if (channel === undefined && mode !== 'json' && !isReplaced) open();
      const target = channel ?? session.listener;
      target?.send(early);
      return target !== undefined;
    };
    if (mode === 'sse' && !isReplaced) open();
    const response = await perform(message, { state, session, emit, hold });
    const facts = { message: { ...message }, answer: response && { ...response }, sessionId: session.id };
    if (isReplaced) await this.#sendScripted(script, exchange, facts);
    else this.#sendResponse(exchange, session, channel, response);
  }

  #sendResponse(
    { answer }: Exchange,
    session: Session,
    channel: SseChannel | undefined,
    response: JsonRpcResponse | undefined,
  ): void {
    if (channel !== undefined) {
      if (response !== undefined) channel.send(response);
      this.#finishChannel(session, channel);
    } else if (response !== undefined) answer.sendJson(200, response, {}, this.#state.options.compress);
    // A cancelled call is not answered, yet the connection must be given back.
    else answer.send(202, {});
  }

  async #get(exchange: Exchange, token: string | undefined): Promise<void> {
    const { request, answer } = exchange;
    if (!(request.headers.accept ?? '').includes('text/event-stream')) {
      return refuse(answer, 406, -32000, 'Not Acceptable: Client must accept text/event-stream');
    }
    const session = this.#admit(exchange, token, this.#pickNode(exchange, undefined));
    if (session === undefined) return;
    const script = this.#state.scripts.take(scriptFacts(exchange.entry), 'run');
    const facts = { message: undefined, answer: undefined, sessionId: session.id };
    await this.#finish(exchange, script, facts, () => {
      const cursor = headerOf(request, 'last-event-id');
      if (cursor !== undefined && this.#state.options.eventStore) resume(session, cursor, answer);
      else this.#listen(session, answer);
    });
  }

  #listen(session: Session, answer: Answer): void {
    // Without sessions nobody can say whose second stream this is.
    const current = this.#state.options.sessions ? session.listener : undefined;
    if (current?.isConnected === true) {
      refuse(answer, 409, -32000, 'Conflict: Only one SSE stream is allowed per session');
      return;
    }
    session.listener = current ?? this.#openChannel(session, true);
    session.listener.connect(answer);
  }

  async #delete(exchange: Exchange, token: string | undefined): Promise<void> {
    const node = this.#pickNode(exchange, undefined);
    const session = this.#admit(exchange, token, node);
    if (session === undefined) return;
    const script = this.#state.scripts.take(scriptFacts(exchange.entry), 'run');
    this.#state.nodes.remove(node, session.id);
    session.end();
    const facts = { message: undefined, answer: undefined, sessionId: session.id };
    await this.#finish(exchange, script, facts, () => exchange.answer.send(200, {}));
  }

  /** The session a request belongs to; refused and undefined where it may not pass. */
  #admit({ request, answer }: Exchange, token: string | undefined, node: number): Session | undefined {
    const { options, nodes, stateless } = this.#state;
    let session: Session | undefined = stateless;
    if (options.sessions) {
      const id = headerOf(request, 'mcp-session-id');
      if (id === undefined) {
        refuse(answer, 400, -32000, 'Bad Request: Mcp-Session-Id header is required');
        return undefined;
      }
      session = nodes.find(node, id);
      const isForeign = options.bindSession === 'token' && session?.token !== token;
      if (session === undefined || isForeign) {
        refuseSession(answer, options.sessionLostStatus);
        return undefined;
      }
    }
    const version = headerOf(request, 'mcp-protocol-version');
    const isKnown = version === undefined || KNOWN_VERSIONS.includes(version);
    if (!isKnown && version !== options.protocolVersion) {
      const known = KNOWN_VERSIONS.join(', ');
      refuse(answer, 400, -32000, `Bad Request: Unsupported protocol version (supported versions: ${known})`);
      return undefined;
    }
    return session;
  }

  #pickNode({ request, answer, entry }: Exchange, message: Message | undefined): number {
    const { options, nodes } = this.#state;
    const cookie = /(?:^|;\s*)node=n(\d+)/.exec(request.headers.cookie ?? '')?.[1];
    const cookieNode = options.affinityCookie && cookie !== undefined ? Number(cookie) - 1 : undefined;
    const isHandshake = message?.method === 'notifications/initialized';
    const stickTo = isHandshake ? headerOf(request, 'mcp-session-id') : undefined;
    const node = nodes.pick(options.nodes, { cookieNode, stickTo });
    if (options.nodes > 1) entry.nodeLabel = `node#${node + 1}`;
    if (options.affinityCookie && node !== cookieNode) {
      answer.extraHeaders['set-cookie'] = `node=n${node + 1}; Path=/; HttpOnly`;
    }
    return node;
  }

  /** Answers honestly, or as scripted. */
  async #finish(
    exchange: Exchange,
    script: ScriptedReply | undefined,
    facts: Omit<ScriptedRequest, 'http' | 'headers'>,
    honest: () => void,
  ): Promise<void> {
    if (script === undefined || 'cut' in script) {
      if (script !== undefined) exchange.answer.cutAfter(script.afterBytes, script.cut);
      honest();
    } else await this.#sendScripted(script, exchange, facts);
  }

  async #sendScripted(
    reply: ScriptedReply,
    { request, answer, hold }: Exchange,
    facts: Omit<ScriptedRequest, 'http' | 'headers'>,
  ): Promise<void> {
    const headers: Record<string, string> = {};
    for (const name of Object.keys(request.headers)) headers[name] = headerOf(request, name) ?? '';
    const wait = (ms: number) => hold.wait(ms, this.#state.closing);
    await sendScripted(reply, { http: request.method ?? '', headers, ...facts }, answer, wait);
  }

  #openChannel(session: Session, isListener: boolean): SseChannel {
    const state = this.#state;
    const name = session.nextChannelName();
    const channel = new SseChannel({
      name,
      isListener,
      keepsEvents: () => state.options.eventStore,
      encoding: () => state.options.compress,
      connected: state.connected,
      sendsPrimingEvent: session.protocolVersion >= '2025-11-25',
    });
    session.channels.set(name, channel);
    return channel;
  }

  #finishChannel(session: Session, channel: SseChannel): void {
    channel.finish();
    // Kept for a resume only where there can be one.
    if (!this.#state.options.eventStore) session.channels.delete(channel.name);
  }
}

function resume(session: Session, cursor: string, answer: Answer): void {
  const [, name = '', number = ''] = /^(.+)_(\d+)$/.exec(cursor) ?? [];
  const channel = session.channels.get(name);
  if (channel === undefined) refuse(answer, 400, -32000, 'Invalid event ID format');
  else if (channel.isConnected)
    refuse(answer, 409, -32000, 'Conflict: Stream already has an active connection');
  else channel.connect(answer, Number(number));
}

function cancelIfAsked(session: Session, message: { method: string; params?: unknown }): void {
  if (message.method !== 'notifications/cancelled') return;
  const id = asParams(message.params)?.requestId;
  if (typeof id === 'string' || typeof id === 'number') {
    session.calls.get(id)?.abort(new Error('the call was cancelled'));
  }
}

/** The client's response to a question of ours. One that nobody waits for any more is ignored. */
function deliver(session: Session, response: JsonRpcResponse): void {
  const question = typeof response.id === 'number' ? session.questions.get(response.id) : undefined;
  if (question === undefined) return;
  if (isErrorResponse(response)) {
    question.reject(Object.assign(new Error(response.error.message), { code: response.error.code }));
  } else question.resolve(response.result);
}

function parse(body: string): Message | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null ? (value as Message) : undefined;
  } catch {
    return undefined;
  }
}

function scriptFacts({ http, rpcMethod, tool, headers }: LogEntry): RequestFacts {
  return { http, method: rpcMethod, tool, isResume: headers['last-event-id'] !== undefined };
}

function headerOf(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}

function asParams(value: unknown): { readonly [key: string]: unknown } | undefined {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
}
