// What every scenario plays on: a Redis, the judge, and replicas that begin together.
import { elapse, nowMs, startChild } from './child.mjs';
import { fullestWindow, lateMs, mostIn, paddedMs, padMs, timesWithinPad } from './figures.mjs';
import { openRedis } from './redis.mjs';

const KEY = 'fleet@production';
/** Every client library gets its share of the runs. */
const REDIS_CLIENTS = ['ioredis', 'redis', 'ioredis6'];
/** A caller may wait for a token so long, and no longer. */
const MAX_WAIT_MS = 110_000;
/** The store's own deadline. */
const STARVED_MS = 250;
const REDIS_READY_MS = 5_000;
const LATELY_WINDOWS = 2;
const LATELY_USAGE = 0.85;

/**
 * `redis: 'absent'`: its port is known and nothing listens there. All of it ends with `close()`.
 */
export async function openStage({ rule, redis: begins = 'running', server = {} }) {
  const [redis, recorder] = await Promise.all([
    openRedis({ begin: begins === 'running' }),
    startChild('recorder.mjs'),
  ]);
  const [opened, other] = await Promise.all([recorder.ask('open', server), recorder.ask('openOther')]);
  const replicas = [];

  /** A replica that is warm, and does nothing before `begin`. */
  async function load({ env, ...options } = {}) {
    const number = replicas.length + 1;
    const replica = { number, options, child: undefined, isGone: false };
    replicas.push(replica);
    replica.child = await startChild('replica.mjs', { env });
    await replica.child.ask('warmUp', other);
    return replica;
  }

  async function begin(replica) {
    const { number, options, child } = replica;
    const { replicasTold = 3, rateLimit = {}, ...rest } = options;
    await child.ask('begin', {
      number,
      url: opened.url,
      tokenEndpoint: opened.tokenEndpoint,
      client: opened.client,
      redis: {
        port: redis.port,
        kind: REDIS_CLIENTS[(number - 1) % REDIS_CLIENTS.length],
        waitMs: begins === 'running' ? REDIS_READY_MS : 0,
      },
      rateLimit: { ...rule, key: KEY, replicas: replicasTold, maxWaitMs: MAX_WAIT_MS, ...rateLimit },
      ...rest,
    });
  }

  return {
    redis,
    recorder,
    opened,
    key: KEY,
    load,
    begin,
    /** So many replicas, each with these options, at the same time. `each`: what is one's own. */
    async start(count, options = {}, each = () => ({})) {
      const loaded = await Promise.all(
        Array.from({ length: count }, (_, index) => load({ ...options, ...each(index + 1) })),
      );
      await Promise.all(loaded.map(begin));
      return loaded;
    },
    /** Until the judge has seen so many requests, or `patienceMs` have passed. Answers with its clock. */
    async until(count, patienceMs) {
      const untilMs = nowMs() + patienceMs;
      while (nowMs() < untilMs && (await recorder.ask('report')).requests.length < count) await elapse(50);
      return nowMs();
    },
    kill(replica) {
      replica.isGone = true;
      return replica.child.end();
    },
    /** What the judge has seen, and what the replicas say of themselves (those that live). */
    async report() {
      const seen = await recorder.ask('report');
      const living = replicas.filter(({ isGone }) => !isGone);
      const told = await Promise.all(living.map(({ child }) => child.ask('report')));
      return {
        ...seen,
        replicas: told.map((report, index) => ({ number: living[index].number, ...report })),
      };
    },
    async close() {
      await Promise.all([
        ...replicas.map(({ child }) => child?.end()),
        recorder.end(),
        redis.close().catch(() => {}),
      ]);
    },
  };
}

/** Opens a stage for the play, and closes it whatever becomes of it. */
export async function onStage(options, play) {
  const stage = await openStage(options);
  try {
    return await play(stage);
  } finally {
    await stage.close();
  }
}

export function claim(text, holds, found) {
  return { text, holds, found: String(found) };
}

/**
 * The promise of every scenario, at the judge's side. The pad makes up for requests that are late by up to 250 ms, the
 * network's jitter included: where this machine made one later than that, the limit is judged without the rest.
 * `countStalls: false`: processes are made to stand still on purpose.
 */
