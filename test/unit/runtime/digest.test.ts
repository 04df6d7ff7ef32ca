import { createHash, createHmac } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import * as chosen from '../../../src/runtime/digest.js';
import { hmacSha256, sha256 } from '../../../src/runtime/sha256.js';

const web = chosen.digests(undefined);
const hexOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

describe('SHA-256 of our own', () => {
  // FIPS 180-4's examples, as NIST publishes them.
  it.each([
    ['', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
    ['abc', 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'],
    [
      'abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq',
      '248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1',
    ],
  ])('of %j', (text, digest) => {
    expect(web.sha256Hex(text)).toBe(digest);
  });

  it('of every length around the ends of blocks, and of a long one', () => {
    for (const length of [...Array.from({ length: 130 }, (_, at) => at), 4095, 4096, 100_003]) {
      const bytes = Uint8Array.from({ length }, (_, at) => (at * 31 + length) & 255);
      expect(hexOf(sha256(bytes)), `${length} bytes`).toBe(createHash('sha256').update(bytes).digest('hex'));
    }
  });

  it('with any key, as RFC 2104 says', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.uint8Array({ maxLength: 300 }), (key, bytes) => {
        expect(hexOf(hmacSha256(key, bytes))).toBe(createHmac('sha256', key).update(bytes).digest('hex'));
      }),
      { numRuns: 200 },
    );
  });
});

it('a name is the same with node:crypto and without', () => {
  const key = Uint8Array.from({ length: 32 }, (_, at) => at);
  for (const text of ['', 'abc', 'https://mcp.example/ü', '["v1","\ud83d\ude80"]', 'a lone \ud800']) {
    expect(web.sha256Hex(text)).toBe(chosen.sha256Hex(text));
    for (const each of [
      key,
      'a label',
      'a label that is longer than one block of the digest, which is 64 bytes',
    ]) {
      expect(web.hmacHex(each, text)).toBe(chosen.hmacHex(each, text));
      expect(web.hmacBase64url(each, text)).toBe(chosen.hmacBase64url(each, text));
    }
  }
});

it.each([
  ['node:crypto', chosen],
  ['the web', web],
])('random values of %s', (_name, { randomBytes, randomUUID }) => {
  expect(randomBytes(32)).toHaveLength(32);
  expect(hexOf(randomBytes(32))).not.toBe(hexOf(randomBytes(32)));
  expect(randomUUID()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(randomUUID()).not.toBe(randomUUID());
});
