import { describe, expect, it } from 'vitest';
import { diffContracts } from '../../../src/contract/diff.js';
import { formatDiff } from '../../../src/contract/format-diff.js';
import type { SnapshotParts } from '../../../src/contract/snapshot.js';
import type { ContractSnapshot, DiffOptions, JsonObject, ToolContract } from '../../../src/contract/types.js';
import { snapshotOf, toolOf } from './support.js';

const withTools = (...tools: JsonObject[]) => snapshotOf({ tools });

function changesOf(from: ContractSnapshot, to: ContractSnapshot, options?: DiffOptions): string[] {
  return diffContracts(from, to, options).changes.map(
    ({ kind, path, level }) => `${level} ${kind} ${path.join('.')}`,
  );
}

const between = (from: Partial<SnapshotParts>, to: Partial<SnapshotParts>) =>
  changesOf(snapshotOf(from), snapshotOf(to));

describe('a local build and a hosted one', () => {
  const NAMES = ['read', 'write', 'list', 'move', 'copy', 'search', 'stat', 'tail', 'diff', 'hash', 'purge'];
  const described = (name: string): JsonObject => ({
    name,
    description: `The tool that can ${name} things of a workspace.`,
    inputSchema: { type: 'object', properties: { [`${name}Path`]: { type: 'string' } } },
  });
  const local = snapshotOf({
    environment: 'local',
    tools: NAMES.map(described),
    capabilities: { tools: {} },
    serverInfo: { name: 'files', version: '0.4.0' },
  });
  const hosted = snapshotOf({
    environment: 'hosted',
    url: 'https://example.com/mcp',
    tools: [...NAMES.slice(0, 10), 'share', 'audit', 'quota'].map(described).reverse(),
    capabilities: { tools: { listChanged: true }, logging: {} },
    serverInfo: { version: '2026.02.3', name: 'files' },
  });

  it('one removed, three added, capability and version changes named, breaking', () => {
    expect([local.tools.length, hosted.tools.length]).toEqual([11, 13]);
    expect(changesOf(local, hosted)).toEqual([
      'breaking tool-removed tools.purge',
      'behaviour tool-added tools.audit',
      'behaviour tool-added tools.quota',
      'behaviour tool-added tools.share',
      'behaviour capability-added capabilities.logging',
      'behaviour capability-added capabilities.tools.listChanged',
      'cosmetic server-info-changed serverInfo.version',
    ]);
    const diff = diffContracts(local, hosted);
    expect([diff.level, diff.identical]).toEqual(['breaking', false]);
    expect(diff.changes.at(-1)).toMatchObject({ from: '0.4.0', to: '2026.02.3' });
    expect(diff.from).toEqual({ takenAt: local.takenAt, environment: 'local', digest: local.digest });
    expect(diff.to).toMatchObject({ environment: 'hosted', url: 'https://example.com/mcp' });
  });

  it('the other way round: three removed, one added, capabilities gone; versions have no order', () => {
    expect(changesOf(hosted, local)).toEqual([
      'breaking tool-removed tools.audit',
      'breaking tool-removed tools.quota',
      'breaking tool-removed tools.share',
      'breaking capability-removed capabilities.logging',
      'breaking capability-removed capabilities.tools.listChanged',
      'behaviour tool-added tools.purge',
      'cosmetic server-info-changed serverInfo.version',
    ]);
  });
});

describe('what is no change', () => {
  it('H20: the same tools in another order, keys shuffled, at another time and place', () => {
    const tool = { name: 'a', inputSchema: { type: 'object', properties: { q: {}, r: {} } } };
    const shuffled = { inputSchema: { properties: { r: {}, q: {} }, type: 'object' }, name: 'a' };
    const from = snapshotOf({ tools: [tool, toolOf('b')], environment: 'x' });
    const to = snapshotOf({ tools: [toolOf('b'), shuffled], environment: 'y', takenAt: new Date(0) });
    const diff = diffContracts(from, to);
    expect([diff.identical, diff.level, diff.changes, diff.leftOut]).toEqual([true, undefined, [], []]);
  });
});

