/**
 * Bytes of a pipe as lines.
 *
 * Guarantees that no more than the limit is kept of a line, whatever comes; of one that is longer, its two ends, which
 * may tell whose answer it was. Never decodes.
 */

export interface LineSink {
  /** Without the line break. */
  line(bytes: Buffer): void;
  tooLong(head: Buffer, tail: Buffer): void;
}

const KEPT_ENDS = 1024;
const LINE_FEED = 10;

export class Lines {
  readonly #sink: LineSink;
  readonly #maxBytes: number;
  #parts: Buffer[] = [];
  #bytes = 0;
  /** Of a line over the limit; the rest of it goes by. */
  #ends: { readonly head: Buffer; tail: Buffer } | undefined;

  constructor(sink: LineSink, maxBytes: number) {
    this.#sink = sink;
    this.#maxBytes = maxBytes;
  }

  push(chunk: Buffer): void {
    let from = 0;
    for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, from)) {
      this.#add(chunk.subarray(from, at));
      this.#complete();
      from = at + 1;
    }
    this.#add(chunk.subarray(from));
  }

  /** What stands behind the last line break is a line, too. */
  end(): void {
    if (this.#bytes > 0 || this.#ends !== undefined) this.#complete();
  }

  #add(part: Buffer): void {
    if (part.length === 0) return;
    if (this.#ends !== undefined) {
      this.#ends.tail = lastOf([this.#ends.tail, part]);
      return;
    }
    this.#parts.push(part);
    this.#bytes += part.length;
    if (this.#bytes <= this.#maxBytes) return;
    this.#ends = { head: firstOf(this.#parts), tail: lastOf(this.#parts) };
    this.#parts = [];
    this.#bytes = 0;
  }

  #complete(): void {
    const [first] = this.#parts;
    const ends = this.#ends;
    const line = this.#parts.length === 1 && first !== undefined ? first : Buffer.concat(this.#parts);
    this.#parts = [];
    this.#bytes = 0;
    this.#ends = undefined;
    if (ends !== undefined) this.#sink.tooLong(ends.head, ends.tail);
    else this.#sink.line(line);
  }
}

/** Copies: the parts belong to chunks that are to be let go. */
function firstOf(parts: readonly Buffer[]): Buffer {
  return Buffer.concat(
    parts.map((part) => part.subarray(0, KEPT_ENDS)),
    Math.min(
      KEPT_ENDS,
      parts.reduce((sum, part) => sum + Math.min(part.length, KEPT_ENDS), 0),
    ),
  );
}
function lastOf(parts: readonly Buffer[]): Buffer {
  const ends = Buffer.concat(parts.map((part) => part.subarray(-KEPT_ENDS)));
  return Buffer.from(ends.subarray(-KEPT_ENDS));
}
