/**
 * Writes the entries of an audit: one chain, one line after the other.
 *
 * Guarantees that lines leave in the order in which entries came, that one which was not taken is tried again before
 * the next, and that what had to be given up is counted in the line that follows. Where the audit is required, a line has
 * left before its call's caller hears of the end; else a file gets the lines of some milliseconds at once, and what is
 * left when the process exits. Never throws into a call.
 */
import type { Clock, Timer } from '../clock.js';
import { CHAIN_START, chained, type Link } from './audit-chain.js';
import { AuditFile } from './audit-file.js';
import type { CallFacts } from './gate.js';
import { isThenable } from './value.js';

export interface AuditSink {
  write(line: string): unknown;
}

export interface AuditSettings {
  readonly actor: string | ((call: CallFacts) => string | undefined) | undefined;
  readonly required: boolean;
  readonly clear: readonly string[];
  readonly results: boolean;
}

/** Lines of a file that is not required are written together: one by one, they cost more than all else of an audit. */
const GATHERED_MS = 10;
const MOST_GATHERED = 200;
/** Entries that wait for a sink that fails; beyond them the oldest is given up. */
const MAX_WAITING = 10_000;

export class AuditWriter {
  readonly settings: AuditSettings;
  readonly #file: AuditFile | undefined;
  readonly #sink: AuditSink | undefined;
  #last: Link = { seq: 0, hash: CHAIN_START };
  /** Entries that could not be written; the chain is made when they are. */
  readonly #waiting: string[] = [];
  #lost = 0;
  #isFailing = false;
  #isClosed = false;
  /** A sink that takes its time: one line after the other. */
  #writing: Promise<void> | undefined;
  #gathering: Timer | undefined;
  readonly #onExit = () => this.#flush();

  constructor(target: AuditFile | AuditSink, settings: AuditSettings) {
    this.settings = settings;
    if (target instanceof AuditFile) this.#file = target;
    else this.#sink = target;
  }

  get head(): string {
    return this.#last.hash;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Whether a call may go out. Where it might, what is waiting is tried once more. */
  get mayCall(): boolean {
    if (!this.settings.required) return true;
    if (this.#isClosed) return false;
    if (this.#file?.isOpen === false || this.#isFailing) this.#flush();
    return !this.#isFailing;
  }

  /** Takes an entry: the JSON text of an object that is not empty, without its braces. */
  take(members: string, clock: Clock): void {
    this.#waiting.push(members);
    if (this.#waiting.length > MAX_WAITING) {
      // The first may be on its way to the sink just now.
      this.#waiting.splice(this.#writing === undefined ? 0 : 1, 1);
      this.#lost += 1;
    }
    const gathers = this.#file?.isOpen === true && !this.settings.required && !this.#isFailing;
    if (!gathers || this.#waiting.length >= MOST_GATHERED) this.#flush(clock);
    else this.#gathering ??= clock.setTimeout(() => this.#flush(clock), GATHERED_MS, { background: true });
  }

  async close(): Promise<void> {
    this.#flush();
    while (this.#writing !== undefined) await this.#writing.catch(() => {});
    this.#isClosed = true;
    globalThis.process?.off?.('exit', this.#onExit);
    try {
      this.#file?.close();
    } catch {
      // It takes no more lines, which is what was wanted.
    }
  }

  #flush(clock?: Clock): void {
    this.#gathering?.clear();
    this.#gathering = undefined;
    if (this.#isClosed || this.#writing !== undefined) return;
    try {
      this.#open(clock);
      while (this.#waiting.length > 0) {
        const taken = this.#write();
        if (taken === undefined) continue;
        this.#writing = taken.finally(() => {
          this.#writing = undefined;
          if (!this.#isFailing) this.#flush(clock);
        });
        this.#writing.catch(() => {});
        return;
      }
      this.#isFailing = false;
    } catch {
      this.#isFailing = true;
    }
  }

  #open(clock: Clock | undefined): void {
    if (this.#file === undefined || this.#file.isOpen) return;
    const { last, torn } = this.#file.open();
    globalThis.process?.once?.('exit', this.#onExit);
    // An empty file does not begin a new chain: the old one may have gone elsewhere.
    if (last !== undefined) this.#last = last;
    if (torn === 0) return;
    const time = clock === undefined ? '' : `"time":"${new Date(clock.now()).toISOString()}",`;
    this.#waiting.unshift(`${time}"event":"recovered","tornBytes":${torn}`);
  }

  /** Writes the first of those that wait; to a file, as many as it takes. A promise where the sink takes its time. */
  #write(): Promise<void> | undefined {
    if (this.#file !== undefined) {
      this.#writeTo(this.#file);
      return undefined;
    }
    const lost = this.#lost;
    const { line, link } = this.#next(this.#waiting[0] as string, lost, this.#last);
    const written = () => this.#written(link, 1, lost);
    const answer = this.#sink?.write(line);
    if (!isThenable(answer)) {
      written();
      return undefined;
    }
    return Promise.resolve(answer).then(
      () => {
        written();
        this.#isFailing = false;
      },
      () => {
        this.#isFailing = true;
      },
    );
  }

  #writeTo(file: AuditFile): void {
    const lost = this.#lost;
    let link = this.#last;
    let lines = '';
    let bytes = 0;
    let count = 0;
    for (; count < Math.min(this.#waiting.length, MOST_GATHERED); count += 1) {
      const next = this.#next(this.#waiting[count] as string, count === 0 ? lost : 0, link);
      const length = Buffer.byteLength(next.line);
      // What is beyond goes into the next file.
      if (count > 0 && bytes + length > file.room) break;
      lines += next.line;
      bytes += length;
      link = next.link;
    }
    file.write(lines, bytes, this.#last.seq);
    this.#written(link, count, lost);
  }

  #next(members: string, lost: number, last: Link): { readonly line: string; readonly link: Link } {
    return chained(lost === 0 ? members : `${members},"lostBefore":${lost}`, last);
  }

  #written(link: Link, count: number, lost: number): void {
    this.#last = link;
    this.#lost -= lost;
    if (count === this.#waiting.length) this.#waiting.length = 0;
    else this.#waiting.splice(0, count);
  }
}
