import { inspect } from 'node:util';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Redactor } from '../../src/redactor.js';

const SECRET = 's3cr3t/+ "ä=';

function knowing(...secrets: string[]): Redactor {
  const redactor = new Redactor();
  for (const secret of secrets) redactor.add(secret);
  return redactor;
}

test('replaces every occurrence', () => {
  expect(knowing('topsecret').text('a topsecret b topsecret')).toBe('a [redacted] b [redacted]');
});

test.each([
  ['plain', SECRET],
  ['percent-encoded', encodeURIComponent(SECRET)],
  [
    'percent-encoded in lower case',
    encodeURIComponent(SECRET).replace(/%../g, (octet) => octet.toLowerCase()),
  ],
  ['in a form', new URLSearchParams({ x: SECRET }).toString().slice(2)],
  ['base64', Buffer.from(SECRET).toString('base64')],
  ['base64url', Buffer.from(SECRET).toString('base64url')],
  ['base64 without padding', Buffer.from(SECRET).toString('base64').replace(/=+$/, '')],
  ['JSON', JSON.stringify(SECRET).slice(1, -1)],
  ['JSON in ASCII, slashes escaped', 's3cr3t\\/+ \\"\\u00e4='],
])('%s', (_name, spelling) => {
  const redactor = knowing(SECRET);
  expect(redactor.contains(`<${spelling}>`)).toBe(true);
  expect(redactor.text(`<${spelling}>`)).toBe('<[redacted]>');
});

test('finds a secret inside of a longer base64 text, wherever it stands', () => {
  fc.assert(
    fc.property(
      fc.string({ minLength: 6 }),
      fc.uint8Array({ maxLength: 9 }),
      fc.uint8Array({ maxLength: 9 }),
      fc.constantFrom('base64' as const, 'base64url' as const),
      (secret, before, after, encoding) => {
        const bytes = Buffer.concat([before, Buffer.from(secret), after]);
        expect(knowing(secret).contains(bytes.toString(encoding))).toBe(true);
      },
    ),
  );
});

test('as in HTTP Basic', () => {
  const header = `Basic ${Buffer.from('client-1:topsecret').toString('base64')}`;
  expect(knowing('topsecret').text(header)).toMatch(/^Basic \w*\[redacted\]\w?=*$/);
});

test('no spelling survives in any text', () => {
  const secrets = fc.array(fc.string({ minLength: 6, maxLength: 12 }), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(secrets, fc.array(fc.string({ maxLength: 4 }), { maxLength: 6 }), (all, between) => {
      fc.pre(all.every((secret) => !'[redacted]'.includes(secret)));
      const redactor = knowing(...all);
      const parts = all.flatMap((secret) => [
        secret,
        encodeURIComponent(secret),
        Buffer.from(secret).toString('base64'),
        JSON.stringify(secret),
      ]);
      const text = parts.map((part, index) => part + (between[index] ?? '')).join('|');
      const out = redactor.text(text);
      // What is left between two marks must hold none; the marks themselves are not text of anybody.
      for (const rest of out.split('[redacted]')) expect(redactor.contains(rest)).toBe(false);
    }),
  );
});

test('overlapping secrets leave no rest of either', () => {
  expect(knowing('abcdef123', '123xyzxyz').text('<abcdef123xyzxyz>')).toBe('<[redacted]>');
  expect(knowing('abcdef', 'abcdefghijkl').text('<abcdefghijkl>')).toBe('<[redacted]>');
  expect(knowing('abcabc').text('<abcabcabc>')).toBe('<[redacted]>');
});

test('a secret may hold anything a replacement would take for a pattern', () => {
  expect(knowing('$&.*(x)[').text('a$&.*(x)[b')).toBe('a[redacted]b');
});

test('half a surrogate pair is no reason to fail', () => {
  expect(knowing('abcdef\ud800').text('<abcdef\ud800>')).toBe('<[redacted]>');
});

test('shorter than 6 characters is no secret', () => {
  expect(knowing('short', '').text('a short text')).toBe('a short text');
});

test('of more than 64 the oldest is forgotten; adding again makes the latest of it', () => {
  const redactor = new Redactor();
  for (let i = 0; i < 64; i++) redactor.add(`secret-number-${i}!`);
  redactor.add('secret-number-0!');
  redactor.add('secret-number-64!');
  expect(redactor.contains('secret-number-0!')).toBe(true);
  expect(redactor.contains('secret-number-1!')).toBe(false);
  expect(redactor.contains('secret-number-2!')).toBe(true);
  expect(redactor.contains('secret-number-64!')).toBe(true);
});

test('without secrets, and without a find, the very same value comes back', () => {
  const value = { a: ['x', { b: 'nothing here' }] };
  expect(new Redactor().value(value)).toBe(value);
  expect(knowing('topsecret').value(value)).toBe(value);
});

test('replaces in a deep copy, names of properties included', () => {
  const value = { a: [1, null, 'is topsecret', { b: 'topsecret' }], topsecret: true, c: undefined };
  const before = structuredClone(value);
  expect(knowing('topsecret').value(value)).toEqual({
    a: [1, null, 'is [redacted]', { b: '[redacted]' }],
    '[redacted]': true,
    c: undefined,
  });
  expect(value).toEqual(before);
});

test('a property named __proto__ stays a property', () => {
  const value = JSON.parse('{"__proto__": {"x": "topsecret"}, "constructor": "c"}');
  const copy = knowing('topsecret').value(value) as object;
  expect(JSON.stringify(copy)).toBe('{"__proto__":{"x":"[redacted]"},"constructor":"c"}');
  expect(Object.getPrototypeOf(copy)).toBe(Object.prototype);
  expect('x' in copy).toBe(false);
});

test('what is no plain object is passed on as it is', () => {
  const date = new Date(0);
  const bytes = new Uint8Array(3);
  const copy = knowing('topsecret').value({ date, bytes, text: 'topsecret', none: Object.create(null) });
  expect(copy).toMatchObject({ date, bytes, text: '[redacted]' });
  expect((copy as { date: Date }).date).toBe(date);
});

test('data nested deeper than the bound is replaced as a whole, only if something was found', () => {
  const deep = (depth: number, text: string) => {
    let value: unknown = text;
    for (let i = 0; i < depth; i++) value = [value];
    return value;
  };
  const redactor = knowing('topsecret');
  const harmless = deep(100_000, 'nothing');
  expect(redactor.value(harmless)).toBe(harmless);
  expect(JSON.stringify(redactor.value(deep(100_000, 'topsecret')))).toBe(
    `${'['.repeat(50)}"[redacted]"${']'.repeat(50)}`,
  );
});

test('circular data ends', () => {
  const value: Record<string, unknown> = { text: 'topsecret' };
  value.self = value;
  const shared = { text: 'topsecret' };
  value.twice = [shared, shared];
  expect(knowing('topsecret').value(value)).toEqual({
    text: '[redacted]',
    self: '[redacted]',
    twice: [{ text: '[redacted]' }, { text: '[redacted]' }],
  });
});

test('shows its secrets to nobody', () => {
  const redactor = knowing('topsecret');
  const shown = [
    inspect(redactor, { showHidden: true, depth: 9 }),
    JSON.stringify(redactor),
    String(redactor),
  ];
  expect(shown.join()).not.toContain('topsecret');
  expect(Reflect.ownKeys(redactor)).toEqual([]);
});
