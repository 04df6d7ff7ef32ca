/**
 * The chain of an audit: each line holds the hash of the one before and its own.
 *
 * Guarantees that a line which was changed, removed, moved or put in is found by whoever reads the lines in order; a
 * tail that was cut off, or a chain that was written anew as a whole, by whoever kept a hash elsewhere. Never trusts a
 * line's own numbers: the hash is over its very characters.
 */
import { sha256 } from './wire-digest.js';

/** What the first line of a chain has in place of a line before it. */
export const CHAIN_START = '0'.repeat(64);

const HASH = /^[0-9a-f]{64}$/;
const END = /,"hash":"([0-9a-f]{64})"\}$/;
const END_LENGTH = ',"hash":""}'.length + 64;
const START = /^\{"seq":([1-9]\d{0,15}),"prev":"([0-9a-f]{64})",/;

export interface Link {
  readonly seq: number;
  readonly hash: string;
}

/** The line after `last`, with its break; `members` is the JSON text of an object that is not empty, without its braces. */
export function chained(members: string, last: Link): { readonly line: string; readonly link: Link } {
  const seq = last.seq + 1;
  const open = `{"seq":${seq},"prev":"${last.hash}",${members}`;
  const hash = sha256(open);
  return { line: `${open},"hash":"${hash}"}\n`, link: { seq, hash } };
}

/** What a line says of itself, if that is true. */
export function readLine(line: string): (Link & { readonly prev: string }) | undefined {
  const [, stated] = END.exec(line.slice(-END_LENGTH)) ?? [];
  const [, seq, prev] = START.exec(line.slice(0, 120)) ?? [];
  if (stated === undefined || seq === undefined || prev === undefined) return undefined;
  if (sha256(line.slice(0, -END_LENGTH)) !== stated) return undefined;
  return { seq: Number(seq), prev, hash: stated };
}

export interface AuditVerdict {
  /** Every line is in its place, and `head`, if given, is among them. */
  readonly ok: boolean;
  /** Lines that were read. */
  readonly lines: number;
  /** The first line, from 1, that is not what the chain says; where only `head` is missing, the one after the last. */
  readonly brokenAtLine?: number;
  readonly reason?: 'changed' | 'not in its place' | 'incomplete' | 'head missing';
  /** Hash of the last good line: what `head` may be from here on, and `after` for the next file. */
  readonly head: string;
}

/**
 * Reads the text of a log, and of the files after it in turn.
 *
 * `after`: the hash before the first line, where the log was rotated; by default the log begins with its first line.
 * `head`: a hash that was kept elsewhere. Without it a cut tail, and a log that was written anew as a whole, cannot be
 * seen. Throws `TypeError` for a hash that is none.
 */
export class AuditVerifier {
  readonly #head: string | undefined;
  #last: string;
  #seq: number | undefined;
  #lines = 0;
  #hasHead: boolean;
  #broken: Pick<AuditVerdict, 'brokenAtLine' | 'reason'> | undefined;

  constructor(options: { head?: string | undefined; after?: string | undefined } = {}) {
    const { head, after } = options;
    for (const [name, hash] of Object.entries({ head, after })) {
      if (hash !== undefined && (typeof hash !== 'string' || !HASH.test(hash)))
        throw new TypeError(`${name} must be a hash: 64 hexadecimal digits`);
    }
    this.#head = head;
    this.#last = after ?? CHAIN_START;
    this.#seq = after === undefined || after === CHAIN_START ? 0 : undefined;
    this.#hasHead = head === undefined || head === this.#last;
  }

  /** The text of a file, whole. */
  text(text: string): void {
    let from = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', from)) {
      this.#line(text.slice(from, end));
      from = end + 1;
    }
    if (from < text.length) this.#found('incomplete', this.#lines + 1);
  }

  get verdict(): AuditVerdict {
    const missing = this.#hasHead
      ? undefined
      : { brokenAtLine: this.#lines + 1, reason: 'head missing' as const };
    const broken = this.#broken ?? missing;
    return { ok: broken === undefined, lines: this.#lines, ...broken, head: this.#last };
  }

  #line(line: string): void {
    this.#lines += 1;
    if (this.#broken !== undefined) return;
    const read = readLine(line);
    if (read === undefined) {
      this.#found('changed', this.#lines);
      return;
    }
    const isNext = this.#seq === undefined ? read.seq > 1 : read.seq === this.#seq + 1;
    if (read.prev !== this.#last || !isNext) {
      this.#found('not in its place', this.#lines);
      return;
    }
    this.#seq = read.seq;
    this.#last = read.hash;
    this.#hasHead ||= read.hash === this.#head;
  }

  #found(reason: 'changed' | 'not in its place' | 'incomplete', line: number): void {
    this.#broken ??= { brokenAtLine: line, reason };
  }
}

/** The same for one text. */
export function verifyAudit(
  text: string,
  options: { head?: string | undefined; after?: string | undefined } = {},
): AuditVerdict {
  const verifier = new AuditVerifier(options);
  verifier.text(text);
  return verifier.verdict;
}
