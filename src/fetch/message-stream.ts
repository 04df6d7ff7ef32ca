/**
 * JSON-RPC messages as the body of an event stream.
 *
 * Guarantees that a message is written only when the reader asks for it, in order, and that nothing handed in
 * before the end is lost. Never holds more than a bounded number for a reader that does not read: then progress
 * goes first, and where that is not enough the stream ends with an error, so that the reader knows.
 */
import { HostedMcpError } from '../errors.js';
import type { JsonRpcMessage } from '../json-rpc.js';

/** Far above what a reader that reads leaves waiting, and little memory for one that does not. */
const MOST_WAITING = 1_000;
const ENCODER = new TextEncoder();

export class MessageStream {
  readonly body: ReadableStream<Uint8Array>;
  readonly #waiting: JsonRpcMessage[] = [];
  readonly #onCancel: () => void;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #wake: (() => void) | undefined;
  #state: 'open' | 'ending' | 'over' = 'open';

  /** `onCancel`: the reader wants no more, or does not read. */
  constructor(onCancel: () => void) {
    this.#onCancel = onCancel;
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: () => this.#pull(),
        cancel: () => {
          this.#over();
          onCancel();
        },
      },
      { highWaterMark: 0 },
    );
  }

  get isOpen(): boolean {
    return this.#state === 'open';
  }

  push(message: JsonRpcMessage): void {
    if (this.#state !== 'open') return;
    this.#waiting.push(message);
    if (this.#waiting.length > MOST_WAITING) this.#relieve();
    this.#wake?.();
  }

  /** Nothing comes after what was handed in so far. */
  end(): void {
    if (this.#state !== 'open') return;
    this.#state = 'ending';
    if (this.#wake !== undefined) this.#wake();
    else if (this.#waiting.length === 0) this.#close();
  }

  /** The reader gets `reason` instead of whatever is left. */
  fail(reason: unknown): void {
    if (this.#state === 'over') return;
    this.#over();
    this.#controller.error(reason);
  }

  #pull(): void | Promise<void> {
    const message = this.#waiting.shift();
    if (message !== undefined) {
      this.#controller.enqueue(ENCODER.encode(`event: message\ndata: ${JSON.stringify(message)}\n\n`));
      if (this.#state === 'ending' && this.#waiting.length === 0) this.#close();
      return undefined;
    }
    if (this.#state === 'ending') return this.#close();
    if (this.#state === 'over') return undefined;
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = undefined;
        resolve(this.#pull());
      };
    });
  }

  #close(): void {
    this.#over();
    this.#controller.close();
  }

  #over(): void {
    this.#state = 'over';
    this.#waiting.length = 0;
    this.#wake?.();
  }

  #relieve(): void {
    const progress = this.#waiting.findIndex(
      (message) => 'method' in message && message.method === 'notifications/progress',
    );
    if (progress >= 0) {
      this.#waiting.splice(progress, 1);
      return;
    }
    this.fail(
      new HostedMcpError('ERR_MESSAGE_TOO_LARGE', 'The stream was not read while messages came in', {
        executed: 'unknown',
      }),
    );
    this.#onCancel();
  }
}
