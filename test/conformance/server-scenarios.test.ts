/**
 * The official suite's server scenarios against the simulator: whether what it does without a fault is what
 * an honest server does is for somebody else to judge.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, test } from 'vitest';
import { type HostedServer, startHostedServer } from '../../src/testing/index.js';
import { expectScenarioToPass, resultsFolder } from './suite.js';

let server: HostedServer;
beforeAll(async () => {
  server = await startHostedServer({ auth: false });
});
afterAll(() => server.close());

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
])('%s', (scenario) =>
  expectScenarioToPass(
    scenario,
    ['server', '--url', server.url],
    join(resultsFolder('server-scenarios'), scenario),
  ),
);
