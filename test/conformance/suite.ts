/** One scenario of the official suite as an expectation. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { runScenario } from '../../scripts/conformance/suite.mjs';

/**
 * Expects exit status 0, no failed check and at least one passed: a missing suite must not look like a
 * passed one. `judged` says what is driven: `['server', '--url', ...]` or `['client', '--command', ...]`.
 */
export async function expectScenarioToPass(
  scenario: string,
  judged: readonly string[],
  folder: string,
  refusal?: string,
): Promise<void> {
  const { verdict, failed, passed, exitCode, printed } = await runScenario({
    scenario,
    judged,
    folder,
    refusal,
  });
  expect({ verdict, failed, exitCode }, printed).toEqual({ verdict: 'passed', failed: [], exitCode: 0 });
  expect(passed).toBeGreaterThanOrEqual(1);
}

export function resultsFolder(name: string): string {
  return join(fileURLToPath(new URL('.', import.meta.url)), 'results', name);
}
