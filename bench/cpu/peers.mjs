// Packages that are measured beside ours and are no dependency of it: as bench/peers/package-lock.json says, in a folder of their own.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { plainEnvironment } from '../../scripts/frameworks/environment.mjs';

const run = promisify(execFile);
const FILES = ['package.json', 'package-lock.json'];
const FROM = fileURLToPath(new URL('../peers/', import.meta.url));
const TO = fileURLToPath(new URL('../../.tmp/bench/peers/', import.meta.url));

/** The folder they are installed in. Kept for the next run until the lockfile changes. */
export async function installPeers(say) {
  const digest = createHash('sha256');
  for (const file of FILES) digest.update(readFileSync(join(FROM, file)));
  const wanted = digest.digest('hex');
  const marker = join(TO, 'installed');
  if (existsSync(marker) && readFileSync(marker, 'utf8') === wanted) return TO;
  say('installing what is measured beside it');
  rmSync(TO, { recursive: true, force: true });
  mkdirSync(TO, { recursive: true });
  for (const file of FILES) cpSync(join(FROM, file), join(TO, file));
  const quiet = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error', '--prefer-offline'];
  await run('npm', ['ci', ...quiet], { cwd: TO, env: plainEnvironment() });
  writeFileSync(marker, wanted);
  return TO;
}

/** Of those that are installed: `[[name, version], ...]`. */
export function peerVersions() {
  const { dependencies } = JSON.parse(readFileSync(join(FROM, 'package.json'), 'utf8'));
  return Object.entries(dependencies).filter(([name]) => name !== 'zod');
}
