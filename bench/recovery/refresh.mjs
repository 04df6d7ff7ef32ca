// How long calls take in the second after a refresh, beside all others of the same run.
import { runProgram } from '../kit/processes.mjs';

/** Seconds; refreshed at half of so short a lifetime. */
const LIFETIME_S = 6;
const RUN_MS = 32_000;

export async function measureRefresh(port, { quick }) {
  return runProgram('recovery/refresh-client.mjs', {
    url: `http://127.0.0.1:${port}/json`,
    tokenEndpoint: `http://127.0.0.1:${port}/token?expires_in=${LIFETIME_S}`,
    runMs: quick ? 10_000 : RUN_MS,
  });
}
