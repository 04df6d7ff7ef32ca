// Lists what the built package offers: names of each entry, and the options of each group of HostedOptions.
//
//   node scripts/list-exports.mjs            prints the list as JSON
//   node scripts/list-exports.mjs --write    brings test/package/exports.json up to date: names that are gone
//                                            leave it, new ones get a test file that mentions them, if any does
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import ts from 'typescript';

const root = fileURLToPath(new URL('..', import.meta.url));
const listFile = join(root, 'test/package/exports.json');
const require = createRequire(import.meta.url);
const { exports: entryPoints } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const entries = Object.entries(entryPoints).filter(([, target]) => typeof target === 'object');

/** `{ entries: { '.': { values, types, esm, cjs } }, options: { SessionOptions: [...] } }`, everything sorted. */
async function built() {
  const declarations = entries.map(([, target]) => join(root, target.import.types));
  for (const file of declarations) {
    if (!existsSync(file))
      throw new Error(`${relative(root, file)} is missing: run \`npm run build\` first.`);
  }
  const program = ts.createProgram(declarations, {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2022,
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    types: ['node'],
  });
  const checker = program.getTypeChecker();
  const list = { entries: {}, options: {} };
  for (const [index, [entry, target]] of entries.entries()) {
    const module = checker.getSymbolAtLocation(program.getSourceFile(declarations[index]));
    // A declaration file with `export {}` has a symbol too; none at all is a file that is no module.
    const symbols = module === undefined ? [] : checker.getExportsOfModule(module);
    const found = { values: [], types: [] };
    for (const symbol of symbols) {
      const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0;
      const meant = isAlias ? checker.getAliasedSymbol(symbol) : symbol;
      const isValue = (meant.flags & ts.SymbolFlags.Value) !== 0 && !isTypeOnly(symbol);
      found[isValue ? 'values' : 'types'].push(symbol.name);
      if (entry === '.' && symbol.name === 'HostedOptions') list.options = groupsOf(meant, checker);
    }
    list.entries[entry] = {
      values: found.values.sort(),
      types: found.types.sort(),
      esm: Object.keys(await import(pathToFileURL(join(root, target.import.default)).href)).sort(),
      cjs: Object.keys(require(join(root, target.require.default))).sort(),
    };
  }
  return list;
}

/** `export type { SomeClass }` and `export { type SomeClass }` show the type alone. */
function isTypeOnly(symbol) {
  return (symbol.declarations ?? []).some(
    (declaration) =>
      ts.isExportSpecifier(declaration) && (declaration.isTypeOnly || declaration.parent.parent.isTypeOnly),
  );
}

/** The options of HostedOptions itself, and of every property of it whose type is a named group. */
function groupsOf(hostedOptions, checker) {
  const type = checker.getDeclaredTypeOfSymbol(hostedOptions);
  const groups = { HostedOptions: type.getProperties().map((property) => property.name) };
  for (const property of type.getProperties()) {
    const group = checker.getNonNullableType(checker.getTypeOfSymbol(property));
    const name = group.aliasSymbol?.name ?? group.symbol?.name;
    if (name === undefined || !/Options$/.test(name)) continue;
    groups[name] = group.getProperties().map((option) => option.name);
  }
  for (const names of Object.values(groups)) names.sort();
  return groups;
}

/** Test files by path, their text beside them; this list and its test are none. */
function testFiles() {
  const files = readdirSync(join(root, 'test'), { recursive: true, withFileTypes: true })
    .filter(
      (file) =>
        file.isFile() &&
        /\.(test|jest|type-test)\.[mc]?ts$|\.jest\.cjs$|(consumer|consumer-client|control|own-parts)\.ts$/.test(
          file.name,
        ),
    )
    .map((file) => relative(root, join(file.parentPath, file.name)))
    .filter((path) => path !== 'test/package/exports.test.ts')
    .sort();
  return files.map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));
}

/** The file that uses the name most, a fixture only where no test does; nothing where nobody does. */
function mentioning(name, files) {
  const word = new RegExp(`(?<![\\w$])${name.replaceAll('$', '\\$')}(?![\\w$])`, 'g');
  const best = { path: '', uses: 0 };
  for (const { path, text } of files) {
    const uses = (text.match(word) ?? []).length * (path.endsWith('.test.ts') ? 1000 : 1);
    if (uses > best.uses) Object.assign(best, { path, uses });
  }
  return best.path;
}

/** Each name with the test that shows it; a path that is in the old list stays. */
function withTests(names, old, files) {
  return Object.fromEntries(names.map((name) => [name, old?.[name] || mentioning(name, files)]));
}

const list = await built();
if (process.argv.includes('--write')) {
  const old = existsSync(listFile)
    ? JSON.parse(readFileSync(listFile, 'utf8'))
    : { entries: {}, options: {} };
  const files = testFiles();
  const main = new Set([...list.entries['.'].values, ...list.entries['.'].types]);
  const next = { entries: {}, options: {} };
  for (const [entry, { values, types }] of Object.entries(list.entries)) {
    // './client' shows everything of '.' again: listed once.
    const own = (names) => names.filter((name) => entry !== './client' || !main.has(name));
    next.entries[entry] = {
      values: withTests(own(values), old.entries[entry]?.values, files),
      types: withTests(own(types), old.entries[entry]?.types, files),
    };
  }
  for (const [group, names] of Object.entries(list.options)) {
    next.options[group] = withTests(names, old.options[group], files);
  }
  writeFileSync(listFile, `${JSON.stringify(next, null, 2)}\n`);
} else {
  process.stdout.write(`${JSON.stringify(list, null, 2)}\n`);
}
