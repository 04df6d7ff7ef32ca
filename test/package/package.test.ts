/**
 * The package as its users get it: packed, installed in an empty folder, and used from there.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const fixtures = fileURLToPath(new URL('fixtures', import.meta.url));
let app: string;
let packed: string[];

/** Runs a program to its end; both outputs, and they are in the error if it fails. */
function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  return new Promise((resolve, reject) => {
    // Whatever the test runner or npm sets for itself is not part of a user's environment.
    const env = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !/^(NODE_OPTIONS|NODE_ENV|VITEST|npm_)/.test(name)),
    );
    execFile(command, args, { cwd, env, maxBuffer: 16 * 1024 * 1024 }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${command} ${args.join(' ')} failed:\n${stdout}\n${stderr}`));
    });
  });
}

const node = (...args: string[]) => run(process.execPath, args, app);

beforeAll(async () => {
  for (const entry of ['index', 'client', 'testing']) {
    for (const ending of ['js', 'cjs', 'd.ts', 'd.cts']) {
      const file = `dist/${entry}.${ending}`;
      if (!existsSync(join(root, file))) throw new Error(`${file} is missing: run \`npm run build\` first.`);
    }
  }
  app = await realpath(await mkdtemp(join(tmpdir(), 'mcp-holdfast-package-')));
  const json = await run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', app], root);
  const [tarball] = JSON.parse(json) as [{ filename: string; files: { path: string }[] }];
  packed = tarball.files.map((file) => file.path);

  await cp(fixtures, app, { recursive: true });
  await writeFile(join(app, 'package.json'), JSON.stringify({ name: 'app', private: true }));
  const install = ['install', '--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts', '--no-save'];
  await run('npm', [...install, join(app, tarball.filename)], app);

  // Things the app brings itself; the package under test and its dependencies are really installed.
  for (const name of ['@modelcontextprotocol/sdk', '@opentelemetry/api', '@types/node', 'undici-types']) {
    const link = join(app, 'node_modules', name);
    await mkdir(dirname(link), { recursive: true });
    if (!existsSync(link)) await symlink(join(root, 'node_modules', name), link, 'dir');
  }
}, 120_000);

afterAll(async () => {
  if (app !== undefined) await rm(app, { recursive: true, force: true });
});

test('the tarball holds the build and nothing else', () => {
  const others = packed.filter((file) => !file.startsWith('dist/')).sort();
  const allowed = ['CHANGELOG.md', 'LICENSE', 'README.md', 'package.json'];
  expect(others.filter((file) => !allowed.includes(file))).toEqual([]);
  expect(others).toEqual(expect.arrayContaining(['LICENSE', 'package.json']));
});

test('it is the installed package that is tested', async () => {
  const installed = await realpath(join(app, 'node_modules/mcp-holdfast'));
  expect(installed).toBe(join(app, 'node_modules/mcp-holdfast'));
});

test('an ESM app', async () => {
  expect(await node('esm.mjs')).toBe('fine');
});

test('a CommonJS app', async () => {
  expect(await node('common.cjs')).toBe('fine');
});

test('the main entry needs no SDK, and loads neither undici nor an OAuth library before they are used', async () => {
  const heavy = /node_modules\/(undici|openid-client|oauth4webapi|jose|@modelcontextprotocol)\//;
  const asModule = (await node('--import', './trace-imports.mjs', 'only-main.mjs')).split('\n');
  expect(asModule).toContainEqual(expect.stringMatching(/node_modules\/mcp-holdfast\/dist\/index\.js$/));
  expect(asModule.filter((url) => heavy.test(url))).toEqual([]);

  const asCommonJs = JSON.parse(await node('only-main.cjs')) as string[];
  expect(asCommonJs).toContainEqual(expect.stringMatching(/node_modules\/mcp-holdfast\/dist\/index\.cjs$/));
  expect(asCommonJs.filter((path) => heavy.test(path))).toEqual([]);
  expect(await carriersOfOAuth(asCommonJs)).toEqual([]);
});

test('the CommonJS build carries the OAuth libraries once, in a chunk of their own', async () => {
  const dist = join(app, 'node_modules/mcp-holdfast/dist');
  const chunks = (await readdir(dist))
    .filter((file) => file.endsWith('.cjs'))
    .map((file) => join(dist, file));
  expect(await carriersOfOAuth(chunks)).toHaveLength(1);
});

/** Those files that contain openid-client or oauth4webapi: each of them names itself for its User-Agent. */
async function carriersOfOAuth(paths: readonly string[]): Promise<string[]> {
  const carriers: string[] = [];
  for (const path of paths) {
    if (/NAME\d* = ['"](openid-client|oauth4webapi)['"]/.test(await readFile(path, 'utf8')))
      carriers.push(path);
  }
  return carriers;
}

test('a CommonJS suite under jest 29, with an OAuth source', { timeout: 120_000 }, async () => {
  const jest = join(root, 'node_modules/jest/bin/jest.js');
  const config = { rootDir: app, testMatch: ['**/*.jest.cjs'], testEnvironment: 'node', transform: {} };
  await node(jest, '--config', JSON.stringify(config), '--ci', '--no-cache', '--runInBand');
});

test.each(['tsconfig.json', 'tsconfig.client.json'])(
  'a strict TypeScript app, libraries checked too: %s',
  { timeout: 120_000 },
  async (project) => {
    await node(join(root, 'node_modules/typescript/bin/tsc'), '--project', join(app, project));
  },
);
