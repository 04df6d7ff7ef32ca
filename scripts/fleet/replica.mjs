// One replica of an agent: a process with its own clients, its own Redis connection and callers that never tire.
//
// Every request is stamped when the library lets it go, and then kept back for a while, as a network would.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Redis as Ioredis5 } from 'ioredis';
import { Redis as Ioredis6 } from 'ioredis6';
import { clientCredentialsGrant, HostedClient, refreshTokenGrant } from 'mcp-holdfast/client';
import { redisCredentialStore, redisRateLimitStore } from 'mcp-holdfast/redis';
import { createClient } from 'redis';
import { Agent } from 'undici';
import { elapse, nowMs, serve } from './child.mjs';

const INFO = { name: 'fleet-replica', version: '1.0.0' };
/** A caller that was refused does not come back in a loop without a pause. */
const AFTER_FAILURE_MS = 100;
const WARM_CALLS = 20;
/** How long this process was kept from running is looked for so often, and told of so much of the past. */
const TICK_MS = 20;
const STALLS_WITHIN_MS = 1_000;
const CALL_TIMEOUT_MS = 120_000;
const EVENTS = ['rate-wait', 'rate-paused', 'rate-degraded', 'rate-restored'];

const state = {
  answered: 0,
  failed: {},
  events: [],
  waits: 0,
  longestMs: 0,
  /** Calls that wait for an answer, by their beginning. */
  open: new Set(),
  heldMs: 0,
  secrets: new Set(),
};
const lag = monitorEventLoopDelay({ resolution: 5 });
const stalls = watchStalls();

serve({
  /** A process that has never done this takes half a second for the first time of everything. */
  async warmUp({ url, tokenEndpoint, client }) {
    const credentials = credentialsOf({ tokenEndpoint, client });
    const dispatcher = network({ replica: 'warm', client: 'warm', jitterMs: 0, random: () => 0 });
    const warm = new HostedClient(INFO, {
      url,
      credentials,
      rateLimit: { limit: 1_000, intervalMs: 1_000 },
      http: { dispatcher },
    });
    await warm.connect();
    for (let number = 0; number < WARM_CALLS; number += 1)
      await warm.callTool({ name: 'echo', arguments: { text: 'on' } });
    await warm.close();
    state.secrets.clear();
  },

  async begin(options) {
    const connection = connectionTo(options.redis);
    // As apps do: first the connection, then what needs it.
    const ready = new Promise((resolve) => connection.once('ready', resolve));
    await Promise.race([ready, elapse(options.redis.waitMs)]);
    lag.enable();
    state.heldMs = 0;
    stalls.forget();
    begin(options, connection);
  },

  report() {
    const now = nowMs();
    const open = [...state.open].map((sinceMs) => now - sinceMs);
    return {
      answered: state.answered,
      failed: state.failed,
      events: state.events,
      waits: state.waits,
      longestMs: Math.max(state.longestMs, ...open),
      openMs: Math.max(0, ...open),
      /** The longest that a request was kept back, jitter and this process's own lateness together. */
      heldMs: state.heldMs,
      lagMs: lag.max / 1e6,
      secrets: [...state.secrets],
    };
  },

  clock: () => Date.now(),
});

function begin(
  { number, url, rateLimit, clients = 1, callers = 10, burst, thinkMs = 0, ...rest },
  connection,
) {
  const store = redisRateLimitStore(connection);
  const credentials = credentialsOf(rest, connection);
  const { jitterMs = 0, seed = 1, listen = 'auto' } = rest;
  const random = randomOf(seed * 1_000 + number);
  for (let index = 0; index < clients; index += 1) {
    const client = new HostedClient(INFO, {
      url,
      credentials,
      streams: { listen },
      rateLimit: { ...rateLimit, store },
      http: { dispatcher: network({ replica: `${number}`, client: `${number}.${index}`, jitterMs, random }) },
    });
    for (const event of EVENTS)
      client.connection.on(event, (payload) => {
        if (event === 'rate-wait') state.waits += 1;
        else state.events.push({ event, atMs: nowMs(), ...payload });
      });
    void run(client, { callers, burst, thinkMs });
  }
}

async function run(client, { callers, burst, thinkMs }) {
  while (!(await tried(() => client.connect()))) await elapse(AFTER_FAILURE_MS);
  const call = async () => {
    const ok = await tried(() =>
      client.callTool({ name: 'echo', arguments: { text: 'on' } }, undefined, { timeout: CALL_TIMEOUT_MS }),
    );
    if (ok) state.answered += 1;
    return ok;
  };
  if (burst !== undefined) {
    await Promise.all(Array.from({ length: burst }, call));
    return;
  }
  for (let index = 0; index < callers; index += 1) void again(call, thinkMs);
}

