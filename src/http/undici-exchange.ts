/**
 * One exchange over undici's `dispatch`, with a handler of our own.
 *
 * Guarantees that `sent` is what undici did (`onRequestStart` was called or not) and no guess from an error
 * code; that an abort is reported at once, also while undici connects or queues and cannot hear it; and
 * that a request is started at most once: a second start throws before a byte leaves. Never retries.
 */
import type { Dispatcher } from 'undici';
import { codeOf } from '../errors.js';
import type { Linked } from '../linked-set.js';
import { BodyDecoder, type DecoderOutput, parseCodings, type Zlib } from './decode.js';
import {
  type ExchangeFailure,
  type ExchangeHandle,
  type HttpDispatcher,
  type HttpRequest,
  header,
  type ResponseHead,
  type ResponseSink,
} from './exchange.js';

type Controller = Dispatcher.DispatchController;

/** Codes of undici for a request that HTTP does not allow; it refuses them before a socket is touched. */
const INVALID_REQUEST: ReadonlySet<string> = new Set([
  'UND_ERR_INVALID_ARG',
  'UND_ERR_NOT_SUPPORTED',
  'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH',
]);

/** Thrown into undici to stop an exchange that has ended here; nobody sees it. */
const STOPPED = Object.freeze(new Error('This exchange has ended.'));

/** Who started an exchange and keeps account of it. */
export interface ExchangeOwner {
  /** Called once, before the sink hears of the end. `complete`: its socket goes back to the pool. */
  exchangeEnded(exchange: UndiciExchange, complete: boolean): void;
  addressOf(url: URL): { readonly origin: string; readonly path: string };
}

export class UndiciExchange implements ExchangeHandle, DecoderOutput, Linked<UndiciExchange> {
  previous: UndiciExchange | undefined;
  next: UndiciExchange | undefined;
  isLinked = false;
  readonly #request: HttpRequest;
  readonly #sink: ResponseSink;
  readonly #owner: ExchangeOwner;
  readonly #maxBytes: number;
  #zlib: Zlib | undefined;
  #controller: Controller | undefined;
  #decoder: BodyDecoder | undefined;
  /** A cut that came while decoded bytes were still to be delivered. */
  #cut: ExchangeFailure | undefined;
  #bytesLeft: number;
  #sent = false;
  #hasHead = false;
  #ended = false;
  #paused = false;
  #decoderFull = false;

  constructor(request: HttpRequest, sink: ResponseSink, owner: ExchangeOwner, maxBytes: number) {
    this.#request = request;
    this.#sink = sink;
    this.#owner = owner;
    this.#maxBytes = maxBytes;
    this.#bytesLeft = maxBytes;
  }

  get isStream(): boolean {
    return this.#request.stream === true;
  }

  get hasEnded(): boolean {
    return this.#ended;
  }

