// Replicas that die, stand still, or have the wrong time.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { paddedMs, usage } from './figures.mjs';
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
const SKEWS_S = [30, -30, 0];
const JUMPED_S = [3_630, -3_630, 0];
/** After the last window: what was granted in it is to be there. */
const AFTER_MS = 400;
/** Right before tokens come free: the replica has just been given one, or is about to be. */
const BEFORE_WINDOW_MS = 80;

/** One of three dies at once, without a word. The others use what it leaves. */
export async function killed({ limit = 60, intervalMs = 6_000, windows = 5, callers = 10, seed = 6 } = {}) {
  const rule = { limit, intervalMs };
  const windowMs = paddedMs(intervalMs);
  return await onStage({ rule }, async (stage) => {
    const [, second] = await stage.start(3, { callers, jitterMs: JITTER_MS, seed });
    await stage.until(1, 30_000);
    await elapse(1.1 * windowMs);
    await stage.kill(second);
    await elapse((windows - 1.1) * windowMs);
    const untilMs = nowMs();
    const report = await stage.report();
    return {
      name: 'replica killed',
      parameters: `3 processes, ${limit} per ${intervalMs / 1000} s, jitter up to ${JITTER_MS} ms; SIGKILL after 1.1 of ${windows} windows`,
      figures: { requests: report.requests.length },
      isStarved: isStarved(report),
      claims: [
        limitHeld(report, rule),
        ...nobodyStuck(report, (Math.ceil((3 * callers) / limit) + 2) * windowMs),
        allServed(report, [1, 3], untilMs - windowMs, untilMs),
        usedLately(report, rule, untilMs, 'the others use what it leaves'),
      ],
    };
  });
}

/** As a frozen container or a laptop that sleeps. What the network holds back is not held back by that. */
export async function stopped({
  limit = 60,
  intervalMs = 6_000,
  stoppedMs = 12_000,
  after = 2,
  callers = 10,
  seed = 7,
} = {}) {
  const rule = { limit, intervalMs };
  const windowMs = paddedMs(intervalMs);
  return await onStage({ rule }, async (stage) => {
    const [first] = await stage.start(3, { callers, seed });
    await stage.until(1, 30_000);
    const { requests } = await stage.report();
    await elapse(Math.max(0, requests[0].atMs + windowMs - BEFORE_WINDOW_MS - nowMs()));
    const fromMs = nowMs();
    first.child.signal('SIGSTOP');
    await elapse(stoppedMs);
    first.child.signal('SIGCONT');
    const againMs = nowMs();
    await elapse(after * windowMs);
    const untilMs = nowMs();
    const report = await stage.report();
    const meanwhile = countBetween(
      report.requests.filter(({ replica }) => replica === '1'),
      fromMs + 100,
      againMs,
    );
    return {
      name: 'replica stopped',
      parameters: `3 processes, ${limit} per ${intervalMs / 1000} s; one of them SIGSTOP for ${stoppedMs / 1000} s, ${BEFORE_WINDOW_MS} ms before tokens come free`,
      figures: { requests: report.requests.length, 'of the stopped one meanwhile': meanwhile },
      isStarved: false,
      claims: [
        limitHeld(report, rule, { countStalls: false }),
        ...nobodyStuck(report, stoppedMs + (Math.ceil((3 * callers) / limit) + 2) * windowMs),
        allServed(report, [1, 2, 3], againMs, untilMs),
      ],
    };
  });
}

