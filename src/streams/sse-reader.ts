/**
 * Bytes of a `text/event-stream` answer in, events out (WHATWG HTML, "Server-sent events").
 *
 * Guarantees that no stream makes this process hold more than one line and one event of the permitted
 * size: bytes are counted before the parser, which has no bound of its own, sees them. Chunk borders make
 * no difference, whatever they split, and time grows linearly with the bytes. Never keeps comments, never
 * reports an event that the stream did not finish, never decides what an event means.
 */
import { createParser } from 'eventsource-parser';
import { LIMITS } from '../limits.js';
import { copyOf, latin1OfUtf8, utf8Length } from '../runtime/bytes.js';

export interface SseEvent {
  /** The id field of this very event; keeping the last one is the caller's matter. May be empty. */
  id?: string;
  event?: string;
  /** Empty for an event that carries only an id: servers send one first, to give a cursor. */
  data: string;
}

export interface SseSink {
  event(event: SseEvent): void;
  /** Already cut to `LIMITS.retryFieldMs`. */
  retry(ms: number): void;
  /** Called at most once; nothing is reported after it. */
  failed(reason: 'line-too-long' | 'event-too-large'): void;
}

export interface SseLimits {
  /** Bytes of one line, and of the data lines of one event together. */
  lineBytes: number;
}

const LF = 10;
const CR = 13;
const COLON = 58;
const SPACE = 32;
/** A longer line's buffer is given back once the line is done. */
const KEPT_CAPACITY = 64 * 1024;

/** `end-without-data`: the blank line after an event that has an id and no data. */
type Line = 'data' | 'id' | 'other' | 'ignored' | 'end-without-data';

