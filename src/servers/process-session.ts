/**
 * The session of one process: which of its lines belongs to which exchange.
 *
 * Guarantees that an answer goes to the call whose id it has and to no other, that what the server says on its own
 * account comes in order, and that with the process every exchange ends. What is no message is told, and ignored.
 */
import {
  isErrorResponse,
  isNotification,
  isRequest,
  isResponse,
  isResult,
  type JsonRpcMessage,
  type JsonRpcRequest,
  type RequestId,
} from '../json-rpc.js';
import type { Child, ChildEnd } from './child.js';
import type { LocalExchange } from './local-exchange.js';

export interface ProcessSessionParts {
  readonly id: string;
  readonly maxBytes: number;
  /** The server has opened the session. */
  onStands(session: ProcessSession): void;
  /** Something that a person may want to know; never the server's words. */
  tell(event: 'stdio-line-ignored' | 'stdio-message-dropped', message: string, count: number): void;
}

interface Pending {
  readonly exchange: LocalExchange;
  readonly method: string;
  readonly progressToken: unknown;
}

/** What the server says before anybody listens. */
const BACKLOG = 256;
/** `data: ` and the breaks around a message in an event stream. */
const EVENT_BYTES = 16;
/** `{"jsonrpc":"2.0","id":7,` and `,"jsonrpc":"2.0","id":7}`: how servers begin or end an answer. */
const ID = '"id"\\s*:\\s*(\\d{1,15}|"(?:[^"\\\\]|\\\\.){0,256}")';
const VERSION = '"jsonrpc"\\s*:\\s*"2\\.0"';
const ID_AT_HEAD = new RegExp(`^\\s*\\{\\s*(?:${VERSION}\\s*,\\s*)?${ID}\\s*,`);
const ID_AT_TAIL = new RegExp(`,\\s*${ID}\\s*(?:,\\s*${VERSION}\\s*)?\\}\\s*$`);

export class ProcessSession {
  readonly id: string;
  readonly #parts: ProcessSessionParts;
  readonly #pending = new Map<string, Pending>();
  readonly #pendingOf = new Map<LocalExchange, string>();
  #backlog: string[] = [];
  #backlogBytes = 0;
  #listener: LocalExchange | undefined;
  #ignored = 0;
  #dropped = 0;
  #stands = false;
  #onIdle: (() => void) | undefined;

  constructor(parts: ProcessSessionParts) {
    this.id = parts.id;
    this.#parts = parts;
  }

  /** It was opened, and calls may go out on it. */
  get stands(): boolean {
    return this.#stands;
  }
  get isBusy(): boolean {
    return this.#pending.size > 0;
  }

  /** Calls back when nothing is under way any more: at once, if nothing is. */
  whenIdle(then: () => void): void {
    if (this.isBusy) this.#onIdle = then;
    else then();
  }

  ask(message: JsonRpcRequest, body: string, child: Child, exchange: LocalExchange): void {
    const key = JSON.stringify(message.id);
    // Two under one id could not be told apart.
    if (this.#pending.has(key)) {
      exchange.fail('invalid-request');
      return;
    }
    if (!exchange.leave()) return;
    const meta = message.params?._meta;
    const progressToken =
      typeof meta === 'object' && meta !== null && 'progressToken' in meta ? meta.progressToken : undefined;
    this.#pending.set(key, { exchange, method: message.method, progressToken });
    this.#pendingOf.set(exchange, key);
    child.write(body);
  }

  /** The stream of what the server says on its own account; the last one asked for has it. */
  listen(exchange: LocalExchange): void {
    if (!exchange.leave()) return;
    const before = this.#listener;
    this.#listener = exchange;
    before?.fail('network', 'REPLACED');
    exchange.open();
    const waiting = this.#backlog;
    this.#backlog = [];
    this.#backlogBytes = 0;
    for (const message of waiting) this.#say(message);
  }