export function limitHeld({ requests, lagMs, replicas }, { limit, intervalMs }, { countStalls = true } = {}) {
  const most = mostIn(
    requests.map(({ atMs }) => atMs),
    intervalMs,
  );
  const mostWithinPad = mostIn(timesWithinPad(requests, intervalMs, { countStalls }), intervalMs);
  const latest = Math.max(...requests.map(lateMs));
  const stalled = Math.max(...requests.map(({ stalledMs }) => stalledMs));
  const isHeldUp = latest + (countStalls ? stalled : 0) > padMs(intervalMs);
  const holds = (isHeldUp ? Math.min(most, mostWithinPad) : most) <= limit;
  const found = [
    `${most}`,
    ...(most > limit && isHeldUp ? [`${mostWithinPad} without what the machine held up`] : []),
    `latest ${latest.toFixed(0)} ms after the grant`,
    `processes kept from running for up to ${stalled.toFixed(0)} ms, the judge ${lagMs.toFixed(0)} ms`,
  ].join(', ');
  return {
    ...claim(`never more than ${limit} in any ${intervalMs / 1000} s`, holds, found),
    ...(!holds && { trace: traceOf(requests, replicas, intervalMs) }),
  };
}

/**
 * Whether a process was kept from running for longer than the store may take to answer: it then takes Redis to be
 * away, and goes on by itself, while the others do not. What is seen then says more of the machine than of a fleet.
 */
export function isStarved({ requests, lagMs }) {
  return Math.max(lagMs, ...requests.map(({ stalledMs }) => stalledMs)) > STARVED_MS;
}

/** Nobody waits for ever, and nobody is refused. */
export function nobodyStuck({ replicas }, withinMs, { failures = [] } = {}) {
  const longest = Math.max(...replicas.map(({ longestMs }) => longestMs));
  const failed = Object.assign({}, ...replicas.map((replica) => replica.failed));
  const unexpected = Object.keys(failed).filter((code) => !failures.includes(code));
  return [
    claim(
      `no caller waits longer than ${(withinMs / 1000).toFixed(1)} s`,
      longest <= withinMs,
      `${(longest / 1000).toFixed(1)} s`,
    ),
    claim('no call fails', unexpected.length === 0, JSON.stringify(failed)),
  ];
}

/** Each of these replicas has told the app that the store was away, and that it was back. */
export function eventsTold({ replicas }, numbers, { degraded = true } = {}) {
  const of = (number, event) =>
    replicas
      .find((replica) => replica.number === number)
      ?.events.filter((each) => each.event === event)
      .map((each) => each.reason ?? '') ?? [];
  const told = numbers.map((number) => [of(number, 'rate-degraded'), of(number, 'rate-restored')]);
  const found = told
    .map(([down, up], index) => `${numbers[index]}: ${down.join('+')}, back ${up.length}x`)
    .join('; ');
  return claim(
    degraded
      ? 'every replica tells that the store is away, and that it is back'
      : 'no replica is told to worry',
    told.every(([down, up]) => (degraded ? down.length > 0 && up.length > 0 : down.length === 0)),
    found,
  );
}

/** Every one of these replicas was at the server in the window before `untilMs`. */
export function allServed({ requests }, numbers, fromMs, untilMs) {
  const counts = numbers.map(
    (number) =>
      requests.filter(({ replica, atMs }) => replica === `${number}` && atMs >= fromMs && atMs < untilMs)
        .length,
  );
  return claim(
    'every replica is served again afterwards',
    counts.every((count) => count > 0),
    counts.join('/'),
  );
}

/** What the last two windows before `untilMs` had, of what the limit allows. Single requests may be on either side of an edge. */
export function usedLately({ requests }, { limit, intervalMs }, untilMs, text) {
  const fromMs = untilMs - LATELY_WINDOWS * paddedMs(intervalMs);
  const used = countBetween(requests, fromMs, untilMs) / (LATELY_WINDOWS * limit);
  return claim(
    `${text}: at least 85 % in the last ${LATELY_WINDOWS} windows`,
    used >= LATELY_USAGE,
    `${(100 * used).toFixed(0)} %`,
  );
}

export function countBetween(requests, fromMs, untilMs) {
  return requests.filter(({ atMs }) => atMs >= fromMs && atMs < untilMs).length;
}

/** The fullest window, and what the replicas told of in it or before. */
function traceOf(requests, replicas, intervalMs) {
  // Each client of a process tells the same.
  const events = new Map();
  for (const { number, events: told } of replicas)
    for (const { event, reason = '', atMs } of told)
      events.set(`${number} ${event} ${Math.round(atMs)}`, {
        atMs,
        replica: number,
        method: `${event} ${reason}`.trim(),
      });
  const window = fullestWindow(requests, intervalMs);
  const first = requests[0].atMs;
  const until = window.at(-1).atMs;
  return [...window, ...[...events.values()].filter(({ atMs }) => atMs <= until)]
    .sort((a, b) => a.atMs - b.atMs)
    .map((each) => {
      const what = `${(each.atMs - first).toFixed(0)} ms, replica ${each.replica}, ${each.method ?? each.http}`;
      if (each.grantedAtMs === undefined) return what;
      return `${what}, ${lateMs(each).toFixed(0)} ms late, stalled ${each.stalledMs.toFixed(0)} ms`;
    });
}

export { elapse, nowMs };
