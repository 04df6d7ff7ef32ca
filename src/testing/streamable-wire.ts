/**
 * Streamable HTTP of 2025-11-25 and before.
 *
 * Guarantees the order of an honest server: form of the request, session, version, method. Never lets a
 * client that went away stop a tool: a closed connection is no cancellation.
 */
import { isNotification, isRequest, isResponse, type JsonRpcRequest } from '../json-rpc.js';
import type { Answer } from './answer.js';
import {
  answerRequest,
  cancelIfAsked,
  deliver,
  type Exchange,
  finish,
  hasPostHeaders,
  headerOf,
  type Message,
  scriptFacts,
  type Wire,
} from './exchange.js';
import { initializeResult, negotiatedVersion } from './methods.js';
import { KNOWN_VERSIONS } from './options.js';
import { refuse, refuseSession } from './refusals.js';
import type { ServerState } from './server-state.js';
import { Session } from './sessions.js';
import { SseChannel } from './sse.js';

export class StreamableWire implements Wire {
  readonly #state: ServerState;

  constructor(state: ServerState) {
    this.#state = state;
  }

  async handle(exchange: Exchange, message: Message | undefined, token: string | undefined): Promise<void> {
    const { options } = this.#state;
    const { method } = exchange.request;
    if (method === 'POST') await this.#post(exchange, message, token);
    else if (method === 'GET' && options.listen) await this.#get(exchange, token);
    else if (method === 'DELETE' && options.sessions) await this.#delete(exchange, token);
    else {
      const allowed = ['POST', ...(options.listen ? ['GET'] : []), ...(options.sessions ? ['DELETE'] : [])];
      refuse(exchange.answer, 405, -32000, 'Method not allowed.', { allow: allowed.join(', ') });
    }
  }

  async #post(exchange: Exchange, message: Message | undefined, token: string | undefined): Promise<void> {
    const { answer } = exchange;
    const state = this.#state;
    if (!hasPostHeaders(exchange)) return;
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
    const script = state.scripts.take(scriptFacts(exchange.entry), 'run');
    if (isRequest(message)) {
      await answerRequest(
        { state, exchange, session, message, script },
        {
          openChannel: () => this.#openChannel(session, false),
          finishChannel: (channel) => this.#finishChannel(session, channel),
        },
      );
      return;
    }
    if (isNotification(message)) cancelIfAsked(session, message);
    else deliver(session, message);
    const isHandshake = 'method' in message && message.method === 'notifications/initialized';
    const facts = { message, answer: undefined, sessionId: session.id };
    await finish(state, exchange, script, facts, () => {
      const status = isHandshake ? state.options.handshakeStatus : 202;
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
    await finish(state, exchange, script, facts, () => {
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

  async #get(exchange: Exchange, token: string | undefined): Promise<void> {
    const { request, answer } = exchange;
    if (!(request.headers.accept ?? '').includes('text/event-stream')) {
      return refuse(answer, 406, -32000, 'Not Acceptable: Client must accept text/event-stream');
    }
    const session = this.#admit(exchange, token, this.#pickNode(exchange, undefined));
    if (session === undefined) return;
    const script = this.#state.scripts.take(scriptFacts(exchange.entry), 'run');
    const facts = { message: undefined, answer: undefined, sessionId: session.id };
    await finish(this.#state, exchange, script, facts, () => {
      const cursor = headerOf(request, 'last-event-id');
      const { eventStore } = this.#state.options;
      if (cursor === undefined || eventStore === false) this.#listen(session, answer);
      else if (eventStore === 'deaf') this.#resumeDeaf(session, cursor, answer);
      else resume(session, cursor, answer);
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

  /** The store finds the events, and registers the stream under an id that nothing is ever sent to. */
  #resumeDeaf(session: Session, cursor: string, answer: Answer): void {
    const { texts, lastId } = session.log.laterAnywhere(cursor);
    session.deafStreams.get(lastId)?.finish();
    const stream = this.#openChannel(session, false);
    session.deafStreams.set(lastId, stream);
    stream.connect(answer, texts);
  }

  async #delete(exchange: Exchange, token: string | undefined): Promise<void> {
    const node = this.#pickNode(exchange, undefined);
    const session = this.#admit(exchange, token, node);
    if (session === undefined) return;
    const script = this.#state.scripts.take(scriptFacts(exchange.entry), 'run');
    this.#state.nodes.remove(node, session.id);
    session.end();
    const facts = { message: undefined, answer: undefined, sessionId: session.id };
    await finish(this.#state, exchange, script, facts, () => exchange.answer.send(200, {}));
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

  #openChannel(session: Session, isListener: boolean): SseChannel {
    const state = this.#state;
    const name = session.nextChannelName();
    const channel = new SseChannel({
      name,
      isListener,
      settings: () => state.options,
      clock: state.clock,
      connected: state.connected,
      log: session.log,
      sendsPrimingEvent: session.protocolVersion >= '2025-11-25',
    });
    session.channels.set(name, channel);
    return channel;
  }

  #finishChannel(session: Session, channel: SseChannel): void {
    channel.finish();
    // Kept for a resume only where there can be one.
    if (this.#state.options.eventStore === false) session.channels.delete(channel.name);
  }
}

function resume(session: Session, cursor: string, answer: Answer): void {
  const [, name = '', number = ''] = /^(.+)_(\d+)$/.exec(cursor) ?? [];
  const channel = session.channels.get(name);
  if (channel === undefined) refuse(answer, 400, -32000, 'Invalid event ID format');
  else if (channel.isConnected)
    refuse(answer, 409, -32000, 'Conflict: Stream already has an active connection');
  else channel.connect(answer, session.log.laterOnStream(name, Number(number)));
}
