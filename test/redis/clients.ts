/** The clients under test, each as its own documentation makes it: no option that a store would need. */
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis';
import { Cluster as Cluster6, Redis as Redis6 } from 'ioredis6';
import { createClient, createClientPool, createCluster } from 'redis';
import type { RedisClient } from '../../src/redis/index.js';

export interface Connected {
  readonly redis: RedisClient;
  close(): Promise<void>;
}

type Connect = (port: number) => Promise<Connected>;

// Both libraries want an error listener; what it hears is not what is tested.
const ignore = () => {};

function ofIoredis(redis: Redis5 | Redis6 | Cluster5 | Cluster6): Connected {
  // The overloads of two major versions cannot be called as one.
  (redis as Redis5).on('error', ignore);
  const close = async () => redis.disconnect();
  return { redis, close };
}

export const connectIoredis5: Connect = async (port) => ofIoredis(new Redis5(port, '127.0.0.1'));

export const connectNodeRedis: Connect = async (port) => {
  const redis = createClient({ url: `redis://127.0.0.1:${port}` });
  redis.on('error', ignore);
  // Not awaited: where there is no server it goes on trying.
  void redis.connect().catch(ignore);
  return { redis, close: async () => redis.destroy() };
};

/** By name. */
export const SINGLE: Readonly<Record<string, Connect>> = {
  'ioredis 5': connectIoredis5,
  'ioredis 6': async (port) => ofIoredis(new Redis6(port, '127.0.0.1')),
  'node-redis': connectNodeRedis,
  'node-redis pool': async (port) => {
    const redis = createClientPool({ url: `redis://127.0.0.1:${port}` });
    redis.on('error', ignore);
    await redis.connect();
    return { redis, close: async () => redis.destroy() };
  },
};

export const CLUSTER: Readonly<Record<string, Connect>> = {
  'ioredis 5 Cluster': async (port) => ofIoredis(new Cluster5([{ host: '127.0.0.1', port }])),
  'ioredis 6 Cluster': async (port) => ofIoredis(new Cluster6([{ host: '127.0.0.1', port }])),
  'node-redis cluster': async (port) => {
    const redis = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }] });
    redis.on('error', ignore);
    await redis.connect();
    return { redis, close: async () => redis.destroy() };
  },
};
