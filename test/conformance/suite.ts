/** Runs one scenario of the official suite in a process of its own; the suite starts everything at once otherwise. */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';

const here = fileURLToPath(new URL('.', import.meta.url));
const hook = new URL('hook.mjs', import.meta.url).href;
const suite = join(here, '../../node_modules/@modelcontextprotocol/conformance/dist/index.js');

interface Check {
  id: string;
  status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'SKIPPED' | 'INFO';
}

/**
 * Expects exit status 0, no failed check and at least one passed: a missing suite must not look like a
 * passed one. `args` say what is judged: `['server', '--url', ...]` or `['client', '--command', ...]`.
 */
export async function expectScenarioToPass(
  scenario: string,
  args: readonly string[],
  results: string,
): Promise<void> {
  const output = join(results, scenario);
  const { exitCode, printed } = await run([
    '--import',
    hook,
    suite,
    ...args,
    '--scenario',
    scenario,
    '-o',
    output,
  ]);
  expect(exitCode, printed).toBe(0);
  const [folder] = await readdir(output);
  const checks: Check[] = JSON.parse(await readFile(join(output, folder ?? '', 'checks.json'), 'utf8'));
  expect(checks.filter(({ status }) => status === 'FAILURE' || status === 'WARNING')).toEqual([]);
  expect(checks.filter(({ status }) => status === 'SUCCESS').length).toBeGreaterThanOrEqual(1);
}

export function resultsFolder(name: string): string {
  return join(here, 'results', name);
}

function run(args: readonly string[]): Promise<{ exitCode: number; printed: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, args, (error, stdout, stderr) => {
      const exitCode = error === null ? 0 : typeof error.code === 'number' ? error.code : 1;
      resolve({ exitCode, printed: `${stdout}${stderr}` });
    });
  });
}
