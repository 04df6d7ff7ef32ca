/**
 * The official suite's `sse-retry` with a client that listens, ten times in a row: it measures the time of the
 * last GET, so that a listen stream which came back at the wrong moment, or jitter that took away, would show.
 */
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { clientCommand } from '../../scripts/conformance/suite.mjs';
import { expectScenarioToPass, resultsFolder } from './suite.js';

const client = fileURLToPath(new URL('client.mjs', import.meta.url));
const RUNS = Array.from({ length: 10 }, (_, index) => index + 1);

beforeAll(() => {
  expect(existsSync(new URL('../../dist/client.js', import.meta.url)), 'run `npm run build` first').toBe(
    true,
  );
  process.env.CONFORMANCE_LISTENS = '1';
});
afterAll(() => {
  delete process.env.CONFORMANCE_LISTENS;
});

test.sequential.each(RUNS)('listening, run %d', async (run) => {
  const folder = join(resultsFolder('sse-retry'), String(run));
  await expectScenarioToPass('sse-retry', clientCommand(client), folder);
  const [output = ''] = await readdir(folder);
  const checks: { details?: { method?: string; headers?: Record<string, string> } }[] = JSON.parse(
    await readFile(join(folder, output, 'checks.json'), 'utf8'),
  );
  const gets = checks.flatMap(({ details }) => (details?.method === 'GET' ? [details.headers ?? {}] : []));
  // The listen stream, and the call's own stream taken up again.
  expect(gets.map((headers) => 'last-event-id' in headers)).toEqual([false, true]);
});
