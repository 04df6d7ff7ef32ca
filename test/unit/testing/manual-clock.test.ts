import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { sleep } from '../../../src/clock.js';
import { manualClock } from '../../../src/testing/index.js';
import { connect, start, textOf } from './support.js';

describe('timers', () => {
  test('run by due time, then in the order they were set, each at its own time', async () => {
    const clock = manualClock(1_000);
    const seen: [string, number, number][] = [];
    const note = (name: string) => () => seen.push([name, clock.now(), clock.monotonic()]);
    clock.setTimeout(note('late'), 30);
    clock.setTimeout(note('first'), 10);
    clock.setTimeout(note('second'), 10);
    await clock.advance(29);
    expect(seen).toEqual([
      ['first', 1_010, 10],
      ['second', 1_010, 10],
    ]);
    expect(clock.pendingTimers).toBe(1);
    await clock.advance(1);
    expect(seen[2]).toEqual(['late', 1_030, 30]);
  });

  test('one that is set by another, or after an await in another, runs within the same advance', async () => {
    const clock = manualClock();
    const seen: number[] = [];
    const loop = async () => {
      for (let i = 0; i < 3; i++) {
        await sleep(clock, 10);
        seen.push(clock.monotonic());
      }
    };
    const looping = loop();
    await clock.advance(30);
    await looping;
    expect(seen).toEqual([10, 20, 30]);
  });

  test('a cleared one does not run, not even when cleared by an earlier one', async () => {
    const clock = manualClock();
    const seen: string[] = [];
    clock.setTimeout(() => second.clear(), 5);
    const second = clock.setTimeout(() => seen.push('second'), 5);
    await clock.advance(10);
    expect(seen).toEqual([]);
    expect(clock.pendingTimers).toBe(0);
  });

  test('two advances at once come one after the other', async () => {
    const clock = manualClock();
    await Promise.all([clock.advance(10), clock.advance(5)]);
    expect(clock.monotonic()).toBe(15);
    await expect(clock.advance(-1)).rejects.toThrow(TypeError);
    await expect(clock.advance(Number.NaN)).rejects.toThrow(TypeError);
  });

  test('what a timer throws comes out of advance, and the clock goes on', async () => {
    const clock = manualClock();
    clock.setTimeout(() => {
      throw new Error('boom');
    }, 5);
    await expect(clock.advance(10)).rejects.toThrow('boom');
    await clock.advance(10);
    expect(clock.monotonic()).toBe(15);
  });
});

describe('settle', () => {
  test('waits for loopback traffic that somebody tracks', async () => {
    const clock = manualClock();
    const server = createServer((_request, response) => response.end('done'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    let answered = 0;
    const ask = async () => {
      const hold = clock.track();
      const response = await fetch(`http://127.0.0.1:${port}`);
      await response.text();
      answered += 1;
      hold.dispose();
    };
    const asking = Promise.all([ask(), ask(), ask()]);
    await clock.settle();
    expect(answered).toBe(3);
    await asking;
    server.closeAllConnections();
    server.close();
  });

  test('waits for a long chain of tracked turns', async () => {
    const clock = manualClock();
    let turns = 0;
    const chain = async () => {
      const hold = clock.track();
      for (; turns < 15; turns++) await new Promise<void>((resolve) => setImmediate(resolve));
      hold.dispose();
    };
    void chain();
    await clock.settle();
    expect(turns).toBe(15);
  });

  test('does not wait for ever for traffic that waits for this clock', async () => {
    const clock = manualClock();
    const hold = clock.track();
    const started = performance.now();
    await clock.settle();
    expect(performance.now() - started).toBeGreaterThanOrEqual(8);
    hold.dispose();
    hold.dispose();
    await clock.settle();
  });

  test('an untracked clock settles at once, and does not move', async () => {
    const clock = manualClock(5);
    await clock.settle();
    expect(clock.now()).toBe(5);
  });
});

test('random() is the same in every run, in [0, 1), and moves with the seed', () => {
  const draw = (seed?: number) => {
    const clock = manualClock(0, { seed });
    return Array.from({ length: 1000 }, () => clock.random());
  };
  expect(draw(7)).toEqual(draw(7));
  expect(draw()).toEqual(draw());
  expect(draw(7)).not.toEqual(draw(8));
  expect(draw().every((value) => value >= 0 && value < 1)).toBe(true);
  expect(new Set(draw()).size).toBeGreaterThan(990);
});

test('parallel calls of a client that nobody tracks are all under way before the clock moves', async () => {
  for (let round = 0; round < 5; round++) {
    const clock = manualClock();
    const server = await start({ clock, answer: round % 2 === 0 ? 'sse' : 'json' });
    const peer = await connect(server);
    const calls = Promise.all([1, 2, 3, 4, 5].map(() => peer.call('slow', { ms: 1_000 }).then(textOf)));
    await clock.advance(1_000);
    expect(clock.pendingTimers).toBe(0);
    expect(new Set(await calls)).toEqual(new Set(['waited 1000 ms']));
  }
});
