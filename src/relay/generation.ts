/**
 * One process of a supervised server, and the requests under way on it.
 *
 * Guarantees that an answer goes to the request that this very process was asked under that id, and to no other: ids
 * are never used twice, and an answer of another process finds nobody here. With the process every request ends.
 */
import { HostedMcpError } from '../errors.js';
import {
  isNotification,
  isRequest,
  isResponse,
  type JsonRpcMessage,
  type JsonRpcNotification,
  type JsonRpcRequest,
  type JsonRpcResponse,
  type RequestId,
} from '../json-rpc.js';
import type { ChildEnd } from '../servers/child.js';
import { keyOfCut, parsed } from '../servers/process-session.js';
import { CHILD_ENDED, withoutCarried } from './carried.js';
import type { SupervisedChild } from './grouped-child.js';
import { askedBy, withoutGeneration } from './messages.js';

const METHOD_NOT_FOUND = -32601;

export interface GenerationParts {
  readonly number: number;
  /** One more with each call, over all generations. */
  nextId(): number;
  onNotification(message: JsonRpcNotification): void;
}

interface Pending {
  /** As whoever asked knows it. */
  readonly message: JsonRpcRequest;
  resolve(answer: JsonRpcResponse): void;
  reject(error: HostedMcpError): void;
}

/** A request that was written, and how to take it back. */
export interface Asked {
  readonly answer: Promise<JsonRpcResponse>;
  /** Nobody waits any more; the server is told. */
  cancel(reason: string): void;
}

export class Generation {
  readonly number: number;
  readonly #parts: GenerationParts;
  readonly #pending = new Map<number, Pending>();
  #child: SupervisedChild | undefined;
  #ended = false;
  /** Requests in a row that ran out of time while it said nothing. */
  silences = 0;

  constructor(parts: GenerationParts) {
    this.number = parts.number;
    this.#parts = parts;
  }

  bind(child: SupervisedChild): void {
    this.#child = child;
  }
  get child(): SupervisedChild | undefined {
    return this.#child;
  }
  /** It takes requests. */
  get isAlive(): boolean {
    return !this.#ended && this.#child?.isEnding === false;
  }
  get isBusy(): boolean {
    return this.#pending.size > 0;
  }

  /** Only while it is alive. */
  ask(message: JsonRpcRequest): Asked {
    const id = this.#parts.nextId();
    const answer = new Promise<JsonRpcResponse>((resolve, reject) => {
      this.#pending.set(id, { message, resolve, reject });
    });
    // Whoever has given up does not hear of it.
    answer.catch(() => {});
    this.#write({ ...message, id });
    return {
      answer,
      cancel: (reason) => {
        if (!this.#pending.delete(id) || !this.isAlive) return;
        // The handshake cannot be cancelled (MCP 2025-11-25, "Cancellation").
        if (message.method === 'initialize') return;
        this.tell({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id, reason } });
      },
    };
  }

  tell(message: JsonRpcNotification): void {
    if (this.isAlive) this.#write(message);
  }

  onLine(bytes: Buffer): void {
    this.silences = 0;
    for (const message of parsed(bytes.toString('utf8').trim()) ?? []) this.#receive(message);
  }

  /** Of a line that is too long only its ends are known; where they do not say whose answer it was, it is nobody's. */
  onTooLong(head: Buffer, tail: Buffer): void {
    this.silences = 0;
    const pending = this.#take(Number(keyOfCut(head, tail)));
    pending?.reject(
      new HostedMcpError('ERR_MESSAGE_TOO_LARGE', 'The answer is larger than allowed', {
        executed: true,
        ...askedBy(pending.message),
      }),
    );
  }

  onEnd({ code }: ChildEnd): void {
    this.#ended = true;
    for (const [id, { message, reject }] of [...this.#pending]) {
      this.#pending.delete(id);
      reject(
        new HostedMcpError(
          'ERR_OUTCOME_UNKNOWN',
          `The process of the server ended (${code}) before it had answered`,
          {
            executed: 'unknown',
            reason: CHILD_ENDED,
            ...askedBy(message),
          },
        ),
      );
    }
  }

  #receive(message: JsonRpcMessage): void {
    if (isResponse(message)) {
      const pending = this.#take(message.id);
      pending?.resolve({ ...withoutCarried(message), id: pending.message.id });
    } else if (isRequest(message)) {
      this.#acknowledge(message);
    } else if (isNotification(message)) {
      this.#parts.onNotification(message);
    }
  }

  /** Nobody on the other side could answer in time, so it is told at once, and never waits. */
  #acknowledge({ id, method }: JsonRpcRequest): void {
    if (!this.isAlive) return;
    this.#write(
      method === 'ping'
        ? { jsonrpc: '2.0', id, result: {} }
        : { jsonrpc: '2.0', id, error: { code: METHOD_NOT_FOUND, message: 'A relay carries no questions' } },
    );
  }

  #take(id: RequestId | null | undefined): Pending | undefined {
    if (typeof id !== 'number') return undefined;
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    return pending;
  }

  #write(message: JsonRpcMessage): void {
    const isAsked = 'method' in message && message.params !== undefined;
    const meant = isAsked ? { ...message, params: withoutGeneration(message.params ?? {}) } : message;
    this.#child?.write(JSON.stringify(meant));
  }
}
