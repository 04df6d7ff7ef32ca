// What a limit of our own adds to a call: in memory, and over a real Redis on loopback beside a bare PING of the same run.
import Redis from 'ioredis';
import { memoryRateLimitStore } from 'mcp-holdfast';
import { HostedClient } from 'mcp-holdfast/client';
import { redisRateLimitStore } from 'mcp-holdfast/redis';
import { openRedis } from '../scripts/fleet/redis.mjs';

const RULES = [{ limit: 1_000_000, intervalMs: 60_000 }];
const ROUNDS = 9;
const TAKES = 400;

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

/** Median microseconds of one after the other. */
async function p50(run, times) {
  const took = [];
  for (let n = 0; n < times; n += 1) {
    const startedMs = performance.now();
    await run();
    took.push((performance.now() - startedMs) * 1_000);
  }
  return median(took);
}

async function alternately(contenders) {
  const rounds = Object.fromEntries(Object.keys(contenders).map((name) => [name, []]));
  for (let round = -1; round < ROUNDS; round += 1) {
    for (const [name, { run, times }] of Object.entries(contenders)) {
      const figure = await p50(run, times);
      // The first round warms up.
      if (round >= 0) rounds[name].push(figure);
    }
  }
  return Object.fromEntries(Object.entries(rounds).map(([name, figures]) => [name, median(figures)]));
}

export async function measureRateLimit(port) {
  const server = await openRedis();
  const redis = new Redis(server.port, '127.0.0.1');
  const clients = await Promise.all(
    [undefined, memoryRateLimitStore(), redisRateLimitStore(redis)].map(async (store) => {
      const rateLimit = store && { limit: 1_000_000, intervalMs: 60_000, key: 'bench', store };
      const client = new HostedClient(
        { name: 'bench', version: '1.0.0' },
        { url: `http://127.0.0.1:${port}/mcp`, credentials: 'a-token', rateLimit },
      );
      await client.connect();
      return client;
    }),
  );
  const call = (client) => () => client.callTool({ name: 'echo', arguments: { text: 'x' } });
  const memory = memoryRateLimitStore();
  const shared = redisRateLimitStore(redis);
  const [none, inMemory, overRedis] = clients;
  try {
    return await alternately({
      memoryTake: { run: () => memory.take('bench', RULES), times: 5 * TAKES },
      ping: { run: () => redis.ping(), times: TAKES },
      redisTake: { run: () => shared.take('bench', RULES), times: TAKES },
      call: { run: call(none), times: TAKES },
      callMemory: { run: call(inMemory), times: TAKES },
      callRedis: { run: call(overRedis), times: TAKES },
      callPing: { run: () => redis.ping().then(call(none)), times: TAKES },
    });
  } finally {
    for (const client of clients) await client.close();
    redis.disconnect();
    await server.close();
  }
}
