/**
 * Credentials that replicas share, on Redis.
 *
 * Guarantees that Redis holds no token, no client secret and no id in clear: records are AES-256-GCM, names are
 * digests. A lease has one holder, whose own count of it ends before Redis' does. A record that cannot be opened is
 * an error and stays as it is. Never keeps anything without an end.
 *
 * Names are plain SHA-256 of the id and do not change with the encryption keys. A name made with a key would change
 * with it, and a replica that has only the old key would find nothing where it has to find a record that it cannot
 * open: it would start over with a refresh token that was spent long ago. Ids are no secrets.
 */
import { createHash, randomBytes } from 'node:crypto';
import type { Clock } from '../clock.js';
import type { CredentialStore, Lease, StoredRecord } from '../credentials/provider.js';
import { encryptedCredentialStore } from '../credentials/stores/encrypted.js';
import { OptionReader } from '../option-reader.js';
import { type RedisClient, RedisScripts, readRedisOptions, script } from './client.js';

const DAY_MS = 24 * 60 * 60_000;
/** A refresh token outlives its access token: so long an agent may be idle without losing it. */
const KEPT_AFTER_EXPIRY_MS = 30 * DAY_MS;
const KEPT_WITHOUT_EXPIRY_MS = 90 * DAY_MS;
/** However far off an expiry is said to be: a host without a clock must not make a record that never ends. */
const MAX_KEPT_MS = 400 * DAY_MS;

// Also reads go through a script: a client that reads from replicas would show a record from before the last write.
const READ = script(`return redis.call('HMGET', KEYS[1], 'generation', 'data', 'expiresAtMs')`);

/** ARGV: expected generation ('' for none), next one ('' deletes), data, expiry ('' for none), milliseconds to keep. */
const COMPARE_AND_SET = script(`
local generation = ''
if redis.call('EXISTS', KEYS[1]) == 1 then
  generation = redis.call('HGET', KEYS[1], 'generation')
  if not generation then return -1 end
end
if generation ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
if ARGV[2] == '' then return 1 end
redis.call('HSET', KEYS[1], 'generation', ARGV[2], 'data', ARGV[3])
if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], 'expiresAtMs', ARGV[4]) end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 1
`);

/** A lease of no length is one that has ended: nothing is written for it. */
const LEASE = script(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if tonumber(ARGV[2]) > 0 then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return 1
`);

const RELEASE = script(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`);

/**
 * A `CredentialStore` on Redis, for `refreshTokenGrant({ store })` and the like.
 *
 * `encryptionKeys` (32 bytes each, base64 or bytes) has the current key first; the others still open what they wrote,
 * and such a record is written anew with the current one at its next change. To change keys, give the new key to all
 * replicas as the second one, then make it the first, and drop the old one when every record has been written since.
 *
 * A record ends 30 days after its token's expiry (90 days after the last write where it has none). An operation ends
 * after `timeoutMs` (default 250) with `ERR_STORE_UNAVAILABLE`; a damaged record, or one of a key that is not given,
 * is the same with reason `unreadable`. Bad options are a `TypeError`.
 *
 * Give this Redis persistence (append-only file) and `noeviction`: what is lost with it is a refresh token.
 */
export function redisCredentialStore(
  redis: RedisClient,
  options: {
    readonly encryptionKeys: readonly (string | Uint8Array)[];
    readonly prefix?: string | undefined;
    readonly timeoutMs?: number | undefined;
    readonly clock?: Clock | undefined;
  },
): CredentialStore {
  const reader = new OptionReader('', options);
  const keys = reader.any('encryptionKeys') as readonly (string | Uint8Array)[];
  const { prefix, timeoutMs, clock } = readRedisOptions(reader);
  reader.done();
  const scripts = new RedisScripts(redis, 'Redis credential store', { prefix, timeoutMs, clock });
  const raw = new RedisRecords(scripts, prefix, clock);
  try {
    return encryptedCredentialStore(raw, { keys });
  } catch (error) {
    if (error instanceof TypeError) throw new TypeError(error.message.replace(/^keys/, 'encryptionKeys'));
    throw error;
  }
}

