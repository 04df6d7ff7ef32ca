/**
 * Once for a run of the tests, before any worker starts: see to it that the proxies are there.
 *
 * Guarantees that nothing is installed by two workers at once, and that a machine without them is told what is
 * missing. Fails only in CI. To be named in vitest.config.ts: `globalSetup: ['test/proxies/global-setup.ts']`.
 */
import { ensureProxies } from './tools.js';

export default function setup(): void {
  const missing = ensureProxies('install');
  if (missing === undefined) return;
  if (process.env.CI === 'true') throw new Error(missing);
  console.warn(`Tests behind real proxies are skipped. ${missing}`);
}
