/** The log is lost, or replicas were away from it: nothing is granted here until they have told. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keptIntervalMs, type Taken } from '../../src/rate-limit/types.js';
import { redisRateLimitStore } from '../../src/redis/index.js';
import { type Connected, connectIoredis5, connectNodeRedis } from './clients.js';
import { type RedisServer, startRedis } from './server.js';
import {
  bucketKey,
  eventually,
  fullestWindow,
  grantsIn,
  isGranted,
  markOf,
  moveMark,
  pass,
  Replica,
  redisNowMs,
  refused,
} from './support.js';

const RESTORE_MS = 3_000;
const RULES = [{ limit: 6, intervalMs: 60_000 }];
const KEPT_MS = keptIntervalMs({ limit: 6, intervalMs: 60_000 });
/** Waiting for a server that starts, on a busy machine. */
const timeoutMs = 1_000;
const QUIET_MS = 2 * timeoutMs;

let server: RedisServer;
let a: Connected;
let b: Connected;
let prefixes = 0;

beforeAll(async () => {
  server = await startRedis();
  [a, b] = await Promise.all([connectIoredis5(server.port), connectNodeRedis(server.port)]);
});
afterAll(async () => {
  await a?.close();
  await b?.close();
  await server?.close();
});

/** A process with one limiter: remembers what it granted, as the seam asks for. */
function replicaOf(prefix: string, connected: Connected, key = 'k', rules = RULES) {
  const store = redisRateLimitStore(connected.redis, { prefix, timeoutMs });
  const grants: number[] = [];
  let asked = 0;
  const take = async () => {
    const taken = await store.take(key, rules, {
      ownGrantsAgoMs: () => {
        asked += 1;
        return grants.map((at) => performance.now() - at);
      },
    });
    if (isGranted(taken)) grants.push(performance.now());
    return taken;
  };
  return {
    store,
    grants,
    take,
    get asked() {
      return asked;
    },
    async takeTimes(times: number) {
      for (let index = 0; index < times; index += 1) expect(isGranted(await take())).toBe(true);
    },
    /** A grant by itself, while it keeps its share. */
    async grantOwn() {
      grants.push(performance.now());
      await store.note?.(key, rules, [0]);
    },
  };
}
const newPrefix = () => {
  prefixes += 1;
  return `loss-${prefixes}`;
};
/** As if all who are about had told by now. */
const endHush = (prefix: string, key = 'k') => moveMark(server, prefix, key, 'hushed', QUIET_MS);
/** As if the time of shares had passed, and the quiet moment after it. */
async function endShares(prefix: string, key = 'k') {
  for (const mark of ['marked', 'hushed', 'shared']) {
    await moveMark(server, prefix, key, mark, RESTORE_MS + QUIET_MS);
  }
}
/** Nothing is granted, here or by oneself. */
async function expectHush(take: () => Promise<Taken>, used: number) {
  const told = refused(await take());
  expect(told).toMatchObject({ used });
  expect(told.keepShare).toBeUndefined();
  expect(told.askAgainInMs).toBeGreaterThan(0);
  expect(told.askAgainInMs).toBeLessThanOrEqual(QUIET_MS);
}

const losses: { name: string; lose: (prefix: string) => Promise<unknown> }[] = [
  { name: 'FLUSHALL', lose: () => server.command('FLUSHALL') },
  { name: 'a restart that begins empty', lose: () => server.restart() },
  { name: 'an eviction', lose: (prefix) => server.command('DEL', bucketKey(prefix, 'k')) },
];

describe.each(losses)('after $name', ({ lose }) => {
  it('replicas tell what they granted, keep their share for a while, and then only the rest is granted', async () => {
    const prefix = newPrefix();
    const first = replicaOf(prefix, a);
    const second = replicaOf(prefix, b);
    await second.takeTimes(2);
    await pass(20);
    await first.takeTimes(3);
    await lose(prefix);

    await expectHush(first.take, 5);
    await expectHush(second.take, 5);
    expect([first.asked, second.asked]).toEqual([1, 1]);
    await endHush(prefix);
    for (const replica of [first, second]) {
      const told = refused(await replica.take());
      expect(told).toMatchObject({ keepShare: true, used: 5 });
      expect(told.askAgainInMs).toBeGreaterThan(0);
      expect(told.askAgainInMs).toBeLessThanOrEqual(RESTORE_MS);
    }
    expect([first.asked, second.asked]).toEqual([1, 1]);
    // Each grant is there once, as old as it is.
    const now = await redisNowMs(server);
    const log = await grantsIn(server, prefix, 'k');
    const ages = [...first.grants, ...second.grants]
      .map((at) => performance.now() - at)
      .sort((x, y) => y - x);
    expect(log).toHaveLength(5);
    log.forEach((stamp, index) => {
      expect(Math.abs(now - stamp - (ages[index] as number))).toBeLessThan(1_000);
    });

    await endShares(prefix);
    expect(isGranted(await second.take())).toBe(true);
    expect(refused(await first.take())).toMatchObject({ used: 6 });
    expect(refused(await second.take()).keepShare).toBeUndefined();
  });

  it('an idle replica that never comes back is not forgotten', async () => {
    const prefix = newPrefix();
    const idle = replicaOf(prefix, b);
    const busy = replicaOf(prefix, a);
    await idle.takeTimes(4);
    await busy.takeTimes(1);
    await lose(prefix);
    await expectHush(busy.take, 5);
    await endShares(prefix);
    await busy.takeTimes(1);
    refused(await busy.take());
    expect(await grantsIn(server, prefix, 'k')).toHaveLength(6);
  });

  it('what a replica tells late takes the place of what stood in for it', async () => {
    const prefix = newPrefix();
    const late = replicaOf(prefix, b);
    const busy = replicaOf(prefix, a);
    await late.takeTimes(3);
    await pass(20);
    await busy.takeTimes(1);
    await lose(prefix);
    refused(await busy.take());
    await endShares(prefix);
    await late.takeTimes(1);
    expect(late.asked).toBe(1);
    expect(await grantsIn(server, prefix, 'k')).toHaveLength(5);
  });
});

