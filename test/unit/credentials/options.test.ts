import { describe, expect, it } from 'vitest';
import { REFRESH_DEFAULTS, resolveRefreshPolicy, tokenTimes } from '../../../src/credentials/options.js';

describe('tokenTimes', () => {
  it.each([
    // lifetime, soft, hard (seconds), with jitter in the middle
    [3, 1.5, 2.7],
    [10, 5, 9],
    [30, 19.5, 28],
    [60, 44.25, 58],
    [300, 221.25, 298],
    [600, 442.5, 598],
    [3600, 3285, 3598],
    [1e9, 86_400 - 315, 86_398],
  ])('a token of %d s is renewed from %d s on and waited for from %d s on', (life, soft, hard) => {
    const times = tokenTimes(life * 1000, REFRESH_DEFAULTS, 0.5);
    expect(times.softAfterMs / 1000).toBeCloseTo(soft, 6);
    expect(times.hardAfterMs / 1000).toBeCloseTo(hard, 6);
  });

  it('never renews before half of the life, nor after the hard end, whatever the policy', () => {
    for (const life of [1, 100, 5_000, 60_000, 3_600_000]) {
      for (const policy of [
        REFRESH_DEFAULTS,
        resolveRefreshPolicy({ fraction: 0.05, maxWindowMs: 86_400_000, jitter: 1 }),
        resolveRefreshPolicy({ fraction: 1, minWindowMs: 0, jitter: 0 }),
      ]) {
        for (const random of [0, 0.999]) {
          const times = tokenTimes(life, policy, random);
          expect(times.softAfterMs).toBeGreaterThanOrEqual(life / 2);
          expect(times.softAfterMs).toBeLessThanOrEqual(times.hardAfterMs);
          expect(times.hardAfterMs).toBeLessThan(life);
        }
      }
    }
  });
});

describe('resolveRefreshPolicy', () => {
  it('gives the frozen defaults, and fills in what is missing; undefined is unset', () => {
    expect(resolveRefreshPolicy(undefined)).toBe(REFRESH_DEFAULTS);
    expect(Object.isFrozen(REFRESH_DEFAULTS)).toBe(true);
    expect(resolveRefreshPolicy({ fraction: 0.5, jitter: undefined })).toEqual({
      ...REFRESH_DEFAULTS,
      fraction: 0.5,
    });
  });

  it.each([
    ['fraction', 0],
    ['fraction', 1.1],
    ['fraction', '0.5'],
    ['maxWindowMs', -1],
    ['minWindowMs', Number.NaN],
    ['jitter', 2],
    ['background', true],
    ['tokenTimeoutMs', 0],
    ['assumedLifetimeMs', Number.POSITIVE_INFINITY],
    ['serveExpired', 1],
  ])('refuses %s %s by name', (name, value) => {
    const policy = { [name]: value };
    expect(() => resolveRefreshPolicy(policy)).toThrow(TypeError);
    expect(() => resolveRefreshPolicy(policy)).toThrow(`refresh.${name}`);
  });
});
