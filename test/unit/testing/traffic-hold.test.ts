import { expect, test } from 'vitest';
import type { Clock } from '../../../src/clock.js';
import { disposer } from '../../../src/disposer.js';
import { manualClock } from '../../../src/testing/index.js';
import { connect, messageOf, start } from './support.js';

/** A manual clock that shows how many requests hold it just now. */
function watchedClock() {
  const clock = manualClock();
  let held = 0;
  const watched: Clock = {
    ...clock,
    track() {
      const hold = clock.track();
      held += 1;
      return disposer(() => {
        held -= 1;
        hold.dispose();
      });
    },
  };
  return { clock: watched, advance: clock.advance, settle: clock.settle, held: () => held };
}

test('a request holds the clock while it is worked on, and not while it waits for the clock', async () => {
  const { clock, advance, settle, held } = watchedClock();
  const seen: number[] = [];
  const tools = [
    {
      name: 'steps',
      handler: async (_: unknown, call: { wait(ms: number): Promise<void> }) => {
        seen.push(held());
        await call.wait(100);
        seen.push(held());
      },
    },
  ];
  const server = await start({ clock, tools });
  const peer = await connect(server);
  const call = peer.call('steps');
  await settle();
  expect([seen, held()]).toEqual([[1], 0]);
  await advance(100);
  await call;
  expect([seen, held()]).toEqual([[1, 1], 0]);
});

test('neither a question to the client nor an open stream nor silence holds it', async () => {
  const { clock, settle, held } = watchedClock();
  const tools = [
    {
      name: 'ask',
      handler: (_: unknown, call: { request(method: string): Promise<unknown> }) =>
        call.request('roots/list'),
    },
    { name: 'mute' },
  ];
  const server = await start({ clock, tools, answer: 'json' });
  const peer = await connect(server);
  await peer.get();
  server.replyOnce({ tool: 'mute' }, { silence: true });
  const mute = peer.call('mute').catch(() => 'gone');
  const asked = peer.call('ask');
  await settle();
  expect(server.counts.executions).toEqual({ ask: 1 });
  expect(held()).toBe(0);
  expect((await peer.post({ jsonrpc: '2.0', id: 0, result: { roots: [] } })).status).toBe(202);
  expect((await messageOf(await asked)).result.content[0].text).toBe('{"roots":[]}');
  await settle();
  expect(held()).toBe(0);
  await server.close();
  expect(await mute).toBe('gone');
});
