/**
 * What holds for an exchange on every road: usable headers, the time to the response head, redirects.
 *
 * Guarantees that only a 307 or 308 within the origin is followed, with method, body and headers kept and
 * `LIMITS.redirects` times at most; every other redirect ends the exchange. Never carries a header, and so
 * a secret, to another origin, and never turns a POST into a GET.
 */
import type { Clock, Timer } from '../clock.js';
import type { Disposer } from '../disposer.js';
import { LIMITS } from '../limits.js';
import {
  type ExchangeFailure,
  type ExchangeHandle,
  type HttpClient,
  type HttpRequest,
  header,
  type ResponseHead,
  type ResponseSink,
} from './exchange.js';
import { HeaderCheck } from './headers.js';

export class RedirectingClient implements HttpClient {
  readonly #client: HttpClient;
  readonly #clock: Clock;
  readonly #headersTimeoutMs: number;

  /** `headersTimeoutMs` holds for requests that say nothing themselves. */
  readonly #headers = new HeaderCheck();

  constructor(client: HttpClient, clock: Clock, headersTimeoutMs: number) {
    this.#client = client;
    this.#clock = clock;
    this.#headersTimeoutMs = headersTimeoutMs;
  }

  exchange(request: HttpRequest, sink: ResponseSink): ExchangeHandle {
    const exchange = new RedirectingExchange(this.#client, request, sink);
    const unusable = this.#headers.findUnusable(request.headers);
    exchange.start(this.#clock, unusable, request.headersTimeoutMs ?? this.#headersTimeoutMs);
    return exchange;
  }

  closeIdle(): Promise<void> {
    return this.#client.closeIdle();
  }

  keepSocketsFor(ms: number): void {
    this.#client.keepSocketsFor(ms);
  }

  close(): Promise<void> {
    return this.#client.close();
  }
}

class RedirectingExchange implements ExchangeHandle, ResponseSink {
  readonly #client: HttpClient;
  readonly #sink: ResponseSink;
  #request: HttpRequest;
  #hop: ExchangeHandle | undefined;
  #followed = 0;
  #timer: Timer | undefined;
  #tracked: Disposer | undefined;
  #ended = false;
  /** The failure that is about to come is our own abort of a hop whose answer is settled. */
  #discarding = false;
  #timedOut = false;
  #paused = false;

  constructor(client: HttpClient, request: HttpRequest, sink: ResponseSink) {
    this.#client = client;
    this.#request = request;
    this.#sink = sink;
  }

  start(clock: Clock, unusable: string | undefined, headersTimeoutMs: number): void {
    this.#tracked = clock.track?.();
    if (unusable !== undefined) {
      const failure: ExchangeFailure = {
        sent: false,
        phase: 'before',
        kind: 'invalid-request',
        reason: unusable,
      };
      // No sink hears anything before exchange() has returned.
      queueMicrotask(() => this.fail(failure));
      return;
    }
    if (headersTimeoutMs > 0) this.#timer = clock.setTimeout(() => this.#onTimeout(), headersTimeoutMs);
    this.#hop = this.#client.exchange(this.#request, this);
  }

  abort(): void {
    if (this.#ended) return;
    if (this.#hop === undefined) this.fail({ sent: false, phase: 'before', kind: 'aborted' });
    else this.#hop.abort();
  }

  pause(): void {
    this.#paused = true;
    this.#hop?.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#hop?.resume();
  }

  sent(): void {
    this.#sink.sent?.();
  }

  head(head: ResponseHead): void {
    // Status 0 is how a browser's fetch shows a redirect it was told not to follow.
    if (head.status !== 0 && (head.status < 300 || head.status > 399)) {
      this.#settleHead();
      this.#sink.head(head);
      return;
    }
    this.#discardHop();
    const target = this.#targetOf(head);
    if (target === undefined) {
      this.fail({ sent: true, phase: 'head', kind: 'redirect', status: head.status });
      return;
    }
    this.#followed++;
    this.#request = { ...this.#request, url: target };
    this.#hop = this.#client.exchange(this.#request, this);
    if (this.#paused) this.#hop.pause();
  }

  data(chunk: Uint8Array): void {
    this.#sink.data(chunk);
  }

  end(): void {
    this.#ended = true;
    this.#settleHead();
    this.#sink.end();
  }

  fail(failure: ExchangeFailure): void {
    if (this.#ended || this.#discarding) return;
    this.#ended = true;
    this.#settleHead();
    this.#sink.fail(this.#adjust(failure));
  }

  #adjust(failure: ExchangeFailure): ExchangeFailure {
    let adjusted = failure;
    if (this.#timedOut && failure.kind === 'aborted') adjusted = { ...adjusted, kind: 'timeout' };
    // An earlier hop had left, even if this one did not.
    if (this.#followed > 0 && !failure.sent) adjusted = { ...adjusted, sent: true, phase: 'head' };
    return adjusted;
  }

  #targetOf(head: ResponseHead): URL | undefined {
    if ((head.status !== 307 && head.status !== 308) || this.#followed === LIMITS.redirects) return undefined;
    const location = header(head, 'location');
    if (location === undefined) return undefined;
    let target: URL;
    try {
      target = new URL(location, this.#request.url);
    } catch {
      return undefined;
    }
    const { origin } = this.#request.url;
    if (target.origin !== origin || target.username !== '' || target.password !== '') return undefined;
    target.hash = '';
    return target;
  }

  /** Its body is of no use; waiting for its end would let the server hold the call. */
  #discardHop(): void {
    this.#discarding = true;
    this.#hop?.abort();
    this.#discarding = false;
  }

  #onTimeout(): void {
    this.#timedOut = true;
    this.#hop?.abort();
  }

  #settleHead(): void {
    this.#timer?.clear();
    this.#timer = undefined;
    this.#tracked?.dispose();
    this.#tracked = undefined;
  }
}