  /** An exchange has ended, be it given up. */
  ended(exchange: LocalExchange): void {
    if (exchange === this.#listener) this.#listener = undefined;
    const key = this.#pendingOf.get(exchange);
    if (key === undefined) return;
    this.#pendingOf.delete(exchange);
    this.#pending.delete(key);
    if (this.#pending.size > 0) return;
    this.#onIdle?.();
    this.#onIdle = undefined;
  }

  onLine(bytes: Buffer): void {
    const text = bytes.toString('utf8').trim();
    if (text === '') return;
    const messages = parsed(text);
    if (messages === undefined) {
      this.#ignore('A line of the server’s output is no JSON-RPC message.');
      return;
    }
    const isOne = messages.length === 1;
    for (const message of messages) this.#receive(message, isOne ? text : JSON.stringify(message));
  }

  /** The answer that was too long is refused where its two ends tell whose it was. */
  onTooLong(head: Buffer, tail: Buffer): void {
    const key = keyOfCut(head, tail);
    const [only] = this.#pending.keys();
    const found =
      key !== undefined && this.#pending.has(key) ? key : this.#pending.size === 1 ? only : undefined;
    if (found === undefined) this.#ignore('A line of the server’s output is longer than allowed.');
    else this.#pending.get(found)?.exchange.fail('too-large');
  }

  onEnd({ code }: ChildEnd): void {
    this.#listener?.fail('network', code);
    for (const { exchange } of [...this.#pending.values()]) exchange.fail('network', code);
  }

  #receive(message: JsonRpcMessage, text: string): void {
    if (!isResponse(message)) {
      this.#say(text, message);
      return;
    }
    const pending = isRequestIdOf(message.id) ? this.#pending.get(JSON.stringify(message.id)) : undefined;
    if (pending === undefined) {
      this.#ignore('An answer of the server belongs to no call that waits.');
      return;
    }
    const opens = pending.method === 'initialize' && !isErrorResponse(message) && isResult(message);
    if (opens) {
      this.#stands = true;
      this.#parts.onStands(this);
    }
    pending.exchange.answer(200, text, opens ? { 'mcp-session-id': this.id } : {});
  }

  /** On the listen stream; without one on the stream of the call it belongs to, or of any; else when there is one. */
  #say(text: string, message?: JsonRpcMessage): void {
    const bytes = Buffer.byteLength(text) + EVENT_BYTES;
    if (bytes > this.#parts.maxBytes) {
      this.#drop('A message of the server is longer than allowed.');
      return;
    }
    const stream = this.#listener ?? (message === undefined ? undefined : this.#streamFor(message));
    if (stream !== undefined) {
      stream.event(text);
      return;
    }
    this.#backlog.push(text);
    this.#backlogBytes += bytes;
    while (this.#backlog.length > BACKLOG || this.#backlogBytes > this.#parts.maxBytes) {
      this.#backlogBytes -= Buffer.byteLength(this.#backlog.shift() ?? '') + EVENT_BYTES;
      this.#drop('Nobody listens to what the server says on its own account; the oldest is let go.');
    }
  }

  #streamFor(message: JsonRpcMessage): LocalExchange | undefined {
    const calls = [...this.#pending.values()].filter(({ method }) => method !== 'initialize');
    const token = isNotification(message) ? message.params?.progressToken : undefined;
    const own = token === undefined ? undefined : calls.find(({ progressToken }) => progressToken === token);
    return (own ?? calls[0])?.exchange;
  }

  #ignore(what: string): void {
    this.#ignored += 1;
    this.#parts.tell('stdio-line-ignored', what, this.#ignored);
  }
  #drop(what: string): void {
    this.#dropped += 1;
    this.#parts.tell('stdio-message-dropped', what, this.#dropped);
  }
}

function isRequestIdOf(id: RequestId | null | undefined): id is RequestId {
  return id !== null && id !== undefined;
}

/** The messages of a line: one, or those of a batch; undefined where anything of it is none. */
export function parsed(text: string): JsonRpcMessage[] | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const all = Array.isArray(value) ? value : [value];
  const areMessages = all.every((each) => isResponse(each) || isRequest(each) || isNotification(each));
  return areMessages && all.length > 0 ? all : undefined;
}

/** Whose answer a line was of which only the two ends are left: its id, as JSON. */
export function keyOfCut(head: Buffer, tail: Buffer): string | undefined {
  return keyAt(ID_AT_TAIL, tail) ?? keyAt(ID_AT_HEAD, head);
}

function keyAt(pattern: RegExp, bytes: Buffer): string | undefined {
  const [, id] = pattern.exec(bytes.toString('utf8')) ?? [];
  if (id === undefined) return undefined;
  try {
    return JSON.stringify(JSON.parse(id));
  } catch {
    return undefined;
  }
}