async function again(call, thinkMs) {
  for (;;) {
    const ok = await call();
    const pauseMs = ok ? thinkMs : AFTER_FAILURE_MS;
    if (pauseMs > 0) await elapse(pauseMs);
  }
}

async function tried(work) {
  const sinceMs = nowMs();
  // Two may begin in the same nanosecond of a coarse clock: the fraction keeps them apart.
  const mark = sinceMs + state.open.size * 1e-6;
  state.open.add(mark);
  try {
    await work();
    return true;
  } catch (error) {
    const code = String(error?.code ?? error?.message ?? error);
    state.failed[code] = (state.failed[code] ?? 0) + 1;
    return false;
  } finally {
    state.open.delete(mark);
    state.longestMs = Math.max(state.longestMs, nowMs() - sinceMs);
  }
}

/** The way to the server: a stamp, then up to `jitterMs` of delay. */
function network({ replica, client, jitterMs, random }) {
  const agent = new Agent();
  return {
    dispatch(options, handler) {
      const grantedAtMs = nowMs();
      const { authorization, 'mcp-session-id': session } = lowerCase(options.headers);
      if (authorization !== undefined) state.secrets.add(authorization.replace(/^bearer /i, ''));
      if (session !== undefined) state.secrets.add(session);
      const headers = {
        ...options.headers,
        'x-replica': replica,
        'x-client': client,
        'x-granted-at': grantedAtMs.toFixed(3),
        'x-stalled': stalls().toFixed(0),
      };
      const send = () => {
        state.heldMs = Math.max(state.heldMs, nowMs() - grantedAtMs);
        agent.dispatch({ ...options, headers }, handler);
      };
      const delayMs = jitterMs * random();
      if (delayMs >= 1) setTimeout(send, delayMs);
      else send();
      return true;
    },
  };
}

function lowerCase(headers) {
  return Object.fromEntries(
    Object.entries(headers ?? {}).map(([name, value]) => [name.toLowerCase(), String(value)]),
  );
}

function credentialsOf({ tokenEndpoint, client, refreshToken, encryptionKeys }, connection) {
  const shared = { tokenEndpoint, clientId: client.id, clientSecret: client.secret, fetch: listening };
  const store = encryptionKeys && redisCredentialStore(connection, { encryptionKeys });
  const stored = store === undefined ? {} : { store, subject: 'fleet' };
  return refreshToken === undefined
    ? clientCredentialsGrant({ ...shared, ...stored })
    : refreshTokenGrant({ ...shared, ...stored, refreshToken });
}

/** What the token endpoint gives out is secret: noted here, to be looked for in Redis afterwards. */
async function listening(url, init) {
  const response = await fetch(url, init);
  const { access_token, refresh_token } = await response
    .clone()
    .json()
    .catch(() => ({}));
  for (const secret of [access_token, refresh_token]) if (secret !== undefined) state.secrets.add(secret);
  return response;
}

/** As an app would have it: no option is set for the library's sake. */
function connectionTo({ port, kind }) {
  if (kind === 'redis') {
    const client = createClient({ url: `redis://127.0.0.1:${port}` });
    client.on('error', () => {});
    client.connect().catch(() => {});
    return client;
  }
  const client = new (kind === 'ioredis6' ? Ioredis6 : Ioredis5)({ host: '127.0.0.1', port });
  client.on('error', () => {});
  return client;
}

/** How many milliseconds of the last second this process wanted to run and did not. */
function watchStalls() {
  let found = [];
  let lastMs = nowMs();
  setInterval(() => {
    const now = nowMs();
    const lateMs = now - lastMs - TICK_MS;
    lastMs = now;
    if (lateMs >= 2) found.push({ atMs: now, lateMs });
  }, TICK_MS).unref();
  const told = () => {
    const fromMs = nowMs() - STALLS_WITHIN_MS;
    found = found.filter(({ atMs }) => atMs >= fromMs);
    return found.reduce((sum, { lateMs }) => sum + lateMs, 0);
  };
  const forget = () => {
    found = [];
  };
  return Object.assign(told, { forget });
}

/** Mulberry32: the same delays for the same seed. */
function randomOf(seed) {
  let at = seed >>> 0;
  return () => {
    at = (at + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(at ^ (at >>> 15), at | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
