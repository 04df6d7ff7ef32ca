/**
 * Scripts on Redis, over whichever client the app has.
 *
 * Guarantees that a call ends by its own deadline whatever the client does (ioredis queues without end while Redis
 * is away), that an answer which comes later is handed to `late` or dropped, and that a restarted Redis, which knows
 * no script, is sent the text. Never connects, configures or closes a client: that is the app's.
 */
import { createHash } from 'node:crypto';
import { type Clock, systemClock } from '../clock.js';
import { within } from '../credentials/deadline.js';
import { HostedMcpError } from '../errors.js';
import type { OptionReader } from '../option-reader.js';

/** What is used of an ioredis `Redis` or `Cluster` (5 and 6). */
export interface IoredisClient {
  evalsha(sha: string, numberOfKeys: number, ...keysAndArguments: string[]): Promise<unknown>;
  eval(script: string, numberOfKeys: number, ...keysAndArguments: string[]): Promise<unknown>;
}

/** What is used of a node-redis client: `createClient`, `createClientPool`, `createCluster`. */
export interface NodeRedisClient {
  evalSha(sha: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
}

/** A client as it comes from `ioredis` or `redis`: no wrapper is needed, and no option has to be set. */
export type RedisClient = IoredisClient | NodeRedisClient;

export interface RedisOptions {
  /** First part of every key. Without braces, which mark the slot on Redis Cluster. */
  readonly prefix: string;
  readonly timeoutMs: number;
  readonly clock: Clock;
}

export const REDIS_DEFAULTS = Object.freeze({
  prefix: 'mcp-holdfast',
  /** A script takes well under 10 ms; a caller that waits longer is better served by its own share. */
  timeoutMs: 250,
});

export interface Script {
  readonly text: string;
  readonly sha: string;
}

export function script(text: string): Script {
  return Object.freeze({ text, sha: createHash('sha1').update(text).digest('hex') });
}

/** The end of one operation, shared by the scripts it takes. */
export interface Within {
  /** On the monotonic clock. */
  readonly untilMs: number;
  readonly signal?: AbortSignal | undefined;
}

export interface Run extends Within {
  /** Takes an answer that came after the caller had gone. */
  readonly late?: ((reply: unknown) => void) | undefined;
}

/** Reads what both stores take; whatever is wrong is a `TypeError` before any I/O. */
export function readRedisOptions(reader: OptionReader): RedisOptions {
  const prefix = reader.any('prefix') ?? REDIS_DEFAULTS.prefix;
  if (typeof prefix !== 'string' || prefix === '' || /[{}]/.test(prefix)) {
    throw new TypeError('prefix must be a text without braces, and not empty');
  }
  const timeoutMs = reader.duration('timeoutMs', 1) ?? REDIS_DEFAULTS.timeoutMs;
  const clock = (reader.any('clock') as Clock | undefined) ?? systemClock();
  return { prefix, timeoutMs, clock };
}

export class RedisScripts {
  readonly #send: (command: 'sha' | 'text', script: Script, keys: string[], args: string[]) => unknown;
  readonly #store: string;
  readonly #timeoutMs: number;
  readonly #clock: Clock;

  /** `store` names it in errors. A client of neither kind is a `TypeError`. */
  constructor(redis: RedisClient, store: string, options: RedisOptions) {
    this.#send = senderOf(redis);
    this.#store = store;
    this.#timeoutMs = options.timeoutMs;
    this.#clock = options.clock;
  }

  within(signal?: AbortSignal | undefined): Within {
    return { untilMs: this.#clock.monotonic() + this.#timeoutMs, signal };
  }

  /** Rejects with `ERR_STORE_UNAVAILABLE`, or with the signal's reason. */
  async run(script: Script, keys: string[], args: string[], run: Run): Promise<unknown> {
    run.signal?.throwIfAborted();
    let hasGone = false;
    const held = this.#clock.track?.();
    const reply = this.#evaluate(script, keys, args);
    reply
      .then((value) => {
        if (hasGone) run.late?.(value);
      })
      .catch(() => {});
    try {
      const leftMs = Math.max(0, run.untilMs - this.#clock.monotonic());
      return await within(
        this.#clock,
        reply,
        leftMs,
        () => this.#error('did not answer in time'),
        run.signal,
      );
    } catch (error) {
      hasGone = true;
      if (HostedMcpError.isInstance(error) || run.signal?.aborted === true) throw error;
      if (says(error, 'WRONGTYPE')) throw this.damaged();
      throw this.#error('could not be used', error);
    } finally {
      held?.dispose();
    }
  }

  /** What the store holds cannot be what it wrote; waiting does not help. */
  damaged(): HostedMcpError {
    return new HostedMcpError('ERR_STORE_UNAVAILABLE', `The ${this.#store} holds a damaged record`, {
      reason: 'unreadable',
    });
  }

  async #evaluate(script: Script, keys: string[], args: string[]): Promise<unknown> {
    try {
      return await this.#send('sha', script, keys, args);
    } catch (error) {
      if (!says(error, 'NOSCRIPT')) throw error;
      return await this.#send('text', script, keys, args);
    }
  }

  #error(what: string, cause?: unknown): HostedMcpError {
    return new HostedMcpError('ERR_STORE_UNAVAILABLE', `The ${this.#store} ${what}`, {
      retryable: true,
      cause,
    });
  }
}

/** ioredis spells the command `evalsha`, node-redis `evalSha`; neither has the other's, and class names are minified. */
function senderOf(redis: unknown): (command: 'sha' | 'text', s: Script, k: string[], a: string[]) => unknown {
  if (typeof redis === 'object' && redis !== null && hasMethod(redis, 'eval')) {
    if (hasMethod(redis, 'evalSha')) {
      const client = redis as NodeRedisClient;
      return (command, { sha, text }, keys, args) => {
        const options = { keys, arguments: args };
        return command === 'sha' ? client.evalSha(sha, options) : client.eval(text, options);
      };
    }
    if (hasMethod(redis, 'evalsha')) {
      const client = redis as IoredisClient;
      return (command, { sha, text }, keys, args) =>
        command === 'sha'
          ? client.evalsha(sha, keys.length, ...keys, ...args)
          : client.eval(text, keys.length, ...keys, ...args);
    }
  }
  throw new TypeError('redis must be a client of ioredis (Redis, Cluster) or of node-redis');
}

function hasMethod(target: object, name: string): boolean {
  return typeof (target as Record<string, unknown>)[name] === 'function';
}

/** Redis begins its errors with a word in capitals; some clients put words of their own before it. */
function says(error: unknown, word: string): boolean {
  const { message } = (error ?? {}) as { message?: unknown };
  return typeof message === 'string' && message.includes(word);
}
