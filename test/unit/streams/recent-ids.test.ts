import { expect, it } from 'vitest';
import { RecentIds } from '../../../src/streams/recent-ids.js';

it('remembers the last 1,024, the oldest goes first', () => {
  const ids = new RecentIds();
  for (let n = 0; n < 5_000; n += 1) ids.add(`e${n}`);
  expect(ids.size).toBe(1_024);
  expect([ids.has('e0'), ids.has('e3975'), ids.has('e3976'), ids.has('e4999')]).toEqual([
    false,
    false,
    true,
    true,
  ]);
  ids.add('e4999');
  expect(ids.has('e3976')).toBe(true);
});
