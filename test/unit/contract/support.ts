import fc from 'fast-check';
import { makeSnapshot, type SnapshotParts } from '../../../src/contract/snapshot.js';
import type { ContractDiff, ContractSnapshot, JsonObject } from '../../../src/contract/types.js';

type Loose = Record<string, unknown>;

export const TAKEN_AT = '2026-02-03T04:05:06.000Z';

export function snapshotOf(parts: Partial<SnapshotParts> = {}): ContractSnapshot {
  return makeSnapshot({
    protocolVersion: '2025-11-25',
    capabilities: { tools: {} },
    serverInfo: { name: 'files', version: '0.4.0' },
    tools: [],
    takenAt: TAKEN_AT,
    ...parts,
  });
}

export function toolOf(name: string, more: Loose = {}): JsonObject {
  return { name, description: `Does ${name}.`, inputSchema: { type: 'object' }, ...more };
}

/** What a snapshot was made of, so that it can be made again after changes. */
export function partsOf(snapshot: ContractSnapshot): SnapshotParts {
  const { holdfast, digest, tools, ...rest } = snapshot;
  return { ...rest, tools: tools.map(({ definition }) => definition) };
}

/** Applies each listed change, by its path alone, to the first contract. Order of lists does not matter. */
export function applyDiff(snapshot: ContractSnapshot, diff: ContractDiff): ContractSnapshot {
  const parts = structuredCloneOwn(partsOf(snapshot)) as unknown as Loose;
  const changes = [...diff.changes].sort(
    (one, other) => Number(other.kind === 'tool-renamed') - Number(one.kind === 'tool-renamed'),
  );
  for (const change of changes) {
    const [part = '', name, ...rest] = change.path;
    const target = change.to;
    if (!['tools', 'resources', 'prompts'].includes(part) || name === undefined) {
      setAt(parts, change.path, target);
      continue;
    }
    const key = part === 'resources' ? 'uri' : 'name';
    const list = parts[part] as Loose[];
    const entry = list.find((item) => nameOf(item, key) === name);
    if (change.kind === 'tool-renamed') (entry as Loose).name = target;
    else if (rest.length > 0) setAt(entry as Loose, rest, target);
    else {
      const others = list.filter((item) => nameOf(item, key) !== name);
      const come = target === undefined ? [] : Array.isArray(target) ? target : [target];
      parts[part] = [...others, ...come];
    }
  }
  return makeSnapshot(parts as unknown as SnapshotParts);
}

function nameOf(entry: Loose, key: string): string {
  const name = Object.hasOwn(entry, key) ? entry[key] : undefined;
  if (typeof name === 'string') return name;
  // As the library does: without a name, by the whole.
  return canonical(entry);
}

function canonical(value: unknown): string {
  if (typeof value !== 'object' || value === null) {
    return value === Number.POSITIVE_INFINITY ? '1e999' : JSON.stringify(value);
  }
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  const keys = Object.keys(value).sort((one, other) => (one < other ? -1 : 1));
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical((value as Loose)[key])}`).join()}}`;
}

function setAt(root: Loose, path: readonly string[], value: unknown): void {
  let at: unknown = root;
  for (const step of path.slice(0, -1)) at = (at as Loose)[step];
  const last = path.at(-1) as string;
  if (value === undefined) delete (at as Loose)[last];
  else
    Object.defineProperty(at, last, {
      value: structuredCloneOwn(value),
      enumerable: true,
      configurable: true,
      writable: true,
    });
}

function structuredCloneOwn(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(structuredCloneOwn);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, structuredCloneOwn(item)]));
}

const ODD_KEYS = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '',
  'a.b',
  '10',
  '2',
  '\u202e',
  'É',
];
const oddKey = fc.oneof(fc.constantFrom(...ODD_KEYS), fc.string({ maxLength: 4 }));
const text = fc.oneof(
  fc.constantFrom(
    '',
    'a',
    'b',
    'a\u200b',
    'Reads a file.',
    'Reads a file',
    'line\nline',
    '```\n@all',
    '\ud800',
  ),
  fc.string({ unit: 'binary', maxLength: 12 }),
);
const scalar = fc.oneof(
  text,
  fc.boolean(),
  fc.constant(null),
  fc.integer({ min: -3, max: 3 }),
  fc.constantFrom(0.1, 1e21, -0, Number.POSITIVE_INFINITY),
);

export function objectOf<T>(entries: fc.Arbitrary<[string, T][]>): fc.Arbitrary<Record<string, T>> {
  // Object.fromEntries defines `__proto__` as a key of its own, as JSON.parse does.
  return entries.map((list) => Object.fromEntries(list));
}

