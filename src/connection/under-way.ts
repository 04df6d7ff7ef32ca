/**
 * One HTTP exchange under way, between who asked for it and what comes back.
 *
 * Guarantees that its facts are given once, that an abort of the way's signal ends it, and that no listener is left when
 * it has its facts. A stream that is still open behind its answer is left to its server for a while. Never rejects.
 */
import type { Clock } from '../clock.js';
import type { ExchangeHandle, ResponseHead } from '../http/exchange.js';
import type { Cut } from '../streams/idle-limits.js';
import type { ExchangeDone, Route, StreamFacts } from './route.js';

/** Open streams kept after their answer, so that the server may end them itself and the socket lives on. */
const MOST_LINGERING = 8;

export class Lingering {
  /** The oldest first. */
  readonly #handles: ExchangeHandle[] = [];

  keep(handle: ExchangeHandle): void {
    this.#handles.push(handle);
    if (this.#handles.length > MOST_LINGERING) this.#handles.shift()?.abort();
  }

  forget(handle: ExchangeHandle): void {
    const at = this.#handles.indexOf(handle);
    if (at >= 0) this.#handles.splice(at, 1);
  }

  drop(): void {
    for (const handle of this.#handles.splice(0)) handle.abort();
  }
}

/** What the exchanges of one wire have in common. */
export interface UnderWayHost {
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly lingering: Lingering;
  readonly onExchange: (done: ExchangeDone) => void;
  readonly wantsExchanges?: (() => boolean) | undefined;
  readonly onCut: (cut: Cut) => void;
  readonly onHead: (head: ResponseHead) => void;
}

export class UnderWay {
  readonly facts: Promise<StreamFacts>;
  readonly #method: string;
  readonly #way: Route;
  readonly #host: UnderWayHost;
  readonly #startedAtMs: number;
  #resolve!: (facts: StreamFacts) => void;
  #handle: ExchangeHandle | undefined;
  #abortOnSignal: (() => void) | undefined;

  constructor(method: string, way: Route, host: UnderWayHost) {
    this.#method = method;
    this.#way = way;
    this.#host = host;
    this.#startedAtMs = host.clock.monotonic();
    this.facts = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  /** Nothing has been told of it yet. */
  began(handle: ExchangeHandle): void {
    this.#handle = handle;
    this.#way.attach?.(handle);
    const { signal } = this.#way;
    if (signal === undefined) return;
    if (signal.aborted) {
      handle.abort();
      return;
    }
    this.#abortOnSignal = () => handle.abort();
    signal.addEventListener('abort', this.#abortOnSignal, { once: true });
  }

  /** The head has arrived. */
  heard(head: ResponseHead): void {
    this.#host.onHead(head);
  }

  /** The answer is complete; a stream may still be open behind it. */
  settled(facts: StreamFacts, isOpen: boolean): void {
    if (this.#abortOnSignal !== undefined)
      this.#way.signal?.removeEventListener('abort', this.#abortOnSignal);
    if (isOpen && this.#handle !== undefined) this.#host.lingering.keep(this.#handle);
    this.#resolve(facts);
  }

  ended(status: number | undefined, sent: boolean, bytes: number): void {
    if (this.#handle !== undefined) this.#host.lingering.forget(this.#handle);
    const { session } = this.#way;
    if (this.#host.wantsExchanges?.() === false) return;
    this.#host.onExchange({
      method: this.#method,
      ...(status !== undefined && { status }),
      sent,
      bytes,
      durationMs: this.#host.clock.monotonic() - this.#startedAtMs,
      ...(session !== undefined && { session: session.number }),
    });
  }

  /** The way was cut: nobody here asked for the end. */
  cut(cut: Cut): void {
    this.#host.onCut(cut);
  }

  abort(): void {
    this.#handle?.abort();
  }
}