  /** Hands the request to undici. `copyHeaders`: a ProxyAgent writes into the headers it is given. */
  dispatch(dispatcher: HttpDispatcher, zlib: Zlib, copyHeaders: boolean): void {
    if (this.#ended) return;
    this.#zlib = zlib;
    const { method, url, headers, body } = this.#request;
    const { origin, path } = this.#owner.addressOf(url);
    try {
      dispatcher.dispatch(
        {
          origin,
          path,
          method,
          headers: copyHeaders ? { ...headers } : headers,
          body,
          idempotent: false,
          // Timers are ours: they follow the injected clock.
          headersTimeout: 0,
          bodyTimeout: 0,
        },
        this,
      );
    } catch (error) {
      this.onResponseError(undefined, error);
    }
  }

  // ---- what the holder of the handle does -------------------------------------------------------

  abort(): void {
    if (this.#ended) return;
    this.failWith('aborted');
    this.#stopNetwork();
  }

  pause(): void {
    this.#paused = true;
    if (this.#decoder !== undefined) this.#decoder.pause();
    else this.#controller?.pause();
  }

  resume(): void {
    this.#paused = false;
    if (this.#decoder !== undefined) this.#decoder.resume();
    else this.#controller?.resume();
  }

  /** Ends the exchange from outside undici, e.g. because it could not be loaded. */
  failWith(kind: ExchangeFailure['kind'], code?: string, reason?: string): void {
    this.#fail({ sent: this.#sent, phase: this.#phase(), kind, code, reason });
  }

  // ---- what undici calls ------------------------------------------------------------------------

  /** The last moment before bytes; a throw here leaves the socket unused. */
  onRequestStart(controller: Controller): void {
    if (this.#ended || this.#sent) throw STOPPED;
    try {
      this.#sink.sent?.();
    } catch {
      this.failWith('aborted');
    }
    if (this.#ended) throw STOPPED;
    this.#sent = true;
    this.#controller = controller;
    if (this.#paused) controller.pause();
  }

  onResponseStart(controller: Controller, status: number, headers: ResponseHead['headers']): void {
    // Informational responses (100, 103) come here as well; the real head follows.
    if (status < 200 || this.#ended) return;
    this.#hasHead = true;
    const head: ResponseHead = { status, headers };
    const encoding = headers['content-encoding'];
    const codings = encoding === undefined ? undefined : parseCodings(encoding);
    if (header(head, 'content-type')?.toLowerCase().startsWith('text/event-stream') === true) {
      // A stream has no total; its lines and events are bounded by who reads them.
      this.#bytesLeft = Number.POSITIVE_INFINITY;
    }
    if (codings !== undefined && codings.length > 0) {
      this.#decoder = new BodyDecoder(this.#zlib as Zlib, codings, this);
      // From here on it is the decoder that holds the bytes back.
      if (this.#paused) {
        controller.resume();
        this.#decoder.pause();
      }
    }
    this.#sink.head(head);
    if (encoding !== undefined && codings === undefined && !this.#ended) {
      this.failWith('encoding', undefined, 'the content coding of the answer is unknown');
      this.#stopNetwork();
    }
  }

  onResponseData(controller: Controller, chunk: Uint8Array): void {
    if (this.#ended) return;
    if (this.#decoder === undefined) {
      this.onDecoded(chunk);
    } else if (!this.#decoder.write(chunk) && !this.#ended) {
      this.#decoderFull = true;
      controller.pause();
    }
  }

  onResponseEnd(): void {
    if (this.#decoder === undefined) this.onDecodedEnd();
    else this.#decoder.end();
  }

  onResponseError(_controller: Controller | undefined, error: unknown): void {
    if (this.#ended) return;
    const code = codeOf(error);
    const failure: ExchangeFailure = {
      sent: this.#sent,
      phase: this.#phase(),
      kind: this.#kindOf(code),
      code,
    };
    if (this.#decoder === undefined) {
      this.#fail(failure);
    } else {
      // What arrived before the cut is delivered first: it may hold the answer, or the cursor.
      this.#cut = failure;
      this.#decoder.end();
    }
  }

  // ---- what the decoder calls -------------------------------------------------------------------

  onDecoded(chunk: Uint8Array): void {
    this.#bytesLeft -= chunk.byteLength;
    if (this.#bytesLeft >= 0) {
      this.#sink.data(chunk);
      return;
    }
    this.failWith('too-large', undefined, `the answer has more than ${this.#maxBytes} bytes`);
    this.#stopNetwork();
  }

  onDrained(): void {
    if (!this.#decoderFull) return;
    this.#decoderFull = false;
    this.#controller?.resume();
  }

  onDecodedEnd(): void {
    if (this.#ended) return;
    if (this.#cut !== undefined) {
      this.#fail(this.#cut);
      return;
    }
    this.#end(true);
    this.#sink.end();
  }

  onDecodeError(error: unknown): void {
    if (this.#ended) return;
    // After a cut, a coding that breaks off is no news.
    if (this.#cut !== undefined) this.#fail(this.#cut);
    else this.failWith('encoding', codeOf(error));
    this.#stopNetwork();
  }

  // -----------------------------------------------------------------------------------------------

  #phase(): ExchangeFailure['phase'] {
    return this.#hasHead ? 'body' : this.#sent ? 'head' : 'before';
  }

  #kindOf(code: string | undefined): ExchangeFailure['kind'] {
    if (code === 'UND_ERR_HEADERS_OVERFLOW') return 'too-large';
    if (!this.#sent && code !== undefined && INVALID_REQUEST.has(code)) return 'invalid-request';
    return 'network';
  }

  #fail(failure: ExchangeFailure): void {
    if (this.#ended) return;
    this.#end(false);
    this.#sink.fail(failure);
  }

  #end(complete: boolean): void {
    this.#ended = true;
    this.#owner.exchangeEnded(this, complete);
  }

  #stopNetwork(): void {
    this.#decoder?.destroy();
    this.#controller?.abort(STOPPED);
  }
}