describe('tools', () => {
  it.each<[string, JsonObject, JsonObject, string]>([
    [
      'description',
      { description: 'a' },
      { description: 'b' },
      'behaviour description-changed tools.t.description',
    ],
    [
      'description gone',
      { description: 'a' },
      { description: undefined },
      'behaviour description-changed tools.t.description',
    ],
    ['title', { title: 'a' }, { title: 'b' }, 'cosmetic title-changed tools.t.title'],
    [
      'title among annotations',
      { annotations: { title: 'a' } },
      { annotations: {} },
      'cosmetic title-changed tools.t.annotations.title',
    ],
    [
      'hint',
      { annotations: { readOnlyHint: true } },
      { annotations: { readOnlyHint: false } },
      'behaviour annotations-changed tools.t.annotations.readOnlyHint',
    ],
    [
      'hints gone',
      { annotations: { readOnlyHint: true } },
      {},
      'behaviour annotations-changed tools.t.annotations',
    ],
    ['empty annotations', {}, { annotations: {} }, 'behaviour annotations-changed tools.t.annotations'],
    [
      'input schema',
      { inputSchema: { type: 'object' } },
      { inputSchema: { type: 'object', required: ['q'] } },
      'breaking input-schema-changed tools.t.inputSchema.required',
    ],
    [
      'input schema gone',
      { inputSchema: { type: 'object' } },
      { inputSchema: undefined },
      'behaviour input-schema-changed tools.t.inputSchema',
    ],
    [
      'output schema given',
      {},
      { outputSchema: { type: 'object' } },
      'behaviour output-schema-changed tools.t.outputSchema',
    ],
    [
      'output schema gone',
      { outputSchema: { type: 'object' } },
      {},
      'breaking output-schema-changed tools.t.outputSchema',
    ],
    [
      'output property gone',
      { outputSchema: { properties: { a: {}, b: {} } } },
      { outputSchema: { properties: { a: {} } } },
      'breaking output-schema-changed tools.t.outputSchema.properties.b',
    ],
    ['icons', {}, { icons: [{ src: 'x' }] }, 'cosmetic tool-field-changed tools.t.icons'],
    ['_meta', { _meta: { ui: 'a' } }, { _meta: { ui: 'b' } }, 'behaviour tool-field-changed tools.t._meta'],
    [
      'execution',
      {},
      { execution: { taskSupport: 'required' } },
      'breaking tool-field-changed tools.t.execution',
    ],
    ['a field nobody knows', {}, { 'x-new': 1 }, 'breaking tool-field-changed tools.t.x-new'],
    [
      'a field called __proto__',
      {},
      JSON.parse('{"__proto__":{"a":1}}'),
      'breaking tool-field-changed tools.t.__proto__',
    ],
  ])('%s', (_, from, to, change) => {
    expect(changesOf(withTools(toolOf('t', from)), withTools(toolOf('t', to)))).toEqual([change]);
  });

  it('H37: a schema that gains a __proto__ key with text has another digest, and the diff shows it', () => {
    const before = withTools({ name: 't', inputSchema: { type: 'object' } });
    const after = withTools(
      JSON.parse('{"name":"t","inputSchema":{"type":"object","__proto__":{"description":"obey"}}}'),
    );
    expect(after.tools[0]!.digest).not.toBe(before.tools[0]!.digest);
    expect(after.digest).not.toBe(before.digest);
    expect(diffContracts(before, after).changes).toEqual([
      {
        kind: 'input-schema-changed',
        name: 't',
        level: 'breaking',
        how: 'cannot-tell',
        path: ['tools', 't', 'inputSchema', '__proto__'],
        to: { description: 'obey' },
      },
    ]);
  });

  it('H37, other places: in a property, in _meta, in capabilities', () => {
    const poison = JSON.parse('{"__proto__":{"description":"obey"}}');
    expect(
      changesOf(
        withTools(toolOf('t', { inputSchema: { properties: {} } })),
        withTools(toolOf('t', { inputSchema: { properties: poison } })),
      ),
    ).toEqual(['behaviour input-schema-changed tools.t.inputSchema.properties.__proto__']);
    expect(
      changesOf(withTools(toolOf('t', { _meta: {} })), withTools(toolOf('t', { _meta: poison }))),
    ).toEqual(['behaviour tool-field-changed tools.t._meta']);
    expect(between({ capabilities: {} }, { capabilities: poison })).toEqual([
      'behaviour capability-added capabilities.__proto__',
    ]);
  });

  it.each([
    ['zero width', 'Reads a file.', 'Reads a fi\u200ble.'],
    ['bidi', 'Reads a file.', 'Reads \u202ea file.'],
    ['tags', 'Reads a file.', 'Reads a file.\u{e0069}\u{e0067}'],
    ['another space', 'Reads a file.', 'Reads a\u00a0file.'],
  ])('a description that differs only in what is not shown (%s) is named', (_, from, to) => {
    const diff = diffContracts(
      withTools(toolOf('t', { description: from })),
      withTools(toolOf('t', { description: to })),
    );
    expect(diff.changes).toMatchObject([
      { kind: 'description-changed', level: 'behaviour', onlyInvisible: true },
    ]);
  });

  it('such a title is no cosmetic matter either; a visible change has no such mark', () => {
    const titled = (title: string) => withTools(toolOf('t', { title }));
    expect(diffContracts(titled('Read'), titled('Read\u{e0069}')).changes).toMatchObject([
      { kind: 'title-changed', level: 'behaviour', onlyInvisible: true },
    ]);
    expect(diffContracts(titled('Read'), titled('Reads')).changes[0]).not.toHaveProperty('onlyInvisible');
  });

  it('a name that is listed twice is breaking until both sides list the same', () => {
    const [one, other] = [toolOf('a'), toolOf('a', { description: 'Other.' })];
    expect(changesOf(withTools(one), withTools(one, other))).toEqual(['breaking tool-duplicated tools.a']);
    expect(changesOf(withTools(one, other), withTools(other))).toEqual(['breaking tool-duplicated tools.a']);
    expect(changesOf(withTools(), withTools(one, one))).toEqual(['breaking tool-duplicated tools.a']);
    expect(changesOf(withTools(one, other), withTools(other, one))).toEqual([]);
  });
});

