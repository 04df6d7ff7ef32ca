/** Credentials in a real Redis: what stands there, for how long, and what is done with what cannot be read. */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CredentialStore } from '../../src/credentials/provider.js';
import { type IoredisClient, redisCredentialStore, redisRateLimitStore } from '../../src/redis/index.js';
import { CLUSTER, type Connected, connectIoredis5, connectNodeRedis } from './clients.js';
import { type RedisServer, startCluster, startRedis } from './server.js';
import { monitored } from './support.js';

const OLD = new Uint8Array(32).fill(1);
const NEW = Buffer.alloc(32, 2).toString('base64');
const DAY_MS = 24 * 60 * 60_000;
const timeoutMs = 5_000;

let server: RedisServer;
let a: Connected;
let b: Connected;
let prefixes = 0;
const newPrefix = () => {
  prefixes += 1;
  return `credentials-${prefixes}`;
};
const keyOf = (prefix: string, id: string, what = 'record') => {
  const name = createHash('sha256').update('mcp-holdfast credential\0').update(id).digest('base64url');
  return `${prefix}:{${name.slice(0, 32)}}:${what}`;
};
const storeOf = (prefix: string, encryptionKeys: readonly (string | Uint8Array)[] = [OLD], of = a) =>
  redisCredentialStore(of.redis, { encryptionKeys, prefix, timeoutMs });
const everythingIn = async (prefix: string, id: string) => await server.command('HGETALL', keyOf(prefix, id));
const UNREADABLE = { code: 'ERR_STORE_UNAVAILABLE', reason: 'unreadable', retryable: false };

beforeAll(async () => {
  server = await startRedis();
  [a, b] = await Promise.all([connectIoredis5(server.port), connectNodeRedis(server.port)]);
});
afterAll(async () => {
  await a?.close();
  await b?.close();
  await server?.close();
});

