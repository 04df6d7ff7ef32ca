/**
 * The official suite's client scenarios through HostedClient, as an app would use it: the built package.
 */
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test } from 'vitest';
import { expectScenarioToPass, resultsFolder } from './suite.js';

const results = resultsFolder('client-scenarios');
const client = fileURLToPath(new URL('client.mjs', import.meta.url));

beforeAll(async () => {
  expect(existsSync(new URL('../../dist/client.js', import.meta.url)), 'run `npm run build` first').toBe(
    true,
  );
  await rm(results, { recursive: true, force: true });
});

test.sequential.each(['initialize', 'tools_call', 'elicitation-sep1034-client-defaults', 'sse-retry'])(
  '%s',
  (scenario) =>
    expectScenarioToPass(scenario, ['client', '--command', `${process.execPath} ${client}`], results),
);
