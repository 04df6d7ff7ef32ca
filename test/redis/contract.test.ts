/** Both stores' contracts, over every client that is taken as it is. */
import { afterAll, beforeAll, describe, it } from 'vitest';
import { redisCredentialStore, redisRateLimitStore } from '../../src/redis/index.js';
import { credentialStoreSuite, rateLimitStoreSuite } from '../../src/testing/store-suite.js';
import { CLUSTER, type Connected, SINGLE } from './clients.js';
import { type RedisCluster, type RedisServer, startCluster, startRedis } from './server.js';

const KEY = new Uint8Array(32).fill(7);

let server: RedisServer;
let cluster: RedisCluster;
let prefixes = 0;
/** A prefix that nobody has used is an empty store. */
const newPrefix = () => {
  prefixes += 1;
  return `contract-${prefixes}`;
};

beforeAll(async () => {
  [server, cluster] = await Promise.all([startRedis(), startCluster()]);
});
afterAll(async () => {
  await server?.close();
  await cluster?.close();
});

const cases = [
  ...Object.entries(SINGLE).map(([name, connect]) => ({ name, connect: () => connect(server.port) })),
  ...Object.entries(CLUSTER).map(([name, connect]) => ({
    name,
    connect: () => connect(cluster.ports[0] as number),
  })),
];

describe.each(cases)('$name', ({ connect }) => {
  let connected: Connected;
  beforeAll(async () => {
    connected = await connect();
  });
  afterAll(async () => {
    await connected?.close();
  });
  // Every command has to make it on a machine that is busy with other tests.
  const timeoutMs = 5_000;

  rateLimitStoreSuite({ describe, it }, () =>
    redisRateLimitStore(connected.redis, { prefix: newPrefix(), timeoutMs }),
  );
  credentialStoreSuite({ describe, it }, () =>
    redisCredentialStore(connected.redis, { encryptionKeys: [KEY], prefix: newPrefix(), timeoutMs }),
  );
});
