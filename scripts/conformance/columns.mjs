/** Who is driven, and at which revision each scenario is for whom. */
import { fileURLToPath } from 'node:url';
import { SCENARIOS } from '../../test/conformance/scenarios.mjs';
import { clientCommand } from './suite.mjs';

export const EARLIER = '2025-11-25';
export const LATER = '2026-07-28';

const driver = (name) => fileURLToPath(new URL(`../../test/conformance/${name}`, import.meta.url));

export const COLUMNS = [
  { id: 'ours-v1', title: 'HostedClient (SDK v1)', sdk: 'v1', isOurs: true, driver: driver('client.mjs') },
  {
    id: 'ours-v2',
    title: 'HostedTransport under the SDK v2',
    sdk: 'v2',
    isOurs: true,
    driver: driver('client-v2.mjs'),
  },
  {
    id: 'stock-v1',
    title: 'SDK v1 alone',
    sdk: 'v1',
    isOurs: false,
    driver: driver('peers/stock-v1.mjs'),
    // What that SDK has nothing for.
    lacks: ['auth/enterprise-managed-authorization', 'auth/dpop', 'auth/dpop-nonce'],
  },
  {
    id: 'stock-v2',
    title: 'SDK v2 alone',
    sdk: 'v2',
    isOurs: false,
    driver: driver('peers/stock-v2.mjs'),
  },
];

/** Run by `--quick` and by the tests: all that is not about authorization, and one of each kind that is. */
const QUICK_AUTHORIZATION = new Set([
  'auth/metadata-var2',
  'auth/basic-cimd',
  'auth/scope-step-up',
  'auth/scope-retry-limit',
  'auth/token-endpoint-auth-basic',
  'auth/pre-registration',
  'auth/2025-03-26-oauth-metadata-backcompat',
  'auth/resource-mismatch',
  'auth/offline-access-scope',
  'auth/authorization-server-migration',
  'auth/iss-wrong-issuer',
  'auth/client-credentials-jwt',
  'auth/enterprise-managed-authorization',
  'auth/dpop-nonce',
  'auth/wif-jwt-bearer',
]);
export function isQuick(scenario) {
  return !scenario.startsWith('auth/') || QUICK_AUTHORIZATION.has(scenario);
}

/** Its measured times are another's load as well. */
export function runsAlone(scenario) {
  return scenario === 'sse-retry';
}

/**
 * At which revision a scenario is run in a column; undefined where it is not. The SDK v1 speaks the earlier revision
 * alone; under the SDK v2 everything is run at the later one that has a form there.
 */
export function revisionFor(column, { name, revisions }) {
  const entry = Object.hasOwn(SCENARIOS, name) ? SCENARIOS[name] : undefined;
  if (column.sdk === 'v1') return entry?.later === true ? undefined : EARLIER;
  return revisions.length === 0 || revisions.includes(LATER) ? LATER : EARLIER;
}

/** All that is to be run in these columns, in the suite's order. */
export function plan(columns, scenarios) {
  return columns.flatMap((column) =>
    scenarios.flatMap((scenario) => {
      const revision = revisionFor(column, scenario);
      if (revision === undefined || column.lacks?.includes(scenario.name)) return [];
      const judged = [...clientCommand(column.driver), '--spec-version', revision, '--force'];
      const refusal = column.isOurs ? SCENARIOS[scenario.name]?.refusal : undefined;
      return [{ column, scenario: scenario.name, revision, judged, refusal }];
    }),
  );
}
