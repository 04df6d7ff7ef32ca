import { beforeEach, describe, expect, it } from 'vitest';
import { type Clock, systemClock, type Timer } from '../../../src/clock.js';
import { Call, Ledger } from '../../../src/connection/ledger.js';
import { type ManualClock, manualClock } from '../../../src/testing/index.js';

let clock: ManualClock;
let told: string[];
let ids: number;

beforeEach(() => {
  clock = manualClock();
  told = [];
  ids = 0;
});

/** A ledger as a connection has it, and calls that keep their caller's time. */
function scene(on: Clock = clock) {
  const ledger = new Ledger();
  const call = (ms: number, signal?: AbortSignal) => {
    ids += 1;
    const made = new Call(
      { jsonrpc: '2.0', id: ids, method: 'tools/call', params: { name: 'pay' } },
      {
        deadlineMs: on.monotonic() + ms,
        signal,
        takeBack: (given, error) => {
          told.push(`${given.id} ${error.code}@${on.monotonic()}`);
          given.fail(error);
        },
      },
      on,
      50_000,
      (ended) => ledger.remove(ended),
    );
    made.promise.catch(() => {});
    ledger.add(made);
    return made;
  };
  return { ledger, call };
}

describe('the ends of callers times', () => {
  it('come in their order, however the calls came', async () => {
    const { call } = scene();
    call(300);
    call(100);
    call(200);
    await clock.advance(250);
    expect(told).toEqual(['2 ERR_TIMEOUT@100', '3 ERR_TIMEOUT@200']);
    await clock.advance(50);
    expect(told[2]).toBe('1 ERR_TIMEOUT@300');
  });

  it('are one timer for all calls', () => {
    let timers = 0;
    const counting: Clock = {
      ...clock,
      setTimeout: (...given: Parameters<Clock['setTimeout']>): Timer => {
        timers += 1;
        return { ...clock.setTimeout(...given), ref: () => {}, unref: () => {} };
      },
    };
    const { call } = scene(counting);
    for (let n = 0; n < 1_000; n += 1) call(60_000);
    expect(timers).toBe(1);
    call(30_000);
    expect(timers).toBe(2);
  });

  it('are not told of an answered call, and those behind it are', async () => {
    const { call } = scene();
    const first = call(100);
    call(150);
    first.succeed({ jsonrpc: '2.0', id: 1, result: {} });
    await clock.advance(1_000);
    expect(told).toEqual(['2 ERR_TIMEOUT@150']);
  });

  it('move with a hold, and with two at once', async () => {
    const { call } = scene();
    const held = call(100);
    const release = held.hold();
    await clock.advance(500);
    expect(told).toEqual([]);
    release();
    await clock.advance(99);
    expect(told).toEqual([]);
    const both = [held.hold(), held.hold()] as const;
    await clock.advance(50);
    both[0]();
    await clock.advance(1_000);
    expect(told).toEqual([]);
    both[1]();
    await clock.advance(10_000);
    expect(told).toHaveLength(1);
  });

  it('a call that is made while others are told has its own time', async () => {
    const { call, ledger } = scene();
    call(100);
    call(100);
    const made = clock.setTimeout(() => call(20), 100);
    await clock.advance(100);
    await clock.advance(20);
    made.clear();
    expect(told).toEqual(['1 ERR_TIMEOUT@100', '2 ERR_TIMEOUT@100', '3 ERR_TIMEOUT@120']);
    expect(ledger.size).toBe(0);
  });

  it('an abort of the caller ends it at once', () => {
    const { call } = scene();
    const caller = new AbortController();
    call(100, caller.signal);
    caller.abort();
    expect(told).toEqual(['1 ERR_ABORTED@0']);
  });

  it('leave no timer behind where one cannot be let be, nor after close()', async () => {
    const { call, ledger } = scene();
    call(60_000).succeed({ jsonrpc: '2.0', id: 1, result: {} });
    expect(clock.pendingTimers).toBe(0);
    call(60_000);
    ledger.close();
    call(60_000);
    expect(clock.pendingTimers).toBe(0);
  });

  it('keep the process alive as long as there are calls, and no longer', () => {
    const alive = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
    const before = alive();
    const { call, ledger } = scene(systemClock());
    const first = call(60_000);
    expect(alive()).toBe(before + 1);
    first.succeed({ jsonrpc: '2.0', id: 1, result: {} });
    expect(alive()).toBe(before);
    const second = call(60_000);
    expect(alive()).toBe(before + 1);
    second.succeed({ jsonrpc: '2.0', id: 2, result: {} });
    ledger.close();
    expect(alive()).toBe(before);
  });
});
