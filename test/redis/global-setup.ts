/**
 * Once for a run of the tests, before any worker starts: see to it that redis-server is there.
 *
 * Guarantees that nothing is installed by two workers at once. A machine without it fails: no test over Redis is
 * skipped. To be named in vitest.config.ts: `globalSetup: ['test/redis/global-setup.ts']`.
 */
import { ensureRedis } from './server.js';

export default function setup(): void {
  // Replicas whose clocks disagree are made with the second.
  const missing = ensureRedis('install', 'faketime');
  if (missing === undefined) return;
  if (process.env.CI === 'true') throw new Error(missing);
  console.warn(`Tests over a real Redis will fail. ${missing}`);
}
