/**
 * A bucket that replicas share, on Redis.
 *
 * Guarantees at most `limit` grants in every window of a rule, counted on Redis' clock alone; that one token is taken
 * under all rules or under none; that a caller whom the answer did not reach in time has taken nothing; and that after
 * a loss of the log (restart, eviction, failover) nothing is granted here until the replicas have told what they
 * granted. Never writes a bucket's key in clear, never keeps a key in Redis without an end.
 */
import { createHash, randomBytes, randomInt } from 'node:crypto';
import { type Clock, untilAborted } from '../clock.js';
import { OptionReader } from '../option-reader.js';
import {
  ENDS_BY_ITSELF,
  keptIntervalMs,
  type RateLimitStore,
  type Rule,
  type Taken,
  type TakeOptions,
} from '../rate-limit/types.js';
import { BucketMemory } from './bucket-memory.js';
import { type RedisClient, RedisScripts, readRedisOptions, type Within } from './client.js';
import { ADD, PAUSE, TAKE, UNDO } from './rate-limit-scripts.js';

/** How far ahead a grant may be made: what a pause that comes meanwhile cannot take back. */
const HORIZON_MS = 250;
/** How long replicas have to come back and tell; each tries about once a second. */
const RESTORE_MS = 3_000;
/** A bucket lives for at least so long after its last use, so that a loss can be told from an end. */
const MIN_BUCKET_LIFE_MS = 20 * 60_000;
/** Losing the log again while telling what was in it: not worth more tries at once. */
const MAX_LOOKS = 3;
const TIDY_EVERY = 8;
const LOOK_AGAIN_MS = 100;
const EPOCHS = 2 ** 47;
/** Bounds memory; an app has a few bucket keys. */
const MAX_DIGESTS = 1_000;

const WAIT = 0;
const GRANTED = 1;
const SHARE = 2;
const LOST = 3;

interface Bucket {
  /** Redis key. */
  readonly key: string;
  /** In the memory of this process: the same bucket under another limiter's key is another one. */
  readonly name: string;
  readonly rules: { readonly limit: number; readonly window: number }[];
  /** The longest window of its rules; 0 where the limiter's own key has no rule. */
  readonly longest: number;
  readonly ttl: number;
}

interface Look {
  readonly kind: number;
  readonly ms: number;
  readonly used: number;
  readonly buckets: readonly { readonly epoch: number; readonly held: number; readonly marked: number }[];
}

/**
 * A `RateLimitStore` on Redis, for `rateLimit: { store }`; one for all limiters of a process will do.
 *
 * `redis` is a client of ioredis or node-redis as it is; it stays the app's to connect and to close. `prefix` begins
 * every key (default `mcp-holdfast`) and is their slot on Redis Cluster. An operation ends after `timeoutMs` (default
 * 250) with `ERR_STORE_UNAVAILABLE`; what Redis grants later is given back. Bad options are a `TypeError`.
 *
 * A sorted set per bucket holds one entry per grant of the longest window: some 100 bytes each.
 */
export function redisRateLimitStore(
  redis: RedisClient,
  options: {
    readonly prefix?: string | undefined;
    readonly timeoutMs?: number | undefined;
    readonly clock?: Clock | undefined;
  } = {},
): RateLimitStore {
  const reader = new OptionReader('', options);
  const resolved = readRedisOptions(reader);
  reader.done();
  const scripts = new RedisScripts(redis, 'Redis rate-limit store', resolved);
  return new SharedBuckets(scripts, resolved.prefix, resolved.timeoutMs, new BucketMemory(resolved.clock));
}

class SharedBuckets implements RateLimitStore {
  readonly [ENDS_BY_ITSELF] = true;
  readonly #scripts: RedisScripts;
  readonly #prefix: string;
  /** After the time of shares: an answer and a note, each within the deadline, may still be under way. */
  readonly #quietMs: number;
  readonly #memory: BucketMemory;
  /** By name: the grants of this process are on their way to a bucket that was lost. */
  readonly #seeding = new Map<string, Promise<void>>();
  readonly #instance = randomBytes(9).toString('base64url');
  #members = 0;
  readonly #digests = new Map<string, string>();
  #epoch = randomInt(EPOCHS);

  constructor(scripts: RedisScripts, prefix: string, timeoutMs: number, memory: BucketMemory) {
    this.#scripts = scripts;
    this.#prefix = prefix;
    this.#quietMs = 2 * timeoutMs;
    this.#memory = memory;
  }

