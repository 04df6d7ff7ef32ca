import { describe, expect, it } from 'vitest';
import { bearerToken } from '../../../src/credentials/index.js';
import { Limiter, type LimiterEvents } from '../../../src/rate-limit/limiter.js';
import { type RateLimitOptions, resolveRateLimit } from '../../../src/rate-limit/options.js';
import type { PayOptions, Urgency } from '../../../src/rate-limit/toll.js';
import { manualClock } from '../../../src/testing/index.js';
import { FakeStore, KEPT, RULE, settlements } from './support.js';

const url = new URL('https://mcp.example/mcp');

function scene() {
  const clock = manualClock();
  const store = new FakeStore(clock);
  const credentials = bearerToken('secret', { id: 'billing@prod', clock });
  const seen = settlements(clock);
  const connect = (options?: RateLimitOptions) => {
    const events: [keyof LimiterEvents, unknown][] = [];
    const resolved = resolveRateLimit(options, { credentials, url, clock });
    const limiter = new Limiter(resolved, {
      clock,
      tell: (event, payload) => events.push([event, payload]),
    });
    const pay = (name: string, urgency: Urgency = 'call', payOptions?: PayOptions) =>
      seen.watch(name, limiter.pay(urgency, payOptions));
    return { limiter, events, pay, key: resolved.key };
  };
  return { clock, store, seen, connect };
}

describe('a limiter without rules', () => {
  it('costs nothing while there is no pause: no promise, no look at the signal', () => {
    const { clock, connect } = scene();
    const { limiter } = connect();
    const options = {
      get signal(): AbortSignal {
        throw new Error('looked at');
      },
    };
    expect(limiter.pay('call', options)).toBeUndefined();
    expect([limiter.pausedMs, clock.pendingTimers]).toEqual([0, 0]);
  });

  it('waits out the pause, made longer meanwhile, and no longer than the ceiling', async () => {
    const { clock, seen, connect } = scene();
    const { limiter, events, pay, key } = connect({ maxPauseMs: 4_000 });
    expect(limiter.pause(1_000)).toBe(1_000);
    pay('a');
    await clock.advance(500);
    expect(limiter.pause(86_400_000)).toBe(4_000);
    expect(limiter.pause(100)).toBe(4_000);
    pay('b', 'recovery');
    await clock.advance(4_000);
    expect(seen.went).toEqual(['b@4500', 'a@4500']);
    expect(limiter.pay('call')).toBeUndefined();
    expect(events).toEqual([
      ['rate-paused', { key, forMs: 1_000 }],
      ['rate-wait', { key, forMs: 1_000 }],
      ['rate-paused', { key, forMs: 4_000 }],
      ['rate-paused', { key, forMs: 4_000 }],
      ['rate-wait', { key, forMs: 4_000 }],
      ['rate-wait', { key, forMs: 3_500 }],
    ]);
    expect(clock.pendingTimers).toBe(0);
  });

  it('refuses at once who cannot wait so long: by its own time, or by maxWaitMs', async () => {
    const { clock, seen, connect } = scene();
    const { limiter, pay } = connect({ maxWaitMs: 9_000 });
    limiter.pause(10_000);
    pay('a', 'call', { untilMs: 5_000 });
    pay('b');
    await clock.advance(1_000);
    pay('c');
    await clock.settle();
    expect(seen.refused).toMatchObject(
      ['a', 'b'].map((name) => ({
        name,
        atMs: 0,
        error: { code: 'ERR_RATE_WAIT_EXCEEDED', reason: 'paused', executed: false, retryAfterMs: 10_000 },
      })),
    );
    await clock.advance(9_000);
    expect(seen.went).toEqual(['c@10000']);
  });

  it('an abort ends the wait at once', async () => {
    const { clock, seen, connect } = scene();
    const { limiter, pay } = connect();
    limiter.pause(10_000);
    const controller = new AbortController();
    pay('a', 'call', { signal: controller.signal });
    pay('b', 'call', { signal: AbortSignal.abort('before') });
    await clock.settle();
    controller.abort('gone');
    await clock.settle();
    expect(seen.refused).toEqual([
      { name: 'b', atMs: 0, error: 'before' },
      { name: 'a', atMs: 0, error: 'gone' },
    ]);
    expect(clock.pendingTimers).toBe(0);
  });

  it('takes no notice of the server where the app says so', () => {
    const { connect } = scene();
    const { limiter, events } = connect({ respectServer: false });
    expect(limiter.pause(1_000)).toBe(0);
    expect([limiter.pausedMs, limiter.pay('call'), events]).toEqual([0, undefined, []]);
  });
});

