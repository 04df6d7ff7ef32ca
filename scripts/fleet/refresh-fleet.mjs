// A fleet of replicas that share one rotating refresh token, on a real authorization server and a real Redis.
import { randomBytes } from 'node:crypto';
import { elapse, startChild } from './child.mjs';
import { startOidcServer } from './oidc-server.mjs';
import { openRedis } from './redis.mjs';

/** A call every half second and caller: what a chat with tools makes of a server. */
const PAUSE_MS = 500;
/** Where a replica is killed: a lease is five seconds longer, and the others wait for its end. */
const TOKEN_TIMEOUT_MS = 3_000;
const LEASE_MS = TOKEN_TIMEOUT_MS + 5_000;
const DEAD = 'ERR_REAUTHORIZATION_REQUIRED invalid_grant';

/** A server, a Redis and what a replica needs to know of both. `close()` ends every replica, too. */
export async function openRefreshScene({ tokenLifetimeMs = 2_000, graceMs = 0, refresh } = {}) {
  const [server, redis] = await Promise.all([startOidcServer({ tokenLifetimeMs, graceMs }), openRedis()]);
  const { refreshToken, grantId } = await server.authorize();
  const encryptionKey = randomBytes(32).toString('base64');
  const replicas = [];
  return {
    server,
    redis,
    isAlive: () => server.isAlive(grantId),
    /** A replica, connected unless told otherwise. `more`: see `begin` in refresh-replica.mjs. */
    async startReplica({ connect = true, ...more } = {}) {
      const replica = await startChild('refresh-replica.mjs');
      replicas.push(replica);
      await replica.ask('begin', {
        url: server.mcpUrl,
        issuer: server.issuer,
        identity: server.client,
        redisUrl: `redis://127.0.0.1:${redis.port}`,
        refreshToken,
        encryptionKey,
        refresh,
        ...more,
      });
      if (connect) await replica.ask('connect');
      return replica;
    },
    async close() {
      await Promise.all(replicas.map((replica) => replica.end()));
      await redis.close();
      await server.close();
    },
  };
}

/**
 * The full form: everything well, then a replica killed in the middle of a refresh, in each of the three ways that it
 * can end. Rows as the other parts of the fleet's report have them.
 */
export async function runRefreshFleet({
  processes = 4,
  callers = 50,
  tokenLifetimeMs = 2_000,
  forMs = 60_000,
} = {}) {
  const size = { processes, callers, tokenLifetimeMs, forMs };
  const rows = [];
  rows.push(rowOf('refresh', size, await measureRefreshFleet(size), [noneFailed, onePerExpiry, lives]));
  for (const [name, kill, claims] of [
    ['killed before the request', { when: 'before the request' }, [noneFailed, onePerExpiry, lives]],
    [
      'killed after it, strict server',
      { when: 'after the request' },
      [allSaySo, noHammering(processes - 1), ended],
    ],
    [
      'killed after it, grace of 30 s',
      { when: 'after the request', graceMs: 30_000 },
      [noneFailed, oneForgiven, lives],
    ],
  ]) {
    const shorter = { ...size, forMs: Math.max(forMs / 2, 4 * LEASE_MS) };
    rows.push(
      rowOf(`refresh, one ${name}`, shorter, await measureRefreshFleet({ ...shorter, kill }), claims),
    );
  }
  return { rows };
}

/**
 * `processes` replicas of `callers` callers each for `forMs`. An expiry is an access token that was given out: each is
 * used until it is due, and then replaced by one request. `kill: { when, graceMs }`: one replica ends in the middle of a
 * refresh, see `killInRefresh`. Resolves with what the provider counted, and what became of the others' calls.
 */
export async function measureRefreshFleet({
  processes,
  callers,
  tokenLifetimeMs,
  forMs,
  pauseMs = PAUSE_MS,
  kill,
}) {
  const refresh = kill === undefined ? undefined : { tokenTimeoutMs: TOKEN_TIMEOUT_MS };
  const scene = await openRefreshScene({ tokenLifetimeMs, graceMs: kill?.graceMs ?? 0, refresh });
  const { server } = scene;
  try {
    const pauseable = kill !== undefined && 'requests';
    const replicas = await Promise.all(
      Array.from({ length: processes }, () => scene.startReplica({ pauseable })),
    );
    await Promise.all(replicas.map((replica) => replica.ask('run', { callers, pauseMs })));
    const [first, ...others] = replicas;
    if (kill !== undefined) {
      await elapse(forMs / 6);
      await killInRefresh(kill.when, first, server);
    }
    const atKill = server.seen.tokenRequests.length;
    await elapse(kill === undefined ? forMs : (forMs * 5) / 6);
    const reports = await Promise.all((kill === undefined ? replicas : others).map((r) => r.ask('stop')));
    const afterKill = server.seen.tokenRequests.length - atKill;
    return { ...figuresOf(server, reports), isAlive: await scene.isAlive(), afterKill };
  } finally {
    await scene.close();
  }
}

