/**
 * HTTP+SSE of 2024-11-05: one stream for everything the server says, a second address for what it hears.
 *
 * Guarantees that the session lives exactly as long as its stream does for the server, and that a session
 * that was never initialized answers nothing but `initialize` and `ping`. Never answers on the POST itself.
 */
import { isNotification, isRequest, isResponse, type JsonRpcRequest } from '../json-rpc.js';
import {
  cancelIfAsked,
  deliver,
  type Exchange,
  finish,
  type Message,
  scriptFacts,
  type Wire,
} from './exchange.js';
import { initializeResult, negotiatedVersion, perform } from './methods.js';
import { refuse, refuseSession } from './refusals.js';
import type { ServerState } from './server-state.js';
import { Session } from './sessions.js';
import { SseChannel } from './sse.js';

export const LEGACY_STREAM_PATH = '/sse';
export const LEGACY_MESSAGE_PATH = '/messages';
/** Nodes are a matter of the other transport. */
const NODE = 0;

export class LegacyWire implements Wire {
  readonly #state: ServerState;

  constructor(state: ServerState) {
    this.#state = state;
  }

  async handle(exchange: Exchange, message: Message | undefined, token: string | undefined): Promise<void> {
    const { request, path, answer } = exchange;
    if (path === LEGACY_MESSAGE_PATH && request.method === 'POST') {
      await this.#post(exchange, message, token);
    } else if (path === LEGACY_STREAM_PATH && request.method === 'GET') await this.#get(exchange, token);
    else {
      const status = this.#state.options.legacyRefusalStatus;
      answer.send(status, { 'content-type': 'text/plain' }, `Cannot ${request.method} ${path}`);
    }
  }

  async #get(exchange: Exchange, token: string | undefined): Promise<void> {
    const state = this.#state;
    const { request, answer, entry } = exchange;
    if (!(request.headers.accept ?? '').includes('text/event-stream')) {
      return refuse(answer, 406, -32000, 'Not Acceptable: Client must accept text/event-stream');
    }
    const script = state.scripts.take(scriptFacts(entry), 'run');
    const session = new Session({ token, protocolVersion: '2024-11-05' });
    entry.sessionLabel = state.labels.issued('session', session.id);
    const facts = { message: undefined, answer: undefined, sessionId: session.id };
    await finish(state, exchange, script, facts, () => {
      const channel = new SseChannel({
        name: session.nextChannelName(),
        isListener: true,
        settings: () => state.options,
        clock: state.clock,
        connected: state.connected,
        onDisconnected: () => state.nodes.remove(NODE, session.id),
      });
      session.listener = channel;
      session.channels.set(channel.name, channel);
      state.nodes.add(NODE, session);
      channel.connect(answer);
      const at = state.options.legacyEndpoint;
      channel.sendRaw(
        `event: endpoint\ndata: ${at}${at.includes('?') ? '&' : '?'}sessionId=${session.id}\n\n`,
      );
    });
  }

  async #post(exchange: Exchange, message: Message | undefined, token: string | undefined): Promise<void> {
    const state = this.#state;
    const { request, answer, entry } = exchange;
    const id = new URL(request.url ?? '', state.origin).searchParams.get('sessionId') ?? '';
    const session = state.nodes.find(NODE, id);
    if (id !== '') entry.sessionLabel = state.labels.seen('session', id);
    const isForeign = state.options.bindSession === 'token' && session?.token !== token;
    if (session === undefined || isForeign) {
      return refuseSession(answer, state.options.sessionLostStatus);
    }
    if (message === undefined || !(isRequest(message) || isNotification(message) || isResponse(message))) {
      answer.send(400, { 'content-type': 'text/plain' }, 'Invalid message');
      return;
    }
    const script = state.scripts.take(scriptFacts(entry), 'run');
    const isReplaced = script !== undefined && !('cut' in script);
    const facts = { message: { ...message }, sessionId: session.id };
    const accept = () => answer.send(202, { 'content-type': 'text/plain' }, 'Accepted');
    if (!isRequest(message)) {
      if (isNotification(message)) cancelIfAsked(session, message);
      else deliver(session, message);
      await finish(state, exchange, script, { ...facts, answer: undefined }, accept);
      return;
    }
    // What is scripted in the place of the 202 takes the place of the answer, too.
    if (!isReplaced) await finish(state, exchange, script, { ...facts, answer: undefined }, accept);
    const response = await this.#respond(exchange, session, message);
    if (isReplaced) {
      await finish(state, exchange, script, { ...facts, answer: response && { ...response } }, accept);
    } else if (response !== undefined) session.listener?.send(response);
  }

  async #respond({ hold }: Exchange, session: Session, message: JsonRpcRequest) {
    const state = this.#state;
    if (message.method === 'initialize') {
      session.protocolVersion = negotiatedVersion(state, message);
      session.isInitialized = true;
      return initializeResult(state, session, message);
    }
    if (!session.isInitialized && message.method !== 'ping') {
      const error = { code: -32602, message: 'Received request before initialization was complete' };
      return { jsonrpc: '2.0' as const, id: message.id, error };
    }
    const emit = (early: object) => {
      session.listener?.send(early);
      return session.listener?.isConnected === true;
    };
    return perform(message, { state, session, emit, hold });
  }
}
