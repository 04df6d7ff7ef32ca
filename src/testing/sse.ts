/**
 * One logical event stream: what was sent on it, and the connection it is sent over just now.
 *
 * Guarantees that with an event store every event has an id and is there for a resume, cut or not. Never
 * sends an event over two connections at once.
 */
import type { Answer } from './answer.js';
import type { CutShape } from './types.js';

/** What `retry:` asks of clients: short, for tests that run in real time. */
const RETRY_FIELD_MS = 100;

export const SSE_HEADERS = Object.freeze({
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
});

export interface ChannelOptions {
  /** Part of every event id, so that a cursor names its stream. */
  readonly name: string;
  readonly isListener: boolean;
  /** Whether events are kept and carry ids; asked anew for each event. */
  readonly keepsEvents: () => boolean;
  readonly encoding: () => 'gzip' | 'br' | undefined;
  /** All channels that have a connection. */
  readonly connected: Set<SseChannel>;
  /** Only clients of 2025-11-25 and later know events without data. */
  readonly sendsPrimingEvent: boolean;
}

export class SseChannel {
  readonly #options: ChannelOptions;
  readonly #kept: { readonly number: number; readonly text: string }[] = [];
  #count = 0;
  #answer: Answer | undefined;
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

  /** Sends over this connection from now on; with a cursor, first what came after it. */
  connect(answer: Answer, afterEvent?: number | undefined): void {
    this.#answer = answer;
    this.#options.connected.add(this);
    answer.onClosed(() => {
      if (this.#answer === answer) this.#disconnect();
    });
    answer.start(200, SSE_HEADERS, this.#options.encoding());
    if (afterEvent === undefined) this.#prime();
    else for (const event of this.#kept) if (event.number > afterEvent) this.#write(event.text);
    if (this.#finished) this.#end();
  }

  /** One JSON-RPC message. Lost where no connection is open and nothing is kept. */
  send(message: object): void {
    const data = `data: ${JSON.stringify(message)}\n\n`;
    if (!this.#options.keepsEvents()) {
      this.#write(`event: message\n${data}`);
      return;
    }
    const number = this.#nextNumber();
    const text = `event: message\nid: ${this.#options.name}_${number}\n${data}`;
    this.#kept.push({ number, text });
    this.#write(text);
  }

  /** Nothing more will be sent. */
  finish(): void {
    this.#finished = true;
    this.#end();
  }

  cut(shape: CutShape): void {
    const answer = this.#answer;
    this.#disconnect();
    answer?.cut(shape);
  }

  #prime(): void {
    if (!this.#options.keepsEvents() || !this.#options.sendsPrimingEvent) return;
    this.#write(`id: ${this.#options.name}_${this.#nextNumber()}\nretry: ${RETRY_FIELD_MS}\ndata: \n\n`);
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
    this.#answer = undefined;
    this.#options.connected.delete(this);
  }
}
