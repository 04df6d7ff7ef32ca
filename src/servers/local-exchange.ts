/**
 * One exchange that is answered within this process.
 *
 * Guarantees what `ResponseSink` asks for: exactly one end, and nothing after it.
 */
import type { ExchangeFailure, ExchangeHandle, ResponseSink } from '../http/exchange.js';

export class LocalExchange implements ExchangeHandle {
  readonly #sink: ResponseSink;
  readonly #onEnd: (exchange: LocalExchange) => void;
  #ended = false;
  #sent = false;
  #isStream = false;
  #hasHead = false;

  constructor(sink: ResponseSink, onEnd: (exchange: LocalExchange) => void) {
    this.#sink = sink;
    this.#onEnd = onEnd;
  }

  get hasEnded(): boolean {
    return this.#ended;
  }

  abort(): void {
    this.fail('aborted');
  }
  /** What comes is read as it comes: a process that is not listened to would stand still for all its calls. */
  pause(): void {}
  resume(): void {}

  /** Right before the message leaves; false where it may not leave any more. */
  leave(): boolean {
    if (this.#ended) return false;
    try {
      this.#sink.sent?.();
    } catch {
      this.fail('aborted');
    }
    // `sent()` may have ended it as well.
    if (this.hasEnded) return false;
    this.#sent = true;
    return true;
  }

  /** A whole answer; after events the last of them. */
  answer(status: number, body: Buffer | string, headers: Readonly<Record<string, string>> = {}): void {
    if (this.#ended) return;
    if (this.#isStream) {
      this.event(body);
    } else {
      this.#hasHead = true;
      const type = body.length === 0 ? {} : { 'content-type': 'application/json' };
      this.#sink.head({ status, headers: { ...type, ...headers } });
      if (!this.#ended && body.length > 0) this.#sink.data(bytesOf(body));
    }
    if (this.#ended) return;
    this.#end();
    this.#sink.end();
  }

  /** From here on it is an event stream. */
  open(headers: Readonly<Record<string, string>> = {}): void {
    if (this.#ended || this.#isStream) return;
    this.#isStream = true;
    this.#hasHead = true;
    this.#sink.head({ status: 200, headers: { 'content-type': 'text/event-stream', ...headers } });
  }

  event(message: Buffer | string): void {
    this.open();
    if (this.#ended) return;
    // A line break in JSON is only ever white space, but would end the event's line.
    const text = message.toString('utf8').replace(/[\r\n]/g, ' ');
    this.#sink.data(Buffer.from(`data: ${text}\n\n`));
  }

  fail(kind: ExchangeFailure['kind'], code?: string): void {
    if (this.#ended) return;
    this.#end();
    const phase = this.#hasHead ? 'body' : this.#sent ? 'head' : 'before';
    this.#sink.fail({ sent: this.#sent || this.#hasHead, phase, kind, code });
  }

  #end(): void {
    this.#ended = true;
    this.#onEnd(this);
  }
}

function bytesOf(body: Buffer | string): Buffer {
  return typeof body === 'string' ? Buffer.from(body) : body;
}
