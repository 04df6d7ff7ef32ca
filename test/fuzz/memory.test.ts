/**
 * Whatever a stream or a body brings, in whatever pieces, what is held of it is bounded by what is allowed.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { SseReader } from '../../src/streams/sse-reader.js';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const held = () => {
  // Buffers that the first one finds unused are given back by the second.
  collect();
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
};

const LINE_BYTES = 64 * 1024;
const PUSHED = 8 * 1024 * 1024;
/** Of what the process holds beside it. */
const NOISE = 2 * 1024 * 1024;

test.each([
  ['a comment that does not end', ': '],
  ['comments', ': xxxxxxxxxxxxxxxx\n'],
  ['ids without an end of their event', 'id: 12345678901234567890\n'],
  ['events without an end', 'event: message\n'],
  ['fields that nobody knows', 'nonsense: yes\n'],
  ['data beyond the limit', 'data: xxxxxxxxxxxxxxxx\n'],
  ['a line beyond the limit', 'data: x'],
  ['ids alone', 'id: 1\n\n'],
])('an event stream of %s', (_, unit) => {
  let failures = 0;
  let lastId = '';
  const reader = new SseReader(
    {
      event: ({ id = '' }) => {
        lastId = id;
      },
      retry: () => {},
      failed: () => {
        failures += 1;
      },
    },
    { lineBytes: LINE_BYTES },
  );
  const piece = new Uint8Array(Buffer.from(unit.repeat(Math.ceil((16 * 1024) / unit.length))));
  const before = held();
  for (let pushed = 0; pushed < PUSHED; pushed += piece.length) reader.push(Uint8Array.from(piece));
  expect(held() - before).toBeLessThan(NOISE);
  expect(failures).toBeLessThanOrEqual(1);
  // The reader is held until here.
  reader.end();
  expect(lastId.length).toBeLessThan(100);
});
