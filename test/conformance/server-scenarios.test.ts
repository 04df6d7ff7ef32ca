/**
 * The official suite's server scenarios against the simulator: whether what it does without a fault is what
 * an honest server does is for somebody else to judge.
 */
import { execFile } from 'node:child_process';
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type HostedServer, startHostedServer } from '../../src/testing/index.js';

const here = fileURLToPath(new URL('.', import.meta.url));
const hook = new URL('hook.mjs', import.meta.url).href;
const suite = join(here, '../../node_modules/@modelcontextprotocol/conformance/dist/index.js');
const results = join(here, 'results/server-scenarios');

interface Check {
  id: string;
  status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'SKIPPED' | 'INFO';
}

let server: HostedServer;
beforeAll(async () => {
  await rm(results, { recursive: true, force: true });
  server = await startHostedServer({ auth: false });
});
afterAll(() => server.close());

/** One scenario in a process of its own; the suite starts everything at once otherwise. */
function runScenario(scenario: string): Promise<{ exitCode: number; output: string }> {
  const output = join(results, scenario);
  const args = ['--import', hook, suite, 'server', '--url', server.url, '--scenario', scenario, '-o', output];
  return new Promise((resolve) => {
    execFile(process.execPath, args, (error, stdout, stderr) => {
      const exitCode = error === null ? 0 : typeof error.code === 'number' ? error.code : 1;
      resolve({ exitCode, output: `${stdout}${stderr}` });
    });
  });
}

async function checksOf(scenario: string): Promise<Check[]> {
  const folder = join(results, scenario);
  const [run] = await readdir(folder);
  return JSON.parse(await readFile(join(folder, run ?? '', 'checks.json'), 'utf8'));
}

// A missing suite must not look like a passed one, so that each scenario has to show what it checked.
test.sequential.each([
  'server-initialize',
  'ping',
  'server-session-lifecycle',
  'dns-rebinding-protection',
  'server-sse-multiple-streams',
  'logging-set-level',
  'tools-list',
  'resources-list',
  'resources-subscribe',
  'resources-unsubscribe',
  'prompts-list',
])('%s', async (scenario) => {
  const { exitCode, output } = await runScenario(scenario);
  expect(exitCode, output).toBe(0);
  const checks = await checksOf(scenario);
  const bad = checks.filter(({ status }) => status === 'FAILURE' || status === 'WARNING');
  expect(bad).toEqual([]);
  expect(checks.filter(({ status }) => status === 'SUCCESS').length).toBeGreaterThanOrEqual(1);
});
