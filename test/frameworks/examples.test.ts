/**
 * The examples of `npm run test:frameworks`, as files: their versions are exact, and each can be copied as it is.
 */
import { existsSync, readFileSync } from 'node:fs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { plainEnvironment } from '../../scripts/frameworks/environment.mjs';
import { ROWS } from '../../scripts/frameworks/rows.mjs';

const ROOT = new URL('../../', import.meta.url);
const read = (path: string) => readFileSync(new URL(path, ROOT), 'utf8');
const json = (path: string) => JSON.parse(read(path));
const FOLDERS = [...new Set(ROWS.map(({ folder }) => folder))];
const own = json('package.json');

afterEach(() => vi.unstubAllEnvs());

describe.each(FOLDERS)('examples/%s', (folder) => {
  const manifest = json(`examples/${folder}/package.json`);
  const lock = json(`examples/${folder}/package-lock.json`);
  const rows = ROWS.filter((row) => row.folder === folder);

  it('names exact versions, and this version of this package', () => {
    for (const version of Object.values(manifest.dependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
    expect(manifest.dependencies[own.name]).toBe(own.version);
    expect(manifest.private).toBe(true);
  });

  it('the lockfile has all of it but this package, by digest, and no host', () => {
    const { [own.name]: _, ...others } = manifest.dependencies;
    expect(lock.packages[''].dependencies).toEqual(others);
    const entries = Object.entries<{ version: string; integrity?: string; resolved?: string }>(lock.packages);
    for (const [path, { integrity, resolved }] of entries) {
      expect(resolved, path).toBeUndefined();
      if (path !== '') expect(integrity, path).toMatch(/^sha512-/);
    }
    for (const { packageName } of rows)
      expect(lock.packages[`node_modules/${packageName}`].version).toBe(others[packageName]);
  });

  it('opens by the name its rows use, imports only what it lists, and has stock wiring beside it', () => {
    for (const { program, opens } of rows) {
      const source = read(`examples/${folder}/${program}`);
      expect(source).toMatch(new RegExp(`export (async function|const) ${opens}\\b`));
      for (const [, from = ''] of source.matchAll(/from '([^']+)'/g)) {
        const name = from
          .split('/')
          .slice(0, from.startsWith('@') ? 2 : 1)
          .join('/');
        expect(Object.keys(manifest.dependencies)).toContain(name);
      }
      expect(read(`scripts/frameworks/stock/${folder}.mjs`)).toMatch(new RegExp(`export .*\\b${opens}\\b`));
    }
  });
});

it('the table has a row for each, and all of them held', () => {
  const page = read('examples/frameworks.md');
  for (const { packageName, way, folder } of ROWS) {
    const version = json(`examples/${folder}/package.json`).dependencies[packageName];
    const line = page.split('\n').find((each) => each.startsWith(`| ${packageName} | ${version} | ${way} |`));
    expect(line, `${packageName}, ${way}`).toContain('| held |');
  }
  expect(existsSync(new URL('scripts/frameworks.mjs', ROOT))).toBe(true);
});

it('a framework’s process is told nothing of npm’s run here, nor a secret of ours', () => {
  vi.stubEnv('npm_config_local_prefix', '/here');
  vi.stubEnv('npm_package_json', '/here/package.json');
  vi.stubEnv('npm_config_registry', 'https://packages.example/');
  vi.stubEnv('HOLDFAST_TOKEN', 'secret');
  vi.stubEnv('HTTPS_PROXY', 'http://proxy.example');
  const environment = plainEnvironment();
  expect(environment).not.toHaveProperty('npm_config_local_prefix');
  expect(environment).not.toHaveProperty('npm_package_json');
  expect(environment).not.toHaveProperty('HOLDFAST_TOKEN');
  expect(environment).toMatchObject({
    npm_config_registry: 'https://packages.example/',
    HTTPS_PROXY: 'http://proxy.example',
    PATH: process.env.PATH,
  });
});
