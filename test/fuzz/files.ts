/**
 * Snapshots of contracts and configurations of servers: files that somebody else wrote.
 */
import fc from 'fast-check';
import { parseServersConfig } from '../../src/client.js';
import {
  diffContracts,
  formatDiff,
  formatSnapshot,
  makeSnapshot,
  parseSnapshot,
  SnapshotError,
} from '../../src/contract/index.js';
import { scanJson } from '../../src/contract/json-scan.js';
import { placeholderProblem } from '../../src/servers/placeholders.js';
import { parts, withoutDuplicateTools } from '../unit/contract/support.js';
import { damaged, type Fuzz, jsonText, jsonWith, must, outcome, pieces, shown } from './kit.js';

const isSnapshotError = (error: unknown) => SnapshotError.isInstance(error);
const isTypeError = (error: unknown) => error instanceof TypeError;

const sound = parts.map((each) => formatSnapshot(makeSnapshot(withoutDuplicateTools(each))));
const loose = jsonText(
  jsonWith(
    [
      'holdfast',
      'takenAt',
      'digest',
      'tools',
      'name',
      'definition',
      'capabilities',
      'serverInfo',
      'protocolVersion',
      'instructions',
    ],
    [1, 2, 0.5, '1', { holdfast: 1, tools: [{}] }, { holdfast: 1 }],
  ),
);
const snapshotText = fc.oneof(
  damaged(sound),
  loose,
  loose.map((text) => `{"holdfast":1,${text.slice(1)}`),
  fc.string({ unit: 'binary', maxLength: 30 }),
);

const CANARY = 'CANARY-value';
const dollar = (inner: string) => `\${${inner}}`;
const placeholders = pieces([
  dollar('NAME'),
  dollar('NAME:-x'),
  dollar('file:/run/x'),
  '${',
  '}',
  '$',
  ':-',
  'env:',
  dollar(''),
  CANARY,
]);
const entry = fc.oneof(
  fc.record(
    {
      command: fc.oneof(placeholders, fc.constantFrom('npx', '', 1, null)),
      args: fc.oneof(fc.array(fc.oneof(placeholders, fc.constant(1)), { maxLength: 3 }), fc.constant('x')),
      env: fc.oneof(
        fc.dictionary(fc.string({ maxLength: 4 }), placeholders, { maxKeys: 3 }),
        fc.constant([]),
      ),
      cwd: placeholders,
      type: fc.constantFrom('stdio', 'http', 'x', 1),
      url: fc.constantFrom(`https://a/?key=${CANARY}`, 'x', 1),
      __proto__: fc.constant(CANARY),
    },
    { requiredKeys: ['command'] },
  ),
  fc.record(
    {
      url: fc.oneof(
        fc.constantFrom(`https://a/?key=${CANARY}`, 'https://', 'http://localhost:1'),
        placeholders,
      ),
      headers: fc.dictionary(
        fc.oneof(fc.constantFrom('X-Key', 'a b', ''), fc.string({ maxLength: 4 })),
        placeholders,
        {
          maxKeys: 3,
        },
      ),
      auth: fc.oneof(
        fc.record({ token: placeholders }, { requiredKeys: [] }),
        fc.constantFrom({ grant: 'client_credentials', clientSecret: CANARY }, null, CANARY),
      ),
      type: fc.constantFrom('http', 'sse', 'streamable-http', 'stdio'),
    },
    { requiredKeys: ['url'] },
  ),
);
const servers = fc.array(
  fc.tuple(fc.oneof(fc.constantFrom('a', '__proto__', '', 'servers'), fc.string({ maxLength: 5 })), entry),
  {
    maxLength: 4,
  },
);
const config = fc
  .tuple(servers, fc.constantFrom('mcpServers', 'servers', undefined))
  .map(([list, wrapper]) => {
    const map = Object.fromEntries(list);
    return wrapper === undefined ? map : { [wrapper]: map, theme: 'dark' };
  });
const looseConfig = jsonWith(
  ['mcpServers', 'servers', 'command', 'args', 'env', 'url', 'headers', 'auth', 'token', 'type'],
  [CANARY, dollar('NAME'), 'npx', 'https://a'],
);
const configText = fc.oneof(damaged(jsonText(config)), jsonText(looseConfig), fc.string({ maxLength: 30 }));

export const FILES: readonly Fuzz[] = [
  {
    name: 'snapshots: any text is one, or a SnapshotError',
    share: 8,
    property: () =>
      fc.property(snapshotText, (text) => {
        const read = outcome(() => parseSnapshot(text), isSnapshotError);
        if ('error' in read) return;
        const again = parseSnapshot(formatSnapshot(read.value));
        must(again.digest === read.value.digest, 'what is read and written is the same');
      }),
  },
  {
    name: 'snapshots: any two are compared and shown',
    share: 1,
    property: () =>
      fc.property(sound, sound, (one, other) => {
        const [from, to] = [parseSnapshot(one), parseSnapshot(other)];
        const diff = diffContracts(from, to);
        must(
          (diff.changes.length === 0) === (from.digest === to.digest),
          'changes are there where digests differ',
        );
        formatDiff(diff);
        for (const format of ['markdown', 'github', 'json'] as const) {
          outcome(() => formatDiff(diff, { format } as never), isTypeError);
        }
      }),
  },
  {
    name: 'configurations of servers: any text is one, or a TypeError without a value in it',
    share: 12,
    property: () =>
      fc.property(configText, (text) => {
        const read = outcome(() => parseServersConfig(text, {}), isTypeError);
        if ('error' in read) must(!shown(read.error).includes('CANARY'), 'an error has no value in it');
      }),
  },
  {
    name: 'configurations of servers: so is any object',
    share: 6,
    property: () =>
      fc.property(fc.oneof(config, looseConfig, fc.anything()), (given) => {
        const read = outcome(() => parseServersConfig(given, {}), isTypeError);
        if ('error' in read) must(!shown(read.error).includes('CANARY'), 'an error has no value in it');
        must(({} as Record<string, unknown>).command === undefined, 'no prototype was written to');
      }),
  },
  {
    name: 'placeholders: any text is understood or a problem in words',
    share: 4,
    property: () => fc.property(placeholders, (text) => void placeholderProblem(text)),
  },
  {
    name: 'JSON: a scan and the parser agree on what is JSON',
    share: 8,
    property: () =>
      fc.property(
        fc.oneof(
          snapshotText,
          configText,
          pieces([
            '{',
            '}',
            '[',
            ']',
            '"a"',
            ':',
            ',',
            '1',
            '-',
            '0',
            '.5',
            'e+',
            'true',
            'nul',
            '\\u00',
            '\\',
            ' ',
          ]),
        ),
        (text) => {
          const isJson =
            'value' in
            outcome(
              () => JSON.parse(text),
              (error) => error instanceof SyntaxError,
            );
          must((scanJson(text).faultAt === undefined) === isJson, 'they agree');
        },
      ),
  },
];