describe('a loss', () => {
  it('is told once by callers that ask at once', async () => {
    const prefix = newPrefix();
    const replica = replicaOf(prefix, a);
    await replica.takeTimes(4);
    await server.command('FLUSHALL');
    const all = await Promise.all(Array.from({ length: 8 }, () => replica.take()));
    expect(all.filter(isGranted)).toEqual([]);
    expect(replica.asked).toBe(1);
    expect(await grantsIn(server, prefix, 'k')).toHaveLength(4);
  });

  it('is noticed also when a replica that has just started made a new log', async () => {
    const prefix = newPrefix();
    const old = replicaOf(prefix, a);
    await old.takeTimes(3);
    await server.command('FLUSHALL');
    const fresh = replicaOf(prefix, b);
    await fresh.takeTimes(2);
    expect(fresh.asked).toBe(0);
    await expectHush(old.take, 5);
    await expectHush(fresh.take, 5);
  });

  it('of one bucket of two is told to that one alone', async () => {
    const prefix = newPrefix();
    const rules = [
      { limit: 6, intervalMs: 60_000 },
      { limit: 7, intervalMs: 60_000, key: 'tenant' },
    ];
    const alice = replicaOf(prefix, a, 'alice', rules);
    const bob = replicaOf(prefix, a, 'bob', rules);
    await alice.takeTimes(2);
    await pass(20);
    await bob.takeTimes(3);
    await server.command('DEL', bucketKey(prefix, 'tenant'));
    // When alice last looked, there were hers alone.
    await expectHush(alice.take, 2);
    await expectHush(bob.take, 5);
    expect(await grantsIn(server, prefix, 'alice')).toHaveLength(2);
    expect(await grantsIn(server, prefix, 'bob')).toHaveLength(3);
    expect(await grantsIn(server, prefix, 'tenant')).toHaveLength(5);
  });

  it('during an outage: what was granted meanwhile is counted once, told by note and known to the limiter', async () => {
    const prefix = newPrefix();
    const replica = replicaOf(prefix, a);
    await replica.takeTimes(2);
    await server.command('FLUSHALL');
    await pass(60);
    // Granted by itself while Redis was away; it is back, and tells that first.
    replica.grants.push(performance.now() - 40, performance.now() - 20);
    await replica.store.note?.(
      'k',
      RULES,
      replica.grants.slice(2).map((at) => performance.now() - at),
    );
    expect(refused(await replica.take())).toMatchObject({ keepShare: true, used: 4 });
    expect(await grantsIn(server, prefix, 'k')).toHaveLength(4);
  });

  it('is not seen in a bucket that ended by itself', async () => {
    const prefix = newPrefix();
    const aged = { elapsedMs: 0 };
    const clock = {
      now: () => 0,
      monotonic: () => performance.now() + aged.elapsedMs,
      setTimeout: (fn: () => void, ms: number) => {
        const timer = setTimeout(fn, ms);
        return { clear: () => clearTimeout(timer) };
      },
    };
    const store = redisRateLimitStore(a.redis, { prefix, timeoutMs, clock });
    await store.take('k', RULES);
    await server.command('DEL', bucketKey(prefix, 'k'));
    aged.elapsedMs = 11 * 60_000;
    expect(isGranted(await store.take('k', RULES))).toBe(true);
  });

  it('during a pause asks for no share: the pause comes first', async () => {
    const prefix = newPrefix();
    const replica = replicaOf(prefix, a);
    await replica.takeTimes(1);
    await server.command('FLUSHALL');
    await replica.store.pause('k', 60_000);
    const told = refused(await replica.take());
    expect(told.keepShare).toBeUndefined();
    expect(told.askAgainInMs).toBeGreaterThan(50_000);
    expect(await grantsIn(server, prefix, 'k')).toHaveLength(1);
  });
});

