/** What the tests over Redis share: looking into a bucket, waiting in real time, a fleet's replica. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import type { RateLimitStore, Rule, Taken } from '../../src/rate-limit/types.js';
import { keptIntervalMs } from '../../src/rate-limit/types.js';
import type { RedisServer } from './server.js';

/** Redis' clock cannot be faked: what has to pass there passes here. */
export const pass = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

export async function eventually(isTrue: () => Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await pass(10);
}

export function bucketKey(prefix: string, key: string): string {
  const digest = createHash('sha256').update('mcp-holdfast bucket\0').update(key).digest('base64url');
  return `{${prefix}}:bucket:${digest.slice(0, 22)}`;
}

/** Instants of grants in Redis, oldest first. */
export async function grantsIn(server: RedisServer, prefix: string, key: string): Promise<number[]> {
  const reply = await server.command('ZRANGEBYSCORE', bucketKey(prefix, key), '0', '+inf', 'WITHSCORES');
  return (reply as string[]).filter((_, index) => index % 2 === 1).map(Number);
}

/** A mark of the bucket, 0 where it has none. */
export async function markOf(
  server: RedisServer,
  prefix: string,
  key: string,
  mark: string,
): Promise<number> {
  return 0 - Number(await server.command('ZSCORE', bucketKey(prefix, key), mark));
}

/** As if the mark had been made so much earlier. */
export async function moveMark(
  server: RedisServer,
  prefix: string,
  key: string,
  mark: string,
  byMs: number,
): Promise<void> {
  await server.command('ZINCRBY', bucketKey(prefix, key), String(byMs), mark);
}

export async function redisNowMs(server: RedisServer): Promise<number> {
  const [seconds, micros] = (await server.command('TIME')) as string[];
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
}

export const isGranted = (taken: Taken): taken is Extract<Taken, { grantedInMs: number }> =>
  'grantedInMs' in taken;

export function refused(taken: Taken): Extract<Taken, { askAgainInMs: number }> {
  if (isGranted(taken)) throw new Error('a token was granted');
  return taken;
}

/** The most that any window of `windowMs` holds. */
export function fullestWindow(instants: readonly number[], windowMs: number): number {
  const sorted = [...instants].sort((a, b) => a - b);
  return Math.max(
    0,
    ...sorted.map((end, at) => sorted.slice(0, at + 1).filter((s) => s > end - windowMs).length),
  );
}

/** Everything that Redis is told while `run` runs, as MONITOR shows it. */
export async function monitored(server: RedisServer, run: () => Promise<void>): Promise<string> {
  const socket = connect(server.port, '127.0.0.1');
  let seen = '';
  const heard = (word: string) => () => Promise.resolve(seen.includes(word));
  socket.setEncoding('utf8').on('data', (text) => {
    seen += text;
  });
  await once(socket, 'connect');
  socket.write('MONITOR\r\n');
  await eventually(heard('+OK'));
  await run();
  await server.command('ECHO', 'end-of-what-is-watched');
  await eventually(heard('end-of-what-is-watched'));
  socket.destroy();
  return seen;
}

/**
 * A replica as the seam expects it, and a careful one: it asks the store, keeps its share when it is told to or left
 * alone, and tells. What it does not know it takes for used.
 */
export class Replica {
  /** On one clock for the whole fleet. */
  readonly grants: number[] = [];
  readonly #store: RateLimitStore;
  readonly #key: string;
  readonly #rule: Rule;
  readonly #replicas: number;
  #untold: number[] = [];
  #isAway = false;
  /** Since when it keeps its share, and how much it may grant in the first window of that. */
  #sharing: { sinceMs: number; first: number } | undefined;

  constructor(store: RateLimitStore, key: string, rule: Rule, replicas: number) {
    this.#store = store;
    this.#key = key;
    this.#rule = rule;
    this.#replicas = replicas;
  }

  readonly ownGrantsAgoMs = (): number[] => agoOf(this.grants);

  /** Milliseconds until it is worth asking again. */
  async ask(): Promise<number> {
    try {
      if (this.#isAway) {
        await this.#tell();
        this.#isAway = false;
      }
      const options = { ownGrantsAgoMs: this.ownGrantsAgoMs };
      const taken = await this.#store.take(this.#key, [this.#rule], options);
      if (isGranted(taken)) this.grants.push(performance.now() + taken.grantedInMs);
      if (isGranted(taken) || taken.keepShare !== true) {
        this.#sharing = undefined;
        return isGranted(taken) ? 0 : taken.askAgainInMs;
      }
      const left = this.#rule.limit - (taken.used ?? 0);
      if (left > 0 && this.#grantOwn(Math.floor(left / this.#replicas))) await this.#tell();
    } catch {
      this.#isAway = true;
      this.#grantOwn(0);
    }
    return 20;
  }

  async #tell(): Promise<void> {
    const told = this.#untold;
    this.#untold = [];
    try {
      await this.#store.note?.(this.#key, [this.#rule], agoOf(told));
    } catch (error) {
      this.#untold = [...told, ...this.#untold];
      throw error;
    }
  }

  #grantOwn(first: number): boolean {
    const now = performance.now();
    const keptMs = keptIntervalMs(this.#rule);
    this.#sharing ??= { sinceMs: now, first };
    const { sinceMs } = this.#sharing;
    const since = (ms: number) => this.grants.filter((at) => at > ms).length;
    if (since(now - keptMs) >= Math.floor(this.#rule.limit / this.#replicas)) return false;
    if (now < sinceMs + keptMs && since(sinceMs) >= this.#sharing.first) return false;
    this.grants.push(now);
    this.#untold.push(now);
    return true;
  }
}

function agoOf(instants: readonly number[]): number[] {
  return instants.map((at) => performance.now() - at);
}
