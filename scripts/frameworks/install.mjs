// The frameworks as a user has them: each in a folder of its own, exactly as its lockfile says, with this project's tarball.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { plainEnvironment } from './environment.mjs';

const run = promisify(execFile);
const OWN = 'mcp-holdfast';
const QUIET = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error', '--prefer-offline'];

/** The tarball of the project as it is built now; `digest` names its contents. */
export async function packProject(root, cache) {
  mkdirSync(cache, { recursive: true });
  const { stdout } = await npm(root, ['pack', '--json', '--ignore-scripts', '--pack-destination', cache]);
  const [{ filename }] = JSON.parse(stdout);
  const path = join(cache, filename);
  return { path, digest: digestOf(readFileSync(path)) };
}

/** Where that example can be run from; `isFresh` where nothing had been kept of it. */
export async function installExample({ example, cache, tarball, extraFiles }) {
  const manifest = JSON.parse(readFileSync(join(example, 'package.json'), 'utf8'));
  const lock = readFileSync(join(example, 'package-lock.json'), 'utf8');
  // Not in the lockfile: it is what is being tried.
  const { [OWN]: _, ...dependencies } = manifest.dependencies;
  const kept = JSON.stringify({ ...manifest, dependencies }, undefined, 2);
  const directory = join(cache, `${manifest.name}-${digestOf(kept + lock).slice(0, 16)}`);
  const marker = join(directory, 'installed.json');
  const had = existsSync(marker) ? JSON.parse(readFileSync(marker, 'utf8')).tarball : undefined;
  if (had === undefined) {
    // Those of earlier lockfiles, and one that was not finished.
    const kin = readdirSync(cache).filter((name) => name.replace(/-[0-9a-f]{16}$/, '') === manifest.name);
    for (const name of kin) rmSync(join(cache, name), { recursive: true, force: true });
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, 'package.json'), kept);
    writeFileSync(join(directory, 'package-lock.json'), lock);
    await npm(directory, ['ci', ...QUIET]);
  }
  if (had !== tarball.digest) {
    rmSync(marker, { force: true });
    await npm(directory, ['install', '--no-save', ...QUIET, tarball.path]);
    const differences = differencesFrom(lock, directory);
    if (differences.length > 0) throw new Error(`not what the lockfile says: ${differences.join(', ')}`);
    writeFileSync(marker, JSON.stringify({ tarball: tarball.digest }));
  }
  for (const name of readdirSync(example).filter((file) => file.endsWith('.mjs')))
    cpSync(join(example, name), join(directory, name));
  for (const [name, from] of Object.entries(extraFiles)) cpSync(from, join(directory, name));
  return { directory, isFresh: had === undefined };
}

/** Of a package that is installed there. */
export function versionOf(directory, packageName) {
  const path = join(directory, 'node_modules', packageName, 'package.json');
  return JSON.parse(readFileSync(path, 'utf8')).version;
}

function differencesFrom(lock, directory) {
  const wanted = JSON.parse(lock).packages;
  const installed = join(directory, 'node_modules/.package-lock.json');
  const found = JSON.parse(readFileSync(installed, 'utf8')).packages;
  return Object.entries(wanted)
    .filter(([path, { optional }]) => path !== '' && !(optional && found[path] === undefined))
    .filter(([path, { version }]) => found[path]?.version !== version)
    .map(([path, { version }]) => `${path} ${found[path]?.version} instead of ${version}`);
}

function npm(cwd, args) {
  return run('npm', args, { cwd, env: plainEnvironment(), maxBuffer: 16 * 1024 * 1024 });
}

function digestOf(data) {
  return createHash('sha256').update(data).digest('hex');
}
