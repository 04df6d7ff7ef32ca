/**
 * Sessions, and the nodes that know them.
 *
 * Guarantees that a session is known to one node only and that what it started (streams, calls, questions
 * to the client) ends with it when it is ended. Forgetting is not ending: a server that has lost its table
 * still has the sockets.
 */
import { randomUUID } from 'node:crypto';
import type { RequestId } from '../json-rpc.js';
import { EventLog } from './event-log.js';
import type { SseChannel } from './sse.js';

export interface PendingQuestion {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

export class Session {
  readonly id: string = randomUUID();
  /** The token of the `initialize`. */
  readonly token: string | undefined;
  /** Settled by the handshake. */
  protocolVersion: string;
  /** Only asked where a session can be there before its handshake. */
  isInitialized = false;
  /** Streams of calls by name, and the listen stream: where a cursor is looked up. */
  readonly channels = new Map<string, SseChannel>();
  readonly log = new EventLog();
  /** Streams of a deaf store by the id they are registered under. */
  readonly deafStreams = new Map<string, SseChannel>();
  readonly subscriptions = new Set<string>();
  listener: SseChannel | undefined;
  readonly questions = new Map<number, PendingQuestion>();
  readonly calls = new Map<RequestId, AbortController>();
  #lastChannel = 0;
  #nextQuestion = 0;

  constructor(o: { token: string | undefined; protocolVersion: string }) {
    this.token = o.token;
    this.protocolVersion = o.protocolVersion;
  }

  nextChannelName(): string {
    this.#lastChannel += 1;
    return `s${this.#lastChannel}`;
  }

  /** From 0 in every session, as SDK servers count. */
  nextQuestionId(): number {
    const id = this.#nextQuestion;
    this.#nextQuestion += 1;
    return id;
  }

  end(): void {
    for (const call of this.calls.values()) call.abort(new Error('the session has ended'));
    for (const question of this.questions.values()) question.reject(new Error('the session has ended'));
    this.calls.clear();
    this.questions.clear();
    for (const channel of [...this.channels.values()]) channel.finish();
    this.channels.clear();
  }
}

/** The nodes behind one address. */
export class Nodes {
  readonly #tables: Map<string, Session>[] = [];
  #turn = 0;

  /** Picks the node of one request: by cookie, by session where asked to, else the next one in turn. */
  pick(count: number, o: { cookieNode?: number | undefined; stickTo?: string | undefined }): number {
    if (o.cookieNode !== undefined && o.cookieNode < count) return o.cookieNode;
    if (o.stickTo !== undefined) {
      const holder = this.#tables.findIndex((table) => table.has(o.stickTo ?? ''));
      if (holder >= 0 && holder < count) return holder;
    }
    const node = this.#turn % count;
    this.#turn += 1;
    return node;
  }

  find(node: number, id: string): Session | undefined {
    return this.#table(node).get(id);
  }

  add(node: number, session: Session): void {
    this.#table(node).set(session.id, session);
  }

  remove(node: number, id: string): void {
    this.#table(node).delete(id);
  }

  forgetAll(): void {
    for (const table of this.#tables) table.clear();
  }

  *all(): Iterable<Session> {
    for (const table of this.#tables) yield* table.values();
  }

  #table(node: number): Map<string, Session> {
    const known = this.#tables[node];
    if (known !== undefined) return known;
    const table = new Map<string, Session>();
    this.#tables[node] = table;
    return table;
  }
}
