import { describe, expect, it } from 'vitest';
import { diffContracts } from '../../../src/contract/diff.js';
import { makeSnapshot, type SnapshotParts } from '../../../src/contract/snapshot.js';
import { SnapshotError } from '../../../src/contract/snapshot-error.js';
import { formatSnapshot, parseSnapshot } from '../../../src/contract/snapshot-text.js';
import type { JsonObject } from '../../../src/contract/types.js';
import { partsOf, snapshotOf, TAKEN_AT, toolOf } from './support.js';

function errorOf(run: () => unknown): SnapshotError {
  try {
    run();
  } catch (error) {
    if (SnapshotError.isInstance(error)) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

/** A snapshot file as anybody may have edited it. */
interface LooseFile {
  tools: { name?: unknown; digest?: unknown; definition?: { [field: string]: unknown }; note?: unknown }[];
  [field: string]: unknown;
}

describe('making one', () => {
  it('tools stand by name, whole, each with its digest', () => {
    const snapshot = snapshotOf({
      tools: [toolOf('b', { 'x-own': { deep: [1] } }), toolOf('a'), toolOf('B')],
    });
    expect(snapshot.tools.map(({ name }) => name)).toEqual(['B', 'a', 'b']);
    expect(snapshot.tools[2]!.definition).toEqual(toolOf('b', { 'x-own': { deep: [1] } }));
    expect(new Set(snapshot.tools.map(({ digest }) => digest)).size).toBe(3);
    expect(snapshot.tools[0]!.digest).toMatch(/^[\da-f]{64}$/);
  });

  it('shares nothing with what it was made of and cannot be changed', () => {
    const tool = { name: 'a', inputSchema: { type: 'object' } };
    const snapshot = snapshotOf({ tools: [tool] });
    tool.inputSchema.type = 'string';
    expect(snapshot.tools[0]!.definition).toEqual({ name: 'a', inputSchema: { type: 'object' } });
    expect(() => (snapshot.tools as unknown[]).pop()).toThrow(TypeError);
  });

  it('when, where and as what it was taken is no part of the digest; everything else is', () => {
    const base = snapshotOf({ tools: [toolOf('a')] });
    const digestWith = (parts: Partial<SnapshotParts>) =>
      snapshotOf({ tools: [toolOf('a')], ...parts }).digest;
    expect(digestWith({ takenAt: new Date(0), environment: 'prod', url: 'https://example.com/mcp' })).toBe(
      base.digest,
    );
    const others = [
      digestWith({ tools: [toolOf('a', { title: 'A' })] }),
      digestWith({ tools: [] }),
      digestWith({ protocolVersion: '2025-06-18' }),
      digestWith({ capabilities: {} }),
      digestWith({ serverInfo: { name: 'files', version: '0.4.1' } }),
      digestWith({ instructions: '' }),
      digestWith({ resources: [] }),
      digestWith({ prompts: [] }),
      digestWith({ grantedScopes: [] }),
    ];
    expect(new Set([base.digest, ...others]).size).toBe(others.length + 1);
  });

  it('an address keeps no user, password, query or fragment', () => {
    const { url } = snapshotOf({ url: 'https://user:hunter2@example.com/mcp?key=hunter2#hunter2' });
    expect(url).toBe('https://example.com/mcp');
    expect(snapshotOf({ url: 'hunter2' }).url).toBeUndefined();
  });

  it('a tool without a name is refused by its place', () => {
    for (const nameless of [{ description: 'x' }, { name: 7 }, null, Object.create({ name: 'inherited' })]) {
      const error = errorOf(() => snapshotOf({ tools: [toolOf('a'), nameless as JsonObject] }));
      expect([error.problem, error.where]).toEqual(['nameless-tool', 'tools[1]']);
    }
  });

  it('10,000 tools and no more', () => {
    const tools = Array.from({ length: 10_001 }, (_, index) => ({ name: `t${index}` }));
    expect(errorOf(() => snapshotOf({ tools })).problem).toBe('too-many-tools');
    expect(snapshotOf({ tools: tools.slice(1) }).tools).toHaveLength(10_000);
  });

  it('two of one name are kept, in whatever order they came, and cannot be written', () => {
    const [one, other] = [toolOf('a'), toolOf('a', { description: 'Other.' })];
    const snapshot = snapshotOf({ tools: [one, toolOf('b'), other] });
    expect(snapshot.tools.map(({ name }) => name)).toEqual(['a', 'a', 'b']);
    expect(snapshotOf({ tools: [other, one, toolOf('b')] })).toEqual(snapshot);
    const error = errorOf(() => formatSnapshot(snapshot));
    expect([error.problem, error.where, error.tool]).toEqual(['duplicate-tool', 'tools[1]', 'a']);
  });
});

describe('as text', () => {
  const snapshot = snapshotOf({
    environment: 'staging',
    url: 'https://example.com/mcp',
    instructions: 'Be brief.',
    tools: [
      toolOf('write', { title: 'Write' }),
      toolOf('read', { description: 'Reads\u202e a\nfile.\u{e0041}' }),
    ],
    resources: [{ uri: 'file:///b' }, { uri: 'file:///a' }],
    prompts: [],
    grantedScopes: ['write', 'read', 'read'],
  });
  const text = formatSnapshot(snapshot);

  it('one fact a line, keys sorted, tools by name, invisible characters escaped, a line break at the end', () => {
    expect(text.endsWith('}\n')).toBe(true);
    const lines = text.split('\n').map((line) => line.trim());
    expect(lines).toContain('"description": "Reads\\u202e a\\nfile.\\udb40\\udc41",');
    expect(lines.filter((line) => line.startsWith('"name": ')).slice(-4)).toEqual([
      '"name": "read"',
      '"name": "read"',
      '"name": "write",',
      '"name": "write"',
    ]);
    const top = text.split('\n').flatMap((line) => /^ {2}"(\w+)"/.exec(line)?.[1] ?? []);
    expect(top).toEqual([...top].sort());
    expect(parseSnapshot(text)).toEqual(snapshot);
  });

  it('one changed fact is one changed line, but for the digests', () => {
    const other = formatSnapshot(
      makeSnapshot({
        ...partsOf(snapshot),
        tools: [
          toolOf('read', { description: 'Reads\u202e a\nfile.\u{e0041}' }),
          toolOf('write', { title: 'Wrote' }),
        ],
      }),
    );
    const [before, after] = [text.split('\n'), other.split('\n')];
    const changed = before.filter((line, at) => line !== after[at]).map((line) => line.trim().split(':')[0]);
    expect(after).toHaveLength(before.length);
    expect(changed).toEqual(['"digest"', '"title"', '"digest"']);
  });

  it('the same, however it was formatted since', () => {
    const reshaped = JSON.stringify(JSON.parse(text));
    expect(parseSnapshot(reshaped)).toEqual(snapshot);
    expect(parseSnapshot(`\ufeff${text.replaceAll('\n', '\r\n')}`)).toEqual(snapshot);
    const file = JSON.parse(text);
    file.tools.reverse();
    file.resources.reverse();
    file.grantedScopes.reverse();
    expect(parseSnapshot(JSON.stringify(file))).toEqual(snapshot);
  });

  it('a __proto__ key of a tool is data: kept, part of the digest, on no prototype', () => {
    const poisoned = snapshotOf({
      tools: [JSON.parse('{"name":"a","inputSchema":{"__proto__":{"description":"obey","polluted":true}}}')],
      capabilities: JSON.parse('{"__proto__":{"polluted":true}}'),
    });
    const read = parseSnapshot(formatSnapshot(poisoned));
    expect(Object.keys(read.tools[0]!.definition.inputSchema as object)).toEqual(['__proto__']);
    expect(Object.keys(read.capabilities)).toEqual(['__proto__']);
    expect((read.capabilities as { polluted?: unknown }).polluted).toBeUndefined();
    expect(diffContracts(poisoned, read).identical).toBe(true);
  });
});

describe('damage is refused, by what and where', () => {
  const snapshot = snapshotOf({ tools: [toolOf('read'), toolOf('write')], instructions: 'Be brief.' });
  const text = formatSnapshot(snapshot);
  const edited = (edit: (file: LooseFile) => unknown): string => {
    const file = JSON.parse(text);
    return JSON.stringify(edit(file) ?? file);
  };

  it('cut anywhere', () => {
    for (let length = 0; length < text.length - 2; length++) {
      const error = errorOf(() => parseSnapshot(text.slice(0, length)));
      expect(error.problem).toBe('cut-short');
      expect(error.line).toBe(text.slice(0, length).split('\n').length);
    }
    expect(parseSnapshot(text.slice(0, -1))).toEqual(snapshot);
  });

  it('not JSON: the place, and nothing of the text', () => {
    const error = errorOf(() => parseSnapshot('{\n  "holdfast": 1,\n  "tools": hunter2\n}'));
    expect([error.problem, error.line, error.column]).toEqual(['not-json', 3, 12]);
    expect(error.message).not.toContain('hunter2');
    expect(error.message).toContain('line 3, column 12');
    expect(errorOf(() => parseSnapshot('<<<<<<< HEAD\n{}')).problem).toBe('not-json');
  });

  it.each<[string, (file: LooseFile) => unknown, string, string | undefined]>([
    ['another JSON file', () => ({ name: 'package' }), 'not-a-snapshot', undefined],
    ['a list', () => [], 'not-a-snapshot', undefined],
    ['null', () => 'null', 'not-a-snapshot', undefined],
    ['a newer format', (file) => ({ ...file, holdfast: 2, tools: 'other' }), 'newer-format', 'holdfast'],
    ['a format that is none', (file) => ({ ...file, holdfast: '1' }), 'not-a-snapshot', 'holdfast'],
    ['no tools', ({ tools, ...file }) => file, 'missing-field', 'tools'],
    [
      'no takenAt',
      (file) => {
        delete file.takenAt;
      },
      'missing-field',
      'takenAt',
    ],
    ['no capabilities', (file) => ({ ...file, capabilities: null }), 'missing-field', 'capabilities'],
    ['tools of the wrong type', (file) => ({ ...file, tools: {} }), 'wrong-type', 'tools'],
    ['serverInfo of the wrong type', (file) => ({ ...file, serverInfo: [] }), 'wrong-type', 'serverInfo'],
    [
      'instructions of the wrong type',
      (file) => ({ ...file, instructions: 1 }),
      'wrong-type',
      'instructions',
    ],
    ['scopes of the wrong type', (file) => ({ ...file, grantedScopes: [1] }), 'wrong-type', 'grantedScopes'],
    ['a resource of the wrong type', (file) => ({ ...file, resources: ['x'] }), 'wrong-type', 'resources[0]'],
    ['a tool of the wrong type', (file) => void file.tools.push(7 as never), 'wrong-type', 'tools[2]'],
    [
      'a tool without definition',
      (file) => {
        delete file.tools[1]!.definition;
      },
      'wrong-type',
      'tools[1].definition',
    ],
    [
      'a tool without name',
      (file) => {
        delete file.tools[1]!.name;
      },
      'nameless-tool',
      'tools[1]',
    ],
    ['a field too many', (file) => ({ ...file, note: 'x' }), 'unknown-field', undefined],
    [
      'a field too many on a tool',
      (file) => {
        file.tools[0]!.note = 'x';
      },
      'unknown-field',
      'tools[0]',
    ],
    ['two tools of one name', (file) => void file.tools.push(file.tools[0]!), 'duplicate-tool', 'tools[2]'],
    [
      'a description edited',
      (file) => {
        file.tools[1]!.definition!.description = 'x';
      },
      'digest-mismatch',
      'tools[1].digest',
    ],
    [
      'a digest edited',
      (file) => {
        file.tools[0]!.digest = '0'.repeat(64);
      },
      'digest-mismatch',
      'tools[0].digest',
    ],
    [
      'a tool renamed outside only',
      (file) => {
        file.tools[0]!.name = 'x';
      },
      'digest-mismatch',
      'tools[0].digest',
    ],
    ['a tool taken out', (file) => void file.tools.pop(), 'digest-mismatch', 'digest'],
    [
      'instructions edited',
      (file) => {
        file.instructions = 'Be long.';
      },
      'digest-mismatch',
      'digest',
    ],
    [
      'instructions taken out',
      (file) => {
        delete file.instructions;
      },
      'digest-mismatch',
      'digest',
    ],
    [
      'an empty list of resources put in',
      (file) => {
        file.resources = [];
      },
      'digest-mismatch',
      'digest',
    ],
  ])('%s', (_, edit, problem, where) => {
    const error = errorOf(() => parseSnapshot(edited(edit)));
    expect([error.problem, error.where]).toEqual([problem, where]);
    expect(error.code).toBe('ERR_SNAPSHOT');
  });

  it('a __proto__ key where no data belongs', () => {
    const atTop = text.replace('{\n', '{\n  "__proto__": { "tools": [] },\n');
    expect(errorOf(() => parseSnapshot(atTop))).toMatchObject({ problem: 'unknown-field', line: 2 });
    const instead = JSON.stringify({ holdfast: 1 }).replace('}', ',"__proto__":{"tools":[]}}');
    expect(errorOf(() => parseSnapshot(instead)).problem).toBe('unknown-field');
    const inTool = text.replace('"inputSchema": {', '"inputSchema": { "__proto__": { "x": 1 },');
    expect(errorOf(() => parseSnapshot(inTool))).toMatchObject({
      problem: 'digest-mismatch',
      where: 'tools[0].digest',
      tool: 'read',
    });
  });

  it('a key twice: a reviewer reads the first, a parser takes the last', () => {
    const twice = text.replace('"instructions"', '"instructions": "Obey.",\n  "instructions"');
    const error = errorOf(() => parseSnapshot(twice));
    expect(error.problem).toBe('repeated-key');
    expect(twice.split('\n')[error.line! - 1]).toContain('"instructions": "Be brief."');
  });

  it('more than 64 MiB, 10,000 tools or 256 levels', () => {
    expect(errorOf(() => parseSnapshot(`${text}${' '.repeat(64 * 1024 * 1024)}`)).problem).toBe('too-large');
    // Fewer characters than that, but more bytes.
    expect(errorOf(() => parseSnapshot('é'.repeat(33 * 1024 * 1024))).problem).toBe('too-large');
    const many = edited((file) => ({ ...file, tools: Array.from({ length: 10_001 }, () => ({})) }));
    expect(errorOf(() => parseSnapshot(many))).toMatchObject({ problem: 'too-many-tools', where: 'tools' });
    const deep = edited((file) => ({ ...file, capabilities: 'DEEP' })).replace(
      '"DEEP"',
      `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
    );
    expect(errorOf(() => parseSnapshot(deep))).toMatchObject({ problem: 'too-deep', where: 'capabilities' });
  });

  it('a name in an error is escaped and short, and not part of the message', () => {
    const name = `\u001b[31mIgnore\u202e${'x'.repeat(500)}`;
    const one = JSON.parse(formatSnapshot(snapshotOf({ tools: [toolOf(name)] })));
    const error = errorOf(() =>
      parseSnapshot(JSON.stringify({ ...one, tools: [one.tools[0], one.tools[0]] })),
    );
    expect(error.tool).toMatch(/^\\u\{1b\}\[31mIgnore\\u\{202e\}x+$/);
    expect(error.tool!.length).toBeLessThan(150);
    expect(error.message).not.toContain('Ignore');
  });

  it('anything but text is a TypeError', () => {
    expect(() => parseSnapshot(Buffer.from(text) as unknown as string)).toThrow(TypeError);
  });
});

it('takenAt is ISO 8601 whichever way it was given', () => {
  expect(snapshotOf({ takenAt: new Date(TAKEN_AT) }).takenAt).toBe(TAKEN_AT);
});
