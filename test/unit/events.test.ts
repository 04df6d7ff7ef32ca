import { getEventListeners } from 'node:events';
import { expect, expectTypeOf, test, vi } from 'vitest';
import { HostedMcpError } from '../../src/errors.js';
import { Emitter } from '../../src/events.js';

interface Events {
  tick: { n: number };
  other: string;
}

test('on() hears every event until it is disposed of', () => {
  const emitter = new Emitter<Events>();
  const heard: number[] = [];
  const listening = emitter.on('tick', ({ n }) => heard.push(n));
  emitter.emit('tick', { n: 1 });
  emitter.emit('other', 'x');
  emitter.emit('tick', { n: 2 });
  listening.dispose();
  listening.dispose();
  emitter.emit('tick', { n: 3 });
  expect(heard).toEqual([1, 2]);
});

test('wants() and listenerCount() follow the listeners', () => {
  const emitter = new Emitter<Events>();
  expect([emitter.wants('tick'), emitter.listenerCount('tick')]).toEqual([false, 0]);
  const first = emitter.on('tick', () => {});
  const second = emitter.on('tick', () => {});
  expect([emitter.wants('tick'), emitter.listenerCount('tick'), emitter.wants('other')]).toEqual([
    true,
    2,
    false,
  ]);
  first.dispose();
  expect([emitter.wants('tick'), emitter.listenerCount('tick')]).toEqual([true, 1]);
  second.dispose();
  expect([emitter.wants('tick'), emitter.listenerCount('tick')]).toEqual([false, 0]);
});

test('the same function registered twice is called twice and removed one by one', () => {
  const emitter = new Emitter<Events>();
  const listener = vi.fn();
  const first = emitter.on('tick', listener);
  emitter.on('tick', listener);
  emitter.emit('tick', { n: 1 });
  first.dispose();
  emitter.emit('tick', { n: 2 });
  expect(listener).toHaveBeenCalledTimes(3);
});

test('listeners may come and go during an emission', () => {
  const emitter = new Emitter<Events>();
  const heard: string[] = [];
  emitter.on('tick', () => {
    heard.push('first');
    last.dispose();
    emitter.on('tick', () => heard.push('late'));
  });
  emitter.on('tick', () => heard.push('second'));
  const last = emitter.on('tick', () => heard.push('last'));
  emitter.emit('tick', { n: 1 });
  expect(heard).toEqual(['first', 'second']);
});

test('a listener that throws or rejects harms nobody and is reported', async () => {
  const reported: unknown[] = [];
  const emitter = new Emitter<Events>({ onListenerError: (error, event) => reported.push([event, error]) });
  const heard = vi.fn();
  emitter.on('tick', () => {
    throw new Error('thrown');
  });
  emitter.on('tick', async () => {
    throw new Error('rejected');
  });
  emitter.on('tick', heard);
  emitter.emit('tick', { n: 1 });
  await Promise.resolve();
  expect(heard).toHaveBeenCalledOnce();
  expect(reported).toEqual([
    ['tick', new Error('thrown')],
    ['tick', new Error('rejected')],
  ]);
});

test('nobody is harmed either when nobody is told, or when the one who is told throws', () => {
  const failing = () => {
    throw new Error('thrown');
  };
  for (const emitter of [new Emitter<Events>(), new Emitter<Events>({ onListenerError: failing })]) {
    const heard = vi.fn();
    emitter.on('tick', failing);
    emitter.on('tick', heard);
    emitter.emit('tick', { n: 1 });
    expect(heard).toHaveBeenCalledOnce();
  }
});

test('once() takes the first event that passes the filter and leaves no listener', async () => {
  const emitter = new Emitter<Events>();
  const { signal } = new AbortController();
  const event = emitter.once('tick', { signal, filter: ({ n }) => n > 1 });
  emitter.emit('tick', { n: 1 });
  expect(emitter.listenerCount('tick')).toBe(1);
  emitter.emit('tick', { n: 2 });
  emitter.emit('tick', { n: 3 });
  await expect(event).resolves.toEqual({ n: 2 });
  expect(emitter.wants('tick')).toBe(false);
  expect(getEventListeners(signal, 'abort')).toHaveLength(0);
});

test("once() rejects with the signal's reason and leaves no listener", async () => {
  const emitter = new Emitter<Events>();
  const controller = new AbortController();
  const event = emitter.once('tick', { signal: controller.signal });
  const reason = new Error('enough');
  controller.abort(reason);
  await expect(event).rejects.toBe(reason);
  expect(emitter.wants('tick')).toBe(false);
  await expect(emitter.once('tick', { signal: controller.signal })).rejects.toBe(reason);
  expect(emitter.wants('tick')).toBe(false);
});

test('once() rejects with what its filter throws', async () => {
  const emitter = new Emitter<Events>({ onListenerError: () => expect.unreachable() });
  const failure = new Error('filter');
  const event = emitter.once('tick', {
    filter: () => {
      throw failure;
    },
  });
  emitter.emit('tick', { n: 1 });
  await expect(event).rejects.toBe(failure);
  expect(emitter.wants('tick')).toBe(false);
});

test('clear() ends every once() with ERR_CLOSED, and the emitter goes on', async () => {
  const emitter = new Emitter<Events>();
  const { signal } = new AbortController();
  const listener = vi.fn();
  const listening = emitter.on('tick', listener);
  const waiting = [emitter.once('tick', { signal }), emitter.once('other')];
  emitter.clear();
  for (const each of waiting) {
    await expect(each).rejects.toSatisfy((error) => HostedMcpError.isInstance(error, 'ERR_CLOSED'));
  }
  expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  emitter.emit('tick', { n: 1 });
  listening.dispose();
  expect(listener).not.toHaveBeenCalled();
  const again = emitter.once('tick');
  emitter.emit('tick', { n: 2 });
  await expect(again).resolves.toEqual({ n: 2 });
});

test('a once() nobody looks at any more does not end the process when the emitter is cleared', async () => {
  const unhandled = vi.fn();
  process.on('unhandledRejection', unhandled);
  const emitter = new Emitter<Events>();
  emitter.once('tick');
  emitter.clear();
  await new Promise((resolve) => setImmediate(resolve));
  process.off('unhandledRejection', unhandled);
  expect(unhandled).not.toHaveBeenCalled();
});

test('after close() nothing is registered any more', async () => {
  const emitter = new Emitter<Events>();
  const before = emitter.once('tick');
  emitter.close();
  await expect(before).rejects.toMatchObject({ code: 'ERR_CLOSED' });
  await expect(emitter.once('tick')).rejects.toMatchObject({ code: 'ERR_CLOSED' });
  const listener = vi.fn();
  const listening = emitter.on('tick', listener);
  emitter.emit('tick', { n: 1 });
  listening.dispose();
  expect(listener).not.toHaveBeenCalled();
  expect(emitter.wants('tick')).toBe(false);
});

test('names and payloads are typed', () => {
  const emitter = new Emitter<Events>();
  expectTypeOf(emitter.once('tick')).toEqualTypeOf<Promise<{ n: number }>>();
  expectTypeOf(emitter.on<'other'>)
    .parameter(1)
    .toEqualTypeOf<(payload: string) => void>();
  // @ts-expect-error no such event
  emitter.on('nothing', () => {});
  // @ts-expect-error another payload
  emitter.emit('tick', 'x');
});