/**
 * Ends `replica`, which has `pauseable: 'requests'`, in the middle of its next refresh. 'before the request': it holds
 * the lease, and nothing has left. 'after the request': the provider has spent the refresh token, and its answer finds
 * nobody.
 */
export async function killInRefresh(when, replica, server) {
  if (when === 'before the request') {
    await replica.ask('restAt', 'posting');
    await replica.end();
    return;
  }
  await new Promise((resolve) => {
    server.intercept(async (entry, decide) => {
      await decide();
      if (entry.replica !== replica.pid) return;
      server.intercept(undefined);
      await replica.end();
      resolve();
    });
  });
}

function figuresOf(server, reports) {
  const { revoked, refused, calls } = server.seen;
  // One may be on its way when the run ends.
  const tokenRequests = server.seen.tokenRequests.filter(({ status }) => status !== undefined);
  const generations = server.generations();
  const failed = {};
  for (const report of reports)
    for (const [code, times] of Object.entries(report.failed)) failed[code] = (failed[code] ?? 0) + times;
  const gaps = generations.slice(1).map(({ atMs }, index) => atMs - generations[index].atMs);
  return {
    tokenRequests: tokenRequests.length,
    expiries: generations.length,
    reuses: server.reuses(),
    revoked: revoked.length,
    refused,
    calls,
    answered: reports.reduce((total, { answered }) => total + answered, 0),
    failed,
    failures: Object.values(failed).reduce((total, times) => total + times, 0),
    longestMs: Math.round(Math.max(...reports.map(({ longestMs }) => longestMs))),
    averageLifeMs: Math.round(gaps.reduce((total, gap) => total + gap, 0) / gaps.length),
    shortestLifeMs: Math.round(Math.min(...gaps)),
    longestLifeMs: Math.round(Math.max(...gaps)),
  };
}

function rowOf(name, { processes, callers, tokenLifetimeMs, forMs }, figures, claims) {
  const { tokenRequests, expiries, reuses, refused, calls, failed, shortestLifeMs, longestLifeMs } = figures;
  return {
    name,
    parameters: `${processes} processes of ${callers} callers on oidc-provider with rotation and reuse detection, tokens of ${tokenLifetimeMs / 1000} s, ${Math.round(forMs / 1000)} s`,
    figures: {
      'token requests': tokenRequests,
      expiries,
      'refresh tokens sent twice': reuses,
      calls,
      'calls failed': failureText(failed),
      'refused on the way': refused,
      'a token was in use': `${shortestLifeMs} to ${longestLifeMs} ms`,
      'longest call': `${figures.longestMs} ms`,
    },
    claims: claims.map((claim) => claim(figures)),
  };
}

const noneFailed = ({ failures, failed, answered }) => ({
  text: 'no call fails',
  holds: failures === 0 && answered > 0,
  found: failures === 0 ? `${answered} answered` : failureText(failed),
});
const onePerExpiry = ({ tokenRequests, expiries, reuses }) => ({
  text: 'token requests = expiries, no refresh token sent twice',
  holds: tokenRequests === expiries && reuses === 0,
  found: `${tokenRequests} = ${expiries}, ${reuses}`,
});
const lives = ({ isAlive, revoked }) => ({
  text: 'the grant lives on',
  holds: isAlive && revoked === 0,
  found: isAlive ? 'alive' : 'revoked',
});
const allSaySo = ({ failed }) => ({
  text: `every call that fails says ${DEAD.split(' ')[0]}`,
  holds: Object.keys(failed).join() === DEAD,
  found: failureText(failed),
});
const noHammering = (most) => (figures) => ({
  text: `at most one token request of each replica that is left`,
  holds: figures.afterKill <= most,
  found: `${figures.afterKill}`,
});
const oneForgiven = ({ reuses, revoked }) => ({
  text: 'one refresh token is sent twice: the one whose answer nobody had',
  holds: reuses === 1 && revoked === 0,
  found: `${reuses}`,
});
const ended = ({ isAlive, revoked }) => ({
  text: 'the grant was ended once, by the reuse',
  holds: !isAlive && revoked === 1,
  found: `${revoked}`,
});

function failureText(failed) {
  const parts = Object.entries(failed).map(([code, times]) => `${times} ${code}`);
  return parts.length === 0 ? '0' : parts.join(', ');
}