describe('tools that look renamed', () => {
  const search = (name: string, more: JsonObject = {}): JsonObject => ({
    name,
    description: 'Searches the files of the workspace for a text and lists the lines found.',
    inputSchema: { type: 'object', properties: { q: { type: 'string' }, limit: { type: 'number' } } },
    ...more,
  });

  it('the same but for the name', () => {
    expect(diffContracts(withTools(search('find')), withTools(search('search'))).changes).toEqual([
      {
        kind: 'tool-renamed',
        name: 'find',
        level: 'breaking',
        path: ['tools', 'find'],
        from: 'find',
        to: 'search',
      },
    ]);
  });

  it('an edited description, or an argument more: those are named too, under the new name', () => {
    const edited = search('search', {
      description: 'Searches all files of the workspace for a text and lists the lines found.',
    });
    expect(changesOf(withTools(search('find')), withTools(edited))).toEqual([
      'breaking tool-renamed tools.find',
      'behaviour description-changed tools.search.description',
    ]);
    const wider = search('search', {
      inputSchema: {
        type: 'object',
        properties: { q: { type: 'string' }, limit: { type: 'number' }, in: {} },
      },
    });
    expect(changesOf(withTools(search('find')), withTools(wider))).toEqual([
      'breaking tool-renamed tools.find',
      'behaviour input-schema-changed tools.search.inputSchema.properties.in',
    ]);
  });

  it('not: another description and another schema, or nothing to go by', () => {
    const other = search('delete', { description: 'Deletes a user for good, with no way back.' });
    expect(changesOf(withTools(search('find')), withTools(other))).toEqual([
      'breaking tool-removed tools.find',
      'behaviour tool-added tools.delete',
    ]);
    const bare = (name: string): JsonObject => ({ name, inputSchema: { type: 'object' } });
    expect(changesOf(withTools(bare('a')), withTools(bare('b')))).toEqual([
      'breaking tool-removed tools.a',
      'behaviour tool-added tools.b',
    ]);
  });

  it('each tool is in one pair, the closest first', () => {
    const edited = search('b', { description: `${search('x').description} Quickly.` });
    const diff = diffContracts(withTools(search('a'), search('c')), withTools(edited, search('d')));
    expect(
      diff.changes.filter(({ kind }) => kind === 'tool-renamed').map(({ from, to }) => [from, to]),
    ).toEqual([
      ['a', 'd'],
      ['c', 'b'],
    ]);
  });

  it('eight candidates of one schema are looked at and no more, so that made-up lists cost no square', () => {
    const unlike = (name: string) => search(name, { description: `Something else altogether: ${name}.` });
    const like = (name: string) => search(name, { description: `${search('x').description} Quickly.` });
    const others = Array.from({ length: 8 }, (_, index) => unlike(`b${index}`));
    const kinds = (...tools: JsonObject[]) =>
      diffContracts(withTools(search('a')), withTools(...tools)).changes.map(({ kind }) => kind);
    expect(kinds(...others.slice(1), like('c'))).toContain('tool-renamed');
    expect(kinds(...others, like('c'))).not.toContain('tool-renamed');
  });

  it('a tool that is still there is no origin of another', () => {
    expect(changesOf(withTools(search('a')), withTools(search('a'), search('b')))).toEqual([
      'behaviour tool-added tools.b',
    ]);
  });
});