/** One that is never run for long: it stands still again and again, for longer than an answer of Redis takes. */
export async function stutters({
  limit = 60,
  intervalMs = 6_000,
  windows = 4,
  stopMs = 400,
  runMs = 300,
  callers = 10,
  seed = 12,
} = {}) {
  const rule = { limit, intervalMs };
  const windowMs = paddedMs(intervalMs);
  return await onStage({ rule }, async (stage) => {
    const [first] = await stage.start(3, { callers, seed });
    await stage.until(1, 30_000);
    const endMs = nowMs() + windows * windowMs;
    let stops = 0;
    for (; nowMs() < endMs; stops += 1) {
      first.child.signal('SIGSTOP');
      await elapse(stopMs);
      first.child.signal('SIGCONT');
      await elapse(runMs);
    }
    const report = await stage.report();
    return {
      name: 'replica stutters',
      parameters: `3 processes, ${limit} per ${intervalMs / 1000} s, ${windows} windows; one of them SIGSTOP for ${stopMs} ms again and again, SIGCONT for ${runMs} ms`,
      figures: { requests: report.requests.length, stops },
      isStarved: false,
      claims: [
        limitHeld(report, rule, { countStalls: false }),
        ...nobodyStuck(report, (Math.ceil((3 * callers) / limit) + 3) * windowMs),
        allServed(report, [2, 3], endMs - windowMs, endMs),
      ],
    };
  });
}

/**
 * Wall clocks 30 s ahead and 30 s behind, and then, with `jumps`, an hour more: somebody sets them in the middle of the
 * run. The monotonic clock is nobody's to change.
 */
export async function clocksApart({
  limit = 60,
  intervalMs = 6_000,
  windows = 3,
  jumps = false,
  callers = 10,
  seed = 8,
} = {}) {
  const rule = { limit, intervalMs };
  const windowMs = paddedMs(intervalMs);
  const clocks = SKEWS_S.map((seconds) => wrongClock(seconds));
  const close = () => {
    for (const clock of clocks) clock.close();
  };
  return await onStage({ rule }, async (stage) => {
    const replicas = await stage.start(3, { callers, jitterMs: JITTER_MS, seed }, (number) => ({
      env: clocks[number - 1].env,
    }));
    await stage.until(1, 30_000);
    await elapse((windows / 2) * windowMs);
    if (jumps) for (const [index, clock] of clocks.entries()) clock.set(JUMPED_S[index]);
    await elapse((windows / 2) * windowMs + AFTER_MS);
    const untilMs = nowMs();
    const report = await stage.report();
    const used = usage(report.requests, rule, windows);
    const told = await Promise.all(replicas.map(({ child }) => child.ask('clock')));
    const offsets = told.map((epochMs) => Math.round((epochMs - Date.now()) / 1000));
    const meant = jumps ? JUMPED_S : SKEWS_S;
    return {
      name: jumps ? 'clocks jump' : 'clocks apart',
      parameters: `3 processes, ${limit} per ${intervalMs / 1000} s, jitter up to ${JITTER_MS} ms, ${windows} windows; wall clocks ${SKEWS_S.join(', ')} s${jumps ? `, then ${JUMPED_S.join(', ')} s` : ''}`,
      figures: { requests: report.requests.length, usage: `${(100 * used).toFixed(1)} %` },
      isStarved: isStarved(report),
      claims: [
        claim(
          'the clocks are what was meant',
          offsets.every((offset, index) => Math.abs(offset - meant[index]) <= 2),
          `${offsets.join(', ')} s`,
        ),
        limitHeld(report, rule),
        claim('uses at least 95 % of the limit', used >= 0.95, `${(100 * used).toFixed(1)} %`),
        ...nobodyStuck(report, (Math.ceil((3 * callers) / limit) + 2) * windowMs),
        eventsTold(report, [1, 2, 3], { degraded: false }),
        allServed(report, [1, 2, 3], untilMs - 1.5 * windowMs, untilMs),
      ],
    };
  }).finally(close);
}

/** A wall clock that is off by so much, and can be set. libfaketime reads the file at every look. */
function wrongClock(seconds) {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-clock-'));
  const file = join(dir, 'clock');
  const set = (offset) => {
    // At once, for whoever reads it meanwhile.
    writeFileSync(`${file}.next`, `${offset >= 0 ? '+' : ''}${offset}s\n`);
    renameSync(`${file}.next`, file);
  };
  set(seconds);
  const preload = spawnSync('faketime', ['-f', '+1s', 'printenv', 'LD_PRELOAD'], { encoding: 'utf8' });
  return {
    set,
    env: {
      LD_PRELOAD: preload.stdout.trim(),
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1',
      DONT_FAKE_MONOTONIC: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    },
    close: () => rmSync(dir, { recursive: true, force: true }),
  };
}