describe('the time of shares', () => {
  it('ends in a quiet moment, so that no note is overtaken by a grant', async () => {
    const prefix = newPrefix();
    const replica = replicaOf(prefix, a);
    await replica.store.note?.('k', RULES, []);
    expect(refused(await replica.take()).keepShare).toBe(true);
    await moveMark(server, prefix, 'k', 'shared', RESTORE_MS);
    const quiet = refused(await replica.take());
    expect(quiet.keepShare).toBeUndefined();
    expect(quiet.askAgainInMs).toBeLessThanOrEqual(QUIET_MS);
    // A note that was still on its way begins nothing new.
    await replica.grantOwn();
    expect(refused(await replica.take()).keepShare).toBeUndefined();
    await moveMark(server, prefix, 'k', 'shared', QUIET_MS);
    await replica.takeTimes(5);
    expect(refused(await replica.take())).toMatchObject({ used: 6 });
  });

  it('is not made longer by what a replica grants meanwhile', async () => {
    const prefix = newPrefix();
    const replica = replicaOf(prefix, a);
    await replica.store.note?.('k', RULES, [5]);
    const untilMs = await markOf(server, prefix, 'k', 'shared');
    await moveMark(server, prefix, 'k', 'shared', 1_000);
    await replica.grantOwn();
    await replica.take();
    await replica.grantOwn();
    expect(await markOf(server, prefix, 'k', 'shared')).toBe(untilMs - 1_000);
    expect(await grantsIn(server, prefix, 'k')).toHaveLength(3);
  });

  it('is made longer by a replica that comes back, up to one window in all', async () => {
    const prefix = newPrefix();
    await replicaOf(prefix, a).store.note?.('k', RULES, []);
    const marked = await markOf(server, prefix, 'k', 'marked');
    await moveMark(server, prefix, 'k', 'shared', 2_000);
    const before = await markOf(server, prefix, 'k', 'shared');
    await replicaOf(prefix, b).store.note?.('k', RULES, [0]);
    expect(await markOf(server, prefix, 'k', 'marked')).toBe(marked);
    expect(await markOf(server, prefix, 'k', 'shared')).toBeGreaterThanOrEqual(before + 1_500);
    // One that is back for the second time, late in a time of shares that began almost a window ago.
    await moveMark(server, prefix, 'k', 'marked', KEPT_MS - 1_000);
    await moveMark(server, prefix, 'k', 'shared', 2_500);
    await replicaOf(prefix, a).store.note?.('k', RULES, []);
    expect(await markOf(server, prefix, 'k', 'shared')).toBe(marked + 1_000);
  });

  it('begins anew for a replica that was away once more', async () => {
    const prefix = newPrefix();
    const replica = replicaOf(prefix, a);
    await replica.store.note?.('k', RULES, []);
    await endShares(prefix);
    await replica.takeTimes(1);
    await replica.store.note?.('k', RULES, []);
    expect(refused(await replica.take()).keepShare).toBe(true);
  });
});

describe('a fleet of three', () => {
  it.each([
    { name: 'loses the log twice', harm: () => server.command('FLUSHALL').then(() => {}) },
    {
      name: 'is left alone by a Redis that hangs',
      harm: async () => {
        server.freeze();
        await pass(900);
        server.thaw();
      },
    },
    { name: 'sees Redis restarted empty', harm: () => server.restart() },
  ])('stays within the limit when it $name', async ({ harm }) => {
    const prefix = newPrefix();
    // 450 ms are kept, and the time of shares lasts as long.
    const rule = { limit: 9, intervalMs: 200 };
    const replicas = [a, b, a].map(
      ({ redis }) => new Replica(redisRateLimitStore(redis, { prefix, timeoutMs: 100 }), 'k', rule, 3),
    );
    const grants = () => replicas.flatMap((replica) => replica.grants);
    let isOver = false;
    const run = async (replica: Replica, index: number) => {
      while (!isOver) {
        const askAgainInMs = await replica.ask();
        // One of them is greedy, one takes its time.
        await pass(askAgainInMs === 0 ? index * 8 : Math.min(askAgainInMs, 40));
      }
    };
    const running = replicas.map(run);
    for (const granted of [5, 5 + 2 * rule.limit]) {
      await eventually(async () => grants().length >= granted);
      await harm();
    }
    await eventually(async () => grants().length >= 5 + 4 * rule.limit);
    isOver = true;
    await Promise.all(running);
    expect(fullestWindow(grants(), rule.intervalMs)).toBeLessThanOrEqual(rule.limit);
  });
});
