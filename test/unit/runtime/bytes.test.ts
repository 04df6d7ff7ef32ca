import { describe, expect, it } from 'vitest';
import * as chosen from '../../../src/runtime/bytes.js';

const node = chosen.byteWays(Buffer);
const web = chosen.byteWays(undefined);

const TEXTS = [
  '',
  'plain',
  'Grüße aus Zürich',
  '日本語 and 𝒹𝑜𝓊𝒷𝓁𝑒 units',
  '\ufeffmarked \ufeff twice',
  'a lone \ud800 half',
  '\u0000\u007f\u0080ÿ',
  'x'.repeat(100_000),
];

const BYTES: readonly (readonly [string, number[]])[] = [
  ['nothing', []],
  ['a byte order mark', [0xef, 0xbb, 0xbf, 0x61]],
  ['an end in the middle of a character', [0x61, 0xe2, 0x82]],
  ['what never begins a character', [0xff, 0xfe, 0x80, 0x61]],
  ['an overlong form', [0xc0, 0xaf, 0xe0, 0x80, 0xaf]],
  ['a surrogate', [0xed, 0xa0, 0x80]],
  ['four bytes', [0xf0, 0x9f, 0x92, 0xa9]],
];

describe('the ways of the web give what the ways of Node give', () => {
  it.each(TEXTS.map((text) => [text.slice(0, 20), text]))('of the text %j', (_shown, text) => {
    for (const way of ['utf8Length', 'base64Of', 'copyOf', 'latin1OfUtf8'] as const) {
      expect(web[way](text), way).toBe(node[way](text));
    }
    const coded = Buffer.from(text).toString('base64url');
    expect(web.textOfBase64url(coded)).toBe(node.textOfBase64url(coded));
  });

  it.each(BYTES)('of bytes with %s', (_name, bytes) => {
    // A view into a larger buffer, as chunks of a stream are.
    const view = Uint8Array.from([0x7a, ...bytes, 0x7a]).subarray(1, bytes.length + 1);
    expect(web.utf8Text(view)).toBe(node.utf8Text(view));
  });

  it('of chunks, cut anywhere', () => {
    const whole = new TextEncoder().encode('日本語, in pieces');
    for (let at = 0; at <= whole.length; at++) {
      const chunks = [whole.subarray(0, at), new Uint8Array(), whole.subarray(at)];
      expect([...web.joined(chunks)]).toEqual([...node.joined(chunks)]);
      expect(web.utf8Text(web.joined(chunks))).toBe('日本語, in pieces');
    }
    expect(web.joined([])).toHaveLength(0);
  });
});

it('Node has its own ways', () => {
  expect(chosen.joined([Uint8Array.of(1)])).toBeInstanceOf(Buffer);
});
