// A hundred clients in four processes: nobody is forgotten.
import { longestGaps, paddedMs } from './figures.mjs';
import { claim, elapse, isStarved, limitHeld, nobodyStuck, onStage } from './stage.mjs';

const PROCESSES = 4;
const MOST_WINDOWS = 6;

/**
 * Each client has one caller that never tires, so that all of them want a token all the time. A window of the promise
 * is the one that is kept: with the pad.
 */
export async function crowd({
  limit = 60,
  intervalMs = 6_000,
  clients = 25,
  windows = 12,
  jitterMs = 100,
  seed = 9,
} = {}) {
  const rule = { limit, intervalMs };
  const windowMs = paddedMs(intervalMs);
  return await onStage({ rule }, async (stage) => {
    await stage.start(PROCESSES, {
      clients,
      callers: 1,
      jitterMs,
      seed,
      listen: false,
      replicasTold: PROCESSES,
    });
    await stage.until(1, 30_000);
    await elapse(windows * windowMs);
    const report = await stage.report();
    const fromMs = report.requests[0].atMs;
    const names = Array.from({ length: PROCESSES * clients }, (_, index) => {
      const process = Math.floor(index / clients) + 1;
      return `${process}.${index % clients}`;
    });
    const calls = report.requests.filter(({ method }) => method === 'tools/call');
    const gaps = longestGaps(report.requests, names, fromMs, fromMs + windows * windowMs);
    const firsts = names.map(
      (name) => (calls.find(({ client }) => client === name)?.atMs ?? Number.POSITIVE_INFINITY) - fromMs,
    );
    const counts = names.map((name) => calls.filter(({ client }) => client === name).length);
    const longest = Math.max(...gaps) / windowMs;
    return {
      name: 'crowd',
      parameters: `${PROCESSES} processes with ${clients} clients each, ${limit} per ${intervalMs / 1000} s, jitter up to ${jitterMs} ms, ${windows} windows`,
      figures: {
        requests: report.requests.length,
        'calls of a client': `${Math.min(...counts)} to ${Math.max(...counts)}`,
        'first call of the last client': `after ${(Math.max(...firsts) / windowMs).toFixed(1)} windows`,
      },
      isStarved: isStarved(report),
      claims: [
        limitHeld(report, rule),
        claim(
          `each of ${names.length} clients is served in any ${MOST_WINDOWS} windows`,
          longest <= MOST_WINDOWS,
          `${longest.toFixed(1)} windows`,
        ),
        claim(
          'each has called a tool',
          counts.every((count) => count > 0),
          `${counts.filter((count) => count > 0).length} of ${names.length}`,
        ),
        ...nobodyStuck(report, MOST_WINDOWS * windowMs),
      ],
    };
  });
}
