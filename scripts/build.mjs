// Empties dist first: tsup runs its three configurations at the same time, so none of them may do it.
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
rmSync(`${root}/dist`, { recursive: true, force: true });
const tsup = fileURLToPath(new URL('../node_modules/tsup/dist/cli-default.js', import.meta.url));
const run = spawnSync(process.execPath, [tsup], { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
process.exit(run.status ?? 1);
