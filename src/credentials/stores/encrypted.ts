/**
 * Encryption around any store.
 *
 * Guarantees that the store below sees AES-256-GCM only, bound to the credential's id and generation so that
 * a record cannot be moved or rolled back under another number. A record that cannot be opened is an error,
 * never an absence, and is never overwritten. Never encrypts ids: those are digests already.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { HostedMcpError } from '../../errors.js';
import { needsPart } from '../../runtime/needs-part.js';
import type { CredentialStore, StoredRecord } from '../provider.js';

const VERSION = 'v1';
const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;

interface Key {
  readonly keyId: string;
  encrypt(plain: string, bound: string): string;
  decrypt(sealed: string, bound: string): string | undefined;
}

/**
 * `store` with its records encrypted by the first of `keys` (32 bytes each, base64 or bytes); the others still
 * open what they once wrote. A key of another length is a `TypeError`. A damaged record, or one written with a
 * key that is not given, throws `ERR_STORE_UNAVAILABLE`.
 */
export function encryptedCredentialStore(
  store: CredentialStore,
  options: { keys: readonly (string | Uint8Array)[] },
): CredentialStore {
  needsPart('ERR_STORE_UNAVAILABLE', 'encryptedCredentialStore()', 'node:crypto', createCipheriv);
  if (!Array.isArray(options.keys) || options.keys.length === 0) {
    throw new TypeError('keys must hold at least one key of 32 bytes');
  }
  const keys = options.keys.map((key: string | Uint8Array, index) => makeKey(key, index));
  const current = keys[0] as Key;

  const openRecord = (id: string, record: StoredRecord): StoredRecord => {
    const [version, keyId, sealed, ...rest] = record.data.split('.');
    if (version !== VERSION || keyId === undefined || sealed === undefined || rest.length > 0) {
      throw unreadable('a damaged record');
    }
    const key = keys.find((candidate) => candidate.keyId === keyId);
    if (key === undefined) throw unreadable('a record written with another key');
    const data = key.decrypt(sealed, bindingOf(id, record.generation));
    if (data === undefined) throw unreadable('a damaged record');
    return { ...record, data };
  };

  return {
    async read(id, o) {
      const record = await store.read(id, o);
      return record === undefined ? undefined : openRecord(id, record);
    },
    async compareAndSet(id, expectedGeneration, next, o) {
      const present = await store.read(id, o);
      // Somebody else's key or a broken disk: overwriting would destroy the only copy.
      if (present !== undefined) openRecord(id, present);
      if (next === undefined) return await store.compareAndSet(id, expectedGeneration, undefined, o);
      const data = `${VERSION}.${current.keyId}.${current.encrypt(next.data, bindingOf(id, next.generation))}`;
      return await store.compareAndSet(id, expectedGeneration, { ...next, data }, o);
    },
    lease: (id, leaseMs, o) => store.lease(id, leaseMs, o),
    async close() {
      await store.close?.();
    },
  };
}

function bindingOf(id: string, generation: number): string {
  return `${id}:${generation}`;
}

function makeKey(given: string | Uint8Array, index: number): Key {
  const bytes = keyBytes(given);
  if (bytes?.length !== KEY_BYTES)
    throw new TypeError(`keys[${index}] must be 32 bytes, as base64 or Uint8Array`);
  return {
    keyId: createHmac('sha256', bytes).update('mcp-holdfast key id').digest('hex').slice(0, 8),
    encrypt(plain, bound) {
      const iv = randomBytes(IV_BYTES);
      const cipher = createCipheriv('aes-256-gcm', bytes, iv);
      cipher.setAAD(Buffer.from(bound));
      const body = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()]);
      return Buffer.concat([iv, cipher.getAuthTag(), body]).toString('base64url');
    },
    decrypt(sealed, bound) {
      const all = Buffer.from(sealed, 'base64url');
      if (all.length < IV_BYTES + TAG_BYTES) return undefined;
      try {
        const decipher = createDecipheriv('aes-256-gcm', bytes, all.subarray(0, IV_BYTES), {
          authTagLength: TAG_BYTES,
        });
        decipher.setAAD(Buffer.from(bound));
        decipher.setAuthTag(all.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
        return Buffer.concat([
          decipher.update(all.subarray(IV_BYTES + TAG_BYTES)),
          decipher.final(),
        ]).toString('utf8');
      } catch {
        return undefined;
      }
    },
  };
}

function keyBytes(given: unknown): Buffer | undefined {
  if (given instanceof Uint8Array) return Buffer.from(given);
  // Buffer skips what is no base64: a mistyped key would silently become another.
  if (typeof given !== 'string' || !/^[A-Za-z0-9+/_-]+={0,2}$/.test(given)) return undefined;
  return Buffer.from(given, 'base64');
}

function unreadable(what: string): HostedMcpError {
  return new HostedMcpError('ERR_STORE_UNAVAILABLE', `The encrypted credential store holds ${what}`, {
    reason: 'unreadable',
  });
}