export class SseReader {
  readonly #sink: SseSink;
  readonly #limit: number;
  readonly #parser: { feed(text: string): void };
  /** Only whole lines are decoded, so no character is ever split; the one permitted BOM is removed by hand. */
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });

  #done = false;
  #atStart = true;
  /** The last chunk ended in CR: a LF at the start of the next one belongs to it. */
  #afterCr = false;

  /** Bytes of a line whose end has not come; grows by doubling, up to the limit. */
  #held = new Uint8Array(0);
  #heldLength = 0;
  /** The unfinished line is a comment: its bytes are counted in `#heldLength` and thrown away. */
  #inComment = false;

  /** Of the current event: bytes of its data lines, and which fields it has. */
  #eventBytes = 0;
  #hasData = false;
  #hasId = false;
  /** While the parser is fed a data line of ours, because it drops an event that has only an id. */
  #completing = false;
  #parsedLength = 0;

  constructor(sink: SseSink, limits: SseLimits = { lineBytes: LIMITS.messageBytes }) {
    this.#sink = sink;
    this.#limit = limits.lineBytes;
    this.#parser = createParser({
      onEvent: (event) => this.#onEvent(event),
      onRetry: (ms) => {
        if (!this.#done) this.#sink.retry(Math.min(ms, LIMITS.retryFieldMs));
      },
    });
    // The parser looks for a BOM in its first text, spelled in Latin-1: by then ours is gone, and text may look like it.
    this.#parser.feed('');
  }

  /** A sink that throws ends the reading; its error comes out here. */
  push(chunk: Uint8Array): void {
    if (this.#done || chunk.length === 0) return;
    try {
      this.#read(chunk);
    } catch (error) {
      this.end();
      throw error;
    }
  }

  /** The stream is over, or no more is wanted of it: an unfinished event is dropped, nothing is reported any more. */
  end(): void {
    this.#done = true;
    this.#held = new Uint8Array(0);
    this.#heldLength = 0;
  }

  #read(chunk: Uint8Array): void {
    const length = chunk.length;
    let at = this.#afterCr && chunk[0] === LF ? 1 : 0;
    this.#afterCr = false;

    // Each position is searched for again only once it has been passed: linear, whatever mix of endings.
    let lf = chunk.indexOf(LF, at);
    let cr = chunk.indexOf(CR, at);
    const hasCr = cr !== -1;
    /** Lines from here up to `at` wait to be fed together. */
    let from = at;

    while (lf !== -1 || cr !== -1) {
      let end: number;
      let next: number;
      if (cr === -1 || (lf !== -1 && lf < cr)) {
        end = lf;
        next = lf + 1;
      } else {
        end = cr;
        next = cr + 1;
        if (next === length) this.#afterCr = true;
        else if (chunk[next] === LF) next++;
        cr = chunk.indexOf(CR, next);
      }
      if (lf !== -1 && lf < next) lf = chunk[next] === LF ? next : chunk.indexOf(LF, next);

      if (this.#heldLength > 0) {
        this.#finishHeld(chunk, at, end);
        from = next;
      } else {
        const start = this.#afterBom(chunk, at, end);
        if (start !== at) from = start;
        const line = this.#account(chunk, start, end);
        if (line === undefined || line === 'ignored' || line === 'end-without-data') {
          this.#feed(chunk, from, at, hasCr);
          from = next;
          if (line === undefined) this.#fail();
          else if (line === 'end-without-data') this.#completeEvent();
        }
      }
      if (this.#done) return;
      at = next;
    }
    this.#feed(chunk, from, at, hasCr);
    if (!this.#done && at < length) this.#hold(chunk, at, length);
  }

  /** Counts one line and tells what it is; `undefined` if it goes beyond the limit. */
  #account(bytes: Uint8Array, start: number, end: number): Line | undefined {
    const size = end - start;
    if (size === 0) {
      const withoutData = this.#hasId && !this.#hasData;
      this.#eventBytes = 0;
      this.#hasData = false;
      this.#hasId = false;
      return withoutData ? 'end-without-data' : 'other';
    }
    if (size > this.#limit) return undefined;
    const field = fieldOf(bytes, start, end);
    if (field === 'data') {
      // The line feed that joins it to the data before it counts as well.
      this.#eventBytes += this.#hasData ? size + 1 : size;
      if (this.#eventBytes > this.#limit) return undefined;
      this.#hasData = true;
    } else if (field === 'id') {
      this.#hasId = true;
    }
    return field;
  }

  /** Keeps the beginning of a line for the next chunk; the bound holds before anything is copied. */
  #hold(chunk: Uint8Array, start: number, end: number): void {
    const total = this.#heldLength + (end - start);
    if (this.#heldLength === 0) this.#inComment = chunk[start] === COLON;
    // A BOM before the first line is not part of it, but may not have arrived whole.
    if (total > this.#limit + (this.#atStart && !this.#inComment ? 3 : 0)) {
      this.#fail();
      return;
    }
    if (!this.#inComment) {
      if (total > this.#held.length) {
        const larger = new Uint8Array(Math.max(1024, total, Math.min(this.#held.length * 2, this.#limit)));
        larger.set(this.#held.subarray(0, this.#heldLength));
        this.#held = larger;
      }
      this.#held.set(
        start === 0 && end === chunk.length ? chunk : chunk.subarray(start, end),
        this.#heldLength,
      );
    }
    this.#heldLength = total;
  }

  /** The end of a line that began in an earlier chunk. */
  #finishHeld(chunk: Uint8Array, start: number, end: number): void {
    this.#hold(chunk, start, end);
    if (this.#done) return;
    const size = this.#heldLength;
    this.#heldLength = 0;
    if (this.#inComment) {
      this.#inComment = false;
      this.#atStart = false;
      return;
    }
    const bytes = this.#held;
    if (bytes.length > KEPT_CAPACITY) this.#held = new Uint8Array(0);
    const from = this.#afterBom(bytes, 0, size);
    const line = this.#account(bytes, from, size);
    if (line === undefined) this.#fail();
    else if (line === 'end-without-data') this.#completeEvent();
    else if (line !== 'ignored') this.#parse(`${this.#decoder.decode(bytes.subarray(from, size))}\n`);
  }

  #feed(chunk: Uint8Array, start: number, end: number, hasCr: boolean): void {
    if (start >= end) return;
    const text = this.#decoder.decode(
      start === 0 && end === chunk.length ? chunk : chunk.subarray(start, end),
    );
    // Only line feeds reach the parser: with mixed endings its own search is quadratic.
    this.#parse(hasCr ? text.replace(/\r\n?/g, '\n') : text);
  }

  #parse(lines: string): void {
    this.#parsedLength = lines.length;
    this.#parser.feed(lines);
  }

  #completeEvent(): void {
    this.#completing = true;
    this.#parse('data\n\n');
    this.#completing = false;
  }

  #onEvent(event: { id?: string | undefined; event?: string | undefined; data: string }): void {
    // The id was refused by the parser (NUL): then there is nothing to tell.
    if (this.#done || (this.#completing && event.id === undefined)) return;
    const reported: SseEvent = { data: event.data };
    // The id is kept long after the event: it must not keep a large text alive of which it is a slice.
    if (event.id !== undefined) reported.id = this.#parsedLength > 4096 ? copyOf(event.id) : event.id;
    if (event.event !== undefined) reported.event = event.event;
    this.#sink.event(reported);
  }

  #fail(): void {
    if (this.#done) return;
    this.end();
    // Event bytes go over the limit only by a data line that is itself within it.
    this.#sink.failed(this.#eventBytes > this.#limit ? 'event-too-large' : 'line-too-long');
  }

  /** Where the line begins, once the byte order mark of the whole stream is taken off. */
  #afterBom(bytes: Uint8Array, start: number, end: number): number {
    if (!this.#atStart) return start;
    this.#atStart = false;
    const marked =
      end - start >= 3 && bytes[start] === 0xef && bytes[start + 1] === 0xbb && bytes[start + 2] === 0xbf;
    return marked ? start + 3 : start;
  }
}

/** `ignored` lines (comments, fields nobody knows) never reach the parser, which makes an error object of each. */
function fieldOf(bytes: Uint8Array, start: number, end: number): Line {
  switch (bytes[start]) {
    case 0x64:
      return isField(bytes, start, end, 'data') ? 'data' : 'ignored';
    case 0x69:
      return isField(bytes, start, end, 'id') ? 'id' : 'ignored';
    case 0x65:
      return isField(bytes, start, end, 'event') ? 'other' : 'ignored';
    case 0x72:
      return isField(bytes, start, end, 'retry') && hasDigits(bytes, start + 6, end) ? 'other' : 'ignored';
    default:
      return 'ignored';
  }
}

function isField(bytes: Uint8Array, start: number, end: number, name: string): boolean {
  const after = start + name.length;
  if (after > end || (after < end && bytes[after] !== COLON)) return false;
  for (let i = 0; i < name.length; i++) if (bytes[start + i] !== name.charCodeAt(i)) return false;
  return true;
}

function hasDigits(bytes: Uint8Array, start: number, end: number): boolean {
  const first = bytes[start] === SPACE ? start + 1 : start;
  for (let i = first; i < end; i++) if ((bytes[i] ?? 0) < 48 || (bytes[i] ?? 0) > 57) return false;
  return first < end;
}

/**
 * Can this event id be sent back in `Last-Event-ID`? Not if it is empty, longer than
 * `LIMITS.eventIdBytes` in UTF-8, holds a character that no header may carry, or blanks at its ends,
 * which a receiver cuts off.
 */
export function isResumableId(id: string): boolean {
  if (id === '' || id.length > LIMITS.eventIdBytes) return false;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
  if (/[\x00-\x08\x0a-\x1f\x7f]|^[ \t]|[ \t]$/.test(id)) return false;
  return id.length * 3 <= LIMITS.eventIdBytes || utf8Length(id) <= LIMITS.eventIdBytes;
}

/** The id as a header value: its UTF-8 bytes, one character each, since HTTP libraries write headers as Latin-1. */
export function lastEventIdHeader(id: string): string {
  return latin1OfUtf8(id);
}
