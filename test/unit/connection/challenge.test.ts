import { describe, expect, it } from 'vitest';
import { type Challenge, parseChallenges } from '../../../src/connection/challenge.js';

const METADATA = 'https://mcp.example.com/.well-known/oauth-protected-resource';

const ROWS: readonly (readonly [name: string, values: readonly string[], expected: readonly Challenge[]])[] =
  [
    ['none', [], []],
    ['empty', ['', ' , ,'], []],
    ['a scheme alone', ['Bearer'], [{ scheme: 'bearer' }]],
    ['in any case', ['bEARER ERROR="x"'], [{ scheme: 'bearer', error: 'x' }]],
    [
      'RFC 6750',
      ['Bearer realm="mcp", error="invalid_token", error_description="The token expired"'],
      [{ scheme: 'bearer', error: 'invalid_token' }],
    ],
    [
      'RFC 9728',
      [`Bearer resource_metadata="${METADATA}"`],
      [{ scheme: 'bearer', resourceMetadata: METADATA }],
    ],
    [
      'scope',
      ['Bearer error="insufficient_scope", scope="files:read files:write"'],
      [{ scheme: 'bearer', error: 'insufficient_scope', scope: 'files:read files:write' }],
    ],
    ['an unquoted value', ['Bearer error=invalid_token'], [{ scheme: 'bearer', error: 'invalid_token' }]],
    ['blanks around =', ['Bearer error = "x" ,scope= y'], [{ scheme: 'bearer', error: 'x', scope: 'y' }]],
    ['commas that lead nowhere', [', ,Bearer , ,error="x",,'], [{ scheme: 'bearer', error: 'x' }]],
    [
      'two in one header',
      ['Basic realm="a", Bearer error="x"'],
      [{ scheme: 'basic' }, { scheme: 'bearer', error: 'x' }],
    ],
    [
      'two headers',
      ['DPoP algs="ES256"', 'Bearer error="x"'],
      [{ scheme: 'dpop' }, { scheme: 'bearer', error: 'x' }],
    ],
    [
      'a scheme without parameters first',
      ['Negotiate, Bearer error="x"'],
      [{ scheme: 'negotiate' }, { scheme: 'bearer', error: 'x' }],
    ],
    ['token68', ['Negotiate YWJjZGVm=='], [{ scheme: 'negotiate' }]],
    [
      'token68 before another',
      ['Negotiate YWJjZGVm==, Bearer error="x"'],
      [{ scheme: 'negotiate' }, { scheme: 'bearer', error: 'x' }],
    ],
    ['token68 without padding', ['NTLM TlRMTVNT, Bearer'], [{ scheme: 'ntlm' }, { scheme: 'bearer' }]],
    ['a comma in quotes', ['Bearer error="a, Basic b=c"'], [{ scheme: 'bearer', error: 'a, Basic b=c' }]],
    [
      'an escaped quote',
      ['Bearer error="a\\"b", scope="s"'],
      [{ scheme: 'bearer', error: 'a"b', scope: 's' }],
    ],
    [
      'an escaped backslash',
      ['Bearer error="a\\\\", scope="s"'],
      [{ scheme: 'bearer', error: 'a\\', scope: 's' }],
    ],
    ['an empty quoted value', ['Bearer error=""'], [{ scheme: 'bearer', error: '' }]],
    ['the first of a name counts', ['Bearer error="a", error="b"'], [{ scheme: 'bearer', error: 'a' }]],
    ['an unterminated quote', ['Bearer scope="s", error="invalid'], [{ scheme: 'bearer', scope: 's' }]],
    ['an escape at the end', ['Bearer error="x\\'], [{ scheme: 'bearer' }]],
    [
      'a value without quotes that needs them',
      [`Bearer scope="s", resource_metadata=${METADATA}`],
      [{ scheme: 'bearer', scope: 's' }],
    ],
    ['no value', ['Bearer error='], [{ scheme: 'bearer' }]],
    ['a parameter of no scheme', ['Bearer="x"'], []],
    ['nonsense', ['"Bearer"'], []],
    ['letters of another script', ['Bеarer error="x"'], [{ scheme: 'b' }]],
    ['a name that objects inherit', ['Bearer __proto__="x", constructor="y"'], [{ scheme: 'bearer' }]],
  ];

describe('parseChallenges', () => {
  it.each(ROWS)('%s', (_name, values, expected) => {
    expect(parseChallenges(values)).toEqual(expected);
  });

  it('reads no more than 8 KiB, over all headers', () => {
    const page = `Basic realm="${'x'.repeat(5000)}"`;

    expect(parseChallenges([page, page, 'Bearer'])).toEqual([{ scheme: 'basic' }]);
    expect(parseChallenges([`Bearer error="${'x'.repeat(9000)}"`])).toEqual([]);
  });

  it.each([
    ['words', 'a '],
    ['commas', ', '],
    ['open quotes', 'a="'],
    ['escapes', 'a="\\"'],
    ['padding', 'ab='],
    ['blanks', `a${' '.repeat(50)}`],
    ['token68 that ends badly', 'aaaaaaaaaaaaaaaa"'],
  ])('stays in milliseconds with 8 KiB of %s', (_name, piece) => {
    const text = `Bearer ${piece.repeat(8000 / piece.length)}`;
    const started = performance.now();

    for (let turn = 0; turn < 20; turn += 1) parseChallenges([text]);

    // Quadratic time would take seconds; linear time is far below even on a busy machine.
    expect(performance.now() - started).toBeLessThan(1000);
  });
});
