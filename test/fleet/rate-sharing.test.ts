/**
 * Replicas in processes of their own share one limit over a real Redis: what the server counts.
 */
import { describe, it } from 'vitest';
import { Lanes, PATIENCE_MS } from './rate-support.js';

const lanes = new Lanes(2);

describe.concurrent('replicas that share one limit', { timeout: PATIENCE_MS }, () => {
  it('saturated, jitter up to 200 ms: never above the limit, at least 97 % of it, fair shares', () =>
    lanes.holds('steady'));

  it('a burst of all at once', () => lanes.holds('burst'));

  it('a 429 on one is a pause for all, for one that starts meanwhile as well', () => lanes.holds('pause'));

  it('wall clocks 30 s ahead and behind', () => lanes.holds('clocks-apart'));

  it('wall clocks that are set by an hour in the middle of it', () => lanes.holds('clocks-jump'));

  it('MONITOR hears no secret: a rotating refresh token in the shared store', () =>
    lanes.holds('secrets-refresh'));

  it('MONITOR hears no secret: client credentials in the shared store', () => lanes.holds('secrets-client'));
});
