/**
 * `mcp-holdfast/redis`: a rate limit and credentials that replicas share, on a Redis of yours (run on 7.0).
 *
 * Clients of ioredis 5 and 6 (`Redis`, `Cluster`) and of node-redis are taken as they are; neither is a dependency.
 * The client stays yours: to connect, to configure (an error listener is wanted by both), to close. Each operation has
 * a deadline of its own, `timeoutMs`, so the client's queue and retries may stay at their defaults.
 *
 * ```ts
 * import { Redis } from 'ioredis';
 * const redis = new Redis(process.env.REDIS_URL);
 * ```
 * ```ts
 * import { createClient } from 'redis';
 * const redis = createClient({ url: process.env.REDIS_URL });
 * redis.on('error', () => {});
 * void redis.connect();
 * ```
 * ```ts
 * new HostedTransport(url, {
 *   credentials: refreshTokenGrant({
 *     issuer, clientId, clientSecret, refreshToken,
 *     store: redisCredentialStore(redis, { encryptionKeys: [process.env.CREDENTIAL_KEY] }),
 *   }),
 *   rateLimit: { limit: 60, intervalMs: 60_000, store: redisRateLimitStore(redis) },
 * });
 * ```
 *
 * Set `maxmemory-policy noeviction`. All keys have an end, so a `volatile-*` policy removes them as `allkeys-*` does:
 * an evicted record is a refresh token lost, an evicted bucket costs three seconds in which replicas keep their share.
 *
 * A restart without persistence, or a failover to an empty node, loses the buckets: that is noticed, and replicas keep
 * their share until they have told what they granted. A failover that loses only the last moments (replication is
 * asynchronous) is not noticed: the grants and leases of those moments are gone, so that a window may hold as many
 * more, and two replicas may refresh one credential at once. Hosts of one Redis should agree on the time to within
 * some 100 ms.
 */
export type { IoredisClient, NodeRedisClient, RedisClient } from './client.js';
export { REDIS_DEFAULTS } from './client.js';
export { redisCredentialStore } from './credential-store.js';
export { redisRateLimitStore } from './rate-limit-store.js';
