/** The shared bucket, judged by what Redis holds and by Redis' clock. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../src/clock.js';
import { keptIntervalMs, type Rule } from '../../src/rate-limit/types.js';
import { redisRateLimitStore } from '../../src/redis/index.js';
import { type Connected, connectIoredis5, connectNodeRedis } from './clients.js';
import { type RedisServer, startRedis } from './server.js';
import {
  bucketKey,
  fullestWindow,
  grantsIn,
  isGranted,
  markOf,
  moveMark,
  pass,
  redisNowMs,
  refused,
} from './support.js';

const HORIZON_MS = 250;
/** Holds everything that a test grants, so that the log in Redis is the whole story. */
const KEEP_ALL: Rule = { limit: 100_000, intervalMs: 600_000 };
const timeoutMs = 5_000;

let server: RedisServer;
let connected: Connected;
let prefixes = 0;
const storeOf = (clock?: Clock) => {
  prefixes += 1;
  const prefix = `bucket-${prefixes}`;
  return { prefix, store: redisRateLimitStore(connected.redis, { prefix, timeoutMs, clock }) };
};

beforeAll(async () => {
  server = await startRedis();
  connected = await connectIoredis5(server.port);
});
afterAll(async () => {
  await connected?.close();
  await server?.close();
});

describe('the sliding log', () => {
  it.each([
    { name: 'one rule', rules: [{ limit: 4, intervalMs: 10 }] },
    {
      name: 'two rules',
      rules: [
        { limit: 3, intervalMs: 10 },
        { limit: 5, intervalMs: 250 },
      ],
    },
    { name: 'a limit of one', rules: [{ limit: 1, intervalMs: 1 }] },
  ])('gives and refuses exactly what a model does: $name', async ({ rules }) => {
    const { prefix, store } = storeOf();
    let seed = rules.length + 1;
    const random = () => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed / 2_147_483_647;
    };
    const endMs = performance.now() + 900;
    let grants = 0;
    let refusals = 0;
    while (performance.now() < endMs) {
      const before = await grantsIn(server, prefix, 'k');
      const fromMs = await redisNowMs(server);
      const taken = await store.take('k', [...rules, KEEP_ALL]);
      const toMs = await redisNowMs(server);
      const after = await grantsIn(server, prefix, 'k');
      const earliest = Math.max(
        ...rules.map((rule) => (before.at(-rule.limit) ?? Number.NEGATIVE_INFINITY) + keptIntervalMs(rule)),
      );
      if (isGranted(taken)) {
        grants += 1;
        expect(after.length).toBe(before.length + 1);
        const at = after.find((stamp, index) => stamp !== before[index]) as number;
        expect(at).toBeGreaterThanOrEqual(Math.max(earliest, fromMs));
        if (at !== earliest) expect(at).toBeLessThanOrEqual(toMs);
        expect(taken.grantedInMs).toBeLessThanOrEqual(HORIZON_MS);
        expect(taken.grantedInMs).toBeGreaterThanOrEqual(at - toMs);
      } else {
        refusals += 1;
        expect(after).toEqual(before);
        expect(taken.askAgainInMs).toBeGreaterThan(HORIZON_MS);
        expect(taken.askAgainInMs).toBeGreaterThanOrEqual(earliest - toMs);
        expect(taken.askAgainInMs).toBeLessThanOrEqual(earliest - fromMs);
      }
      await pass(random() * 60);
    }
    expect(grants).toBeGreaterThan(2);
    if (rules[0]?.limit !== 1) expect(refusals).toBeGreaterThan(0);
    const log = await grantsIn(server, prefix, 'k');
    for (const rule of rules)
      expect(fullestWindow(log, keptIntervalMs(rule))).toBeLessThanOrEqual(rule.limit);
  });

  it('holds between two clients of different libraries that ask at random', async () => {
    const other = await connectNodeRedis(server.port);
    const rule = { limit: 5, intervalMs: 50 };
    const { prefix, store } = storeOf();
    const stores = [store, redisRateLimitStore(other.redis, { prefix, timeoutMs })];
    const endMs = performance.now() + 900;
    const caller = async (index: number) => {
      while (performance.now() < endMs) {
        const taken = await (stores[index % 2] as typeof store).take('k', [rule, KEEP_ALL]);
        await pass(isGranted(taken) ? taken.grantedInMs : Math.min(taken.askAgainInMs, 100));
      }
    };
    await Promise.all(Array.from({ length: 6 }, (_, index) => caller(index)));
    await other.close();
    const log = await grantsIn(server, prefix, 'k');
    expect(fullestWindow(log, keptIntervalMs(rule))).toBe(5);
    expect(log.length).toBeGreaterThanOrEqual(15);
  });

  it('takes under both keys of two rules, and under neither when one is full', async () => {
    const { prefix, store } = storeOf();
    const rules = [
      { limit: 5, intervalMs: 60_000 },
      { limit: 2, intervalMs: 60_000, key: 'tenant' },
    ];
    for (let index = 0; index < 6; index += 1) await store.take('alice', rules);
    expect(await grantsIn(server, prefix, 'alice')).toHaveLength(2);
    expect(await grantsIn(server, prefix, 'tenant')).toEqual(await grantsIn(server, prefix, 'alice'));
  });

  it('speaks of the rule that is fullest', async () => {
    const { store } = storeOf();
    const rules = [
      { limit: 100, intervalMs: 60_000 },
      { limit: 3, intervalMs: 60_000, key: 'narrow' },
    ];
    await store.take('wide', [{ limit: 100, intervalMs: 60_000 }]);
    expect(await store.take('wide', rules)).toEqual({ grantedInMs: 0, used: 1 });
    expect(await store.take('wide', rules)).toEqual({ grantedInMs: 0, used: 2 });
  });

  it('obeys at once a limit that another replica was started with', async () => {
    const { prefix, store } = storeOf();
    const other = redisRateLimitStore(connected.redis, { prefix, timeoutMs });
    for (let index = 0; index < 20; index += 1) await store.take('k', [{ limit: 50, intervalMs: 60_000 }]);
    const { askAgainInMs } = refused(await other.take('k', [{ limit: 5, intervalMs: 60_000 }]));
    expect(askAgainInMs).toBeGreaterThan(50_000);
    // A window that is new counts what was granted before it was there.
    refused(await other.take('k', [{ limit: 20, intervalMs: 120_000 }]));
    expect(isGranted(await other.take('k', [{ limit: 21, intervalMs: 120_000 }]))).toBe(true);
  });

  it('does not look at the clock of its process', async () => {
    const real = systemClock();
    const skewed = (byMs: number): Clock => ({
      ...real,
      now: () => real.now() + byMs,
      monotonic: () => real.monotonic() + byMs,
    });
    const { prefix } = storeOf();
    const stores = [-30_000, 0, 30_000].map((byMs) =>
      redisRateLimitStore(connected.redis, { prefix, timeoutMs, clock: skewed(byMs) }),
    );
    const rules = [{ limit: 6, intervalMs: 60_000 }];
    const taken = [];
    for (let round = 0; round < 5; round += 1) {
      for (const store of stores) taken.push(await store.take('k', rules));
    }
    expect(taken.map(isGranted)).toEqual(Array.from({ length: 15 }, (_, index) => index < 6));
    const now = await redisNowMs(server);
    for (const stamp of await grantsIn(server, prefix, 'k'))
      expect(Math.abs(now - stamp)).toBeLessThan(20_000);
  });

  it('gives every key an end and the slot of its prefix, and names none in clear', async () => {
    const { prefix, store } = storeOf();
    await store.take('alice', [
      { limit: 5, intervalMs: 1_000 },
      { limit: 9, intervalMs: 7_200_000, key: 'tenant' },
    ]);
    await store.pause('bob', 5_000);
    await store.note?.('carol', [{ limit: 5, intervalMs: 1_000 }], [0]);
    const keys = (await server.command('KEYS', `*${prefix}}*`)) as string[];
    expect(keys.sort()).toEqual(
      ['alice', 'bob', 'carol', 'tenant'].map((key) => bucketKey(prefix, key)).sort(),
    );
    const lives = await Promise.all(keys.map(async (key) => [key, await server.command('PTTL', key)]));
    for (const [key, ttl] of lives) {
      expect(ttl).toBeGreaterThan(key === bucketKey(prefix, 'tenant') ? 4 * 7_200_000 : 600_000);
      expect(ttl).toBeLessThan(30_000_000);
    }
  });

  it('forgets grants that no window holds any more', async () => {
    const { prefix, store } = storeOf();
    const rules = [{ limit: 3, intervalMs: 1 }];
    for (let index = 0; index < 3; index += 1) await store.take('k', rules);
    await pass(300);
    await store.take('k', rules);
    expect(await grantsIn(server, prefix, 'k')).toHaveLength(1);
    // A replica with a longer window has it kept for all.
    await store.take('k', [...rules, { limit: 9, intervalMs: 60_000 }]);
    await pass(300);
    await store.take('k', rules);
    expect(await grantsIn(server, prefix, 'k')).toHaveLength(3);
  });
});

