/**
 * The public surface by name: nothing appears or goes without the committed list saying so, and every name
 * in the list has a test that shows it at work. `node scripts/list-exports.mjs --write` renews the list.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test } from 'vitest';

type Tests = Record<string, string>;
interface CommittedList {
  entries: Record<string, { values: Tests; types: Tests }>;
  options: Record<string, Tests>;
}
interface BuiltList {
  entries: Record<string, { values: string[]; types: string[]; esm: string[]; cjs: string[] }>;
  options: Record<string, string[]>;
}

const root = fileURLToPath(new URL('../..', import.meta.url));
const listFile = 'test/package/exports.json';
const committed = JSON.parse(readFileSync(join(root, listFile), 'utf8')) as CommittedList;
let built: BuiltList;

beforeAll(() => {
  const output = execFileSync(process.execPath, [join(root, 'scripts/list-exports.mjs')], {
    encoding: 'utf8',
  });
  built = JSON.parse(output) as BuiltList;
});

const names = (tests: Tests) => Object.keys(tests).sort();
const mapValues = <T, U>(record: Record<string, T>, change: (value: T) => U): Record<string, U> =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]));

test('each entry offers what the list says', () => {
  const main = built.entries['.'];
  if (main === undefined) throw new Error('There is no main entry.');
  const own = mapValues(built.entries, ({ values, types }) => ({ values, types }));
  // './client' shows everything of '.' again; the list has only what it adds.
  const client = own['./client'];
  if (client !== undefined) {
    expect(client.values).toEqual(expect.arrayContaining(main.values));
    expect([...client.values, ...client.types]).toEqual(expect.arrayContaining(main.types));
    const added = (all: string[]) => all.filter((name) => ![...main.values, ...main.types].includes(name));
    own['./client'] = { values: added(client.values), types: added(client.types) };
  }
  expect(own).toEqual(
    mapValues(committed.entries, ({ values, types }) => ({ values: names(values), types: names(types) })),
  );
});

test('the declarations name what is there at run time, in both builds', () => {
  for (const { values, esm, cjs } of Object.values(built.entries)) {
    expect(esm).toEqual(values);
    expect(cjs).toEqual(values);
  }
});

test('each group of options has the options that the list says', () => {
  expect(built.options).toEqual(mapValues(committed.options, names));
});

test('every name has a test file that mentions it', () => {
  const texts = new Map<string, string>();
  const wrong: string[] = [];
  const look = (where: string, tests: Tests) => {
    for (const [name, file] of Object.entries(tests)) {
      const path = join(root, file);
      if (!file.startsWith('test/') || !existsSync(path)) {
        wrong.push(`${where} ${name}: there is no test file '${file}'`);
        continue;
      }
      const text = texts.get(file) ?? readFileSync(path, 'utf8');
      texts.set(file, text);
      const word = new RegExp(`(?<![\\w$])${name.replaceAll('$', '\\$')}(?![\\w$])`);
      if (!word.test(text)) wrong.push(`${where} ${name}: ${file} does not mention it`);
    }
  };
  for (const [entry, { values, types }] of Object.entries(committed.entries)) {
    look(entry, values);
    look(entry, types);
  }
  for (const [group, tests] of Object.entries(committed.options)) look(group, tests);
  expect(wrong).toEqual([]);
});
