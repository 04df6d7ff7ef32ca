// The package as its users get it: packed, and installed into an app of its own.
import { existsSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { npm } from './programs.mjs';

/** A folder that is gone when the process ends, however it ends. */
export function temporaryFolder(name) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), `mcp-holdfast-${name}-`)));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The path of the tarball of the project at `root`, which has to be built. */
export async function packProject(root, into) {
  if (!existsSync(join(root, 'dist/index.js')))
    throw new Error('There is no build: run `npm run build` first.');
  const [{ filename }] = JSON.parse(
    await npm(['pack', '--json', '--ignore-scripts', '--pack-destination', into], root),
  );
  return join(into, filename);
}

/** Installs `packages` (a tarball's path is one) into the empty app `folder`, as a user would. */
export async function installApp(folder, packages) {
  writeFileSync(
    join(folder, 'package.json'),
    JSON.stringify({ name: 'app', version: '1.0.0', private: true }),
  );
  await npm(['install', '--save-exact', '--ignore-scripts', '--prefer-offline', ...packages], folder);
}
