// The world of a hosted server: the simulator, its authorization server, Redis, and the client that is in use.
import { randomBytes } from 'node:crypto';
import { openFace } from './faces.mjs';
import { MAX_MESSAGE_BYTES, STORM_GATE } from './gate.mjs';
import { CALLERS } from './plan.mjs';
import { randomOf } from './random.mjs';
import { elapse, fastClock, inFastTime, isDone, leasedInFastTime, SPEED, soon } from './time.mjs';

/** In the world's time: seldom in the way, and sometimes. */
const LIMIT = { limit: 400, intervalMs: 1_000 * SPEED };
const RETRY_CONNECT_MS = 500;
const REAUTHORIZE = 'ERR_REAUTHORIZATION_REQUIRED';
/** After these somebody has to do something, and does. */
const OPERATORS = new Set([REAUTHORIZE, 'ERR_CREDENTIAL_REJECTED']);
/** So that the server's log tells clients apart. */
const CLIENT = 'x-storm-client';
/** Of the world's time. */
const SETTLES_WITHIN_MS = 5_000;
/** Of the world's time: some turns, for what ends with the last exchange. */
const TIMERS_WITHIN_MS = 50;

export async function openHosted({ lib, plan, redis }) {
  const { seed, face, setting } = plan;
  const clock = fastClock(randomOf(seed, face, 'jitter'));
  const serverClock = fastClock(randomOf(seed, face, 'server'));
  const state = { running: 0, isClosing: false };
  const heard = new Map();
  const server = await lib.startHostedServer({
    clock: serverClock,
    tools: toolsOf('1.0.0', state),
    rotateRefreshTokens: true,
    ...setting.server,
  });
  const connection = redis === undefined ? undefined : new lib.Redis(redis.port, { retryStrategy: () => 50 });
  connection?.on('error', () => {});
  // Of the world's time, as Redis itself.
  const names = { prefix: `storm-${seed}-${face}`, timeoutMs: 250 };
  const buckets = connection && inFastTime(lib.redisRateLimitStore(connection, names));
  const encrypted = { ...names, encryptionKeys: [randomBytes(32)] };
  const records = connection && leasedInFastTime(lib.redisCredentialStore(connection, encrypted));
  const user = { number: 1, refreshToken: server.client.refreshToken };
  let inUse;
  let replacing;
  let clients = 0;

  function credentials() {
    const { id: clientId, secret: clientSecret } = server.client;
    const common = { issuer: server.issuer, clientId, clientSecret, clock };
    if (setting.grant === 'client') return lib.clientCredentialsGrant(common);
    const { refreshToken, number } = user;
    const kept = records === undefined ? {} : { store: records, subject: `user-${number}` };
    return lib.refreshTokenGrant({ ...common, refreshToken, ...kept });
  }

  async function open() {
    const provider = credentials();
    clients += 1;
    const options = {
      clock,
      credentials: provider,
      gates: [STORM_GATE],
      http: { maxMessageBytes: MAX_MESSAGE_BYTES, headers: { [CLIENT]: `client-${clients}-of-the-storm` } },
      retry: { maxElapsedMs: 8_000 },
      ...(buckets !== undefined && {
        rateLimit: { ...LIMIT, store: buckets, key: 'storm', replicas: 1, maxPauseMs: 2_000 },
      }),
    };
    try {
      const opened = await openFace(lib, plan, { url: server.url, options, heard });
      return { ...opened, provider };
    } catch (error) {
      await provider.close?.({ drainMs: 0 });
      if (codeOf(error) === REAUTHORIZE) authorizeAgain();
      throw error;
    }
  }

  /** A user signs in anew: another family of refresh tokens. */
  function authorizeAgain() {
    user.number += 1;
    user.refreshToken = server.issueRefreshToken();
  }

  async function closeFace(old) {
    await old?.close();
    await old?.provider.close?.();
  }

  /** The new one is there before the old one ends; whoever waits for an answer on the old one then hears of it. */
  function replace() {
    replacing ??= (async () => {
      for (;;) {
        if (state.isClosing) return;
        const opened = await open().catch(() => undefined);
        if (opened === undefined) await elapse(RETRY_CONNECT_MS);
        else {
          const old = inUse;
          inUse = opened;
          await closeFace(old);
          return;
        }
      }
    })().finally(() => {
      replacing = undefined;
    });
    return replacing;
  }

  // Nothing has befallen it yet, but a busy machine may be late.
  while (inUse === undefined) inUse = await open().catch(() => elapse(RETRY_CONNECT_MS));
  return {
    clock,
    serverClock,
    server,
    redis,
    heard,
    tools: (version) => toolsOf(version, state),
    replace: () => void replace(),
    call: (slot, tag, args, how) => inUse.call(`work-${slot}`, tag, args, how),

    /** Lays a fault on the way of this caller's next call; gives what takes it away. */
    lay(slot, { reply }, params) {
      if (reply === undefined) return () => {};
      const match = { method: 'tools/call', tool: `work-${slot}` };
      const laid = server.reply(match, reply(params), { times: 1 });
      return () => laid.dispose();
    },

    failed(error) {
      if (replacing !== undefined || error.executed !== false || !OPERATORS.has(error.code)) return;
      if (error.code === REAUTHORIZE) authorizeAgain();
      void replace();
    },

    /** All is as it was; what was begun has ended before. */
    async restore() {
      server.restoreTokenEndpoint();
      server.cutStreams('fin');
      if (replacing !== undefined && !(await isDone(replacing))) return 'no client can be opened any more';
    },

    /** Ends everything. Resolves with the ledger and with what is left. */
    async close() {
      state.isClosing = true;
      await replacing;
      await closeFace(inUse);
      const isQuiet = await soon(() => state.running === 0, SETTLES_WITHIN_MS);
      await soon(() => clock.pending === 0, TIMERS_WITHIN_MS);
      const timers = clock.pending;
      const ledger = new Map(Object.entries(server.counts.executionsById));
      const { requests } = server.counts;
      const handshakes = handshakesIn(server.log, serverClock);
      await server.close();
      connection?.disconnect();
      return { ledger, timers, requests, isQuiet, handshakes };
    },
  };
}

/** `hostedFetch` carries its errors in those of the framework. */
function codeOf(error) {
  return error?.data?.holdfast?.code ?? error?.code;
}

/** Both ends of each handshake as the server met them, in the world's time. */
function handshakesIn(log, clock) {
  const isEnd = ({ rpcMethod }) => rpcMethod === 'notifications/initialized';
  return log
    .filter((entry) => isEnd(entry) || (entry.rpcMethod === 'initialize' && entry.status === 200))
    .map((entry) => ({
      client: entry.headers[CLIENT],
      atMs: clock.inWorld(entry.atMs),
      isEnd: isEnd(entry),
    }));
}

/** A tool for each caller, so that a fault can be laid on the call of one. */
function toolsOf(version, state) {
  return Array.from({ length: CALLERS }, (_, slot) => ({
    name: `work-${slot}`,
    description: `Works, as of ${version}.`,
    inputSchema: { type: 'object' },
    async handler(args, call) {
      state.running += 1;
      try {
        return await work(args, call);
      } finally {
        state.running -= 1;
      }
    },
  }));
}

async function work({ tag, ms = 0, progress, fail, bytes = 0 }, call) {
  if (progress === true) call.progress(1);
  if (ms > 0) await call.wait(ms);
  if (fail === 'error') throw Object.assign(new Error('the server says no'), { code: 4242 });
  const content = [{ type: 'text', text: tag + ' '.repeat(bytes) }];
  return { content, ...(fail === 'isError' && { isError: true }) };
}