describe('the rest of a contract', () => {
  it.each<[string, Partial<SnapshotParts>, Partial<SnapshotParts>, string[]]>([
    [
      'instructions',
      { instructions: 'a' },
      { instructions: 'b' },
      ['behaviour instructions-changed instructions'],
    ],
    ['instructions come', {}, { instructions: '' }, ['behaviour instructions-changed instructions']],
    [
      'protocol version',
      { protocolVersion: '2025-06-18' },
      {},
      ['behaviour protocol-version-changed protocolVersion'],
    ],
    [
      'a capability',
      { capabilities: {} },
      { capabilities: { resources: {} } },
      ['behaviour capability-added capabilities.resources'],
    ],
    [
      'a capability gone',
      { capabilities: { tools: {} } },
      { capabilities: {} },
      ['breaking capability-removed capabilities.tools'],
    ],
    [
      'a capability put off',
      { capabilities: { tools: { listChanged: true } } },
      { capabilities: { tools: { listChanged: false } } },
      ['breaking capability-removed capabilities.tools.listChanged'],
    ],
    [
      'a capability put on',
      { capabilities: { tools: { listChanged: false } } },
      { capabilities: { tools: { listChanged: true } } },
      ['behaviour capability-added capabilities.tools.listChanged'],
    ],
    [
      'false written out',
      { capabilities: { tools: {} } },
      { capabilities: { tools: { listChanged: false } } },
      ['cosmetic capability-changed capabilities.tools.listChanged'],
    ],
    [
      'a capability with another value',
      { capabilities: { x: 1 } },
      { capabilities: { x: 2 } },
      ['breaking capability-changed capabilities.x'],
    ],
    [
      'a resource',
      { resources: [] },
      { resources: [{ uri: 'a' }] },
      ['behaviour resource-added resources.a'],
    ],
    [
      'a resource gone',
      { resources: [{ uri: 'a' }] },
      { resources: [] },
      ['breaking resource-removed resources.a'],
    ],
    [
      'its title',
      { resources: [{ uri: 'a' }] },
      { resources: [{ uri: 'a', title: 'A' }] },
      ['cosmetic resource-changed resources.a.title'],
    ],
    [
      'its description',
      { resources: [{ uri: 'a' }] },
      { resources: [{ uri: 'a', description: 'A' }] },
      ['behaviour resource-changed resources.a.description'],
    ],
    [
      'its type',
      { resources: [{ uri: 'a', mimeType: 'x' }] },
      { resources: [{ uri: 'a', mimeType: 'y' }] },
      ['breaking resource-changed resources.a.mimeType'],
    ],
    [
      'a resource twice',
      { resources: [{ uri: 'a' }] },
      { resources: [{ uri: 'a' }, { uri: 'a' }] },
      ['breaking resource-duplicated resources.a'],
    ],
    ['a prompt', { prompts: [] }, { prompts: [{ name: 'a' }] }, ['behaviour prompt-added prompts.a']],
    ['a prompt gone', { prompts: [{ name: 'a' }] }, { prompts: [] }, ['breaking prompt-removed prompts.a']],
    [
      'an optional argument',
      { prompts: [{ name: 'a' }] },
      { prompts: [{ name: 'a', arguments: [{ name: 'x' }] }] },
      ['behaviour prompt-changed prompts.a.arguments'],
    ],
    [
      'a required argument',
      { prompts: [{ name: 'a' }] },
      { prompts: [{ name: 'a', arguments: [{ name: 'x', required: true }] }] },
      ['breaking prompt-changed prompts.a.arguments'],
    ],
    [
      'an argument gone',
      { prompts: [{ name: 'a', arguments: [{ name: 'x' }] }] },
      { prompts: [{ name: 'a' }] },
      ['breaking prompt-changed prompts.a.arguments'],
    ],
    [
      'a scope more',
      { grantedScopes: ['a'] },
      { grantedScopes: ['b', 'a'] },
      ['behaviour scopes-changed grantedScopes'],
    ],
    [
      'a scope less',
      { grantedScopes: ['a', 'b'] },
      { grantedScopes: ['b', 'c'] },
      ['breaking scopes-changed grantedScopes'],
    ],
    [
      'a list that was not asked for',
      {},
      { resources: [], prompts: [] },
      ['cosmetic part-not-compared prompts', 'cosmetic part-not-compared resources'],
    ],
  ])('%s', (_, from, to, changes) => {
    expect(between(from, to)).toEqual(changes);
  });
});

