/**
 * One HTTP answer, whole or broken off.
 *
 * Guarantees that after the end, a cut or a client that went away nothing more is written and nothing
 * throws, and that the `Date` header follows the server's clock. Never encodes because a client asked: only
 * because the simulator was told to.
 */
import type { ServerResponse } from 'node:http';
import { brotliCompressSync, constants, createBrotliCompress, createGzip, gzipSync } from 'node:zlib';
import type { CutShape, ScriptedHeaders, StreamCutShape } from './types.js';

/** The default is for files that are read a thousand times. */
const QUICK = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } };

type Encoding = 'gzip' | 'br' | undefined;

/** What lies between the server and this client. */
export interface AnswerWay {
  /** The head or bytes of the body were sent. */
  onSent(): void;
  /** Whether the server goes on believing in a client that has left. */
  keepsAbandoned(): boolean;
  onAbandoned(): void;
  /** A cut of shape `'status'`. */
  onStatusCut(): void;
}

export class Answer {
  readonly #response: ServerResponse;
  readonly #onHead: (status: number) => void;
  /** Goes out with whatever head is sent. */
  readonly extraHeaders: ScriptedHeaders = {};
  way: AnswerWay | undefined;
  #ended = false;
  #isEventStream = false;
  /** The client's side was cut, and the server does not know. */
  #abandoned = false;
  #dropped = false;
  #closed = false;
  readonly #onClosed: ((clientLeft: boolean) => void)[] = [];
  #encoder: ReturnType<typeof createGzip> | ReturnType<typeof createBrotliCompress> | undefined;
  #limit: { bytes: number | undefined; shape: CutShape } | undefined;
  #bodyBytes = 0;

  constructor(response: ServerResponse, dateMs: number, onHead: (status: number) => void) {
    this.#response = response;
    this.#onHead = onHead;
    response.sendDate = false;
    response.setHeader('date', new Date(dateMs).toUTCString());
    // A client that goes away in the middle is part of the game.
    response.on('error', () => {});
    response.once('close', () => {
      if (!this.#ended && this.isKept) this.way?.onAbandoned();
      else this.#close();
    });
  }

  /** Neither ended nor cut, and the client is still there, or the server thinks so. */
  get isOpen(): boolean {
    return !this.#ended && (this.#reachesClient || this.isKept);
  }

  get isStarted(): boolean {
    return this.#response.headersSent;
  }

  get isEventStream(): boolean {
    return this.#isEventStream;
  }

  /** An event stream that its client may leave without the server's knowledge. */
  get isKept(): boolean {
    return !this.#ended && this.#isEventStream && this.way?.keepsAbandoned() === true;
  }

  get #reachesClient(): boolean {
    return !this.#abandoned && !this.#response.destroyed && this.#response.socket?.destroyed !== true;
  }

