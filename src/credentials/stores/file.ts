/**
 * Credentials in files of one host.
 *
 * Guarantees that the folder is 0700 and each file 0600, that a reader sees a whole record or the one before
 * (temporary file, then rename), and that compare-and-set and leases hold between processes of this host.
 * Never writes a credential's id into a file name, never encrypts: wrap it in `encryptedCredentialStore` for that.
 */
import { createHash, randomBytes } from 'node:crypto';
import { chmod, mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, sleep, systemClock } from '../../clock.js';
import { codeOf, HostedMcpError } from '../../errors.js';
import { needsPart } from '../../runtime/needs-part.js';
import type { CredentialStore, StoredRecord } from '../provider.js';
import { LockFiles } from './lock-file.js';

/** A write is a few milliseconds; a lock of this age was left by a crash. */
const WRITE_LOCK_MS = 5_000;
const WRITE_POLL_MS = 10;

/**
 * A store in the folder `dir`, made on first use with mode 0700. For processes of one host and a local disk
 * only: locks are files with deadlines on the host's monotonic clock. Throws `ERR_STORE_UNAVAILABLE`.
 */
export function fileCredentialStore(
  dir: string,
  options: { clock?: Clock | undefined } = {},
): CredentialStore {
  if (typeof dir !== 'string' || dir === '') throw new TypeError('dir must be the path of a folder');
  needsPart('ERR_STORE_UNAVAILABLE', 'fileCredentialStore()', 'node:fs/promises', open);
  const clock = options.clock ?? systemClock();
  const locks = new LockFiles(options.clock);
  let prepared: Promise<void> | undefined;

  const prepare = (): Promise<void> => {
    prepared ??= makeFolder(dir).catch((error) => {
      prepared = undefined;
      throw error;
    });
    return prepared;
  };
  const pathOf = (id: string, ending: string) =>
    join(dir, `${createHash('sha256').update(id).digest('hex').slice(0, 40)}.${ending}`);

  const readRecord = async (id: string): Promise<StoredRecord | undefined> => {
    let text: string;
    try {
      text = await readFile(pathOf(id, 'json'), 'utf8');
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined;
      throw error;
    }
    return parseRecord(text);
  };

  const writeRecord = async (id: string, record: StoredRecord): Promise<void> => {
    const path = pathOf(id, 'json');
    const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
    try {
      const file = await open(temporary, 'wx', 0o600);
      try {
        await file.writeFile(JSON.stringify(record));
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => {});
      throw error;
    }
  };

  const writeLock = async (id: string, signal: AbortSignal | undefined) => {
    const startedMs = clock.monotonic();
    for (;;) {
      const lock = await locks.tryLock(pathOf(id, 'write'), WRITE_LOCK_MS);
      if (lock !== undefined) return lock;
      if (clock.monotonic() - startedMs > 2 * WRITE_LOCK_MS) throw unavailable('is locked');
      await sleep(clock, WRITE_POLL_MS, signal);
    }
  };

  return {
    read: (id) => guarded(() => readRecord(id)),
    compareAndSet: (id, expectedGeneration, next, o) =>
      guarded(async () => {
        await prepare();
        const lock = await writeLock(id, o?.signal);
        try {
          if ((await readRecord(id))?.generation !== expectedGeneration) return false;
          if (next === undefined) await rm(pathOf(id, 'json'), { force: true });
          else await writeRecord(id, next);
          return true;
        } finally {
          await lock.release();
        }
      }),
    lease: (id, leaseMs) =>
      guarded(async () => {
        await prepare();
        return await locks.tryLock(pathOf(id, 'lease'), leaseMs);
      }),
  };
}

async function makeFolder(dir: string): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  // An existing folder keeps its mode through mkdir.
  await chmod(dir, 0o700);
}

function parseRecord(text: string): StoredRecord {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw unavailable('holds a damaged record');
  }
  if (typeof value !== 'object' || value === null) throw unavailable('holds a damaged record');
  const { generation, data, expiresAtMs } = value as Partial<Record<keyof StoredRecord, unknown>>;
  if (typeof generation !== 'number' || typeof data !== 'string') throw unavailable('holds a damaged record');
  return { generation, data, ...(typeof expiresAtMs === 'number' ? { expiresAtMs } : {}) };
}

async function guarded<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (HostedMcpError.isInstance(error)) throw error;
    throw unavailable('cannot be read or written', error);
  }
}

function unavailable(what: string, cause?: unknown): HostedMcpError {
  return new HostedMcpError('ERR_STORE_UNAVAILABLE', `The file credential store ${what}`, {
    retryable: true,
    cause,
  });
}
