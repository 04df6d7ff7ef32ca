import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseServersConfig } from '../../../src/client.js';

const withDollar = (inner: string) => `\${${inner}}`;
/** What an entry says, without where it was read. */
const plain = (servers: Record<string, unknown>) => JSON.parse(JSON.stringify(servers));

describe('what is read', () => {
  const entry = { command: 'npx', args: ['-y', 'server'], env: { KEY: withDollar('KEY') }, cwd: '/srv' };
  const hosted = {
    type: 'http',
    url: 'https://example.com/mcp',
    headers: { 'X-Key': withDollar('file:/run/key') },
  };

  it.each([
    ['mcpServers', { mcpServers: { a: entry, b: hosted } }],
    ['servers', { servers: { a: entry, b: hosted }, inputs: [] }],
    ['the bare map', { a: entry, b: hosted }],
    ['beside other settings', { theme: 'dark', mcpServers: { a: entry, b: hosted } }],
  ])('%s, as text and as an object', (_, config) => {
    expect(plain(parseServersConfig(config))).toEqual({ a: entry, b: hosted });
    expect(plain(parseServersConfig(`\ufeff${JSON.stringify(config, null, 2)}\n`))).toEqual({
      a: entry,
      b: hosted,
    });
  });

  it.each<unknown>([
    { command: 'x' },
    { command: 'x', type: 'stdio', args: [], env: {} },
    { command: withDollar('HOME'), args: ['', withDollar('A:-'), withDollar('env:B')] },
    { command: 'x', env: { EMPTY: '', constructor: 'y' } },
    { url: 'http://localhost:3000' },
    { url: `${withDollar('BASE')}/mcp`, type: 'streamable-http' },
    { url: 'HTTPS://example.com', type: 'sse', auth: { token: withDollar('T') } },
    {
      url: 'https://a',
      auth: { grant: 'client_credentials', issuer: 'https://i', clientId: 'c', clientSecret: 's' },
    },
    {
      url: 'https://a',
      auth: { grant: 'client_credentials', issuer: 'i', clientId: 'c', clientSecret: 's', scope: 'a b' },
    },
  ])('%o', (given) => {
    expect(plain(parseServersConfig({ mcpServers: { one: given } }))).toEqual({ one: given });
  });

  it('names are data', () => {
    const text =
      '{"mcpServers":{"__proto__":{"command":"x","env":{"__proto__":"data"}},"constructor":{"url":"https://a"},"servers":{"command":"y"}}}';
    const servers = parseServersConfig(text);
    expect(Object.keys(servers)).toEqual(['__proto__', 'constructor', 'servers']);
    expect(servers.toString).toBeUndefined();
    const [[, first]] = Object.entries(servers) as unknown as [[string, { env: Record<string, string> }]];
    expect(Object.entries(first.env)).toEqual([['__proto__', 'data']]);
    expect(({} as Record<string, unknown>).command).toBeUndefined();
  });

  it('a bare map may have servers of the names of the wrappers', () => {
    const servers = parseServersConfig({ servers: { command: 'x' }, mcpServers: { url: 'https://a' } });
    expect(Object.keys(servers)).toEqual(['servers', 'mcpServers']);
    expect(Object.keys(parseServersConfig({ mcpServers: { command: { command: 'x' } } }))).toEqual([
      'command',
    ]);
  });

  it('what was given is not kept: a later change of it changes nothing, nor can the entry be changed', () => {
    const args = ['a'];
    const { one } = parseServersConfig({ one: { command: 'x', args } });
    args.push('b');
    expect(plain({ one })).toEqual({ one: { command: 'x', args: ['a'] } });
    expect(Object.isFrozen(one)).toBe(true);
  });
});

