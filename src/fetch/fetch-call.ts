/**
 * One JSON-RPC request of a framework, from its POST to the end of the answer.
 *
 * Guarantees that the form fits what comes: plain JSON where the answer is all there is, an event stream as soon as
 * something comes before it; and that its end leaves no listener behind. Never ends a stream before all that was
 * put on it has been read.
 */
import type { Call } from '../connection/ledger.js';
import type { JsonRpcMessage, JsonRpcRequest, JsonRpcResponse, RequestId } from '../json-rpc.js';
import { jsonResponse, streamResponse } from './answers.js';
import { MessageStream } from './message-stream.js';
import type { SignalWatch } from './signal-watch.js';

export interface FetchCallParts {
  readonly message: JsonRpcRequest;
  /** The framework's client that asks: the id it was given at its handshake. */
  readonly client: string;
  /** The id by which the engine knows it: several clients count from the same number. */
  readonly engineId: number;
  readonly signal: AbortSignal | undefined;
  readonly watch: SignalWatch;
  readonly headers: Readonly<Record<string, string>>;
  /** The framework no longer wants it. */
  readonly onGivenUp: (call: FetchCall, reason: unknown) => void;
}

export class FetchCall {
  readonly response: Promise<Response>;
  readonly client: string;
  readonly engineId: number;
  readonly id: RequestId;
  /** The caller's progress token. */
  readonly token: unknown;
  readonly method: string;
  /** Once it is on its way. */
  onItsWay: Call | undefined;
  /** The framework has taken it back and waits for nothing. */
  isTakenBack = false;
  readonly #parts: FetchCallParts;
  #resolve!: (response: Response) => void;
  #reject!: (reason: unknown) => void;
  #stream: MessageStream | undefined;
  readonly #unwatch: () => void;
  #isSettled = false;

  constructor(parts: FetchCallParts) {
    const { message, signal } = parts;
    this.#parts = parts;
    this.client = parts.client;
    this.engineId = parts.engineId;
    this.id = message.id;
    this.method = message.method;
    this.token = progressTokenOf(message);
    this.response = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#unwatch = parts.watch.on(signal, () => this.#aborted(signal?.reason));
  }

  /** The request as the engine gets it. */
  get outgoing(): JsonRpcRequest {
    const { message } = this.#parts;
    const params =
      this.token === undefined
        ? message.params
        : {
            ...message.params,
            _meta: { ...(message.params?._meta as object), progressToken: this.engineId },
          };
    return { ...message, id: this.engineId, params };
  }

  /** A message that comes before the answer. */
  push(message: JsonRpcMessage): void {
    if (this.#isSettled) return;
    if (this.#stream === undefined) {
      this.#stream = new MessageStream(() => this.#giveUp(undefined));
      this.#resolve(streamResponse(this.#stream.body, this.#parts.headers));
    }
    this.#stream.push(message);
  }

  answer(message: JsonRpcResponse): void {
    if (!this.#settle()) return;
    const known = { ...message, id: this.id };
    if (this.#stream === undefined) {
      this.#resolve(jsonResponse(known, this.#parts.headers));
      return;
    }
    this.#stream.push(known);
    this.#stream.end();
  }

  /** Ends without an answer: the client has forgotten the id, and would complain of one. */
  silence(): void {
    if (!this.#settle()) return;
    if (this.#stream === undefined) {
      this.#stream = new MessageStream(() => {});
      this.#resolve(streamResponse(this.#stream.body, this.#parts.headers));
    }
    this.#stream.end();
  }

  /** Ends as a request that brought no answer at all. */
  fail(reason: unknown): void {
    if (!this.#settle()) return;
    if (this.#stream === undefined) this.#reject(reason);
    else this.#stream.fail(reason);
  }

  #aborted(reason: unknown): void {
    // Not as a stream that is complete: a body that was aborted is one that broke off.
    this.fail(reason);
    this.#parts.onGivenUp(this, reason);
  }

  #giveUp(reason: unknown): void {
    if (this.#settle()) this.#parts.onGivenUp(this, reason);
  }

  #settle(): boolean {
    if (this.#isSettled) return false;
    this.#isSettled = true;
    this.#unwatch();
    return true;
  }
}

function progressTokenOf({ params }: JsonRpcRequest): unknown {
  const meta = params?._meta;
  if (typeof meta !== 'object' || meta === null || Array.isArray(meta)) return undefined;
  return Object.hasOwn(meta, 'progressToken')
    ? ((meta as Record<string, unknown>).progressToken ?? undefined)
    : undefined;
}