describe('records', () => {
  it('of one client are read by another library', async () => {
    const prefix = newPrefix();
    await storeOf(prefix).compareAndSet('id', undefined, { generation: 7, data: 'x', expiresAtMs: 1.5e12 });
    expect(await storeOf(prefix, [OLD], b).read('id')).toEqual({
      generation: 7,
      data: 'x',
      expiresAtMs: 1.5e12,
    });
    expect(await storeOf(prefix, [OLD], b).compareAndSet('id', 7, { generation: 8, data: 'y' })).toBe(true);
    // The expiry of the one before is gone with it.
    expect(await storeOf(prefix).read('id')).toEqual({ generation: 8, data: 'y' });
  });

  it('end 30 days after their token, or 90 days after the last write, whatever a clock says', async () => {
    const prefix = newPrefix();
    const store = storeOf(prefix);
    const livesFor = async (id: string, expiresAtMs?: number) => {
      const record = { generation: 1, data: 'x', ...(expiresAtMs === undefined ? {} : { expiresAtMs }) };
      await store.compareAndSet(id, undefined, record);
      return Number(await server.command('PTTL', keyOf(prefix, id))) / DAY_MS;
    };
    expect(await livesFor('hour', Date.now() + 3_600_000)).toBeCloseTo(30 + 1 / 24, 2);
    expect(await livesFor('expired', Date.now() - 40 * DAY_MS)).toBeCloseTo(30, 2);
    expect(await livesFor('endless')).toBeCloseTo(90, 2);
    expect(await livesFor('far', Date.now() + 9_999 * DAY_MS)).toBeCloseTo(400, 2);
    await server.command('PEXPIRE', keyOf(prefix, 'endless'), '5000');
    await store.compareAndSet('endless', 1, { generation: 2, data: 'y' });
    expect(Number(await server.command('PTTL', keyOf(prefix, 'endless'))) / DAY_MS).toBeCloseTo(90, 2);
  });

  it('written with an old key are found, and written anew with the current one', async () => {
    const prefix = newPrefix();
    await storeOf(prefix, [OLD]).compareAndSet('id', undefined, { generation: 1, data: 'token' });
    const rotating = storeOf(prefix, [NEW, OLD]);
    const before = await everythingIn(prefix, 'id');
    expect(await rotating.read('id')).toEqual({ generation: 1, data: 'token' });
    expect(await everythingIn(prefix, 'id')).toEqual(before);
    expect(await rotating.compareAndSet('id', 1, { generation: 2, data: 'token-2' })).toBe(true);
    expect(await storeOf(prefix, [NEW]).read('id')).toEqual({ generation: 2, data: 'token-2' });
    // One record under one name: nothing of the old key is left behind.
    expect(await server.command('KEYS', `${prefix}*`)).toEqual([keyOf(prefix, 'id')]);
  });

  it('leases hold between replicas of which one has the new key only as its second', async () => {
    const prefix = newPrefix();
    const lease = await storeOf(prefix, [OLD, NEW]).lease('id', 60_000);
    expect(lease).not.toBeUndefined();
    expect(await storeOf(prefix, [NEW, OLD], b).lease('id', 60_000)).toBeUndefined();
  });

  it.each<{ name: string; spoil: (key: string) => Promise<unknown>; encryptionKeys?: Uint8Array[] }>([
    {
      name: 'of a key that is not given',
      spoil: async () => {},
      encryptionKeys: [new Uint8Array(32).fill(9)],
    },
    { name: 'with other bytes', spoil: (key) => server.command('HSET', key, 'data', 'v1.00000000.AAAA') },
    { name: 'with one changed letter', spoil: changeLetter },
    { name: 'of another generation', spoil: (key) => server.command('HSET', key, 'generation', '2') },
    { name: 'without a generation', spoil: (key) => server.command('HDEL', key, 'generation') },
    {
      name: 'with a generation that is no number',
      spoil: (key) => server.command('HSET', key, 'generation', '-1x'),
    },
    { name: 'without data', spoil: (key) => server.command('HDEL', key, 'data') },
    { name: 'with an odd expiry', spoil: (key) => server.command('HSET', key, 'expiresAtMs', 'soon') },
    { name: 'that is no hash', spoil: (key) => server.command('SET', key, 'text') },
  ])('$name are an error that does not pass, and stay as they are', async ({ spoil, encryptionKeys }) => {
    const prefix = newPrefix();
    await storeOf(prefix).compareAndSet('id', undefined, { generation: 1, data: 'x', expiresAtMs: 2e12 });
    await spoil(keyOf(prefix, 'id'));
    const before = await server.command('DUMP', keyOf(prefix, 'id'));
    const store = storeOf(prefix, encryptionKeys);
    await expect(store.read('id')).rejects.toMatchObject(UNREADABLE);
    for (const expected of [undefined, 1, 2]) {
      for (const next of [undefined, { generation: 3, data: 'y' }]) {
        await expect(store.compareAndSet('id', expected, next)).rejects.toMatchObject(UNREADABLE);
      }
    }
    expect(await server.command('DUMP', keyOf(prefix, 'id'))).toEqual(before);
    await expect(store.read('id')).rejects.toThrow(
      /store holds a (damaged record|record written with another key)/,
    );
  });

  it('spoilt between a look and the write are left as they are', async () => {
    const prefix = newPrefix();
    const key = keyOf(prefix, 'id');
    const real = a.redis as IoredisClient;
    const spoiling: IoredisClient = {
      async evalsha(...call) {
        const reply = await real.evalsha(...call);
        await server.command('HSET', key, 'data', 'no generation');
        return reply;
      },
      eval: (...call) => real.eval(...call),
    };
    await storeOf(prefix).read('id');
    const store = redisCredentialStore(spoiling, { encryptionKeys: [OLD], prefix, timeoutMs });
    const written = store.compareAndSet('id', undefined, { generation: 1, data: 'x' });
    await expect(written).rejects.toMatchObject(UNREADABLE);
    expect(await server.command('HGETALL', key)).toEqual(['data', 'no generation']);
  });

  it('moved from one id to another are refused', async () => {
    const prefix = newPrefix();
    const store = storeOf(prefix);
    await store.compareAndSet('alice', undefined, { generation: 1, data: "alice's" });
    await store.compareAndSet('bob', undefined, { generation: 1, data: "bob's" });
    await server.command('COPY', keyOf(prefix, 'alice'), keyOf(prefix, 'bob'), 'REPLACE');
    await expect(store.read('bob')).rejects.toMatchObject(UNREADABLE);
    await expect(store.compareAndSet('bob', 1, { generation: 2, data: 'x' })).rejects.toMatchObject(
      UNREADABLE,
    );
    expect((await store.read('alice'))?.data).toBe("alice's");
  });

  it('put back under their old number are refused', async () => {
    const prefix = newPrefix();
    const store = storeOf(prefix);
    await store.compareAndSet('id', undefined, { generation: 1, data: 'spent' });
    const spent = await server.command('HGET', keyOf(prefix, 'id'), 'data');
    await store.compareAndSet('id', 1, { generation: 2, data: 'live' });
    await server.command('HSET', keyOf(prefix, 'id'), 'data', String(spent));
    await expect(store.read('id')).rejects.toMatchObject(UNREADABLE);
  });
});

