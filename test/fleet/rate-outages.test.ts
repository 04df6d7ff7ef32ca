/**
 * What befalls a fleet: Redis goes away and comes back, replicas die or stand still, a hundred clients want the same.
 */
import { describe, it } from 'vitest';
import { Lanes, PATIENCE_MS } from './rate-support.js';

const lanes = new Lanes(3);

describe.concurrent('a limit is held', { timeout: PATIENCE_MS }, () => {
  it('when a hundred clients in four processes want it all: each is served', () => lanes.holds('crowd'));

  it('when Redis is killed in the middle of a window and comes back empty', () =>
    lanes.holds('redis-restarted'));

  it('when Redis loses all that it knows in the middle of a window', () => lanes.holds('redis-emptied'));

  it('when Redis is not there at start, and appears', () => lanes.holds('redis-absent'));

  it('when Redis stands still, and then carries out what it was sent', () =>
    lanes.holds('redis-unreachable'));

  it('when a replica is killed: the others use what it leaves', () => lanes.holds('replica-killed'));

  it('when a replica stands still right before tokens come free', () => lanes.holds('replica-stopped'));

  it('when a replica stands still again and again', () => lanes.holds('replica-stutters'));
});
