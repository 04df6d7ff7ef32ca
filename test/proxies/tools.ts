/**
 * Whether the proxies are on this machine.
 *
 * Guarantees that a look costs milliseconds and changes nothing. Never installs unless it is asked to, and then
 * only through scripts/ensure-tools.sh.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const ENSURE_TOOLS = fileURLToPath(new URL('../../scripts/ensure-tools.sh', import.meta.url));
const PROXIES = ['nginx', 'haproxy'];

/** Finds the proxies, or installs them where that is possible; otherwise says what is missing. */
export function ensureProxies(mode: 'install' | 'check'): string | undefined {
  const flags = mode === 'check' ? ['--check'] : [];
  const { status, stderr, error } = spawnSync('sh', [ENSURE_TOOLS, ...flags, ...PROXIES], {
    encoding: 'utf8',
  });
  if (status === 0) return undefined;
  return stderr?.trim() || error?.message || `ensure-tools.sh ended with ${status}`;
}