async function changeLetter(key: string): Promise<void> {
  const data = String(await server.command('HGET', key, 'data'));
  const at = data.length - 5;
  await server.command(
    'HSET',
    key,
    'data',
    `${data.slice(0, at)}${data[at] === 'A' ? 'B' : 'A'}${data.slice(at + 1)}`,
  );
}

describe('leases', () => {
  it('have an end of their own in Redis, and are released by their owner alone', async () => {
    const prefix = newPrefix();
    const first = await storeOf(prefix).lease('id', 15_000);
    expect(await server.command('PTTL', keyOf(prefix, 'id', 'lease'))).toBeGreaterThan(10_000);
    // It ended, and somebody else has it now.
    await server.command('DEL', keyOf(prefix, 'id', 'lease'));
    const second = await storeOf(prefix, [OLD], b).lease('id', 15_000);
    await first?.release();
    expect(first?.remainingMs()).toBe(0);
    expect(await server.command('EXISTS', keyOf(prefix, 'id', 'lease'))).toBe(1);
    await second?.release();
    expect(await server.command('EXISTS', keyOf(prefix, 'id', 'lease'))).toBe(0);
  });
});

describe('what Redis is told', () => {
  const SECRETS = {
    token: 'access-token-canary-1',
    refresh: 'refresh-token-canary-2',
    client: 'client-secret-canary-3',
    id: 'alice@canary.example',
    bucket: 'billing-agent@canary-4',
    tenant: 'tenant-canary-5',
  };
  const useBoth = async (connected: Connected, prefix: string) => {
    const credentials: CredentialStore = storeOf(prefix, [OLD], connected);
    const data = JSON.stringify(SECRETS);
    const lease = await credentials.lease(SECRETS.id, 1_000);
    await credentials.compareAndSet(SECRETS.id, undefined, { generation: 1, data, expiresAtMs: Date.now() });
    await credentials.read(SECRETS.id);
    await credentials.compareAndSet(SECRETS.id, 1, { generation: 2, data });
    await credentials.compareAndSet(SECRETS.id, 2, undefined);
    await lease?.release();
    const buckets = redisRateLimitStore(connected.redis, { prefix, timeoutMs });
    const rules = [
      { limit: 2, intervalMs: 1_000 },
      { limit: 9, intervalMs: 1_000, key: SECRETS.tenant },
    ];
    for (let index = 0; index < 3; index += 1) await buckets.take(SECRETS.bucket, rules);
    await buckets.pause(SECRETS.bucket, 1_000);
    await buckets.note?.(SECRETS.bucket, rules, [1, 2]);
  };
  const encodings = (text: string) => [
    text,
    encodeURIComponent(text),
    Buffer.from(text).toString('hex'),
    Buffer.from(text).toString('base64').replace(/=+$/, ''),
    Buffer.from(text).toString('base64url'),
  ];

  it('holds no token, no secret, no id and no bucket key, in clear or merely encoded', async () => {
    const prefix = newPrefix();
    await server.command('SCRIPT', 'FLUSH');
    const seen = await monitored(server, async () => {
      await useBoth(a, prefix);
      await useBoth(b, `${prefix}-b`);
    });
    expect(seen.match(/"evalsha"/gi)?.length).toBeGreaterThan(15);
    expect(seen).toContain(prefix);
    for (const secret of Object.values(SECRETS)) {
      for (const written of encodings(secret)) expect(seen).not.toContain(written);
      expect(seen.toLowerCase()).not.toContain(secret.slice(0, 12));
    }
    expect(seen).not.toContain(Buffer.from(OLD).toString('base64'));
  });

  it('is spread over a cluster by id, while the buckets of a prefix keep together', async () => {
    const cluster = await startCluster();
    const connected = await (CLUSTER['ioredis 5 Cluster'] as (port: number) => Promise<Connected>)(
      cluster.ports[0] as number,
    );
    const store = storeOf('spread', [OLD], connected);
    for (let index = 0; index < 30; index += 1) {
      await store.compareAndSet(`user-${index}`, undefined, { generation: 1, data: 'x' });
      expect((await store.read(`user-${index}`))?.data).toBe('x');
    }
    await useBoth(connected, 'spread');
    const counts = await Promise.all(
      cluster.nodes.map(async (node) => ((await node.command('KEYS', 'spread:*')) as string[]).length),
    );
    const buckets = await Promise.all(
      cluster.nodes.map(async (node) => ((await node.command('KEYS', '{spread}:*')) as string[]).length),
    );
    await connected.close();
    await cluster.close();
    expect(Math.min(...counts)).toBeGreaterThan(0);
    expect(counts.reduce((sum, count) => sum + count)).toBe(30);
    expect(buckets.filter((count) => count > 0)).toEqual([2]);
  });
});
