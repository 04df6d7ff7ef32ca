/**
 * A file that takes the lines of an audit.
 *
 * Guarantees that lines are the operating system's when `write()` returns, all of them or none: what was begun and
 * failed is taken out again. A file that exists is taken up where its chain ends; one that is no chain is left alone.
 * Never keeps a line to write it later.
 */
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { byCodeUnits } from '../contract/canonical.js';
import { type Link, readLine } from './audit-chain.js';

/** No entry makes a line that is longer. */
const MAX_LINE_BYTES = 1024 * 1024;
/** Of arguments that are shown, file names and the like: for the eyes of those who may read the audit. */
const MODE = 0o600;
const LINE_FEED = 0x0a;
/** What every line begins with: nothing else is taken out of a file. */
const LINE_START = '{"seq":';

export class AuditFile {
  readonly #path: string;
  readonly #maxBytes: number;
  #file: number | undefined;
  #size = 0;

  constructor(path: string, maxBytes: number) {
    this.#path = path;
    this.#maxBytes = maxBytes;
  }

  /**
   * Opens it, and gives where its chain ends (undefined: there is none yet), with how many bytes of a line that was
   * never finished were taken out.
   */
  open(): { readonly last: Link | undefined; readonly torn: number } {
    const file = openSync(this.#path, 'a+', MODE);
    try {
      const { size } = fstatSync(file);
      const { last, rest } = ending(file, size);
      if (last === 'none' || (last === undefined && rest !== '' && !rest.startsWith(LINE_START)))
        throw new Error('The file is no audit log');
      const torn = rest.length;
      if (torn > 0) ftruncateSync(file, size - torn);
      this.#file = file;
      this.#size = size - torn;
      return { last: last ?? this.#lastOfRotated(), torn };
    } catch (error) {
      closeSync(file);
      throw error;
    }
  }

  get isOpen(): boolean {
    return this.#file !== undefined;
  }

  /** How many bytes it takes before it is full; the first line of a file always has its place. */
  get room(): number {
    return this.#size === 0 ? Number.POSITIVE_INFINITY : this.#maxBytes - this.#size;
  }

  /** Lines with their breaks; `lastSeq`: of the line before them, for the name that the file gets when it is full. */
  write(lines: string, bytes: number, lastSeq: number): void {
    if (bytes > this.room) this.#rotate(lastSeq);
    const file = this.#file;
    if (file === undefined) throw new Error('The audit file is not open');
    let written = 0;
    try {
      written = writeSync(file, lines);
      while (written < bytes) written += writeSync(file, Buffer.from(lines), written);
    } catch (error) {
      // Half a line would break the chain for good; if it cannot be taken out either, opening it again does.
      if (written > 0) this.#takeBack(file);
      throw error;
    }
    this.#size += bytes;
  }

  close(): void {
    const file = this.#file;
    this.#file = undefined;
    if (file !== undefined) closeSync(file);
  }

  /** Named by its last line, so that files sort in the order of the chain. */
  #rotate(lastSeq: number): void {
    this.close();
    renameSync(this.#path, `${this.#path}.${String(lastSeq).padStart(12, '0')}`);
    this.#file = openSync(this.#path, 'a+', MODE);
    this.#size = fstatSync(this.#file).size;
  }

  /** The process may have ended right after a file had become full. */
  #lastOfRotated(): Link | undefined {
    const name = basename(this.#path);
    const isRotated = (other: string) => other.startsWith(`${name}.`) && /\.\d{12,}$/.test(other);
    const latest = readdirSync(dirname(this.#path)).filter(isRotated).sort(byCodeUnits).at(-1);
    if (latest === undefined) return undefined;
    const file = openSync(join(dirname(this.#path), latest), 'r');
    try {
      const { last } = ending(file, fstatSync(file).size);
      return last === 'none' ? undefined : last;
    } finally {
      closeSync(file);
    }
  }

  #takeBack(file: number): void {
    try {
      ftruncateSync(file, this.#size);
    } catch {
      this.close();
    }
  }
}

/** The last line that is complete (`none`: it is not of a chain), and what stands after it. */
function ending(
  file: number,
  size: number,
): { readonly last: Link | 'none' | undefined; readonly rest: string } {
  const tail = Buffer.alloc(Math.min(size, 2 * MAX_LINE_BYTES));
  readSync(file, tail, 0, tail.length, size - tail.length);
  const end = tail.lastIndexOf(LINE_FEED);
  const rest = tail.subarray(end + 1);
  if (end < 0 && size > 0)
    return { last: size > MAX_LINE_BYTES ? 'none' : undefined, rest: rest.toString('latin1') };
  if (end < 0) return { last: undefined, rest: '' };
  const line = tail.subarray(end === 0 ? 0 : tail.lastIndexOf(LINE_FEED, end - 1) + 1, end);
  return { last: readLine(line.toString()) ?? 'none', rest: rest.toString('latin1') };
}
