/**
 * Where a message of the server goes that is no answer: to the call it belongs to, or to the listen streams.
 *
 * Guarantees that a notification reaches each client once, that a question reaches one, and that ids and progress
 * tokens are the ones that client knows. Never forgets what comes while nobody listens: a bounded number of
 * messages waits for the next stream.
 */
import type { Call } from '../connection/ledger.js';
import {
  isNotification,
  isRequest,
  type JsonRpcMessage,
  type JsonRpcNotification,
  type JsonRpcRequest,
  type RequestId,
} from '../json-rpc.js';
import type { FetchCall } from './fetch-call.js';
import type { MessageStream } from './message-stream.js';

const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';
/** Between the handshake and the listen stream come a handful; a client that never listens shall cost no more. */
const MOST_HELD = 100;
/** Progress may go on after the answer (MCP 2025-11-25, tasks). */
const MOST_REMEMBERED = 1_000;

interface Listening {
  readonly client: string;
  readonly stream: MessageStream;
}

export class Routes {
  readonly #calls = new Map<number, FetchCall>();
  /** In the order in which they were opened. */
  readonly #listening = new Set<Listening>();
  /** Of calls that are over: whose they were, and the progress token. */
  readonly #remembered = new Map<number, Pick<FetchCall, 'client' | 'token'>>();
  /** Whom a question of the server was put to. */
  readonly #asked = new Map<RequestId, string>();
  #held: JsonRpcMessage[] = [];

  opened(call: FetchCall): void {
    this.#calls.set(call.engineId, call);
  }

  ended(call: FetchCall): void {
    this.#calls.delete(call.engineId);
    const { client, token, isTakenBack } = call;
    if (token === undefined || isTakenBack) return;
    this.#remembered.set(call.engineId, { client, token });
    forgetOldest(this.#remembered, MOST_REMEMBERED);
  }

  /** The call of that client that has this id, while it is open. */
  find(client: string, id: unknown): FetchCall | undefined {
    for (const call of this.#calls.values()) if (call.client === client && call.id === id) return call;
    return undefined;
  }

  /** Whether anybody else than this client has something open. */
  isUsedByOthers(client: string): boolean {
    for (const call of this.#calls.values()) if (call.client !== client) return true;
    for (const each of this.#listening) if (each.client !== client && each.stream.isOpen) return true;
    return false;
  }

  /** Takes messages for a client from here on; gives what takes that back. */
  listen(client: string, stream: MessageStream): () => void {
    const listening = { client, stream };
    this.#listening.add(listening);
    const held = this.#held;
    this.#held = [];
    for (const message of held) this.deliver(message);
    return () => this.#listening.delete(listening);
  }

  /** All listen streams, or those of one client, end. */
  stopListening(client?: string): void {
    for (const each of this.#listening) {
      if (client !== undefined && each.client !== client) continue;
      each.stream.end();
      this.#listening.delete(each);
    }
  }

  /** A question was answered. */
  answered(id: RequestId | null | undefined): void {
    if (id !== null && id !== undefined) this.#asked.delete(id);
  }

  /** `about`: the engine's call on whose stream it came, where it came on one. */
  deliver(message: JsonRpcMessage, about?: Call): void {
    const own = about === undefined ? undefined : this.#callOf(about.id);
    if (isRequest(message)) this.#ask(message, own);
    else if (isNotification(message)) this.#notify(message, own);
  }

  #ask(question: JsonRpcRequest, own: FetchCall | undefined): void {
    const client = own?.client ?? this.#addressee();
    if (client === undefined) {
      this.#hold(question);
      return;
    }
    this.#asked.set(question.id, client);
    forgetOldest(this.#asked, MOST_REMEMBERED);
    this.#give(client, question, own);
  }

  #notify(message: JsonRpcNotification, own: FetchCall | undefined): void {
    const { method, params = {} } = message;
    const subscriber = this.#callOf(metaOf(params)[SUBSCRIPTION_ID]);
    const withdrawn = method === 'notifications/cancelled' ? (params.requestId as RequestId) : undefined;
    const asked = withdrawn === undefined ? undefined : this.#asked.get(withdrawn);
    this.answered(withdrawn);
    if (method === 'notifications/progress') this.#progress(message, params);
    else if (subscriber !== undefined) {
      const _meta = { ...metaOf(params), [SUBSCRIPTION_ID]: subscriber.id };
      subscriber.push({ ...message, params: { ...params, _meta } });
    } else if (asked !== undefined) this.#give(asked, message, own);
    else if (own !== undefined) own.push(message);
    else this.#tellAll(message);
  }

  #progress(message: JsonRpcNotification, params: Readonly<Record<string, unknown>>): void {
    const { progressToken } = params;
    if (typeof progressToken !== 'number') return;
    const open = this.#calls.get(progressToken);
    const about = open ?? this.#remembered.get(progressToken);
    // Nobody remembers the call, or nobody gave that token.
    if (about?.token === undefined) return;
    const known = { ...message, params: { ...params, progressToken: about.token } };
    if (open !== undefined) open.push(known);
    else this.#streamOf(about.client)?.push(known);
  }

  /** Whoever has a call under way asked last; else who listens. */
  #addressee(): string | undefined {
    return [...this.#calls.values()].at(-1)?.client ?? this.#open().at(-1)?.client;
  }

  #give(client: string, message: JsonRpcMessage, own?: FetchCall): void {
    const taker = own ?? this.#streamOf(client) ?? this.#latestCallOf(client);
    if (taker === undefined) this.#hold(message);
    else taker.push(message);
  }

  #tellAll(message: JsonRpcMessage): void {
    const clients = new Set(this.#open().map(({ client }) => client));
    for (const { client } of this.#calls.values()) clients.add(client);
    if (clients.size === 0) this.#hold(message);
    for (const client of clients) this.#give(client, message);
  }

  #hold(message: JsonRpcMessage): void {
    this.#held.push(message);
    if (this.#held.length > MOST_HELD) this.#held.shift();
  }

  #open(): Listening[] {
    return [...this.#listening].filter(({ stream }) => stream.isOpen);
  }

  #streamOf(client: string): MessageStream | undefined {
    return this.#open().findLast((each) => each.client === client)?.stream;
  }

  #latestCallOf(client: string): FetchCall | undefined {
    return [...this.#calls.values()].findLast((call) => call.client === client);
  }

  #callOf(engineId: unknown): FetchCall | undefined {
    return typeof engineId === 'number' ? this.#calls.get(engineId) : undefined;
  }
}

function metaOf(params: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { _meta } = params;
  return typeof _meta === 'object' && _meta !== null ? (_meta as Record<string, unknown>) : {};
}

function forgetOldest(map: Map<unknown, unknown>, most: number): void {
  for (const oldest of map.keys()) {
    if (map.size <= most) return;
    map.delete(oldest);
  }
}
