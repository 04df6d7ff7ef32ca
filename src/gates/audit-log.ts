/**
 * `auditLog`: one chain of lines over any number of connections.
 *
 * Guarantees one line for each entry, in the order in which they came, each with the hash of the one before; that a
 * line which could not be written is kept and written before the next one; and that `required` refuses calls until
 * it was. A sink gets each line at once, and so does a file where the audit is required. Never throws into a call.
 */
import { OptionReader } from '../option-reader.js';
import { AuditFile } from './audit-file.js';
import { type AuditSettings, type AuditSink, AuditWriter } from './audit-writer.js';
import type { CallFacts } from './gate.js';

/** Given as `audit` to any number of connections. Made by `auditLog()`. */
export interface AuditLog {
  /**
   * Hash of the last line that was written (64 zeros before the first). Kept elsewhere, it shows later that the
   * tail of the log was cut off or that the log was written anew; nothing else does.
   */
  readonly head: string;
  /** Lines that the file or sink has not taken yet: they failed, and are tried again, or wait for their 10 ms. */
  readonly waiting: number;
  /** Writes what is left, and ends it: from here on `required` refuses every call. Never rejects. */
  close(): Promise<void>;
}

export interface AuditLogOptions {
  /** On whose behalf a call is made. */
  actor?: string | ((call: CallFacts) => string | undefined) | undefined;
  /**
   * Calls are refused while lines cannot be written, and a line is the operating system's before its call's caller hears
   * of the end. false: a file gets the lines of 10 ms at once, and those that are left when the process exits; a process
   * that is killed takes so many with it.
   */
  required?: boolean | undefined;
  /**
   * Arguments that stand in the log in clear, beside the digest of all of them: `TOOL.PATH`, each part of it may be
   * `*`: `search.query`, `*.id`, `transfer.*`. A path shows all that is under it. None.
   */
  clear?: readonly string[] | undefined;
  /** Also a digest of each result, as the server gave it: SHA-256 of what `JSON.stringify` makes of it. false. */
  results?: boolean | undefined;
  /** Of a file: it is renamed to `FILE.NUMBER` before it would grow larger, and the chain goes on in a new one. No limit. */
  maxFileBytes?: number | undefined;
}

/** How an entry reaches the log, also from another copy of this library. */
const AUDIT = Symbol.for('mcp-holdfast.AuditLog');

/**
 * Opens a log on a file, which is taken up where its chain ends, or on anything that takes lines: `write(line)` gets
 * one with its line break; one that throws, or gives a promise that rejects, has not taken it. One process may write
 * to a file. Nothing is opened before the first entry.
 *
 * @example
 * const audit = auditLog('/var/log/agent/audit.jsonl', { actor: 'support-bot', required: true });
 * const client = new HostedClient(info, { url, audit });
 *
 * Throws `TypeError` for an option that cannot be used.
 */
export function auditLog(sink: string | AuditSink, options: AuditLogOptions = {}): AuditLog {
  const read = new OptionReader('auditLog', options);
  const actor = read.any('actor');
  if (actor !== undefined && typeof actor !== 'string' && typeof actor !== 'function')
    throw new TypeError('auditLog.actor must be a text or a function');
  const clear = read.any('clear') ?? [];
  if (!Array.isArray(clear) || !clear.every((path) => typeof path === 'string' && /^[^.]+\..+$/.test(path)))
    throw new TypeError('auditLog.clear must be an array of paths such as "search.query"');
  const required = read.oneOf('required', [true, false] as const) ?? false;
  const results = read.oneOf('results', [true, false] as const) ?? false;
  const maxFileBytes = read.count('maxFileBytes', 4_096, Number.MAX_SAFE_INTEGER);
  read.done();
  const isFile = typeof sink === 'string' && sink !== '';
  if (!isFile && typeof (sink as Partial<AuditSink> | null)?.write !== 'function')
    throw new TypeError('auditLog needs the name of a file, or an object with write(line)');
  if (!isFile && maxFileBytes !== undefined) throw new TypeError('auditLog.maxFileBytes is for a file');
  const target = isFile ? new AuditFile(sink, maxFileBytes ?? Number.POSITIVE_INFINITY) : (sink as AuditSink);
  const writer = new AuditWriter(target, {
    actor: actor as AuditSettings['actor'],
    required,
    clear,
    results,
  });
  const log = {
    get head() {
      return writer.head;
    },
    get waiting() {
      return writer.waiting;
    },
    close: () => writer.close(),
  };
  Object.defineProperty(log, AUDIT, { value: writer });
  return Object.freeze(log);
}

/** Throws `TypeError` for anything that `auditLog()` did not make. */
export function checkAudit(log: AuditLog | undefined): AuditWriter | undefined {
  if (log === undefined) return undefined;
  const writer = (log as { readonly [AUDIT]?: AuditWriter } | null)?.[AUDIT];
  if (writer === undefined) throw new TypeError('audit must be what auditLog() gives');
  return writer;
}