describe('a limiter with a rule', () => {
  it('keeps it, and tells of waits', async () => {
    const { clock, seen, connect } = scene();
    const { events, pay, key } = connect(RULE);
    for (const name of ['a', 'b', 'c', 'd']) pay(name);
    await clock.advance(KEPT);
    expect(seen.went).toEqual(['a@0', 'b@0', 'c@0', 'd@1250']);
    expect(events).toEqual([['rate-wait', { key, forMs: KEPT }]]);
  });

  it('is one bucket and one pause for connections of one credential', async () => {
    const { clock, seen, connect } = scene();
    const a = connect(RULE);
    const b = connect({ ...RULE });
    for (const name of ['1', '2', '3']) a.pay(name);
    b.pay('4');
    await clock.settle();
    expect(seen.went).toEqual(['1@0', '2@0', '3@0']);
    a.limiter.pause(5_000);
    expect(b.limiter.pausedMs).toBe(5_000);
    expect(b.events).toEqual([
      ['rate-wait', { key: b.key, forMs: KEPT }],
      ['rate-paused', { key: b.key, forMs: 5_000 }],
    ]);
    await clock.advance(5_000);
    expect(seen.went[3]).toBe('4@5000');
  });

  it('refuses by maxWaitMs, and by the caller’s own time where that is shorter', async () => {
    const { clock, seen, connect } = scene();
    const { pay } = connect({ ...RULE, maxWaitMs: 2_000 });
    for (let n = 0; n < 6; n++) pay(`${n}`);
    pay('late');
    pay('hurried', 'recovery', { untilMs: 1_000 });
    await clock.settle();
    expect(seen.refused).toMatchObject([
      { name: 'late', error: { code: 'ERR_RATE_WAIT_EXCEEDED', retryAfterMs: 2 * KEPT } },
      { name: 'hurried', error: { code: 'ERR_RATE_WAIT_EXCEEDED', retryAfterMs: KEPT } },
    ]);
  });

  it('a signal that has ended takes no token', async () => {
    const { clock, seen, connect } = scene();
    const { pay } = connect(RULE);
    for (let n = 0; n < 10; n++) pay('x', 'call', { signal: AbortSignal.abort('before') });
    for (const name of ['a', 'b', 'c']) pay(name);
    await clock.settle();
    expect(seen.went).toEqual(['a@0', 'b@0', 'c@0']);
    expect(seen.refused).toHaveLength(10);
  });

  it('an abort in the line gives way to the next', async () => {
    const { clock, seen, connect } = scene();
    const { pay } = connect(RULE);
    const controller = new AbortController();
    for (const name of ['a', 'b', 'c']) pay(name);
    pay('d', 'call', { signal: controller.signal });
    pay('e');
    await clock.advance(100);
    controller.abort('gone');
    await clock.settle();
    expect(seen.refused).toEqual([{ name: 'd', atMs: 100, error: 'gone' }]);
    await clock.advance(KEPT);
    expect(seen.went.slice(3)).toEqual(['e@1250']);
    expect(clock.pendingTimers).toBe(0);
  });

  it('tells of an outage of the store and of its end', async () => {
    const { clock, store, connect } = scene();
    const { events, pay, key } = connect({ ...RULE, store });
    store.mode = 'fail';
    pay('a');
    await clock.settle();
    store.mode = 'up';
    pay('b');
    await clock.advance(5_000);
    expect(events.filter(([event]) => event !== 'rate-wait')).toEqual([
      ['rate-degraded', { key, reason: 'unavailable' }],
      ['rate-restored', { key }],
    ]);
  });
});

describe('close()', () => {
  it('ends the waits of this connection alone, and its events', async () => {
    const { clock, seen, connect } = scene();
    const a = connect(RULE);
    const b = connect(RULE);
    for (const name of ['1', '2', '3']) a.pay(name);
    a.pay('4');
    b.pay('5');
    await clock.settle();
    a.limiter.close();
    a.limiter.close();
    await clock.settle();
    expect(seen.refused).toMatchObject([
      { name: '4', atMs: 0, error: { code: 'ERR_CLOSED', executed: false } },
    ]);
    a.pay('6');
    expect(a.limiter.pause(1_000)).toBe(0);
    const told = a.events.length;
    b.limiter.pause(2_000);
    await clock.advance(2_000);
    expect(a.events).toHaveLength(told);
    expect(seen.went[3]).toBe('5@2000');
    expect(seen.refused[1]).toMatchObject({ name: '6', error: { code: 'ERR_CLOSED' } });
    expect(clock.pendingTimers).toBe(0);
  });

  it('leaves no timer and no question behind, whatever was under way', async () => {
    const { clock, store, seen, connect } = scene();
    const { limiter, pay } = connect({ ...RULE, store });
    // A question in the background, and a line.
    store.mode = 'fail';
    pay('a');
    await clock.advance(4_000);
    store.mode = 'hang';
    pay('b');
    pay('c');
    await clock.settle();
    expect([store.hanging.size > 0, clock.pendingTimers > 0]).toEqual([true, true]);
    limiter.close();
    await clock.settle();
    expect([store.hanging.size, clock.pendingTimers]).toEqual([0, 0]);

    // A question in the foreground, and a pause that is being told.
    const second = connect({ ...RULE, key: 'other', store });
    second.pay('d');
    second.limiter.pause(1_000);
    await clock.settle();
    expect(store.hanging.size).toBe(2);
    second.limiter.close();
    await clock.settle();
    expect([store.hanging.size, clock.pendingTimers]).toEqual([0, 0]);
    expect(seen.refused.map(({ name, error }) => [name, error?.code])).toEqual([
      ['c', 'ERR_CLOSED'],
      ['d', 'ERR_CLOSED'],
    ]);
  });

  it('ends a wait for a pause without rules', async () => {
    const { clock, seen, connect } = scene();
    const { limiter, pay } = connect();
    limiter.pause(10_000);
    pay('a');
    await clock.settle();
    limiter.close();
    await clock.settle();
    expect(seen.refused).toMatchObject([{ name: 'a', error: { code: 'ERR_CLOSED' } }]);
    expect(clock.pendingTimers).toBe(0);
  });
});
