import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Lines } from '../../../src/servers/lines.js';

function read(maxBytes: number) {
  const seen: string[] = [];
  const lines = new Lines(
    {
      line: (bytes) => seen.push(bytes.toString('latin1')),
      tooLong: (head, tail) => seen.push(`too long: ${head.length} ${tail.length}`),
    },
    maxBytes,
  );
  return { lines, seen };
}

it('the same lines, however the bytes are cut', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.string({ maxLength: 12 }).map((text) => text.replaceAll('\n', ' ')),
        { maxLength: 8 },
      ),
      fc.array(fc.nat({ max: 30 }), { maxLength: 20 }),
      (texts, cuts) => {
        const bytes = Buffer.from(texts.map((text) => `${text}\n`).join(''), 'utf8');
        const { lines, seen } = read(1_000);
        let at = 0;
        for (const cut of cuts) {
          lines.push(bytes.subarray(at, at + cut));
          at += cut;
        }
        lines.push(bytes.subarray(at));
        lines.end();
        expect(seen).toEqual(texts.map((text) => Buffer.from(text).toString('latin1')));
      },
    ),
    { seed: 3 },
  );
});

it('the limit is exact, and what follows a line that is too long is read again', () => {
  const { lines, seen } = read(10);
  lines.push(Buffer.from('0123456789\n0123456789A\nnext\n01234'));
  lines.push(Buffer.from('5678'));
  lines.push(Buffer.from('9'));
  lines.push(Buffer.from('ABC'));
  lines.push(Buffer.from('D\n\nlast'));
  lines.end();
  expect(seen).toEqual(['0123456789', 'too long: 11 11', 'next', 'too long: 13 14', '', 'last']);
});

it('keeps two ends of a line of any length, and no more', () => {
  const { lines, seen } = read(4_096);
  for (let round = 0; round < 100; round += 1) lines.push(Buffer.alloc(64 * 1024, 'x'));
  lines.push(Buffer.from('\n'));
  expect(seen).toEqual(['too long: 1024 1024']);
});
