import { describe, expect, it, vi } from 'vitest';
import type { Urgency } from '../../../src/rate-limit/toll.js';
import { WaitingLine } from '../../../src/rate-limit/waiting-line.js';
import { manualClock } from '../../../src/testing/index.js';
import { settlements } from './support.js';

const NEVER = Number.POSITIVE_INFINITY;

function scene() {
  const clock = manualClock();
  let emptied = 0;
  const line = new WaitingLine(clock, () => {
    emptied += 1;
  });
  const seen = settlements(clock);
  const join = (name: string, urgency: Urgency = 'call', signal?: AbortSignal) => {
    const waiter = line.join(urgency, NEVER, signal);
    seen.watch(name, waiter.promise);
    return waiter;
  };
  return { clock, line, join, seen, emptied: () => emptied };
}

describe('WaitingLine', () => {
  it('gives tokens first come, first served', async () => {
    const { line, join, seen } = scene();
    for (const name of ['a', 'b', 'c']) join(name);
    expect(line.length).toBe(3);
    expect([await line.hand(0), await line.hand(0), await line.hand(0)]).toEqual([true, true, true]);
    expect(seen.went).toEqual(['a@0', 'b@0', 'c@0']);
    expect(line.length).toBe(0);
    expect(await line.hand(0)).toBe(false);
  });

  it('lets the urgent go first, whenever they came', async () => {
    const { line, join, seen } = scene();
    join('call 1');
    join('read', 'read');
    join('call 2');
    join('reopen', 'reopen');
    join('reply', 'reply');
    await line.hand(0);
    join('recovery 1', 'recovery');
    join('recovery 2', 'recovery');
    expect(line.ahead('recovery')).toBe(2);
    expect(line.ahead('call')).toBe(6);
    while (await line.hand(0));
    expect(seen.went.map((each) => each.split('@')[0])).toEqual([
      'reply',
      'recovery 1',
      'recovery 2',
      'reopen',
      'read',
      'call 1',
      'call 2',
    ]);
  });

  it('gives nothing without a token', async () => {
    const { clock, line, join, seen } = scene();
    join('a');
    await clock.advance(3_600_000);
    expect(seen.outcomes).toEqual([]);
    expect(line.length).toBe(1);
    expect(clock.pendingTimers).toBe(0);
  });

  it('an abort rejects at once, takes no token and leaves no listener', async () => {
    const { clock, line, join, seen, emptied } = scene();
    const controller = new AbortController();
    const removed = vi.spyOn(controller.signal, 'removeEventListener');
    join('a', 'call', controller.signal);
    join('b');
    await clock.settle();
    controller.abort('gone');
    expect(line.length).toBe(1);
    expect(removed).toHaveBeenCalledTimes(1);
    await line.hand(0);
    expect(seen.outcomes).toEqual([
      { name: 'a', atMs: 0, error: 'gone' },
      { name: 'b', atMs: 0 },
    ]);
    expect(emptied()).toBe(0);
  });

  it('a signal that has ended keeps nobody waiting', async () => {
    const { clock, line, join, seen, emptied } = scene();
    join('a', 'call', AbortSignal.abort('gone'));
    await clock.settle();
    expect(seen.outcomes).toMatchObject([{ name: 'a', error: 'gone' }]);
    expect([line.length, emptied()]).toEqual([0, 1]);
  });

  it('a token on its way to one who gives up passes to the next, or is told to be left over', async () => {
    const { clock, line, join, seen } = scene();
    const a = join('a');
    join('b');
    await clock.settle();
    const handed = line.hand(0);
    a.leave('gone');
    expect(await handed).toBe(true);
    expect(seen.went).toEqual(['b@0']);

    const c = join('c');
    await clock.settle();
    const left = line.hand(0);
    c.leave('gone');
    expect(await left).toBe(false);
    const d = join('d');
    expect(await line.hand(0)).toBe(true);
    await d.promise;
    expect(clock.pendingTimers).toBe(0);
  });

  it('keeps the order of the living through crowds that give up', async () => {
    const { clock, line, join, seen } = scene();
    const gone: { leave(reason: unknown): void }[] = [];
    for (let n = 0; n < 12; n++) {
      join(`call ${n}`);
      for (let more = 0; more < 6; more++) gone.push(join('x'));
      if (n % 3 === 0) join(`recovery ${n}`, 'recovery');
    }
    await clock.settle();
    for (const waiter of gone) waiter.leave('gone');
    expect(line.length).toBe(16);
    while (await line.hand(0));
    expect(seen.went.map((each) => each.split('@')[0])).toEqual([
      ...[0, 3, 6, 9].map((n) => `recovery ${n}`),
      ...Array.from({ length: 12 }, (_, n) => `call ${n}`),
    ]);
  });

  it('gives a token to the best although bottleneck is still taking in a crowd', async () => {
    const { line, join, seen } = scene();
    for (let n = 0; n < 300; n++) join(`call ${n}`);
    join('recovery', 'recovery');
    await line.hand(0);
    await line.hand(0);
    expect(seen.went).toEqual(['recovery@0', 'call 0@0']);
  });

  it('hands over although the wall clock was set back', async () => {
    const { clock, line, join, seen } = scene();
    join('a');
    join('b');
    await line.hand(0);
    const now = vi.spyOn(Date, 'now').mockReturnValue(Date.now() - 3_600_000);
    try {
      const handed = line.hand(0);
      await clock.advance(1_000);
      expect(await handed).toBe(true);
    } finally {
      now.mockRestore();
    }
    expect(seen.went.map((each) => each.split('@')[0])).toEqual(['a', 'b']);
    expect(clock.pendingTimers).toBe(0);
  });
});