describe('leaving out', () => {
  const from = snapshotOf({ tools: [toolOf('a', { title: 'A' }), toolOf('fs.read'), toolOf('gone')] });
  const to = snapshotOf({
    tools: [toolOf('a', { title: 'B', description: 'New.' }), toolOf('fs.read', { title: 'R' })],
    serverInfo: { name: 'files', version: '0.5.0' },
  });
  const leftOut = (options: DiffOptions) =>
    diffContracts(from, to, options).leftOut.map(({ by, change }) => `${by}: ${change.path.join('.')}`);

  it('a path covers what is at and below it, and what it covers is reported', () => {
    const options = { ignore: ['tools.*.title', 'serverInfo'] };
    expect(changesOf(from, to, options)).toEqual([
      'breaking tool-removed tools.gone',
      'behaviour description-changed tools.a.description',
    ]);
    expect(leftOut(options)).toEqual([
      'tools.*.title: tools.a.title',
      'tools.*.title: tools.fs.read.title',
      'serverInfo: serverInfo.version',
    ]);
  });

  it('whole steps only: no part of a name, no step above', () => {
    expect(
      leftOut({ ignore: ['tools.*.tit', 'tools.a.title.x', 'server', 'tools.fs.read', 'tools.gone.*'] }),
    ).toEqual([]);
  });

  it('a dot or a star within a name is escaped', () => {
    expect(leftOut({ ignore: ['tools.fs\\.read'] })).toEqual(['tools.fs\\.read: tools.fs.read.title']);
    expect(leftOut({ ignore: ['tools.\\*.title'] })).toEqual([]);
  });

  it('everything left out is no level, and not identical', () => {
    const diff = diffContracts(from, to, { ignore: ['tools', 'serverInfo'] });
    expect([diff.identical, diff.level, diff.changes.length, diff.leftOut.length]).toEqual([
      false,
      undefined,
      0,
      5,
    ]);
  });

  it('only the tools an app uses count', () => {
    expect(changesOf(from, to, { tools: ['fs.read'] })).toEqual([
      'cosmetic title-changed tools.fs.read.title',
      'cosmetic server-info-changed serverInfo.version',
    ]);
    expect(leftOut({ tools: ['fs.read'] })).toEqual([
      'tools: tools.gone',
      'tools: tools.a.description',
      'tools: tools.a.title',
    ]);
    expect(leftOut({ tools: [] })).toHaveLength(4);
  });

  it('a renamed tool counts under its former name, with all that changed about it', () => {
    const tool = (name: string, title: string) =>
      toolOf(name, { title, description: 'Long enough to know again.' });
    const [before, after] = [withTools(tool('a', 'A')), withTools(tool('b', 'B'))];
    expect(changesOf(before, after, { tools: ['a'] })).toHaveLength(2);
    expect(changesOf(before, after, { tools: ['c'] })).toEqual([]);
  });

  it.each(['', 'tools..title', '.tools', 'tools.', '*', '*.*', 7 as unknown as string])(
    '"%s" is refused',
    (path) => {
      expect(() => diffContracts(from, to, { ignore: [path] })).toThrow(/^ignore: /);
      expect(() => diffContracts(from, to, { ignore: [path] })).toThrow(TypeError);
    },
  );
});