export const json: fc.Arbitrary<unknown> = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalar,
    fc.array(tie('value'), { maxLength: 3 }),
    objectOf(fc.array(fc.tuple(oddKey, tie('value')), { maxLength: 3 })),
  ),
})).value;

const propertyName = fc.constantFrom('q', 'limit', 'type', 'not', '__proto__', 'required');
const KEYWORDS = {
  strings: ['title', 'description', '$comment', '$ref', 'pattern', 'format', '$schema', 'x-own'],
  bounds: ['minimum', 'maximum', 'minLength', 'maxItems', 'multipleOf', 'exclusiveMinimum'],
  schemas: ['additionalProperties', 'items', 'not', 'if', 'then', 'propertyNames', 'contains'],
  maps: ['properties', 'patternProperties', '$defs', 'dependentSchemas'],
  lists: ['anyOf', 'allOf', 'oneOf', 'prefixItems'],
};
const typeName = fc.constantFrom('string', 'number', 'integer', 'object', 'array', 'null', 'boolean', 'odd');

/** Schemas, and among their keywords now and then a value of a type that does not belong there. */
export const schema: fc.Arbitrary<unknown> = fc.letrec<{ schema: unknown }>((tie) => ({
  schema: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(true, false, {}),
    objectOf(
      fc.array(
        fc.oneof(
          fc.tuple(fc.constantFrom(...KEYWORDS.strings), text),
          fc.tuple(fc.constantFrom(...KEYWORDS.bounds), fc.integer({ min: 0, max: 4 })),
          fc.tuple(fc.constant('uniqueItems'), fc.boolean()),
          fc.tuple(fc.constant('type'), fc.oneof(typeName, fc.array(typeName, { maxLength: 3 }))),
          fc.tuple(fc.constant('enum'), fc.array(scalar, { maxLength: 3 })),
          fc.tuple(fc.constant('required'), fc.array(propertyName, { maxLength: 3 })),
          fc.tuple(fc.constantFrom(...KEYWORDS.schemas), tie('schema')),
          fc.tuple(
            fc.constantFrom(...KEYWORDS.maps),
            objectOf(fc.array(fc.tuple(propertyName, tie('schema')), { maxLength: 3 })),
          ),
          fc.tuple(fc.constantFrom(...KEYWORDS.lists), fc.array(tie('schema'), { maxLength: 3 })),
          fc.tuple(fc.constantFrom(...Object.values(KEYWORDS).flat(), 'type', 'enum', 'required'), json),
          fc.tuple(oddKey, json),
        ) as fc.Arbitrary<[string, unknown]>,
        { maxLength: 5 },
      ),
    ),
  ),
})).schema;

const bag = objectOf(fc.array(fc.tuple(oddKey, json), { maxLength: 3 }));
const toolName = fc.constantFrom('search', 'read', 'write', '__proto__', 'fs.read', 'constructor', '\u200b');
const odd = fc.oneof({ weight: 4, arbitrary: schema }, { weight: 1, arbitrary: json });

export const tool: fc.Arbitrary<JsonObject> = fc
  .tuple(
    toolName,
    fc.record(
      {
        description: text,
        title: text,
        inputSchema: odd,
        outputSchema: odd,
        annotations: fc.oneof(bag, json),
        _meta: json,
        icons: json,
        execution: json,
      },
      { requiredKeys: [] },
    ),
    bag,
  )
  .map(([name, fields, more]) => ({ ...more, ...fields, name }));

const entries = (key: string) =>
  fc.array(
    fc
      .tuple(fc.option(fc.constantFrom('a', 'b', '__proto__'), { nil: undefined }), bag)
      .map(([name, more]) => (name === undefined ? more : { ...more, [key]: name })),
    { maxLength: 3 },
  );

export const parts: fc.Arbitrary<SnapshotParts> = fc.record(
  {
    protocolVersion: fc.constantFrom('2025-06-18', '2025-11-25'),
    capabilities: bag,
    serverInfo: bag,
    instructions: text,
    tools: fc.array(tool, { maxLength: 4 }),
    resources: entries('uri'),
    prompts: entries('name'),
    grantedScopes: fc.array(fc.constantFrom('read', 'write', 'admin'), { maxLength: 3 }),
    environment: text,
    url: fc.constantFrom('https://user:pass@example.com/mcp?key=1#x', 'nonsense'),
    takenAt: fc.constant(TAKEN_AT),
  },
  { requiredKeys: ['protocolVersion', 'capabilities', 'serverInfo', 'tools', 'takenAt'] },
);

