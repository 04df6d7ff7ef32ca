/**
 * One logical event stream: what was sent on it, and the connection it is sent over just now.
 *
 * Guarantees that with an event store every event has an id and is there for a resume, cut or not. Never
 * sends an event over two connections at once.
 */
import type { Clock, Timer } from '../clock.js';
import type { Answer } from './answer.js';
import { type EventLog, eventId, eventText } from './event-log.js';
import type { ServerOptions } from './options.js';
import type { StreamCutShape } from './types.js';

/** What `retry:` asks of clients where events are kept and nothing else was said: short, for real time. */
const RETRY_FIELD_MS = 100;

export const SSE_HEADERS = Object.freeze({
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
});

export interface ChannelOptions {
  /** Part of every event id, so that a cursor names its stream. */
  readonly name: string;
  readonly isListener: boolean;
  /** Asked anew for each event. */
  readonly settings: () => Pick<ServerOptions, 'eventStore' | 'compress' | 'heartbeatMs' | 'retryFieldMs'>;
  readonly clock: Clock;
  /** All channels that have a connection. */
  readonly connected: Set<SseChannel>;
  /** Where events are kept, if at all. */
  readonly log?: EventLog | undefined;
  /** Only clients of 2025-11-25 and later know events without data. */
  readonly sendsPrimingEvent?: boolean | undefined;
  readonly onDisconnected?: (() => void) | undefined;
}

export class SseChannel {
  readonly #options: ChannelOptions;
  #count = 0;
  #answer: Answer | undefined;
  #heartbeat: Timer | undefined;
  #finished = false;

  constructor(options: ChannelOptions) {
    this.#options = options;
  }

  get name(): string {
    return this.#options.name;
  }

  get isListener(): boolean {
    return this.#options.isListener;
  }

  get isConnected(): boolean {
    return this.#answer?.isOpen === true;
  }

  /** Sends over this connection from now on; on a resume, first what was missed. */
  connect(answer: Answer, missed?: readonly string[] | undefined): void {
    this.#answer = answer;
    this.#options.connected.add(this);
    answer.onClosed(() => {
      if (this.#answer === answer) this.#disconnect();
    });
    answer.start(200, SSE_HEADERS, this.#options.settings().compress);
    this.#beat();
    const primes = missed === undefined && this.#primes;
    if (primes) this.#prime();
    else this.#writeRetry();
    for (const text of missed ?? []) this.#write(text);
    if (this.#finished) this.#end();
  }

  /** One JSON-RPC message. Lost where no connection is open and nothing is kept. */
  send(message: object): void {
    const { log, name } = this.#options;
    if (!this.#keepsEvents || log === undefined) {
      this.#write(eventText(undefined, message));
      return;
    }
    const number = this.#nextNumber();
    const text = eventText(eventId({ stream: name, number }), message);
    log.add({ stream: name, number, text });
    this.#write(text);
  }

  /** Bytes that are no message. */
  sendRaw(text: string): void {
    this.#write(text);
  }

  /** Nothing more will be sent. */
  finish(): void {
    this.#finished = true;
    this.#end();
  }

  /** By something between server and client: the server may not hear of it. */
  cut(shape: StreamCutShape): void {
    const answer = this.#answer;
    if (answer?.isKept !== true) this.#disconnect();
    answer?.cutClient(shape);
  }

  get #keepsEvents(): boolean {
    return this.#options.log !== undefined && this.#options.settings().eventStore !== false;
  }

  get #primes(): boolean {
    return this.#keepsEvents && this.#options.sendsPrimingEvent === true;
  }

  #prime(): void {
    const { log, name, settings } = this.#options;
    const number = this.#nextNumber();
    log?.add({ stream: name, number, text: undefined });
    const retry = retryField(settings().retryFieldMs ?? RETRY_FIELD_MS);
    this.#write(`id: ${eventId({ stream: name, number })}\n${retry}data: \n\n`);
  }

  #writeRetry(): void {
    const { retryFieldMs } = this.#options.settings();
    if (retryFieldMs !== undefined) this.#write(`${retryField(retryFieldMs)}\n`);
  }

  #beat(): void {
    const { clock, settings } = this.#options;
    const { heartbeatMs } = settings();
    this.#heartbeat?.clear();
    this.#heartbeat = undefined;
    if (heartbeatMs === undefined || this.#answer === undefined) return;
    const onBeat = () => {
      this.#write(': heartbeat\n\n');
      this.#beat();
    };
    this.#heartbeat = clock.setTimeout(onBeat, heartbeatMs, { background: true });
  }

  #nextNumber(): number {
    this.#count += 1;
    return this.#count;
  }

  #write(text: string): void {
    this.#answer?.write(text);
  }

  #end(): void {
    const answer = this.#answer;
    this.#disconnect();
    answer?.end();
  }

  #disconnect(): void {
    const wasConnected = this.#answer !== undefined;
    this.#answer = undefined;
    this.#heartbeat?.clear();
    this.#heartbeat = undefined;
    this.#options.connected.delete(this);
    if (wasConnected) this.#options.onDisconnected?.();
  }
}

/** In digits, however large: `String` would write some as 1e+21. */
function retryField(ms: number): string {
  return `retry: ${BigInt(Math.round(ms))}\n`;
}