describe('10,000 tools', () => {
  /** Counts how often a digest and a definition are looked at. */
  function counted(count: number, changed: number) {
    const looks = { digest: 0, definition: 0 };
    const made = snapshotOf({
      tools: Array.from({ length: count }, (_, index) =>
        toolOf(`tool-${index}`, {
          title: index < changed ? 'New' : 'Old',
          inputSchema: { properties: { a: {}, b: {} } },
        }),
      ),
    });
    const tools = made.tools.map(
      (tool): ToolContract => ({
        name: tool.name,
        get digest() {
          looks.digest++;
          return tool.digest;
        },
        get definition() {
          looks.definition++;
          return tool.definition;
        },
      }),
    );
    return { snapshot: { ...made, tools }, looks };
  }

  it('an equal tool costs one look at each digest and none at its definition', () => {
    const [from, to] = [counted(10_000, 0), counted(10_000, 7)];
    expect(diffContracts(from.snapshot, to.snapshot).changes).toHaveLength(7);
    expect([from.looks, to.looks]).toEqual([
      { digest: 10_000, definition: 7 },
      { digest: 10_000, definition: 7 },
    ]);
  });

  it('all gone and all new, however alike, stays linear: each is looked at a bounded number of times', () => {
    const alike = (from: number) =>
      snapshotOf({
        tools: Array.from({ length: 10_000 }, (_, index) => ({
          name: `tool-${from + index}`,
          description: `Fetches the record number ${index % 7 === 0 ? from + index : index} of table ${index}`,
          inputSchema: { type: 'object', properties: { id: {} } },
        })),
      });
    const looks = { definition: 0 };
    const watched = (snapshot: ContractSnapshot): ContractSnapshot => ({
      ...snapshot,
      tools: snapshot.tools.map((tool) => ({
        ...tool,
        get definition() {
          looks.definition++;
          return tool.definition;
        },
      })),
    });
    const diff = diffContracts(watched(alike(0)), watched(alike(10_000)));
    expect(diff.changes.filter(({ kind }) => kind === 'tool-renamed').length).toBeGreaterThan(8_000);
    expect(looks.definition).toBeLessThan(20_000 * 6);
  });

  it('one tool of 150,000 changed arguments, added, compared and shown', () => {
    const wide = (type: string) =>
      withTools(
        toolOf('wide', {
          inputSchema: {
            properties: Object.fromEntries(Array.from({ length: 150_000 }, (_, at) => [`a${at}`, { type }])),
          },
        }),
      );
    const diff = diffContracts(wide('string'), wide('number'));
    expect(diff.changes).toHaveLength(150_000);
    expect(formatDiff(diff)).toContain('inputSchema.properties.a149999.type: other values are valid');
    const added = formatDiff(diffContracts(withTools(), wide('string')), { as: 'markdown' });
    expect(added).toMatch(/\*\*\d{6} lines are not shown here/);
  });
});
