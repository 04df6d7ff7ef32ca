/** Redis hangs, is not there, or has forgotten the scripts; the client queues as it does by default. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/clock.js';
import { HostedMcpError } from '../../src/errors.js';
import { type RedisClient, redisCredentialStore, redisRateLimitStore } from '../../src/redis/index.js';
import { manualClock } from '../../src/testing/manual-clock.js';
import { type Connected, SINGLE } from './clients.js';
import { type RedisServer, startRedis } from './server.js';
import { bucketKey, eventually, grantsIn, isGranted } from './support.js';

const RULES = [{ limit: 5, intervalMs: 600_000 }];
const KEY = new Uint8Array(32).fill(7);
const clients = Object.entries(SINGLE).filter(([name]) => !name.includes('pool'));

let server: RedisServer;
const open: Connected[] = [];
const connect = async (how: (port: number) => Promise<Connected>) => {
  const connected = await how(server.port);
  open.push(connected);
  return connected.redis;
};

afterEach(async () => {
  server.thaw();
  await Promise.all(open.splice(0).map((connected) => connected.close()));
  await server.close();
});

const errorOf = async (promise: Promise<unknown>): Promise<unknown> =>
  await promise.then(
    () => {
      throw new Error('it did not fail');
    },
    (error) => error,
  );
const isUnavailable = (error: unknown) => HostedMcpError.isInstance(error, 'ERR_STORE_UNAVAILABLE');

describe.each(clients)('%s', (_name, how) => {
  describe('with a Redis that hangs', () => {
    beforeEach(async () => {
      server = await startRedis();
    });

    it('each operation of both stores fails by its own deadline, and works when Redis goes on', async () => {
      const redis = await connect(how);
      const prefix = 'hung';
      const buckets = redisRateLimitStore(redis, { prefix, timeoutMs: 100 });
      const credentials = redisCredentialStore(redis, { encryptionKeys: [KEY], prefix, timeoutMs: 100 });
      const patient = { prefix, timeoutMs: 5_000 };
      await redisRateLimitStore(redis, patient).take('k', RULES);
      const patientCredentials = redisCredentialStore(redis, { encryptionKeys: [KEY], ...patient });
      const lease = await patientCredentials.lease('other', 60_000);
      server.freeze();
      const failures = await Promise.all(
        [
          buckets.take('k', RULES),
          buckets.take('k', RULES),
          buckets.pause('p', 1_000),
          buckets.note?.('n', RULES, [1]),
          credentials.read('id'),
          credentials.compareAndSet('id', undefined, { generation: 1, data: 'x' }),
          credentials.lease('id', 60_000),
        ].map((promise) => errorOf(promise as Promise<unknown>)),
      );
      expect(failures.filter((error) => !isUnavailable(error))).toEqual([]);
      for (const error of failures as HostedMcpError[]) {
        expect(error.retryable).toBe(true);
        expect(error.message).toMatch(/^The Redis (rate-limit|credential) store did not answer in time/);
      }
      server.thaw();
      // Nobody was there for the tokens and the lease that came late: they are given back.
      await eventually(async () => (await grantsIn(server, prefix, 'k')).length === 1);
      await eventually(
        async () => (await credentials.lease('id', 60_000).catch(() => undefined)) !== undefined,
      );
      await eventually(async () => {
        const taken = await buckets.take('k', RULES).catch(() => undefined);
        return taken !== undefined && isGranted(taken);
      });
      await lease?.release();
    });

    it('one who gives up is let go at once, and has taken nothing', async () => {
      const redis = await connect(how);
      const store = redisRateLimitStore(redis, { prefix: 'given-up', timeoutMs: 60_000 });
      await store.take('k', RULES);
      server.freeze();
      const caller = new AbortController();
      const reason = new Error('given up');
      const asked = errorOf(store.take('k', RULES, { signal: caller.signal }));
      caller.abort(reason);
      expect(await asked).toBe(reason);
      server.thaw();
      await server.command('PING');
      await eventually(async () => (await grantsIn(server, 'given-up', 'k')).length === 1);
      // What came before the answer of the one who had gone is answered: it has been given back by then.
      await store.take('k', RULES);
      await store.take('k', RULES);
      await eventually(async () => (await grantsIn(server, 'given-up', 'k')).length === 3);
    });
  });

  it('without a Redis fails by its own deadline, and works when one appears', async () => {
    server = await startRedis({ running: false });
    const redis = await connect(how);
    const store = redisRateLimitStore(redis, { prefix: 'late', timeoutMs: 50 });
    for (let index = 0; index < 3; index += 1) {
      expect(isUnavailable(await errorOf(store.take('k', RULES)))).toBe(true);
    }
    await server.restart();
    await eventually(async () => {
      const taken = await store.take('k', RULES).catch(() => undefined);
      return taken !== undefined && isGranted(taken);
    });
    // What was queued in vain has not eaten the limit.
    await eventually(async () => (await grantsIn(server, 'late', 'k')).length === 1);
  });

  it('sends the scripts again to a Redis that has forgotten them', async () => {
    server = await startRedis();
    const redis = await connect(how);
    const buckets = redisRateLimitStore(redis, { timeoutMs: 5_000 });
    const credentials = redisCredentialStore(redis, { encryptionKeys: [KEY], timeoutMs: 5_000 });
    for (let round = 1; round <= 3; round += 1) {
      await server.command('SCRIPT', 'FLUSH');
      expect(await buckets.take('k', RULES)).toEqual({ grantedInMs: 0, used: round });
      expect((await credentials.read('id'))?.generation).toBe(round === 1 ? undefined : round - 1);
      const expected = round === 1 ? undefined : round - 1;
      expect(await credentials.compareAndSet('id', expected, { generation: round, data: 'x' })).toBe(true);
    }
    const stats = String(await server.command('INFO', 'commandstats'));
    expect(stats).toMatch(/cmdstat_eval:/);
    // A script that Redis knows is called by its digest alone.
    await server.command('CONFIG', 'RESETSTAT');
    await buckets.take('k', RULES);
    const after = String(await server.command('INFO', 'commandstats'));
    expect(after).toMatch(/cmdstat_evalsha:calls=1,/);
    expect(after).not.toMatch(/cmdstat_eval:/);
  });

  it('says nothing of what Redis or the client said', async () => {
    server = await startRedis();
    const redis = await connect(how);
    await server.command('ACL', 'SETUSER', 'default', '-evalsha');
    const store = redisCredentialStore(redis, { encryptionKeys: [KEY], timeoutMs: 5_000 });
    const error = (await errorOf(
      store.compareAndSet('id', undefined, { generation: 1, data: 'secret' }),
    )) as HostedMcpError;
    expect(isUnavailable(error)).toBe(true);
    expect(error.message).toBe('The Redis credential store could not be used. The call did not run.');
    expect(JSON.stringify([error.message, error.stack, String(error.cause)])).not.toMatch(
      /NOPERM|permission|evalsha|secret/,
    );
  });

  it('a bucket that holds something else is no crash and is left as it is', async () => {
    server = await startRedis();
    const redis = await connect(how);
    const store = redisRateLimitStore(redis, { prefix: 'odd', timeoutMs: 5_000 });
    await server.command('SET', bucketKey('odd', 'k'), 'something else');
    expect(await errorOf(store.take('k', RULES))).toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
      reason: 'unreadable',
    });
    expect(await server.command('GET', bucketKey('odd', 'k'))).toBe('something else');
  });
});

describe('without any Redis', () => {
  beforeEach(async () => {
    server = await startRedis({ running: false });
  });
  /** Answers when told to, as an ioredis. */
  function scripted() {
    const answers: ((value: unknown) => void)[] = [];
    const calls: string[] = [];
    const evalsha = (sha: string) => {
      calls.push(sha);
      return new Promise<unknown>((resolve) => answers.push(resolve));
    };
    const redis: RedisClient = { evalsha, eval: evalsha };
    return { redis, answers, calls };
  }

  it('the deadline is on the clock that was given, and is one for a whole operation', async () => {
    const clock = manualClock();
    const { redis, answers, calls } = scripted();
    const store = redisRateLimitStore(redis, { clock });
    const first = store.take('k', RULES);
    await clock.settle();
    answers[0]?.([1, 0, 1, '77', 1, '0']);
    expect(await first).toEqual({ grantedInMs: 0, used: 1 });
    // The log was lost: a second script and a third one follow, within the same 250 ms.
    const second = errorOf(store.take('k', RULES, { ownGrantsAgoMs: () => [10] }));
    await clock.advance(200);
    answers[1]?.([3, 0, 0, '88', 0, '5']);
    await clock.advance(40);
    answers[2]?.(['88', '5']);
    await clock.settle();
    expect(calls).toHaveLength(4);
    await clock.advance(10);
    expect(isUnavailable(await second)).toBe(true);
    expect(clock.pendingTimers).toBe(0);
    // A refusal that comes late is dropped: there is nothing to give back.
    answers[3]?.([0, 100, 1, '88', 1, '0']);
    await clock.settle();
    expect(calls).toHaveLength(4);
  });

  it('late answers of any shape, and late failures, are dropped in silence', async () => {
    const clock = manualClock();
    const { redis, answers, calls } = scripted();
    const store = redisRateLimitStore(redis, { clock, timeoutMs: 20 });
    const odd = [null, undefined, 'text', [1], 'a failure'];
    const asked = odd.map(() => errorOf(store.take('k', RULES)));
    await clock.advance(20);
    expect((await Promise.all(asked)).every(isUnavailable)).toBe(true);
    answers.forEach((answer, index) => {
      answer(odd[index] === 'a failure' ? Promise.reject(new Error('late')) : odd[index]);
    });
    await clock.settle();
    expect(calls.length).toBeGreaterThanOrEqual(5);
  });

  it('a lease is counted from before it was asked for', async () => {
    const clock = manualClock();
    const { redis, answers } = scripted();
    const store = redisCredentialStore(redis, { encryptionKeys: [KEY], clock, timeoutMs: 5_000 });
    const asked = store.lease('id', 15_000);
    await clock.advance(4_000);
    answers[0]?.(1);
    const lease = await asked;
    expect(lease?.remainingMs()).toBe(11_000);
    await clock.advance(11_000);
    expect(lease?.remainingMs()).toBe(0);
    const late = errorOf(lease?.release() as Promise<void>);
    await clock.advance(5_000);
    expect(isUnavailable(await late)).toBe(true);
  });

  it('what cannot be right is a TypeError, before anything is sent', () => {
    const { redis, calls } = scripted();
    for (const wrong of [
      undefined,
      null,
      {},
      'redis://',
      { eval() {} },
      { evalsha() {} },
      { get() {}, set() {} },
    ]) {
      expect(() => redisRateLimitStore(wrong as RedisClient)).toThrow(TypeError);
      expect(() => redisCredentialStore(wrong as RedisClient, { encryptionKeys: [KEY] })).toThrow(TypeError);
    }
    for (const wrong of [
      { prefix: '' },
      { prefix: 'a{b' },
      { timeoutMs: 0 },
      { timeoutMs: Number.NaN },
      { timeout: 5 },
    ]) {
      expect(() => redisRateLimitStore(redis, wrong as object)).toThrow(/prefix|timeout/);
    }
    for (const wrong of [
      undefined,
      [],
      ['short'],
      [KEY, new Uint8Array(31)],
      [KEY, 'not base64 at all, no'],
    ]) {
      expect(() => redisCredentialStore(redis, { encryptionKeys: wrong as [] })).toThrow(
        /^encryptionKeys.* 32 bytes/,
      );
    }
    expect(calls).toEqual([]);
  });

  it('a rule that cannot be right is refused, before anything is sent', async () => {
    const { redis, calls } = scripted();
    const store = redisRateLimitStore(redis, { clock: systemClock() });
    for (const limit of [0, -1, 1.5, Number.NaN]) {
      await expect(store.take('k', [{ limit, intervalMs: 1_000 }])).rejects.toThrow(TypeError);
    }
    await expect(store.take('k', [{ limit: 1, intervalMs: 0 }])).rejects.toThrow(TypeError);
    await expect(store.pause('k', Number.NaN)).rejects.toThrow(TypeError);
    expect(calls).toEqual([]);
  });
});
