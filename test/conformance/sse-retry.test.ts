/**
 * The official suite's `sse-retry` with a client that listens, ten times in a row: it measures the time of the
 * last GET, so that a listen stream which came back at the wrong moment, or jitter that took away, would show.
 */
import { existsSync } from 'node:fs';
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { expectScenarioToPass, resultsFolder } from './suite.js';

const results = resultsFolder('sse-retry');
const client = fileURLToPath(new URL('client.mjs', import.meta.url));
const RUNS = Array.from({ length: 10 }, (_, index) => index + 1);

beforeAll(async () => {
  expect(existsSync(new URL('../../dist/client.js', import.meta.url)), 'run `npm run build` first').toBe(
    true,
  );
  await rm(results, { recursive: true, force: true });
  process.env.CONFORMANCE_LISTENS = '1';
});
afterAll(() => {
  delete process.env.CONFORMANCE_LISTENS;
});

test.sequential.each(RUNS)('listening, run %d', async (run) => {
  const folder = join(results, String(run));
  await expectScenarioToPass('sse-retry', ['client', '--command', `${process.execPath} ${client}`], folder);
  const [output = ''] = await readdir(join(folder, 'sse-retry'));
  const checks: { details?: { method?: string; headers?: Record<string, string> } }[] = JSON.parse(
    await readFile(join(folder, 'sse-retry', output, 'checks.json'), 'utf8'),
  );
  const gets = checks.flatMap(({ details }) => (details?.method === 'GET' ? [details.headers ?? {}] : []));
  // The listen stream, and the call's own stream taken up again.
  expect(gets.map((headers) => 'last-event-id' in headers)).toEqual([false, true]);
});
