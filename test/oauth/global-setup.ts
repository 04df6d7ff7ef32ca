/**
 * Once for a run of the tests, before any worker starts: see to it that Chromium is there.
 *
 * Guarantees that nothing is installed by two workers at once. A machine without it fails the test of a user's consent.
 * To be named in vitest.config.ts: `globalSetup: ['test/oauth/global-setup.ts']`.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const ENSURE_TOOLS = fileURLToPath(new URL('../../scripts/ensure-tools.sh', import.meta.url));

export default function setup(): void {
  const { status, stderr } = spawnSync('sh', [ENSURE_TOOLS, 'chromium'], { encoding: 'utf8' });
  if (status === 0) return;
  const missing = stderr?.trim() || `ensure-tools.sh ended with ${status}`;
  if (process.env.CI === 'true') throw new Error(missing);
  console.warn(`The test of a user's consent will fail. ${missing}`);
}
