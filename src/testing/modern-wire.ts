/**
 * Streamable HTTP of 2026-07-28: every request stands for itself.
 *
 * Guarantees that nothing is kept between two requests but the tools, and that a notification goes only to
 * subscriptions that asked for it. Never gives out a session or an event id, and never asks the client anything.
 */
import { isNotification, isRequest, type JsonRpcRequest, type JsonRpcResponse } from '../json-rpc.js';
import {
  answerRequest,
  asParams,
  type Exchange,
  finish,
  hasPostHeaders,
  type Message,
  scriptFacts,
  type Wire,
} from './exchange.js';
import { refusalOf } from './modern-envelope.js';
import { MODERN_VERSION } from './options.js';
import { refuse } from './refusals.js';
import type { ServerState } from './server-state.js';
import { Session } from './sessions.js';
import { SseChannel } from './sse.js';

const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';
const SERVER_INFO = 'io.modelcontextprotocol/serverInfo';
/** Nothing may be taken from a cache: tests change tools at any time. */
const NOT_CACHED = Object.freeze({ ttlMs: 0, cacheScope: 'private' });
const CACHEABLE: readonly string[] = [
  'server/discover',
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
];
/** What a subscription asks for by a flag. */
const FLAGS: readonly (readonly [string, string])[] = [
  ['notifications/tools/list_changed', 'toolsListChanged'],
  ['notifications/prompts/list_changed', 'promptsListChanged'],
  ['notifications/resources/list_changed', 'resourcesListChanged'],
];

export class ModernWire implements Wire {
  readonly #state: ServerState;

  constructor(state: ServerState) {
    this.#state = state;
  }

  async handle(exchange: Exchange, message: Message | undefined): Promise<void> {
    const { request, answer, entry } = exchange;
    const state = this.#state;
    if (request.method !== 'POST') {
      return refuse(answer, 405, -32000, 'Method not allowed.', { allow: 'POST' });
    }
    if (!hasPostHeaders(exchange)) return;
    if (message === undefined) return refuse(answer, 400, -32700, 'Parse error');
    if (isNotification(message)) {
      // A cancellation needs no hearing: closing the stream of a request is what cancels it.
      const script = state.scripts.take(scriptFacts(entry), 'run');
      const facts = { message: { ...message }, answer: undefined, sessionId: undefined };
      await finish(state, exchange, script, facts, () => answer.send(202, {}));
      return;
    }
    if (!isRequest(message)) return refuse(answer, 400, -32600, 'Invalid Request');
    const refusal = refusalOf(message, request.headers);
    if (refusal !== undefined) {
      const { status, ...error } = refusal;
      answer.sendJson(status, { jsonrpc: '2.0', id: message.id, error });
      return;
    }
    await this.#answer(exchange, message);
  }

  async #answer(exchange: Exchange, message: JsonRpcRequest): Promise<void> {
    const state = this.#state;
    const { answer } = exchange;
    const script = state.scripts.take(scriptFacts(exchange.entry), 'run');
    if (message.method === 'subscriptions/listen') {
      const facts = { message: { ...message }, answer: undefined, sessionId: undefined };
      await finish(state, exchange, script, facts, () => this.#subscribe(exchange, message));
      return;
    }
    if (message.method === 'server/discover') {
      const result = { supportedVersions: [MODERN_VERSION], capabilities: state.capabilities };
      const response = this.#dress(message.method, { jsonrpc: '2.0', id: message.id, result });
      const facts = { message: { ...message }, answer: { ...response }, sessionId: undefined };
      await finish(state, exchange, script, facts, () =>
        answer.sendJson(200, response, {}, state.options.compress),
      );
      return;
    }
    const session = new Session({ token: undefined, protocolVersion: MODERN_VERSION });
    answer.onClosed((clientLeft) => {
      if (!clientLeft) return;
      for (const call of session.calls.values()) call.abort(new Error('the client closed the stream'));
    });
    await answerRequest(
      { state, exchange, session, message, script },
      {
        openChannel: () => this.#openChannel(),
        finishChannel: (channel) => channel.finish(),
        maySend: (early) => !isRequest(early),
        dress: (response) => this.#dress(message.method, response),
      },
    );
  }

  #subscribe({ answer }: Exchange, message: JsonRpcRequest): void {
    const { subscriptions } = this.#state;
    const filter = asParams(message.params?.notifications) ?? {};
    const channel = this.#openChannel(() => subscriptions.delete(subscription));
    const subscription = {
      deliver: (notification: object) => {
        const { method, params } = notification as { method: string; params?: object };
        if (!isAskedFor(filter, method, params)) return;
        channel.send(withMeta(notification, { [SUBSCRIPTION_ID]: message.id }));
      },
    };
    subscriptions.add(subscription);
    channel.connect(answer);
    const acknowledged = {
      jsonrpc: '2.0',
      method: 'notifications/subscriptions/acknowledged',
      params: { notifications: filter },
    };
    channel.send(withMeta(acknowledged, { [SUBSCRIPTION_ID]: message.id }));
  }

  #openChannel(onDisconnected?: (() => void) | undefined): SseChannel {
    const state = this.#state;
    return new SseChannel({
      name: '',
      isListener: false,
      settings: () => state.options,
      clock: state.clock,
      connected: state.connected,
      onDisconnected,
    });
  }

  #dress(method: string, response: JsonRpcResponse): JsonRpcResponse {
    if (!('result' in response)) return response;
    const given = response.result;
    const result = {
      resultType: 'complete',
      ...(CACHEABLE.includes(method) ? NOT_CACHED : {}),
      ...given,
      _meta: { [SERVER_INFO]: this.#state.serverInfo, ...asParams(given._meta) },
    };
    return { ...response, result };
  }
}

function isAskedFor(filter: { readonly [key: string]: unknown }, method: string, params: unknown): boolean {
  const flag = FLAGS.find(([name]) => name === method)?.[1];
  if (flag !== undefined) return filter[flag] === true;
  const uris = filter.resourceSubscriptions;
  return (
    method === 'notifications/resources/updated' &&
    Array.isArray(uris) &&
    uris.includes(asParams(params)?.uri)
  );
}

function withMeta(notification: object, meta: object): object {
  const params = asParams((notification as { params?: unknown }).params);
  return { ...notification, params: { ...params, _meta: { ...asParams(params?._meta), ...meta } } };
}
