/**
 * A lock between processes of one host, as a file.
 *
 * Guarantees that at most one live holder has the lock: it is created with O_EXCL, carries a deadline on the
 * host's monotonic clock (which all processes share), and a lock past its deadline is taken over by exactly
 * one. Never works across hosts: their monotonic clocks differ.
 */
import { randomBytes } from 'node:crypto';
import { type FileHandle, open, readFile, rm, stat } from 'node:fs/promises';
import type { Clock } from '../../clock.js';
import { codeOf } from '../../errors.js';

export interface FileLock {
  remainingMs(): number;
  release(): Promise<void>;
}

interface LockContent {
  readonly owner: string;
  readonly deadlineMs: number;
  readonly holdMs: number;
}

/** A lock this close to its end is left to expire: between look and unlink it could change hands. */
const RELEASE_MARGIN_MS = 50;
/** Longest that a take-over may reasonably take; a guard older than this was left by a crash. */
const GUARD_MS = 5_000;

export class LockFiles {
  readonly #monotonic: () => number;
  /** Files that could not be read yet (their holder is still writing), with when we first saw them so. */
  readonly #unreadable = new Map<string, { readonly ino: number; readonly sinceMs: number }>();

  constructor(clock: Clock | undefined) {
    // A Clock's monotonic reading may start with the process; hrtime starts with the host, for all processes.
    this.#monotonic =
      clock === undefined ? () => Number(process.hrtime.bigint()) / 1e6 : () => clock.monotonic();
  }

  async tryLock(path: string, holdMs: number): Promise<FileLock | undefined> {
    const created = await this.#create(path, holdMs);
    if (created !== undefined) return created;
    if (!(await this.#isStale(path))) return undefined;
    // Two that both saw the stale lock must not both replace it: the second would remove the first one's.
    const guard = `${path}.take`;
    const guarded = (await this.#create(guard, GUARD_MS)) ?? (await this.#replaceOldGuard(guard));
    if (guarded === undefined) return undefined;
    try {
      if (!(await this.#isStale(path))) return undefined;
      await rm(path, { force: true });
      return await this.#create(path, holdMs);
    } finally {
      await guarded.release();
    }
  }

  async #replaceOldGuard(guard: string): Promise<FileLock | undefined> {
    if (!(await this.#isStale(guard))) return undefined;
    await rm(guard, { force: true });
    return await this.#create(guard, GUARD_MS);
  }

  async #create(path: string, holdMs: number): Promise<FileLock | undefined> {
    const content: LockContent = {
      owner: randomBytes(12).toString('hex'),
      deadlineMs: this.#monotonic() + holdMs,
      holdMs,
    };
    let file: FileHandle;
    try {
      file = await open(path, 'wx', 0o600);
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return undefined;
      throw error;
    }
    try {
      await file.writeFile(JSON.stringify(content));
    } finally {
      await file.close();
    }
    return {
      remainingMs: () => Math.max(0, content.deadlineMs - this.#monotonic()),
      release: async () => {
        if (content.deadlineMs - this.#monotonic() < RELEASE_MARGIN_MS) return;
        const now = await this.#read(path);
        if (now?.owner === content.owner) await rm(path, { force: true });
      },
    };
  }

  async #isStale(path: string): Promise<boolean> {
    const content = await this.#read(path);
    const nowMs = this.#monotonic();
    if (content !== undefined) {
      this.#unreadable.delete(path);
      const remainingMs = content.deadlineMs - nowMs;
      // More than it was ever given: the host was restarted and its clock began anew.
      return remainingMs <= 0 || remainingMs > content.holdMs;
    }
    let ino: number;
    try {
      ino = (await stat(path)).ino;
    } catch {
      // Gone: not stale but free; the next try creates it.
      this.#unreadable.delete(path);
      return false;
    }
    const seen = this.#unreadable.get(path);
    if (seen?.ino === ino) return nowMs - seen.sinceMs > GUARD_MS;
    this.#unreadable.set(path, { ino, sinceMs: nowMs });
    return false;
  }

  async #read(path: string): Promise<LockContent | undefined> {
    try {
      const value: unknown = JSON.parse(await readFile(path, 'utf8'));
      if (typeof value !== 'object' || value === null) return undefined;
      const { owner, deadlineMs, holdMs } = value as Partial<Record<keyof LockContent, unknown>>;
      if (typeof owner !== 'string' || typeof deadlineMs !== 'number' || typeof holdMs !== 'number') {
        return undefined;
      }
      return { owner, deadlineMs, holdMs };
    } catch {
      return undefined;
    }
  }
}
