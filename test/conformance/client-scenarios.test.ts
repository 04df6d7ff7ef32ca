/**
 * The official suite's client scenarios, as an app would use the built package: with HostedClient, and with the SDK v2's
 * Client over a HostedTransport. All that is not about authorization and one of each kind that is; `npm run
 * conformance` runs every one.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { COLUMNS, isQuick, plan } from '../../scripts/conformance/columns.mjs';
import { clientScenarios } from '../../scripts/conformance/suite.mjs';
import { expectScenarioToPass, resultsFolder } from './suite.js';

const scenarios = (await clientScenarios()).filter(({ name }) => isQuick(name));
const planned = plan(
  COLUMNS.filter(({ isOurs }) => isOurs),
  scenarios,
);

beforeAll(() => {
  expect(existsSync(new URL('../../dist/client.js', import.meta.url)), 'run `npm run build` first').toBe(
    true,
  );
});

describe.each(COLUMNS.filter(({ isOurs }) => isOurs))('$title', ({ id }) => {
  const runs = planned.filter(({ column }) => column.id === id);
  test.sequential.each(runs)('$scenario, $revision', ({ scenario, judged, refusal }) =>
    expectScenarioToPass(
      scenario,
      judged,
      join(resultsFolder('client-scenarios'), id, scenario.replaceAll('/', '-')),
      refusal,
    ),
  );
});