  async take(key: string, rules: readonly Rule[], options: TakeOptions = {}): Promise<Taken> {
    const buckets = this.#bucketsOf(key, rules);
    const within = this.#scripts.within(options.signal);
    return await this.#orAway(buckets, within, async () => {
      for (let looks = 0; looks < MAX_LOOKS; looks += 1) {
        const look = await this.#look(buckets, rules[0], within);
        if (look.kind !== LOST) return this.#takenOf(buckets, look);
        await this.#seed(buckets, look, within, options.ownGrantsAgoMs);
      }
      return { askAgainInMs: LOOK_AGAIN_MS };
    });
  }

  async pause(key: string, forMs: number, options: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    if (!Number.isFinite(forMs)) throw new TypeError('forMs must be a number of milliseconds');
    if (forMs <= 0) return;
    const ask = JSON.stringify({ forMs: Math.ceil(forMs), ttl: MIN_BUCKET_LIFE_MS });
    await this.#scripts.run(PAUSE, [this.#keyOf(key)], [ask], this.#scripts.within(options.signal));
  }

  async note(
    key: string,
    rules: readonly Rule[],
    grantsAgoMs: readonly number[],
    options: { signal?: AbortSignal | undefined } = {},
  ): Promise<void> {
    const buckets = this.#bucketsOf(key, rules).filter(({ longest }) => longest > 0);
    if (buckets.length === 0) return;
    const within = this.#scripts.within(options.signal);
    // Nothing to tell but that one is back.
    if (grantsAgoMs.length === 0) for (const { name } of buckets) this.#memory.wasAway(name);
    const atMs = this.#memory.instantsOf(grantsAgoMs);
    await this.#orAway(buckets, within, async () => {
      const told = await this.#add(
        false,
        buckets.map((bucket) => ({ bucket, ago: grantsAgoMs, others: 0, othersAgo: 0 })),
        within,
      );
      for (const { bucket, epoch, marked } of told) {
        this.#memory.noted(bucket.name, epoch, marked, atMs, bucket.longest);
      }
    });
  }

  async #look(buckets: readonly Bucket[], first: Rule | undefined, within: Within): Promise<Look> {
    const member = this.#nextMember();
    const keys = buckets.map(({ key }) => key);
    const ask = JSON.stringify({
      member,
      // What is over counts for nothing; it has only to go before there is much of it.
      tidy: this.#members % TIDY_EVERY === 0,
      horizonMs: HORIZON_MS,
      restoreMs: RESTORE_MS,
      quietMs: this.#quietMs,
      paceMs: first === undefined ? 0 : Math.ceil(first.intervalMs / first.limit),
      paceForMs: first === undefined ? 0 : windowOf(first),
      buckets: buckets.map(({ name, rules, longest, ttl }) => ({
        rules,
        longest,
        ttl,
        known: this.#memory.knownEpoch(name, ttl / 2),
        candidate: this.#nextEpoch(),
      })),
    });
    const late = (reply: unknown) => {
      if (lookOf(reply).kind !== GRANTED) return;
      this.#scripts.run(UNDO, keys, [member], this.#scripts.within()).catch(() => {});
    };
    return lookOf(await this.#scripts.run(TAKE, keys, [ask], { ...within, late }));
  }

  #takenOf(buckets: readonly Bucket[], look: Look): Taken {
    buckets.forEach(({ name, longest }, index) => {
      const { epoch, held, marked } = look.buckets[index] as Look['buckets'][number];
      if (longest > 0) this.#memory.looked(name, epoch, held, marked);
    });
    const { kind, ms, used } = look;
    if (kind === GRANTED) return { grantedInMs: ms, used };
    return kind === SHARE ? { askAgainInMs: ms, used, keepShare: true } : { askAgainInMs: ms, used };
  }

  async #seed(
    buckets: readonly Bucket[],
    look: Look,
    within: Within,
    ownGrantsAgoMs: TakeOptions['ownGrantsAgoMs'],
  ): Promise<void> {
    const lost = buckets.flatMap((bucket, index) => {
      const epoch = look.buckets[index]?.epoch ?? 0;
      const known = this.#memory.knownEpoch(bucket.name, bucket.ttl / 2);
      if (bucket.longest === 0 || known === 0 || known === epoch) return [];
      return [{ bucket, epoch }];
    });
    // Callers that ask at once find the loss together; the grants are told once.
    const unasked = lost.filter(({ bucket }) => !this.#seeding.has(bucket.name));
    if (unasked.length > 0) {
      const own = ownGrantsAgoMs?.() ?? [];
      const grants = unasked.map(({ bucket, epoch }) => ({
        bucket,
        ...this.#memory.seed(bucket.name, epoch, own),
      }));
      // Not the signal of the one who was first: the others wait for it as well.
      const flight = this.#add(true, grants, { untilMs: within.untilMs })
        .then((told) => {
          for (const { bucket, epoch, marked } of told) this.#memory.seeded(bucket.name, epoch, marked);
        })
        .finally(() => {
          for (const { bucket } of unasked) this.#seeding.delete(bucket.name);
        });
      for (const { bucket } of unasked) this.#seeding.set(bucket.name, flight);
    }
    const flights = new Set(lost.map(({ bucket }) => this.#seeding.get(bucket.name)));
    await untilAborted(Promise.all(flights), within.signal);
  }

  async #add(
    seed: boolean,
    grants: readonly {
      readonly bucket: Bucket;
      readonly ago: readonly number[];
      readonly others: number;
      readonly othersAgo: number;
    }[],
    within: Within,
  ): Promise<{ bucket: Bucket; epoch: number; marked: number }[]> {
    if (grants.length === 0) return [];
    const ask = JSON.stringify({
      seed,
      member: this.#nextMember(),
      restoreMs: RESTORE_MS,
      quietMs: this.#quietMs,
      buckets: grants.map(({ bucket, ago, others, othersAgo }) => ({
        longest: bucket.longest,
        ttl: bucket.ttl,
        candidate: this.#nextEpoch(),
        seen: this.#memory.marked(bucket.name),
        ago: ago.map((each) => Math.max(0, Math.floor(each))),
        others,
        othersAgo,
      })),
    });
    const keys = grants.map(({ bucket }) => bucket.key);
    const reply = (await this.#scripts.run(ADD, keys, [ask], within)) as readonly unknown[];
    return grants.map(({ bucket }, index) => ({
      bucket,
      epoch: Number(reply[2 * index]),
      marked: Number(reply[2 * index + 1]),
    }));
  }

  /** A replica that Redis did not answer comes back with its next note. */
  async #orAway<T>(buckets: readonly Bucket[], within: Within, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (within.signal?.aborted !== true) for (const { name } of buckets) this.#memory.wasAway(name);
      throw error;
    }
  }

  #bucketsOf(key: string, rules: readonly Rule[]): Bucket[] {
    const byKey = new Map<string, { limit: number; window: number }[]>([[key, []]]);
    for (const rule of rules) {
      if (
        !(
          Number.isInteger(rule.limit) &&
          rule.limit >= 1 &&
          Number.isFinite(rule.intervalMs) &&
          rule.intervalMs > 0
        )
      ) {
        throw new TypeError('a rule needs a limit of 1 or more and an intervalMs above 0');
      }
      const under = rule.key ?? key;
      byKey.set(under, [...(byKey.get(under) ?? []), { limit: rule.limit, window: windowOf(rule) }]);
    }
    const limiter = this.#digestOf(key);
    return [...byKey].map(([under, own]) => {
      const longest = Math.max(0, ...own.map(({ window }) => window));
      return {
        key: this.#keyOf(under),
        name: `${limiter} ${this.#digestOf(under)}`,
        rules: own,
        longest,
        ttl: Math.max(4 * longest, MIN_BUCKET_LIFE_MS),
      };
    });
  }

  #keyOf(bucketKey: string): string {
    return `{${this.#prefix}}:bucket:${this.#digestOf(bucketKey)}`;
  }

  /** Kept: to make it takes as long as the rest of an ask. */
  #digestOf(bucketKey: string): string {
    let digest = this.#digests.get(bucketKey);
    if (digest === undefined) {
      digest = digestOf(bucketKey);
      if (this.#digests.size >= MAX_DIGESTS) this.#digests.clear();
      this.#digests.set(bucketKey, digest);
    }
    return digest;
  }

  /** Another one each time, here and in every other process. */
  #nextEpoch(): number {
    this.#epoch = (this.#epoch % EPOCHS) + 1;
    return this.#epoch;
  }

  #nextMember(): string {
    this.#members += 1;
    return `${this.#instance}:${this.#members}`;
  }
}

function windowOf(rule: Rule): number {
  return Math.ceil(keptIntervalMs(rule));
}

function digestOf(bucketKey: string): string {
  return createHash('sha256')
    .update('mcp-holdfast bucket\0')
    .update(bucketKey)
    .digest('base64url')
    .slice(0, 22);
}

function lookOf(reply: unknown): Look {
  // Some clients are set to give numbers as text.
  const [kind = WAIT, ms = 0, used = 0, ...rest] = (reply as readonly unknown[]).map(Number);
  const buckets = Array.from({ length: Math.floor(rest.length / 3) }, (_, index) => ({
    epoch: rest[3 * index] ?? 0,
    held: rest[3 * index + 1] ?? 0,
    marked: rest[3 * index + 2] ?? 0,
  }));
  return { kind, ms, used, buckets };
}
