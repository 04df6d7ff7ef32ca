/**
 * A dispatcher of the app's that may have one connection only.
 *
 * Guarantees that a listen stream does not keep calls from a connection: where a call waits for one while such a
 * stream holds one, the stream gives way, and none is opened again. Never touches a dispatcher that was seen
 * to have room for both.
 */
import type { Clock, Timer } from '../clock.js';
import type { ExchangeHandle, HttpClient, HttpRequest, ResponseSink } from './exchange.js';

/** A call without a connection for so long is not merely waiting for one to be made. */
const STARVED_MS = 1_000;

export class ScarceDispatcherClient implements HttpClient {
  readonly #client: HttpClient;
  readonly #clock: Clock;
  /** Streams that hold a connection and can be opened again. */
  readonly #streams = new Set<ExchangeHandle>();
  #hasRoom = false;
  #isScarce = false;

  constructor(client: HttpClient, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  exchange(request: HttpRequest, sink: ResponseSink): ExchangeHandle {
    if (request.givesWay === true) return this.#isScarce ? refused(sink) : this.#stream(request, sink);
    return this.#hasRoom || this.#streams.size === 0
      ? this.#client.exchange(request, sink)
      : this.#watched(request, sink);
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

  #stream(request: HttpRequest, sink: ResponseSink): ExchangeHandle {
    const ended = () => {
      this.#streams.delete(handle);
    };
    const handle = this.#client.exchange(
      request,
      observed(sink, { sent: () => this.#streams.add(handle), ended }),
    );
    return handle;
  }

  #watched(request: HttpRequest, sink: ResponseSink): ExchangeHandle {
    let timer: Timer | undefined;
    const sent = () => {
      timer?.clear();
      if (this.#streams.size > 0) this.#hasRoom = true;
    };
    const handle = this.#client.exchange(request, observed(sink, { sent, ended: () => timer?.clear() }));
    timer = this.#clock.setTimeout(() => this.#giveWay(), STARVED_MS, { background: true });
    return handle;
  }

  #giveWay(): void {
    if (this.#hasRoom || this.#streams.size === 0) return;
    this.#isScarce = true;
    for (const stream of [...this.#streams]) stream.abort();
  }
}

function observed(sink: ResponseSink, on: { sent(): void; ended(): void }): ResponseSink {
  return {
    sent() {
      sink.sent?.();
      on.sent();
    },
    head: (head) => sink.head(head),
    data: (chunk) => sink.data(chunk),
    end() {
      on.ended();
      sink.end();
    },
    fail(failure) {
      on.ended();
      sink.fail(failure);
    },
  };
}

function refused(sink: ResponseSink): ExchangeHandle {
  let ended = false;
  queueMicrotask(() => {
    if (ended) return;
    ended = true;
    const reason = 'the dispatcher has no connection to spare for a stream';
    sink.fail({ sent: false, phase: 'before', kind: 'invalid-request', reason });
  });
  return {
    abort() {
      if (ended) return;
      ended = true;
      sink.fail({ sent: false, phase: 'before', kind: 'aborted' });
    },
    pause() {},
    resume() {},
  };
}
