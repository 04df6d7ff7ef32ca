/**
 * Takes the content coding off a response body.
 *
 * Guarantees that every decoded byte comes out as soon as the bytes it needs have come in (an event of a
 * stream is not held back), in pieces of 16 KiB, and no faster than the reader takes them: memory stays
 * bounded whatever a bomb would expand to. Never counts: the bound on an answer is the caller's.
 */
import type { Transform } from 'node:stream';

/** node:zlib, handed in by the one module that loads lazily. */
export type Zlib = typeof import('node:zlib');

export type Coding = 'gzip' | 'br' | 'deflate';

/** Nobody codes more than twice; each more would only multiply a bomb. */
const MAX_CODINGS = 3;

const CODINGS: ReadonlyMap<string, Coding> = new Map([
  ['gzip', 'gzip'],
  ['x-gzip', 'gzip'],
  ['br', 'br'],
  ['deflate', 'deflate'],
]);

/** The codings named by `content-encoding`, in the order in which they were applied; undefined: one we do not know. */
export function parseCodings(contentEncoding: string | readonly string[]): readonly Coding[] | undefined {
  const codings: Coding[] = [];
  for (const part of String(contentEncoding).split(',')) {
    const name = part.trim().toLowerCase();
    if (name === '' || name === 'identity') continue;
    const coding = CODINGS.get(name);
    if (coding === undefined || codings.length === MAX_CODINGS) return undefined;
    codings.push(coding);
  }
  return codings;
}

export interface DecoderOutput {
  onDecoded(chunk: Uint8Array): void;
  /** `write` may be called again after it had returned false. */
  onDrained(): void;
  onDecodedEnd(): void;
  onDecodeError(error: unknown): void;
}

export class BodyDecoder {
  readonly #stages: Stage[] = [];
  readonly #output: DecoderOutput;
  #destroyed = false;

  constructor(zlib: Zlib, codings: readonly Coding[], output: DecoderOutput) {
    this.#output = output;
    // What was applied last comes off first.
    for (let at = codings.length - 1; at >= 0; at--) {
      this.#stages.push(new Stage(zlib, codings[at] as Coding, this, this.#stages.length));
    }
  }

  /** False: full; wait for `onDrained` before the next. */
  write(chunk: Uint8Array): boolean {
    return this.#destroyed || (this.#stages[0] as Stage).write(chunk);
  }

  end(): void {
    if (!this.#destroyed) (this.#stages[0] as Stage).end();
  }

  pause(): void {
    this.#stages[this.#stages.length - 1]?.pause();
  }

  resume(): void {
    this.#stages[this.#stages.length - 1]?.resume();
  }

  /** No output after it. */
  destroy(): void {
    this.#destroyed = true;
    for (const stage of this.#stages) stage.destroy();
  }

  /** @internal */
  decoded(stage: number, chunk: Uint8Array): void {
    if (this.#destroyed) return;
    const next = this.#stages[stage + 1];
    if (next === undefined) this.#output.onDecoded(chunk);
    else if (!next.write(chunk)) this.#stages[stage]?.pause();
  }

  /** @internal */
  drained(stage: number): void {
    if (this.#destroyed) return;
    if (stage === 0) this.#output.onDrained();
    else this.#stages[stage - 1]?.resume();
  }

  /** @internal */
  ended(stage: number): void {
    if (this.#destroyed) return;
    const next = this.#stages[stage + 1];
    if (next === undefined) this.#output.onDecodedEnd();
    else next.end();
  }

  /** @internal */
  broken(error: unknown): void {
    if (this.#destroyed) return;
    this.destroy();
    this.#output.onDecodeError(error);
  }
}

/** One coding. Its stream is made at the first byte: an empty body is no error, and `deflate` shows its kind there. */
class Stage {
  readonly #zlib: Zlib;
  readonly #coding: Coding;
  readonly #chain: BodyDecoder;
  readonly #index: number;
  #stream: Transform | undefined;
  #paused = false;
  #inputEnded = false;
  #outputEnded = false;

  constructor(zlib: Zlib, coding: Coding, chain: BodyDecoder, index: number) {
    this.#zlib = zlib;
    this.#coding = coding;
    this.#chain = chain;
    this.#index = index;
  }

  write(chunk: Uint8Array): boolean {
    // What follows the end of the coded data is padding; every other client ignores it, too.
    if (this.#outputEnded || chunk.byteLength === 0) return true;
    this.#stream ??= this.#open(chunk);
    return this.#stream.write(chunk);
  }

  end(): void {
    this.#inputEnded = true;
    if (this.#stream === undefined || this.#outputEnded) this.#chain.ended(this.#index);
    else this.#stream.end();
  }

  pause(): void {
    this.#paused = true;
    this.#stream?.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#stream?.resume();
  }

  destroy(): void {
    this.#stream?.destroy();
  }

  #open(first: Uint8Array): Transform {
    const stream = this.#create(first);
    stream.on('data', (chunk: Uint8Array) => this.#chain.decoded(this.#index, chunk));
    stream.on('drain', () => this.#chain.drained(this.#index));
    stream.on('error', (error) => this.#chain.broken(error));
    stream.on('end', () => {
      this.#outputEnded = true;
      if (this.#inputEnded) this.#chain.ended(this.#index);
      else this.#chain.drained(this.#index);
    });
    if (this.#paused) stream.pause();
    return stream;
  }

  /**
   * Flushing at each chunk is what lets an event out at once. The same at the end is leniency that all
   * browsers have: servers end streams without a trailer, and a JSON text shows by itself that it is whole.
   */
  #create(first: Uint8Array): Transform {
    const { constants } = this.#zlib;
    if (this.#coding === 'br') {
      const flush = constants.BROTLI_OPERATION_FLUSH;
      return this.#zlib.createBrotliDecompress({ flush, finishFlush: flush });
    }
    const flush = { flush: constants.Z_SYNC_FLUSH, finishFlush: constants.Z_SYNC_FLUSH };
    if (this.#coding === 'gzip') return this.#zlib.createGunzip(flush);
    // RFC 9110 (8.4.1.2) means zlib (RFC 1950), whose first byte ends in 8; some servers send raw RFC 1951.
    const isZlib = ((first[0] as number) & 0x0f) === 8;
    return isZlib ? this.#zlib.createInflate(flush) : this.#zlib.createInflateRaw(flush);
  }
}
