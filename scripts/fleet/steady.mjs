// Replicas that always have something to call, and a network that keeps each request back for up to 200 ms.
import { paddedMs, padMs, shares, usage } from './figures.mjs';
import { claim, elapse, isStarved, limitHeld, nobodyStuck, onStage } from './stage.mjs';

const JITTER_MS = 200;
const LEAST_USAGE = 0.97;
const LEAST_SHARE = 0.2;
/** After the last window: what was granted in it is to be there. */
const AFTER_MS = 400;

export async function steady({ limit = 60, intervalMs = 6_000, windows = 5, callers = 10, seed = 1 } = {}) {
  const rule = { limit, intervalMs };
  const windowMs = paddedMs(intervalMs);
  return await onStage({ rule }, async (stage) => {
    await stage.start(3, { callers, jitterMs: JITTER_MS, seed });
    await stage.until(1, 30_000);
    await elapse(windows * windowMs + AFTER_MS);
    const report = await stage.report();
    const used = usage(report.requests, rule, windows);
    const parts = shares(report.requests, rule, windows);
    const least = Math.min(...[1, 2, 3].map((number) => parts[number] ?? 0));
    return {
      name: 'steady',
      parameters: `3 processes with ${callers} callers each, ${limit} per ${intervalMs / 1000} s, jitter up to ${JITTER_MS} ms, ${windows} windows`,
      figures: {
        requests: report.requests.length,
        usage: `${(100 * used).toFixed(1)} %`,
        shares: Object.values(parts)
          .map((part) => `${(100 * part).toFixed(0)} %`)
          .join(', '),
        'longest call': `${Math.max(...report.replicas.map(({ longestMs }) => longestMs)).toFixed(0)} ms`,
      },
      isStarved: isStarved(report),
      claims: [
        limitHeld(report, rule),
        claim(
          `uses at least 97 % of the limit, less the pad of ${padMs(intervalMs)} ms a window`,
          used >= LEAST_USAGE,
          `${(100 * used).toFixed(1)} %`,
        ),
        claim(
          `no replica has less than 20 % of ${windows} windows`,
          least >= LEAST_SHARE,
          `${(100 * least).toFixed(0)} %`,
        ),
        ...nobodyStuck(report, (Math.ceil((3 * callers) / limit) + 2) * windowMs),
      ],
    };
  });
}

/** All replicas want much at the same instant, after a time in which nobody wanted anything. */
export async function burst({ limit = 60, intervalMs = 6_000, calls = 40, seed = 2 } = {}) {
  const rule = { limit, intervalMs };
  const windowMs = paddedMs(intervalMs);
  const windows = Math.ceil((3 * calls + 9) / limit);
  return await onStage({ rule }, async (stage) => {
    await stage.start(3, { burst: calls, jitterMs: JITTER_MS, seed });
    // Each replica's handshake has two requests.
    await stage.until(3 * calls + 6, 30_000 + (windows + 1) * windowMs);
    await elapse(AFTER_MS);
    const report = await stage.report();
    const answered = report.replicas.reduce((sum, replica) => sum + replica.answered, 0);
    return {
      name: 'burst',
      parameters: `3 processes, ${calls} calls each at once, ${limit} per ${intervalMs / 1000} s, jitter up to ${JITTER_MS} ms`,
      figures: { requests: report.requests.length, answered },
      isStarved: isStarved(report),
      claims: [
        limitHeld(report, rule),
        claim('every call is answered', answered === 3 * calls, `${answered} of ${3 * calls}`),
        ...nobodyStuck(report, (windows + 2) * windowMs),
      ],
    };
  });
}
