import { describe, expect, it } from 'vitest';
import { bearerToken } from '../../../src/credentials/index.js';
import type { CredentialProvider } from '../../../src/credentials/provider.js';
import { deriveKey } from '../../../src/rate-limit/key.js';
import { memoryRateLimitStore } from '../../../src/rate-limit/memory-store.js';
import { type RateLimitOptions, resolveRateLimit } from '../../../src/rate-limit/options.js';
import type { RateLimitStore } from '../../../src/rate-limit/types.js';
import { manualClock } from '../../../src/testing/index.js';

const url = new URL('https://mcp.example/mcp');
const clock = manualClock();
const ownId = bearerToken('secret', { id: 'billing@prod', clock });
const noId = bearerToken('secret', { clock });
const shared: RateLimitStore = { take: async () => ({ grantedInMs: 0 }), pause: async () => {} };
const oneRule = { limit: 60, intervalMs: 60_000 };

const resolve = (options: RateLimitOptions | undefined, credentials: CredentialProvider = ownId) =>
  resolveRateLimit(options, { credentials, url, clock });

describe('resolveRateLimit', () => {
  it('without options there are no rules and no store, and the server is heeded', () => {
    for (const options of [undefined, {}, { limit: undefined, rules: undefined }]) {
      expect(resolve(options)).toEqual({
        rules: [],
        key: deriveKey(url, 'billing@prod'),
        store: undefined,
        replicas: 1,
        onStoreDown: 'local-share',
        maxWaitMs: 50_000,
        maxPauseMs: 300_000,
        respectServer: true,
      });
    }
  });

  it('takes limit and intervalMs for one rule, and copies rules', () => {
    expect(resolve(oneRule).rules).toEqual([oneRule]);
    const rules = [oneRule, { limit: 1_000, intervalMs: 3_600_000, key: 'tenant' }];
    const resolved = resolve({ rules, key: 'mine' });
    expect(resolved).toMatchObject({ rules, key: 'mine' });
    expect(resolved.rules[0]).not.toBe(rules[0]);
    expect(Object.isFrozen(resolved.rules[1])).toBe(true);
  });

  it('counts three replicas where a store is shared, one where it is not', () => {
    expect(resolve({ ...oneRule, store: shared }).replicas).toBe(3);
    expect(resolve({ ...oneRule, store: memoryRateLimitStore() }).replicas).toBe(1);
    expect(resolve(oneRule).replicas).toBe(1);
    expect(resolve({ ...oneRule, store: shared, replicas: 8 }).replicas).toBe(8);
  });

  it('gives connections with one provider one memory, and others another', () => {
    expect(resolve(oneRule).store).toBe(resolve(oneRule).store);
    expect(resolve(oneRule, noId).store).not.toBe(resolve(oneRule).store);
  });

  it('wants a key where a shared store meets a credential without an id', () => {
    expect(() => resolve({ ...oneRule, store: shared }, noId)).toThrow(
      new TypeError(
        'rateLimit.key is required: these credentials have no id of their own by which replicas could share a bucket',
      ),
    );
    expect(resolve({ ...oneRule, store: shared, key: 'k' }, noId).key).toBe('k');
    expect(resolve({ ...oneRule, store: memoryRateLimitStore() }, noId).key).toHaveLength(22);
  });

  it.each<[string, unknown, string]>([
    ['limit 0', { ...oneRule, limit: 0 }, 'rateLimit.limit must be a whole number'],
    ['a negative limit', { ...oneRule, limit: -1 }, 'rateLimit.limit must be'],
    ['a fraction', { ...oneRule, limit: 1.5 }, 'rateLimit.limit must be'],
    ['interval 0', { ...oneRule, intervalMs: 0 }, 'rateLimit.intervalMs must be'],
    ['no interval', { limit: 1 }, 'rateLimit.intervalMs is required'],
    ['no limit', { intervalMs: 1 }, 'rateLimit.limit is required'],
    ['both forms', { ...oneRule, rules: [oneRule] }, 'rateLimit.rules stands instead'],
    ['both forms, by half', { limit: 1, rules: [oneRule] }, 'rateLimit.rules stands instead'],
    ['no rules', { rules: [] }, 'rateLimit.rules must be an array'],
    ['rules that are none', { rules: 'x' }, 'rateLimit.rules must be an array'],
    ['a rule that is null', { rules: [oneRule, null] }, 'rateLimit.rules[1] must be an object'],
    ['a rule without a limit', { rules: [{ intervalMs: 1 }] }, 'rateLimit.rules[0].limit is required'],
    ['a rule without an interval', { rules: [{ limit: 1 }] }, 'rateLimit.rules[0].intervalMs is required'],
    ['a rule with an empty key', { rules: [{ ...oneRule, key: '' }] }, 'rateLimit.rules[0].key must be'],
    ['a misspelt rule', { rules: [{ ...oneRule, per: 1 }] }, 'rateLimit.rules[0].per is not an option'],
    ['an empty key', { key: '' }, 'rateLimit.key must be'],
    ['a store without a rule', { store: shared }, 'rateLimit.store needs a rule'],
    ['a store that is none', { ...oneRule, store: null }, 'rateLimit.store must be a store'],
    ['half a store', { ...oneRule, store: { take() {} } }, 'rateLimit.store.pause must be a function'],
    ['a bad note', { ...oneRule, store: { ...shared, note: 1 } }, 'rateLimit.store.note must be a function'],
    ['no replicas', { ...oneRule, replicas: 0 }, 'rateLimit.replicas must be'],
    ['another onStoreDown', { ...oneRule, onStoreDown: 'fail' }, 'rateLimit.onStoreDown must be one of'],
    ['an endless wait', { maxWaitMs: Number.POSITIVE_INFINITY }, 'rateLimit.maxWaitMs must be'],
    ['a negative pause', { maxPauseMs: -1 }, 'rateLimit.maxPauseMs must be'],
    ['respectServer 0', { respectServer: 0 }, 'rateLimit.respectServer must be one of'],
    ['a misspelt option', { limits: 1 }, 'rateLimit.limits is not an option'],
  ])('refuses %s', (_name, options, message) => {
    expect(() => resolve(options as RateLimitOptions)).toThrow(TypeError);
    expect(() => resolve(options as RateLimitOptions)).toThrow(message);
  });
});
