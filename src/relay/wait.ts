/**
 * One request at a supervisor: its time, and who may end it.
 *
 * Guarantees that it ends once, by its time, its asker or the supervisor, with an error that says whether the server
 * had been asked. Leaves no timer and no listener behind.
 */
import type { Clock, Timer } from '../clock.js';
import { HostedMcpError } from '../errors.js';
import type { JsonRpcRequest, RequestId } from '../json-rpc.js';
import { askedBy } from './messages.js';

const WHY = Object.freeze({
  ERR_TIMEOUT: 'The server did not answer in time',
  ERR_ABORTED: 'The call was given up',
  ERR_CLOSED: 'The server was ended here',
});
export type WhyEnded = keyof typeof WHY;

export class Wait {
  readonly #message: JsonRpcRequest;
  readonly #hop: string;
  readonly #controller = new AbortController();
  readonly #timer: Timer;
  readonly #asker: AbortSignal;
  readonly #clock: Clock;
  readonly #untilMs: number;
  /** It was written to a process. */
  isWritten = false;
  endedBy: WhyEnded | undefined;

  constructor(
    message: JsonRpcRequest,
    hop: string,
    { clock, ownMs, signal }: { clock: Clock; ownMs: number; signal: AbortSignal },
  ) {
    this.#message = message;
    this.#hop = hop;
    this.#asker = signal;
    this.#clock = clock;
    this.#untilMs = clock.monotonic() + ownMs;
    this.#timer = clock.setTimeout(() => this.end('ERR_TIMEOUT'), ownMs);
    if (signal.aborted) this.end('ERR_ABORTED');
    else signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  get id(): RequestId {
    return this.#message.id;
  }
  get leftMs(): number {
    return this.#untilMs - this.#clock.monotonic();
  }
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  end(why: WhyEnded): void {
    if (this.endedBy !== undefined) return;
    this.endedBy = why;
    this.release();
    this.#controller.abort(
      new HostedMcpError(why, WHY[why], {
        executed: this.isWritten ? 'unknown' : false,
        retryable: why === 'ERR_TIMEOUT',
        reason: `hop:${this.#hop}`,
        ...askedBy(this.#message),
      }),
    );
  }

  release(): void {
    this.#timer.clear();
    this.#asker.removeEventListener('abort', this.#onAbort);
  }

  readonly #onAbort = () => this.end('ERR_ABORTED');
}
