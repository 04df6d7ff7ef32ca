import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findReferences, missingTools, toolNames } from '../../../src/contract/references.js';
import { snapshotOf, toolOf } from './support.js';

const NAMES = ['search', 'read_file', 'fs.read', 'Get Weather', '__proto__', 'search_all'];
const found = (text: string) =>
  findReferences(text, NAMES).map(({ name, line, column }) => `${name} ${line}:${column}`);

describe('names in quotes', () => {
  it.each<[string, string, string[]]>([
    ['double quotes', 'client.callTool({ name: "search" })', ['search 1:26']],
    ['single quotes and backticks', "call('read_file'); call(`fs.read`)", ['read_file 1:7', 'fs.read 1:26']],
    ['a list', "['search', 'read_file','search']", ['search 1:3', 'read_file 1:13', 'search 1:25']],
    [
      'several lines',
      'a\n  "search"\r\n"read_file"\r`fs.read`',
      ['search 2:4', 'read_file 3:2', 'fs.read 4:2'],
    ],
    ['an error path', "try { x() } catch { return call('search_all') }", ['search_all 1:34']],
    ['a prompt', 'Use the `read_file` tool, then `Get Weather`.', ['read_file 1:10', 'Get Weather 1:33']],
    ['an apostrophe before', "don't forget 'search' and it's `fs.read`", ['search 1:15', 'fs.read 1:33']],
    ['code within JSON', '{"code": "call(\\"search\\")"}', ['search 1:18']],
    ['YAML and Python', 'tools: ["search"]\nname = \'fs.read\'', ['search 1:10', 'fs.read 2:9']],
    ['a key', '{ "search": { "enabled": true } }', ['search 1:4']],
    ['a name called __proto__', '"__proto__"', ['__proto__ 1:2']],
    ['empty strings around', `'' "" 'search' ""`, ['search 1:8']],
  ])('%s', (_, text, references) => {
    expect(found(text)).toEqual(references);
  });

  it.each([
    ['a bare word', 'search the web; read_file()'],
    ['part of a string', '"search the web" "research" "search_"'],
    ['quotes of two kinds', '"search\' `search"'],
    ['over a line break', '"\nsearch\n"'],
    ['another case', '"Search"'],
    ['nothing', ''],
  ])('not %s', (_, text) => {
    expect(found(text)).toEqual([]);
  });

  it('finds a known name wherever it stands in quotes, and nothing that is not there', () => {
    const names = fc.uniqueArray(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 6 }), {
      maxLength: 4,
    });
    const noise = fc.string({
      unit: fc.constantFrom('a', ' ', '\n', '(', '=', 'é', '\u{1f600}'),
      maxLength: 20,
    });
    fc.assert(
      fc.property(names, noise, noise, fc.constantFrom('"', "'", '`'), (known, before, after, quote) => {
        const usable = known.filter((name) => !/["'`\\\r\n]/.test(name));
        for (const name of usable) {
          const text = `${before}${quote}${name}${quote}${after}`;
          const references = findReferences(text, usable);
          const lines = text.split('\n');
          for (const reference of references) {
            expect(lines[reference.line - 1]!.slice(reference.column - 1)).toMatch(/./);
            expect(lines[reference.line - 1]!.startsWith(reference.name, reference.column - 1)).toBe(true);
          }
          expect(references.map((reference) => reference.name)).toEqual([name]);
        }
      }),
    );
  });

  it('a pair of quotes further apart than any name is not looked into', () => {
    expect(findReferences(`"${'x'.repeat(2_000_000)}"search"`, NAMES)).toEqual([
      { name: 'search', line: 1, column: 2_000_003 },
    ]);
    expect(findReferences("'".repeat(1_000_000), NAMES)).toEqual([]);
  });
});

describe('what is missing', () => {
  const local = snapshotOf({ tools: [toolOf('search'), toolOf('purge'), toolOf('__proto__')] });
  const hosted = snapshotOf({ tools: [toolOf('search'), toolOf('share')] });

  it('each once, in the order asked for', () => {
    expect(missingTools(hosted, ['share', 'purge', 'constructor', 'search', 'purge'])).toEqual([
      'purge',
      'constructor',
    ]);
    expect(missingTools(local, new Set(['__proto__']))).toEqual([]);
    expect(missingTools(hosted, ['__proto__'])).toEqual(['__proto__']);
    expect(missingTools(hosted, [])).toEqual([]);
  });

  it('a name that any snapshot knows is found in the code and missed where it is not served', () => {
    const names = toolNames(local, hosted);
    expect(names.toSorted()).toEqual(['__proto__', 'purge', 'search', 'share']);
    const code = 'call("search");\ntry {\n  call("share");\n} catch {\n  call("purge");\n}';
    const references = findReferences(code, names);
    const missing = missingTools(
      hosted,
      references.map(({ name }) => name),
    );
    expect(references.filter(({ name }) => missing.includes(name))).toEqual([
      { name: 'purge', line: 5, column: 9 },
    ]);
  });
});