/** Two contracts that have much in common: the second is the first with some parts of a third. */
export const twoContracts: fc.Arbitrary<[SnapshotParts, SnapshotParts]> = fc
  .tuple(parts, parts, fc.array(fc.boolean(), { minLength: 16, maxLength: 16 }))
  .map(([one, other, take]) => {
    if (take.slice(0, 3).every((yes) => yes)) return [one, { ...one, tools: [...one.tools].reverse() }];
    let at = 0;
    const taken = () => take[at++ % take.length] === true;
    const mixed: Loose = { ...one };
    for (const key of Object.keys(other)) {
      if (key !== 'tools' && taken()) mixed[key] = (other as unknown as Loose)[key];
    }
    const theirs = new Map(other.tools.map((entry) => [entry.name, entry]));
    mixed.tools = [
      ...one.tools.map((entry) => {
        const twin = theirs.get(entry.name);
        const fields = Object.entries(twin ?? {}).filter(() => taken());
        return { ...entry, ...Object.fromEntries(fields), name: entry.name };
      }),
      ...other.tools.filter(() => taken()),
    ].reverse();
    return [one, mixed as unknown as SnapshotParts];
  });

export function withoutDuplicateTools(given: SnapshotParts): SnapshotParts {
  return { ...given, tools: [...new Map(given.tools.map((entry) => [entry.name, entry])).values()] };
}

type Pair = [unknown, unknown];
const both = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<Pair> => fc.tuple(arbitrary, arbitrary);

/** Entries of two objects: in both the same, in both but different, or in one of them only. */
function objectPair(entry: fc.Arbitrary<[string, Pair]>, maxLength: number): fc.Arbitrary<Pair> {
  const place = fc.constantFrom('same', 'different', 'different', 'from', 'to');
  return fc
    .array(fc.tuple(place, entry), { maxLength })
    .map((list) => [
      Object.fromEntries(list.flatMap(([at, [key, [one]]]) => (at === 'to' ? [] : [[key, one]]))),
      Object.fromEntries(
        list.flatMap(([at, [key, [one, other]]]) =>
          at === 'from' ? [] : [[key, at === 'same' ? one : other]],
        ),
      ),
    ]);
}

/** Two schemas alike enough to differ deep within. */
export const schemaPair: fc.Arbitrary<Pair> = fc.letrec<{ pair: Pair }>((tie) => ({
  pair: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    both(fc.oneof(schema, json)),
    objectPair(
      fc.oneof(
        fc.tuple(fc.constantFrom(...KEYWORDS.strings), both(text)),
        fc.tuple(fc.constantFrom(...KEYWORDS.bounds), both(fc.integer({ min: 0, max: 6 }))),
        fc.tuple(fc.constant('type'), both(fc.oneof(typeName, fc.array(typeName, { maxLength: 3 })))),
        fc.tuple(fc.constant('enum'), both(fc.array(scalar, { maxLength: 3 }))),
        fc.tuple(fc.constant('required'), both(fc.array(propertyName, { maxLength: 3 }))),
        fc.tuple(fc.constantFrom(...KEYWORDS.schemas), tie('pair')),
        fc.tuple(
          fc.constantFrom(...KEYWORDS.maps, 'properties', 'properties'),
          objectPair(fc.tuple(propertyName, tie('pair')), 4),
        ),
        fc.tuple(
          fc.constantFrom(...KEYWORDS.lists),
          fc
            .array(tie('pair'), { maxLength: 3 })
            .map((list): Pair => [list.map(([one]) => one), list.map(([, other]) => other)]),
        ),
      ) as fc.Arbitrary<[string, Pair]>,
      6,
    ),
  ),
})).pair;

/** Contracts of one tool that differ in its schemas, and perhaps in its name. */
export const twoTools: fc.Arbitrary<[SnapshotParts, SnapshotParts]> = fc
  .tuple(schemaPair, schemaPair, fc.constantFrom('old', 'new', '__proto__'), fc.boolean())
  .map(([input, output, name, plain]) => {
    const make = (at: 0 | 1, toolName: string): SnapshotParts => ({
      ...partsOf(snapshotOf()),
      tools: [
        {
          name: toolName,
          description: 'Reads a file from the disk.',
          inputSchema: input[plain ? 0 : at],
          outputSchema: output[at],
        },
      ],
    });
    return [make(0, 'old'), make(1, name)];
  });
