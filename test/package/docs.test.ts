/**
 * The documentation as readers use it: its code compiles, its links lead somewhere, its commands exist, every error has
 * its recipe, and the reference has every public name. `npm run docs` renews the reference.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { COMMANDS } from '../../src/cli/commands.js';
import type { HostedMcpErrorCode } from '../../src/errors.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const script = join(root, 'scripts/check-docs.mjs');
/** Pages that are wrong on purpose, within the project so that they are read as its own. */
let folder: string;

interface Checked {
  readonly status: number;
  readonly problems: string;
  readonly summary: string;
}

function check(...args: string[]): Promise<Checked> {
  return new Promise((resolve) => {
    execFile(process.execPath, [script, ...args], { cwd: root }, (error, summary, problems) => {
      resolve({ status: error === null ? 0 : Number(error.code), problems, summary });
    });
  });
}

async function page(name: string, ...lines: string[]): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, lines.join('\n'));
  return path;
}

/** Those that are written by hand. */
async function pages(): Promise<string[]> {
  const found = await readdir(join(root, 'docs'), { recursive: true });
  const own = found.filter((path) => path.endsWith('.md') && !path.startsWith('reference'));
  return ['README.md', ...own.map((path) => `docs/${path}`)];
}

/** The names that an entry exports: entries name each of them. */
async function exportsOf(path: string): Promise<Set<string>> {
  const names = new Set<string>();
  for (const statement of ts.createSourceFile(path, await text(path), ts.ScriptTarget.ES2022).statements) {
    if (ts.isExportDeclaration(statement)) {
      const { exportClause } = statement;
      if (exportClause === undefined || !ts.isNamedExports(exportClause)) continue;
      for (const { name } of exportClause.elements) names.add(name.text);
    } else if (ts.canHaveModifiers(statement)) {
      const isExported = ts.getModifiers(statement)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword);
      const { name } = statement as { readonly name?: ts.Node };
      if (isExported === true && name !== undefined && ts.isIdentifier(name)) names.add(name.text);
    }
  }
  return names;
}

const text = (path: string) => readFile(join(root, path), 'utf8');

