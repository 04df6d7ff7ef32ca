// Redis goes away, and comes back: without what it knew, or with it, or for the first time.
import { paddedMs } from './figures.mjs';
import {
  allServed,
  claim,
  countBetween,
  elapse,
  eventsTold,
  isStarved,
  limitHeld,
  nobodyStuck,
  nowMs,
  onStage,
  usedLately,
} from './stage.mjs';

const JITTER_MS = 150;
/** How long replicas may take to be back at the shared count: they look once a second, and let each other come. */
const BACK_MS = 5_000;
const ALL = [1, 2, 3];

function told(name, what, report, { rule, callers, windowMs, outageMs, fromMs, untilMs }, claims) {
  const { limit, intervalMs } = rule;
  // While each keeps to its share a caller waits for the share of its own replica.
  const ownShare = Math.floor(limit / 3);
  const stuckMs = outageMs + BACK_MS + (Math.ceil(callers / ownShare) + 2) * windowMs;
  return {
    name,
    parameters: `3 processes with ${callers} callers each, ${limit} per ${intervalMs / 1000} s, jitter up to ${JITTER_MS} ms; ${what}`,
    figures: {
      requests: report.requests.length,
      'in the outage': countBetween(report.requests, fromMs, fromMs + outageMs),
    },
    isStarved: isStarved(report),
    claims: [
      limitHeld(report, rule),
      ...nobodyStuck(report, stuckMs),
      eventsTold(report, ALL),
      allServed(report, ALL, untilMs - 2 * windowMs, untilMs),
      usedLately(report, rule, untilMs, 'the limit is used again in the end'),
      ...claims,
    ],
  };
}

/** Killed with everything in it, and back empty on the same port. */
export async function restartedEmpty({
  limit = 60,
  intervalMs = 6_000,
  awayMs = 2_000,
  before = 2.1,
  after = 3,
  callers = 10,
  seed = 3,
} = {}) {
  const rule = { limit, intervalMs };
  const windowMs = paddedMs(intervalMs);
  return await onStage({ rule }, async (stage) => {
    await stage.start(3, { callers, jitterMs: JITTER_MS, seed });
    await stage.until(1, 30_000);
    await elapse(before * windowMs);
    const fromMs = nowMs();
    await stage.redis.kill();
    await elapse(awayMs);
    await stage.redis.start();
    const outageMs = nowMs() - fromMs;
    await elapse(BACK_MS + after * windowMs);
    const untilMs = nowMs();
    const report = await stage.report();
    const span = { rule, callers, windowMs, outageMs, fromMs, untilMs };
    return told('redis restarted empty', `Redis away for ${awayMs / 1000} s`, report, span, []);
  });
}

/** Everything in it is gone, and no connection with it: eviction, or somebody's FLUSHALL in the middle of a window. */
export async function emptied({
  limit = 60,
  intervalMs = 6_000,
  before = 1.08,
  after = 3,
  callers = 10,
  seed = 13,
} = {}) {
  const rule = { limit, intervalMs };
  const windowMs = paddedMs(intervalMs);
  return await onStage({ rule }, async (stage) => {
    await stage.start(3, { callers, jitterMs: JITTER_MS, seed });
    await stage.until(1, 30_000);
    await elapse(before * windowMs);
    const fromMs = nowMs();
    await stage.redis.command('FLUSHALL');
    await elapse(BACK_MS + after * windowMs);
    const untilMs = nowMs();
    const report = await stage.report();
    const span = { rule, callers, windowMs, outageMs: 0, fromMs, untilMs };
    return told('redis emptied', `FLUSHALL after ${before} windows`, report, span, []);
  });
}

/** Replicas start before their Redis does. */
export async function absentAtStart({
  limit = 60,
  intervalMs = 6_000,
  absent = 2.5,
  after = 2,
  callers = 10,
  seed = 4,
} = {}) {
  const rule = { limit, intervalMs };
  const windowMs = paddedMs(intervalMs);
  return await onStage({ rule, redis: 'absent' }, async (stage) => {
    await stage.start(3, { callers, jitterMs: JITTER_MS, seed });
    const fromMs = await stage.until(1, 30_000);
    await elapse(absent * windowMs);
    await stage.redis.start();
    const outageMs = nowMs() - fromMs;
    await elapse(BACK_MS + after * windowMs);
    const untilMs = nowMs();
    const report = await stage.report();
    const without = countBetween(report.requests, fromMs, fromMs + outageMs);
    const span = { rule, callers, windowMs, outageMs, fromMs, untilMs };
    return told('redis absent at start', `Redis appears after ${absent} windows`, report, span, [
      claim('work goes on without it', without > 0, `${without} requests`),
    ]);
  });
}

/** It stands still, keeps its sockets, and later carries out what was sent meanwhile. */
export async function unreachable({
  limit = 60,
  intervalMs = 6_000,
  awayMs = 10_000,
  before = 1.1,
  after = 2,
  callers = 10,
  seed = 5,
} = {}) {
  const rule = { limit, intervalMs };
  const windowMs = paddedMs(intervalMs);
  return await onStage({ rule }, async (stage) => {
    await stage.start(3, { callers, jitterMs: JITTER_MS, seed });
    await stage.until(1, 30_000);
    await elapse(before * windowMs);
    const fromMs = nowMs();
    stage.redis.freeze();
    await elapse(awayMs);
    stage.redis.thaw();
    await elapse(BACK_MS + after * windowMs);
    const untilMs = nowMs();
    const report = await stage.report();
    const without = countBetween(report.requests, fromMs + 1_000, fromMs + awayMs);
    const span = { rule, callers, windowMs, outageMs: awayMs, fromMs, untilMs };
    return told('redis unreachable', `Redis does not answer for ${awayMs / 1000} s`, report, span, [
      claim('work goes on without it', without > 0, `${without} requests`),
    ]);
  });
}