describe('what is refused, by name', () => {
  const server = (value: unknown) => ({ mcpServers: { mine: value } });
  it.each([
    [
      server({ command: 'x', url: 'https://a' }),
      /^The server "mine", key "url" cannot stand beside "command"/,
    ],
    [server({}), /^The server "mine" needs a "command" or a "url"$/],
    [server({ args: [] }), /needs a "command" or a "url"/],
    [server('npx'), /^The server "mine" must be an object$/],
    [server([]), /must be an object/],
    [server(null), /must be an object/],
    [server({ command: 'x', headers: {} }), /"headers" belongs to a server with a "url"/],
    [server({ command: 'x', auth: { token: 't' } }), /"auth" belongs to a server with a "url"/],
    [server({ url: 'https://a', args: [] }), /"args" belongs to a server with a "command"/],
    [server({ url: 'https://a', env: {} }), /"env" belongs to a server with a "command"/],
    [server({ url: 'https://a', cwd: '/' }), /"cwd" belongs to/],
    [server({ command: 'x', disabled: true }), /"disabled" is no key of a server/],
    [server({ url: 'https://a', timeout: 3 }), /"timeout" is no key/],
    [server({ command: 'x', type: 'http' }), /"type" must be "stdio"/],
    [server({ url: 'https://a', type: 'stdio' }), /"type" must be one of/],
    [server({ url: 'https://a', type: 'ws' }), /"type" must be one of "http", "streamable-http", "sse"/],
    [server({ command: '' }), /"command" must not be empty/],
    [server({ command: 7 }), /"command" must be a text/],
    [server({ command: 'x\0y' }), /must not hold a NUL/],
    [server({ command: 'x', args: 'a b' }), /"args" must be a list/],
    [server({ command: 'x', args: ['a', 3] }), /"args\[1\]" must be a text/],
    [server({ command: 'x', env: ['A=b'] }), /"env" must be an object/],
    [server({ command: 'x', env: { A: 1 } }), /"env\.A" must be a text/],
    [server({ command: 'x', env: { 'A=B': '1' } }), /"env\.A=B" is no name of a variable/],
    [server({ url: 'https://a', headers: { 'a b': 'c' } }), /"headers\.a b" is no name of a header/],
    [server({ url: 'ftp://a' }), /"url" must begin with https/],
    [server({ url: '' }), /"url" must not be empty/],
    [server({ url: 'https://a', auth: 'token' }), /"auth" must be an object/],
    [server({ url: 'https://a', auth: {} }), /"auth\.token" is missing/],
    [server({ url: 'https://a', auth: { token: '' } }), /"auth\.token" must not be empty/],
    [server({ url: 'https://a', auth: { clientId: 'c' } }), /"auth\.clientId" needs a "grant"/],
    [server({ url: 'https://a', auth: { grant: 'password' } }), /"auth\.grant" must be "client_credentials"/],
    [
      server({ url: 'https://a', auth: { grant: 'client_credentials', token: 't' } }),
      /"auth\.token" cannot stand beside/,
    ],
    [server({ url: 'https://a', auth: { grant: 'client_credentials' } }), /"auth\.issuer" is missing/],
    [server({ url: 'https://a', auth: { token: 't', user: 'u' } }), /"auth\.user" is no key of "auth"/],
    [
      server({ url: 'https://a', auth: { token: 't' }, headers: { AUTHORIZATION: 'x' } }),
      /"headers\.AUTHORIZATION" cannot stand beside "auth"/,
    ],
    [
      server({ command: 'x', args: [withDollar('input:key')] }),
      /"args\[0\]" has a placeholder of the kind "input" that is not known/,
    ],
    [server({ command: withDollar('') }), /has a placeholder that is not known/],
    [server({ command: withDollar('file:') }), /has a placeholder of the kind "file"/],
    [server({ command: withDollar('A B') }), /has a placeholder that is not known/],
    [server({ command: '${A' }), /has a placeholder without an end/],
    [{ mcpServers: [] }, /"mcpServers" must be an object of servers/],
    [{ servers: 'x' }, /"servers" must be an object of servers/],
    [{ mcpServers: {}, servers: {} }, /both "mcpServers" and "servers"/],
    [{ mcpServers: { '': { command: 'x' } } }, /needs a name/],
    [{ 'a\u202eb': {} }, /The server "a\\u\{202e\}b" needs/],
    [[], /must be an object/],
    [null, /must be an object/],
    [undefined, /must be an object/],
    [7, /must be an object/],
  ])('%j', (config, words) => {
    const parse = () => parseServersConfig(config);
    expect(parse).toThrow(TypeError);
    expect(parse).toThrow(words);
  });

  it('with the place, where text was given', () => {
    const text = `{
  "mcpServers": {
    "good": { "command": "x", "args": ["url", "{", "}"] },
    "bad": {
      "command": "x",
      "args": ["a", 3]
    }
  }
}`;
    expect(() => parseServersConfig(text)).toThrow(
      'The server "bad", key "args[1]" (line 6, column 21) must be a text',
    );
    const both = text.replace('"args": ["a", 3]', '"url": "https://a"');
    expect(() => parseServersConfig(both)).toThrow('key "url" (line 6, column 7)');
    expect(() => parseServersConfig(text.replace('"bad"', '"good"'))).toThrow(
      'the same key twice (line 4, column 5)',
    );
    expect(() => parseServersConfig(text.slice(0, 90))).toThrow(/ends too early \(line 4, column 12\)/);
    expect(() => parseServersConfig(`${text}]`)).toThrow('is not JSON (line 9, column 2)');
    expect(() => parseServersConfig('')).toThrow('ends too early (line 1, column 1)');
    expect(() => parseServersConfig(' '.repeat(1024 * 1024 + 1))).toThrow('is longer than');
    expect(() => parseServersConfig('['.repeat(500_000))).toThrow(TypeError);
  });

  it('never with a value', () => {
    const canary = 'canary-value';
    for (const entry of [
      { command: `x${canary}\0` },
      { command: 'x', args: [`\${input:${canary}}`] },
      { command: 'x', env: { A: `\${${canary} }` } },
      { url: `ftp://${canary}` },
      { url: 'https://a', type: canary },
      { url: 'https://a', auth: { grant: canary } },
    ]) {
      try {
        parseServersConfig(JSON.stringify({ mine: entry }));
        expect.unreachable();
      } catch (error) {
        expect((error as Error).message).not.toContain(canary);
      }
    }
  });
});