describe('a pause', () => {
  it('is one pause however often it is told, and is never made shorter', async () => {
    const { prefix, store } = storeOf();
    await store.pause('k', 60_000);
    const untilMs = await markOf(server, prefix, 'k', 'pause');
    expect(untilMs - (await redisNowMs(server))).toBeGreaterThan(50_000);
    await Promise.all([1, 500, 30_000].map((ms) => store.pause('k', ms)));
    expect(await markOf(server, prefix, 'k', 'pause')).toBe(untilMs);
    await store.pause('k', 90_000);
    expect(await markOf(server, prefix, 'k', 'pause')).toBeGreaterThan(untilMs + 20_000);
  });

  it('stops the whole fleet: nothing is granted for an instant of it, but what was granted before', async () => {
    const { prefix, store } = storeOf();
    // So wide that there is a grant every few milliseconds.
    const rule = { limit: 1_000, intervalMs: 10 };
    const other = redisRateLimitStore(connected.redis, { prefix, timeoutMs });
    let isOver = false;
    const caller = async (each: typeof store) => {
      while (!isOver) {
        const taken = await each.take('k', [rule, KEEP_ALL]);
        await pass(isGranted(taken) ? 5 : Math.min(taken.askAgainInMs, 30));
      }
    };
    const callers = [store, other, store, other].map(caller);
    await pass(100);
    const fromMs = await redisNowMs(server);
    await store.pause('k', 400);
    const ackedMs = await redisNowMs(server);
    const granted = (await grantsIn(server, prefix, 'k')).length;
    const untilMs = await markOf(server, prefix, 'k', 'pause');
    await pass(untilMs - (await redisNowMs(server)) + 60);
    isOver = true;
    await Promise.all(callers);
    const log = await grantsIn(server, prefix, 'k');
    expect(log.filter((at) => at > Math.max(ackedMs, fromMs + HORIZON_MS) && at < untilMs)).toEqual([]);
    expect(log.length).toBeGreaterThan(granted);
  });

  it('is followed by grants at the pace of the rule, not by a burst', async () => {
    const { prefix, store } = storeOf();
    const rule = { limit: 5, intervalMs: 300 };
    await store.pause('k', 100);
    const untilMs = await markOf(server, prefix, 'k', 'pause');
    const endMs = performance.now() + 550;
    while (performance.now() < endMs) {
      const taken = await store.take('k', [rule, KEEP_ALL]);
      await pass(isGranted(taken) ? 0 : Math.min(taken.askAgainInMs, 40));
    }
    const log = await grantsIn(server, prefix, 'k');
    expect(log.length).toBeGreaterThanOrEqual(4);
    expect(log[0]).toBeGreaterThanOrEqual(untilMs);
    log.slice(1).forEach((at, index) => {
      expect(at - (log[index] as number)).toBeGreaterThanOrEqual(60);
    });
  });

  it('has its pace by the paused key: others of the same tenant do not starve it', async () => {
    const { prefix, store } = storeOf();
    const rules = [{ limit: 10, intervalMs: 2_000, key: 'tenant' }];
    await store.pause('alice', 50);
    await pass(60);
    // Bob's are no reason for alice to wait for the pace.
    for (let index = 0; index < 3; index += 1) expect(isGranted(await store.take('bob', rules))).toBe(true);
    expect(await store.take('alice', rules)).toMatchObject({ grantedInMs: 0 });
    expect(await store.take('alice', rules)).toMatchObject({ grantedInMs: expect.closeTo(200, -2) });
    expect(await grantsIn(server, prefix, 'tenant')).toHaveLength(5);
  });

  it('has ended with its window: then a burst is allowed again', async () => {
    const { prefix, store } = storeOf();
    const rule = { limit: 3, intervalMs: 600_000 };
    await store.pause('k', 1_000);
    await moveMark(server, prefix, 'k', 'pause', 2_000 + keptIntervalMs(rule));
    for (let index = 0; index < 3; index += 1) {
      expect(await store.take('k', [rule])).toMatchObject({ grantedInMs: 0 });
    }
  });
});