beforeAll(async () => {
  await mkdir(join(root, '.tmp'), { recursive: true });
  folder = await mkdtemp(join(root, '.tmp/docs-'));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

test('every block compiles and every link leads somewhere; what is wrong is named by page and line', {
  timeout: 90_000,
}, async () => {
  const wrong = [
    await page(
      'types.md',
      'Text.',
      '```ts',
      "import { HostedTransport } from 'mcp-holdfast';",
      '',
      "new HostedTransport(url, { retry: { maxAttempts: 'two' } });",
      '```',
    ),
    await page('names.md', '```ts', "import { hostedFetsh } from 'mcp-holdfast';", '```'),
    await page('plain.md', '```js', 'client.callTol({});', '```'),
    await page('strict.md', '```ts', 'const given: { a?: string } = { a: undefined };', '```'),
    await page('apart.md', '```ts', 'const own = 1;', '```', '', '```ts', 'log(own);', '```'),
    await page('unnamed.md', '```', 'what is this?', '```'),
    await page('open.md', '```ts', 'log(1);'),
    await page('links.md', '# A heading', '[there](#a-heading) [gone](gone.md) [heading](#b-heading)'),
  ];
  const { status, problems, summary } = await check(...wrong);
  const found = problems.split('\n').filter((line) => line.startsWith('.tmp/'));
  // What is not ours to be wrong: nothing. Lines that begin with a space go on from the one before.
  expect(problems.split('\n').filter((line) => /^\S/.test(line) && !found.includes(line))).toEqual([]);
  expect(status).toBe(1);
  expect(Number(/(\d+) blocks/.exec(summary)?.[1])).toBeGreaterThan(45);
  const at = (name: string) =>
    found.filter((line) => line.includes(`/${name}:`)).map((line) => line.replace(/^.*\/(?=[\w]+\.md)/, ''));
  expect(at('types.md')).toEqual([expect.stringMatching(/^types\.md:5:37: TS2322/)]);
  expect(at('names.md')).toEqual([expect.stringMatching(/^names\.md:2:10: TS2724/)]);
  expect(at('plain.md')).toEqual([expect.stringMatching(/^plain\.md:2:8: TS2551/)]);
  expect(at('strict.md')).toEqual([expect.stringMatching(/^strict\.md:2:\d+: TS2375/)]);
  expect(at('apart.md')).toEqual([expect.stringMatching(/^apart\.md:6:5: TS2304/)]);
  expect(at('unnamed.md')).toEqual([expect.stringMatching(/^unnamed\.md:1: the language/)]);
  expect(at('open.md')).toEqual(['open.md:1: this block has no end']);
  expect(at('links.md')).toEqual([
    'links.md:2: gone.md leads nowhere',
    'links.md:2: #b-heading: the page has no such heading',
  ]);
});

test('an option that there is not, or a page, is refused', async () => {
  expect(await check('--bilt')).toMatchObject({ status: 2, problems: expect.stringContaining('--bilt') });
  expect(await check('docs/gone.md')).toMatchObject({ status: 2, problems: expect.stringContaining('gone') });
  expect(await check('--help')).toMatchObject({ status: 0, summary: expect.stringMatching(/^Usage:/) });
});

/** By type, so that a code which is added has to be added here. */
const CODES: Readonly<Record<HostedMcpErrorCode, true>> = {
  ERR_NOT_SENT: true,
  ERR_SESSION_LOST: true,
  ERR_SESSION_UNSTABLE: true,
  ERR_OUTCOME_UNKNOWN: true,
  ERR_TIMEOUT: true,
  ERR_ABORTED: true,
  ERR_CREDENTIAL_REJECTED: true,
  ERR_CREDENTIAL_SOURCE: true,
  ERR_DISCOVERY: true,
  ERR_REAUTHORIZATION_REQUIRED: true,
  ERR_INSUFFICIENT_SCOPE: true,
  ERR_TOKEN_ENDPOINT: true,
  ERR_STORE_UNAVAILABLE: true,
  ERR_RATE_LIMITED: true,
  ERR_RATE_WAIT_EXCEEDED: true,
  ERR_CONTRACT_CHANGED: true,
  ERR_TOOL_NOT_PINNED: true,
  ERR_DENIED: true,
  ERR_CALL_LIMIT: true,
  ERR_RESULT_REFUSED: true,
  ERR_MESSAGE_TOO_LARGE: true,
  ERR_HTTP_STATUS: true,
  ERR_PROTOCOL: true,
  ERR_REDIRECT: true,
  ERR_CLOSED: true,
};

test('every error has one recipe: what happened, what did not, what to do', async () => {
  const recipes = (await text('docs/failures.md')).split(/^### /m).slice(1);
  expect(recipes.map((recipe) => recipe.split('\n')[0]).sort()).toEqual(Object.keys(CODES).sort());
  for (const recipe of recipes) {
    expect(recipe).toMatch(
      /^ERR_\w+\n\n- \*\*Happened:\*\* [\s\S]*\n- \*\*Did not:\*\* [\s\S]*\n- \*\*Do:\*\* /,
    );
  }
});

test('no page names an error that there is not', async () => {
  for (const path of await pages()) {
    const strange = [...(await text(path)).matchAll(/(?<!\w)ERR_[A-Z_]+(?!\w)/g)]
      .map(([code]) => code)
      .filter((code) => !Object.hasOwn(CODES, code));
    expect({ path, strange }).toEqual({ path, strange: [] });
  }
});

test('every command and option in a shell block exists', async () => {
  const commands = new Map<string, string>();
  for (const { name, load } of COMMANDS) commands.set(name, (await load()).help);
  let seen = 0;
  const wrong: string[] = [];
  for (const path of await pages()) {
    for (const [, block = ''] of (await text(path)).matchAll(/^```sh\n([\s\S]*?)^```$/gm)) {
      for (const line of block.split('\n')) {
        const [, name = '', rest = ''] =
          /^npx mcp-holdfast (\S+)(.*)/.exec(line.replace(/ {2,}#.*/, '')) ?? [];
        if (name === '') continue;
        seen += 1;
        const help = commands.get(name) ?? '';
        const options = rest.match(/(?<=\s)--?[a-z][a-z-]*/g) ?? [];
        const strange = options.filter((option) => !new RegExp(`(?<![\\w-])${option}(?![\\w-])`).test(help));
        if (help === '' || strange.length > 0) wrong.push(`${path}: ${line}`);
      }
    }
  }
  expect(wrong).toEqual([]);
  expect(seen).toBeGreaterThan(10);
});

test('the reference has every public name and no other; `npm run docs` renews it', async () => {
  const { entryPoints } = JSON.parse(await text('typedoc.json')) as { entryPoints: string[] };
  const { exports } = JSON.parse(await text('package.json')) as { exports: Record<string, unknown> };
  const modules = new Map(
    entryPoints.map((path) => [
      path.replace(/^src\/(index\.ts)?/, 'mcp-holdfast/').replace(/(\/index)?\.ts$|\/$/, ''),
      path,
    ]),
  );
  const entries = Object.keys(exports).filter((entry) => entry !== './package.json');
  expect([...modules.keys()].sort()).toEqual(entries.map((entry) => `mcp-holdfast${entry.slice(1)}`).sort());
  for (const [module, path] of modules) {
    const reference = (await text(`docs/reference/${module}.md`)).replaceAll('\\', '');
    const shown = new Set([...reference.matchAll(/^### ([\w$]+)(\(\))?$/gm)].map(([, name = '']) => name));
    const names = await exportsOf(path);
    expect(names.size).toBeGreaterThan(0);
    const missing = [...names].filter((name) => !shown.has(name));
    // './client' shows everything of '.' again.
    const extra = module === 'mcp-holdfast/client' ? [] : [...shown].filter((name) => !names.has(name));
    expect({ module, missing, extra }).toEqual({ module, missing: [], extra: [] });
  }
});