class RedisRecords implements CredentialStore {
  readonly #scripts: RedisScripts;
  readonly #prefix: string;
  readonly #clock: Clock;

  constructor(scripts: RedisScripts, prefix: string, clock: Clock) {
    this.#scripts = scripts;
    this.#prefix = prefix;
    this.#clock = clock;
  }

  async read(
    id: string,
    options: { signal?: AbortSignal | undefined } = {},
  ): Promise<StoredRecord | undefined> {
    const within = this.#scripts.within(options.signal);
    const reply = await this.#scripts.run(READ, [this.#keyOf(id, 'record')], [], within);
    const [generation, data, expiresAtMs] = (reply as readonly unknown[]).map(textOf);
    if (generation === undefined && data === undefined && expiresAtMs === undefined) return undefined;
    if (generation === undefined || !/^\d{1,16}$/.test(generation) || data === undefined) {
      throw this.#scripts.damaged();
    }
    const record = { generation: Number(generation), data };
    if (expiresAtMs === undefined) return record;
    if (!Number.isFinite(Number(expiresAtMs))) throw this.#scripts.damaged();
    return { ...record, expiresAtMs: Number(expiresAtMs) };
  }

  async compareAndSet(
    id: string,
    expectedGeneration: number | undefined,
    next: StoredRecord | undefined,
    options: { signal?: AbortSignal | undefined } = {},
  ): Promise<boolean> {
    const reply = await this.#scripts.run(
      COMPARE_AND_SET,
      [this.#keyOf(id, 'record')],
      [
        String(expectedGeneration ?? ''),
        String(next?.generation ?? ''),
        next?.data ?? '',
        String(next?.expiresAtMs ?? ''),
        String(this.#keptMs(next?.expiresAtMs)),
      ],
      this.#scripts.within(options.signal),
    );
    if (Number(reply) === -1) throw this.#scripts.damaged();
    return Number(reply) === 1;
  }

  async lease(
    id: string,
    leaseMs: number,
    options: { signal?: AbortSignal | undefined } = {},
  ): Promise<Lease | undefined> {
    const key = this.#keyOf(id, 'lease');
    const owner = randomBytes(16).toString('base64url');
    // Counted from before it was asked for: Redis' own count began later.
    let endsAtMs = this.#clock.monotonic() + leaseMs;
    const release = async () => {
      await this.#scripts.run(RELEASE, [key], [owner], this.#scripts.within());
    };
    const reply = await this.#scripts.run(LEASE, [key], [owner, String(Math.max(0, Math.ceil(leaseMs)))], {
      ...this.#scripts.within(options.signal),
      // Nobody holds it, and nobody else could have it.
      late: (late) => {
        if (Number(late) === 1) release().catch(() => {});
      },
    });
    if (Number(reply) !== 1) return undefined;
    return {
      remainingMs: () => Math.max(0, endsAtMs - this.#clock.monotonic()),
      release: () => {
        endsAtMs = Number.NEGATIVE_INFINITY;
        return release();
      },
    };
  }

  #keptMs(expiresAtMs: number | undefined): number {
    if (expiresAtMs === undefined) return KEPT_WITHOUT_EXPIRY_MS;
    const livesMs = Math.max(0, expiresAtMs - this.#clock.now());
    return Math.ceil(Math.min(livesMs + KEPT_AFTER_EXPIRY_MS, MAX_KEPT_MS));
  }

  /** Record and lease of one id have a slot of their own: ids are spread over a cluster. */
  #keyOf(id: string, what: 'record' | 'lease'): string {
    const name = createHash('sha256').update('mcp-holdfast credential\0').update(id).digest('base64url');
    return `${this.#prefix}:{${name.slice(0, 32)}}:${what}`;
  }
}

function textOf(value: unknown): string | undefined {
  return value === null || value === undefined ? undefined : String(value);
}