  get #arrives(): boolean {
    return this.#reachesClient && !this.#dropped;
  }

  /** Called once, when nothing more can be written; with true where the client went away by itself. */
  onClosed(callback: (clientLeft: boolean) => void): void {
    this.#onClosed.push(callback);
  }

  /** From now on the answer breaks off after so many bytes of its body; undefined: before its head. */
  cutAfter(bytes: number | undefined, shape: CutShape): void {
    this.#limit = { bytes, shape };
  }

  /** One complete answer. */
  send(status: number, headers: ScriptedHeaders, body: string | Uint8Array = '', encoding?: Encoding): void {
    const plain = typeof body === 'string' ? Buffer.from(body) : Buffer.from(body);
    const encode = encoding !== undefined && plain.length > 0;
    const bytes = !encode ? plain : encoding === 'gzip' ? gzipSync(plain) : brotliCompressSync(plain);
    const all: ScriptedHeaders = encode ? { ...headers, 'content-encoding': encoding } : { ...headers };
    // A limit ends the body early, which a length given beforehand would turn into another fault.
    if (this.#limit === undefined && status !== 204) all['content-length'] ??= String(bytes.length);
    if (!this.start(status, all)) return;
    if (bytes.length > 0) this.#writeBytes(bytes);
    this.end();
  }

  sendJson(status: number, body: unknown, headers: ScriptedHeaders = {}, encoding?: Encoding): void {
    this.send(status, { 'content-type': 'application/json', ...headers }, JSON.stringify(body), encoding);
  }

  /** Sends the head; false where the answer was cut before it. */
  start(status: number, headers: ScriptedHeaders, encoding?: Encoding): boolean {
    if (!this.isOpen) return false;
    if (this.#limit !== undefined && this.#limit.bytes === undefined && this.#limit.shape !== 'eof') {
      this.cut(this.#limit.shape);
      return false;
    }
    this.#onHead(status);
    for (const [name, value] of Object.entries({ ...this.extraHeaders, ...headers })) {
      this.#response.setHeader(name, value);
    }
    if (encoding !== undefined) {
      this.#response.setHeader('content-encoding', encoding);
      this.#encoder = encoding === 'gzip' ? createGzip() : createBrotliCompress(QUICK);
      this.#encoder.on('data', (bytes: Buffer) => this.#writeBytes(bytes));
      this.#encoder.on('end', () => this.#finish());
    }
    this.#response.writeHead(status);
    this.#response.flushHeaders();
    this.#isEventStream = String(headers['content-type']).startsWith('text/event-stream');
    this.way?.onSent();
    if (this.#limit !== undefined && (this.#limit.bytes ?? 0) === 0) this.cut(this.#limit.shape);
    return this.isOpen;
  }

  write(data: string | Uint8Array): void {
    if (!this.isOpen) return;
    if (this.#encoder === undefined) {
      this.#writeBytes(typeof data === 'string' ? Buffer.from(data) : data);
      return;
    }
    this.#encoder.write(data);
    this.#encoder.flush();
  }

  end(): void {
    if (!this.isOpen) return;
    if (this.#encoder !== undefined) this.#encoder.end();
    else this.#finish();
  }

  /** From now on nothing arrives, not even the end. */
  drop(): void {
    this.#dropped = true;
  }

  /** Breaks off now, for both sides. */
  cut(shape: CutShape): void {
    if (!this.isOpen) return;
    if (shape === 'eof' && !this.#response.headersSent) {
      this.#onHead(200);
      this.#response.writeHead(200, { 'content-type': 'text/event-stream' });
    }
    this.#end();
    this.#breakOff(shape);
  }

  /** Breaks off the client's side; the server's too, unless it keeps streams that were abandoned. */
  cutClient(shape: StreamCutShape): void {
    if (!this.isOpen) return;
    if (shape === 'status') this.way?.onStatusCut();
    const wireShape = shape === 'status' ? 'fin' : shape;
    if (!this.isKept) {
      this.cut(wireShape);
      return;
    }
    this.#abandoned = true;
    this.#breakOff(wireShape);
  }

  /** The server learns that the client of an abandoned stream has left. */
  release(): void {
    this.#end();
  }

  #breakOff(shape: CutShape): void {
    const { socket } = this.#response;
    if (shape === 'eof') this.#response.end();
    else if (shape === 'fin') socket?.destroySoon();
    // A turn later, so that what was written has left: a reset throws away what is still queued.
    else setImmediate(() => socket?.resetAndDestroy());
  }

  #finish(): void {
    if (!this.isOpen) return;
    if (this.#limit !== undefined) {
      this.cut(this.#limit.shape);
      return;
    }
    const arrives = this.#arrives;
    this.#end();
    if (arrives) this.#response.end();
  }

  /** Nothing more will be written. Where the client has gone before, no event of its own is left to come. */
  #end(): void {
    const wasAbandoned = !this.#reachesClient;
    this.#ended = true;
    if (wasAbandoned) this.#close();
  }

  #close(): void {
    if (this.#closed) return;
    this.#closed = true;
    const clientLeft = !this.#ended;
    this.#ended = true;
    for (const callback of this.#onClosed) callback(clientLeft);
  }

  #writeBytes(bytes: Uint8Array): void {
    if (!this.isOpen) return;
    const limit = this.#limit?.bytes;
    const room = limit === undefined ? bytes.length : limit - this.#bodyBytes;
    if (this.#arrives) this.#response.write(room < bytes.length ? bytes.subarray(0, room) : bytes);
    this.#bodyBytes += Math.min(room, bytes.length);
    this.way?.onSent();
    if (this.#limit !== undefined && limit !== undefined && this.#bodyBytes >= limit) {
      this.cut(this.#limit.shape);
    }
  }
}
