// The server asks one replica for a pause: all of them keep it.
import { claim, countBetween, elapse, isStarved, limitHeld, nobodyStuck, nowMs, onStage } from './stage.mjs';

/** How far ahead a token may have been given out. */
const HORIZON_MS = 250;
const RETRY_AFTER_S = 2;
const THINK_MS = 100;
const CALLERS = 2;
/** The last replica begins in the middle of it. */
const BEGINS_AFTER_MS = 600;
const CONTROL_MS = 1_000;

/** The limit is out of reach, so that requests come all the time: nothing but the pause can stop them. */
export async function pauseForAll({ limit = 200, intervalMs = 2_000, after = 1, seed = 10 } = {}) {
  const rule = { limit, intervalMs };
  return await onStage({ rule }, async (stage) => {
    await stage.start(3, { callers: CALLERS, thinkMs: THINK_MS, seed, replicasTold: 4 });
    const fourth = await stage.load({ callers: CALLERS, thinkMs: THINK_MS, seed, replicasTold: 4 });
    await stage.until(1, 30_000);
    await elapse(CONTROL_MS + 300);
    await stage.recorder.ask('refuseOnce', { retryAfterSeconds: RETRY_AFTER_S });
    await elapse(BEGINS_AFTER_MS);
    await stage.begin(fourth);
    await elapse(RETRY_AFTER_S * 1000 + (after + 1) * intervalMs);
    const untilMs = nowMs();
    const report = await stage.report();
    const refused = report.requests.filter(({ status }) => status === 429);
    const fromMs = refused[0]?.atMs ?? 0;
    const endMs = fromMs + RETRY_AFTER_S * 1000;
    const before = countBetween(report.requests, fromMs - CONTROL_MS, fromMs);
    const inPause = report.requests.filter(({ atMs }) => atMs >= fromMs + HORIZON_MS && atMs < endMs);
    const handshakes = report.requests.filter(
      ({ replica, method }) => replica === '4' && method === 'initialize',
    );
    const afterwards = countBetween(report.requests, endMs, untilMs);
    const paused = report.replicas.flatMap(({ events }) =>
      events.filter(({ event }) => event === 'rate-paused'),
    );
    const leak = countBetween(report.requests, fromMs + 0.001, fromMs + HORIZON_MS);
    return {
      name: 'pause for all',
      parameters: `3 processes, ${CALLERS} callers each; one 429 with Retry-After: ${RETRY_AFTER_S}; a fourth process starts ${BEGINS_AFTER_MS} ms later`,
      figures: {
        'in the second before': before,
        'in the first 250 ms': leak,
        'in the pause': inPause.length,
        afterwards,
        'handshake of the fourth': `${((handshakes[0]?.atMs ?? Number.NaN) - fromMs).toFixed(0)} ms after the 429`,
      },
      isStarved: isStarved(report),
      claims: [
        claim('one request is refused', refused.length === 1, refused.length),
        claim('requests came before: at least 20 in a second', before >= 20, before),
        claim(
          'no request from 250 ms after the 429 until its pause ends',
          inPause.length === 0,
          inPause
            .map(
              ({ atMs, replica, method, http }) =>
                `replica ${replica}, ${method ?? http}, ${(atMs - fromMs).toFixed(0)} ms after it`,
            )
            .join('; ') || '0',
        ),
        claim(
          'the fourth opens its session after the pause',
          handshakes.length > 0 && handshakes.every(({ atMs }) => atMs >= endMs),
          handshakes.map(({ atMs }) => `${(atMs - fromMs).toFixed(0)} ms`).join(', '),
        ),
        claim('work goes on afterwards', afterwards >= 10, afterwards),
        claim('the app is told', paused.length > 0, `${paused.length}x rate-paused`),
        limitHeld(report, rule),
        ...nobodyStuck(report, RETRY_AFTER_S * 1000 + 3 * intervalMs),
      ],
    };
  });
}
