/**
 * House rules that no type and no linter rule can hold: read from the syntax tree of every file of `src/`.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { expect, test } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const MAX_LINES = 400;
const MAY_IMPORT_SDK = [
  'src/client.ts',
  'src/client-transport.ts',
  'src/hosted-call-timer.ts',
  'src/hosted-client-direct.ts',
  'src/hosted-client.ts',
  'src/hosted-client-turn.ts',
  'src/hosted-client-errors.ts',
  'src/hosted-client-options.ts',
  'src/output-validator.ts',
  'src/required-capability.ts',
  'src/servers/connect-server.ts',
];
/** Both are clocks themselves. */
const MAY_READ_TIME = ['src/clock.ts', 'src/testing/manual-clock.ts'];
const LOADED_LATE = ['undici', 'openid-client', 'oauth4webapi', 'jose'];

interface Import {
  from: string;
  /** `import type`; with inline `type` alone the import itself stays in the output. */
  typeOnly: boolean;
  /** `import()` or `require()` within a function. */
  late: boolean;
}

interface Source {
  path: string;
  text: string;
  imports: Import[];
  /** `a.b` as written, for every access by name; the object is left out where it is no plain name. */
  accesses: string[];
  /** Names that are called as functions. */
  calls: string[];
  mutableAtTop: string[];
}

function read(path: string): Source {
  const text = readFileSync(join(root, path), 'utf8');
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.ES2022, true);
  const source: Source = { path, text, imports: [], accesses: [], calls: [], mutableAtTop: [] };
  for (const statement of file.statements) {
    if (ts.isVariableStatement(statement) && (statement.declarationList.flags & ts.NodeFlags.Const) === 0) {
      source.mutableAtTop.push(statement.declarationList.getText());
    }
  }
  const visit = (node: ts.Node): void => {
    if (
      (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) &&
      node.moduleSpecifier !== undefined
    ) {
      const typeOnly = ts.isImportDeclaration(node)
        ? node.importClause?.isTypeOnly === true
        : node.isTypeOnly;
      source.imports.push({ from: literal(node.moduleSpecifier), typeOnly, late: false });
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      source.imports.push({ from: literal(node.argument.literal), typeOnly: true, late: false });
    } else if (ts.isCallExpression(node)) {
      const callee = node.expression;
      const [argument] = node.arguments;
      if (ts.isIdentifier(callee)) source.calls.push(callee.text);
      const loads =
        callee.kind === ts.SyntaxKind.ImportKeyword || (ts.isIdentifier(callee) && callee.text === 'require');
      if (loads && argument !== undefined) {
        source.imports.push({ from: literal(argument), typeOnly: false, late: isWithinFunction(node) });
      }
    } else if (ts.isPropertyAccessExpression(node)) {
      source.accesses.push(
        `${ts.isIdentifier(node.expression) ? node.expression.text : ''}.${node.name.text}`,
      );
    } else if (ts.isElementAccessExpression(node) && ts.isStringLiteral(node.argumentExpression)) {
      source.accesses.push(`.${node.argumentExpression.text}`);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return source;
}

function literal(node: ts.Node): string {
  return ts.isStringLiteralLike(node) ? node.text : node.getText();
}

function isWithinFunction(node: ts.Node): boolean {
  for (let at: ts.Node | undefined = node.parent; at !== undefined; at = at.parent) {
    if (ts.isFunctionLike(at)) return true;
  }
  return false;
}

const sources = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })
  .filter((file) => file.isFile() && file.name.endsWith('.ts'))
  .map((file) => relative(root, join(file.parentPath, file.name)).split(sep).join('/'))
  .sort()
  .map(read);

/** `path: what` for everything that `find` finds in any source. */
function offences(find: (source: Source) => readonly string[]): string[] {
  return sources.flatMap((source) => find(source).map((what) => `${source.path}: ${what}`));
}

const isOf = (name: string, from: string) => from === name || from.startsWith(`${name}/`);
const fromSdk = ({ from }: Import) => isOf('@modelcontextprotocol/sdk', from);

test('there are sources, and they are read as meant', () => {
  expect(sources.map((source) => source.path)).toContain('src/errors.ts');
  expect(sources.find((source) => source.path === 'src/errors.ts')?.imports).toContainEqual({
    from: './limits.js',
    typeOnly: false,
    late: false,
  });
});

test('no console', () => {
  expect(offences(({ accesses }) => accesses.filter((access) => access.startsWith('console.')))).toEqual([]);
});

test('no timer and no clock but those of clock.ts', () => {
  const never = ['AbortSignal.timeout'];
  const onlyInClocks = ['Date.now', 'performance.now', 'globalThis.setTimeout', 'globalThis.setInterval'];
  expect(
    offences(({ path, accesses, calls, imports }) => [
      ...accesses.filter((access) => never.includes(access)),
      ...imports.map(({ from }) => from).filter((from) => /^(node:)?timers(\/promises)?$/.test(from)),
      ...(MAY_READ_TIME.includes(path)
        ? []
        : [
            ...accesses.filter((access) => onlyInClocks.includes(access)),
            ...calls.filter((name) => name === 'setTimeout' || name === 'setInterval'),
          ]),
    ]),
  ).toEqual([]);
});

test('no test runner', () => {
  const runners = /^(vitest|jest|@jest\/globals|node:test|mocha)(\/|$)/;
  expect(
    offences(({ imports }) => imports.map(({ from }) => from).filter((from) => runners.test(from))),
  ).toEqual([]);
});

test('the SDK is imported by the client entry alone, not even for its types', () => {
  expect(
    offences(({ path, imports }) =>
      MAY_IMPORT_SDK.includes(path) ? [] : imports.filter(fromSdk).map(({ from }) => from),
    ),
  ).toEqual([]);
});

test('undici and the OAuth libraries are loaded on first use', () => {
  expect(
    offences(({ imports }) =>
      imports
        .filter(
          ({ from, typeOnly, late }) => !typeOnly && !late && LOADED_LATE.some((name) => isOf(name, from)),
        )
        .map(({ from }) => from),
    ),
  ).toEqual([]);
});

test('no private member of an SDK is touched', () => {
  const members = privateMembersOfSdks();
  expect(members).toContain('_transport');
  expect(
    offences(({ accesses }) =>
      accesses.filter((access) => members.has(access.slice(access.indexOf('.') + 1))),
    ),
  ).toEqual([]);
});

/** Whatever the declarations of both SDKs mark as private or protected and begin with an underscore. */
function privateMembersOfSdks(): Set<string> {
  const members = new Set<string>();
  for (const name of ['sdk', 'client']) {
    const folder = join(root, 'node_modules/@modelcontextprotocol', name, 'dist');
    for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      if (!/\.d\.[mc]?ts$/.test(file)) continue;
      const text = readFileSync(join(folder, file), 'utf8');
      for (const [, member = ''] of text.matchAll(
        /\b(?:private|protected) (?:(?:static|readonly|get|set) )*(_\w+)/g,
      )) {
        members.add(member);
      }
    }
  }
  return members;
}

test('no mutable state of a module', () => {
  expect(offences(({ mutableAtTop }) => mutableAtTop)).toEqual([]);
});

test('every file opens with what it guarantees', () => {
  expect(
    offences(({ text }) => (/^(#!.*\n)?\/\*\*\n/.test(text) ? [] : ['no comment block at the top'])),
  ).toEqual([]);
});

test(`no file is longer than ${MAX_LINES} lines`, () => {
  const lines = (text: string) => text.split('\n').length - 1;
  expect(offences(({ text }) => (lines(text) > MAX_LINES ? [`${lines(text)} lines`] : []))).toEqual([]);
});