describe('for anything', () => {
  const key = fc.constantFrom(
    'mcpServers',
    'servers',
    'command',
    'args',
    'env',
    'cwd',
    'url',
    'type',
    'headers',
    'auth',
    'token',
    'grant',
    '__proto__',
    'constructor',
    'prototype',
    'a',
  );
  const leaf = fc.oneof(
    fc.constantFrom(
      'x',
      'https://a',
      'http',
      'stdio',
      'client_credentials',
      withDollar('A'),
      '${',
      withDollar('file:/x'),
      '',
      '\0',
    ),
    fc.anything({ withNullPrototype: true, withMap: true, withDate: true }),
  );
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      leaf,
      fc.array(tie('tree'), { maxLength: 3 }),
      fc.array(fc.tuple(key, tie('tree')), { maxLength: 4 }).map((pairs) => {
        const made: Record<string, unknown> = {};
        for (const [name, value] of pairs)
          Object.defineProperty(made, name, { value, enumerable: true, configurable: true, writable: true });
        return made;
      }),
    ),
  }));
  const names = fc.dictionary(fc.string(), fc.string(), { maxKeys: 2 });
  const sound = fc.oneof(
    fc.record(
      { command: fc.constant('npx'), args: fc.array(fc.string(), { maxLength: 2 }), env: names },
      { requiredKeys: ['command'] },
    ),
    fc.record(
      { url: fc.constant('https://a'), headers: names, auth: fc.record({ token: fc.string() }) },
      { requiredKeys: ['url'] },
    ),
  );
  const entry = fc
    .tuple(sound, fc.option(fc.tuple(key, tree)))
    .map(([made, fault]) => (fault === null ? made : { ...made, [fault[0]]: fault[1] }));
  const config = fc.oneof(
    tree,
    fc.record({ mcpServers: fc.dictionary(fc.oneof(fc.string(), key), entry, { maxKeys: 2 }) }),
    fc.dictionary(fc.oneof(fc.string(), key), entry, { maxKeys: 2 }),
  );
  const prototypesNow = () =>
    JSON.stringify([
      Object.getOwnPropertyNames(Object.prototype),
      Object.getOwnPropertyNames(Array.prototype),
    ]);

  it('a TypeError or entries, and no prototype is touched', () => {
    const prototypes = prototypesNow();
    let read = 0;
    fc.assert(
      fc.property(config, (given) => {
        try {
          const servers = parseServersConfig(given);
          read += Object.keys(servers).length;
          for (const entry of Object.values(servers))
            expect('command' in entry !== 'url' in entry).toBe(true);
        } catch (error) {
          expect((error as Error).name).toBe('TypeError');
          expect((error as Error).message).toMatch(/^(The server "|The configuration of servers)/);
        }
        expect(prototypesNow()).toBe(prototypes);
      }),
      { numRuns: 3_000, seed: 7 },
    );
    expect(read).toBeGreaterThan(50);
  });

  it('text is read as the object that it stands for', () => {
    const outcome = (given: unknown) => {
      try {
        return plain(parseServersConfig(given));
      } catch (error) {
        return (error as Error).message.replace(/ \(line \d+, column \d+\)/, '');
      }
    };
    fc.assert(
      fc.property(fc.jsonValue(), config, (any, shaped) => {
        for (const each of [any, shaped]) {
          let text: string | undefined;
          try {
            text = JSON.stringify(each);
          } catch {
            // A bigint or a circle: no JSON stands for it.
          }
          // A text in JSON would be read as JSON itself.
          if (text === undefined || text.startsWith('"')) continue;
          expect(outcome(text)).toEqual(outcome(JSON.parse(text)));
        }
      }),
      { numRuns: 500, seed: 11 },
    );
  });
});
