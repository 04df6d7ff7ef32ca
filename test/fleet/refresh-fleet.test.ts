/** Replicas as processes that share one rotating refresh token: oidc-provider with reuse detection, a real Redis. */
import { expect, it } from 'vitest';
// @ts-expect-error: a script, without types.
import { measureRefreshFleet } from '../../scripts/fleet/refresh-fleet.mjs';

it('3 processes of 20 callers, tokens of 2 s: as many token requests as expiries, no call fails', {
  timeout: 60_000,
}, async () => {
  const tokenLifetimeMs = 2_000;
  const forMs = 10_000;
  const figures = await measureRefreshFleet({
    processes: 3,
    callers: 20,
    tokenLifetimeMs,
    forMs,
    pauseMs: 250,
  });

  expect(figures.failed).toEqual({});
  // Whatever was asked for was given, and no refresh token came twice.
  expect(figures.tokenRequests).toBe(figures.expiries);
  expect(figures.reuses).toBe(0);
  // The whole run, on tokens that are replaced when half of their life is over and never later than their end.
  expect(figures.expiries).toBeGreaterThanOrEqual(forMs / tokenLifetimeMs);
  expect(figures.averageLifeMs).toBeGreaterThan(tokenLifetimeMs * 0.45);
  expect(figures.revoked).toBe(0);
  expect(figures.isAlive).toBe(true);
  expect(figures.calls).toBe(figures.answered);
  expect(figures.calls).toBeGreaterThan(500);
});
