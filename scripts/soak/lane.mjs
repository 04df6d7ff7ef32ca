// One lane of the soak: one server, one proxy in front of it, one client, and what the agent behind it does.
//
// No client is told of a limit, and no lane shares a server or a proxy with another.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { HostedClient, HostedMcpError } from 'mcp-holdfast/client';
import { startSoakServer } from './server.mjs';

const AGENT = { name: 'soak-agent', version: '1.0.0' };
export const OURS = 'mcp-holdfast';
export const STOCK = 'stock';

/** The agent thinks for 74 s where the limit is 60 s, and its one long call takes as long. */
const THINKS = 74 / 60;
const CALLER_WAITS = 94 / 60;
/** The stock client of the old transport is without a session for 3 s after a cut. */
const LEGACY_AFTER_CUT_MS = 2_500;
/** The stock client reopens its stream after 1 s: this is in the middle of it. */
const BLIND_MOMENT_MS = 500;
/** Which call is the long one, counted from the first after a gap. */
const LONG_CALL = 4;
const LONGEST_LIMITS = 3.5;
/** After which cuts a server that is quiet otherwise has something to say. */
const QUIET_CUTS = [3, 6];
/** Of the limit: how often the old transport is kept alive; 25 s of 60. */
const PING = 25 / 60;

export const KINDS = [
  { name: 'no store', server: 'plain', agent: 'works' },
  { name: 'event store', server: 'store', agent: 'works' },
  { name: 'no store, quiet', server: 'plain', agent: 'listens' },
  { name: 'event store, 3.5 limits', server: 'store', agent: 'waits' },
  { name: 'legacy HTTP+SSE', server: 'legacy', agent: 'works' },
];

/** Opens the lane and runs it until `durationMs` have passed. `figures()` may be asked at any time. */
export async function openLane({ kind, proxyName, startProxy, clientName, limitMs, durationMs }) {
  const server = await startSoakServer(kind.server);
  const proxy = await startProxy(server.port, { idleMs: limitMs });
  const isLegacy = kind.server === 'legacy';
  const state = {
    calls: 0,
    failures: [],
    long: undefined,
    sent: 0,
    received: new Set(),
    heardMs: [],
    told: 0,
    problem: undefined,
  };
  const ending = new AbortController();
  let client;

  /** The server may hear of a cut later than the caller does, so this is put together when it is asked for. */
  const longFigures = () => {
    if (state.long === undefined) return undefined;
    const { callId, since, until, ...outcome } = state.long;
    const { executions, lostAt } = server.seen;
    const cutAt = outcome.ok ? undefined : lostAt.get(callId);
    return {
      ...outcome,
      ms: Math.round(until - since),
      run: executions.get(callId) ?? 0,
      ...(cutAt !== undefined && { sinceCutMs: Math.max(0, Math.round(until - cutAt)) }),
    };
  };

  const figures = () => {
    const { seen } = server;
    return {
      proxy: proxyName,
      server: kind.name,
      client: clientName,
      calls: state.calls,
      failed: state.failures.length,
      failures: state.failures,
      long: longFigures(),
      sent: state.sent,
      received: state.received.size,
      gets: seen.gets,
      conflicts: seen.conflicts,
      cuts: seen.cuts,
      initializes: seen.initializes,
      uninitialized: seen.uninitialized,
      runTwice: seen.runTwice,
      blindMs: seen.blindMs.map(Math.round),
      heardMs: state.heardMs.map(Math.round),
      told: state.told,
      problem: state.problem,
    };
  };

  const call = (callId, ms, timeout) =>
    client.callTool({ name: 'work', arguments: { callId, ms } }, undefined, { timeout });

  const notify = () => {
    state.sent += 1;
    server.notify(state.sent);
  };

  async function longCall(callId, ms, timeout) {
    const since = performance.now();
    const outcome = await call(callId, ms, timeout).then(
      () => ({ ok: true }),
      (error) => ({ ok: false, ...described(error) }),
    );
    if (ending.signal.aborted) return;
    state.long = { ...outcome, callId, since, until: performance.now() };
  }

  async function works() {
    const longMs = limitMs * THINKS;
    // Behind a legacy server every other call comes while the stock client has no session.
    const gapMs = (number) => (isLegacy && number % 2 === 1 ? limitMs + LEGACY_AFTER_CUT_MS : longMs);
    await call('first', 0, limitMs);
    for (let number = 1; await pause(gapMs(number), ending.signal); number += 1) {
      if (number === LONG_CALL) {
        await longCall('long', longMs, limitMs * CALLER_WAITS);
        continue;
      }
      const callId = `after-gap-${number}`;
      const failure = await call(callId, 0, limitMs).then(
        () => undefined,
        (error) => described(error),
      );
      if (ending.signal.aborted) return;
      state.calls += 1;
      if (failure !== undefined) state.failures.push(failure);
    }
  }

  async function hears() {
    while (await pause(limitMs + BLIND_MOMENT_MS, ending.signal)) notify();
  }

  function isQuiet() {
    server.seen.onCut = async (number) => {
      if (QUIET_CUTS.includes(number) && (await pause(BLIND_MOMENT_MS, ending.signal))) notify();
    };
  }

  async function run() {
    const timer = setTimeout(() => ending.abort(), durationMs);
    const url = `${proxy.url}${server.path}`;
    try {
      client = await (clientName === OURS ? openOurs : openStock)(url, state, { isLegacy, limitMs });
      if (kind.agent === 'listens') isQuiet();
      const doing = [ended(ending.signal)];
      if (kind.agent === 'works') doing.push(works());
      if (kind.agent === 'works' && !isLegacy) doing.push(hears());
      if (kind.agent === 'waits')
        doing.push(longCall('longest', limitMs * LONGEST_LIMITS, limitMs * (LONGEST_LIMITS + 1)));
      await Promise.all(doing);
    } catch (error) {
      if (!ending.signal.aborted) state.problem = String(error?.message ?? error).slice(0, 200);
    }
    clearTimeout(timer);
  }

  async function close() {
    server.seen.isClosing = true;
    ending.abort();
    await client?.close().catch(() => {});
    await server.close();
    await proxy.close();
  }

  return { run, figures, close };
}

async function openStock(url, state, { isLegacy }) {
  const client = new Client(AGENT);
  const Transport = isLegacy ? SSEClientTransport : StreamableHTTPClientTransport;
  listenTo(client, state);
  await client.connect(new Transport(new URL(url)));
  return client;
}

async function openOurs(url, state, { isLegacy, limitMs }) {
  const legacyPingIntervalMs = Math.round(limitMs * PING);
  const client = new HostedClient(AGENT, { url, ...(isLegacy && { streams: { legacyPingIntervalMs } }) });
  client.connection.on('stream-reopened', ({ gapMs }) => state.heardMs.push(gapMs));
  listenTo(client, state);
  await client.connect();
  return client;
}

function listenTo(client, state) {
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
    state.received.add(params.data.number);
  });
  client.onerror = () => {
    state.told += 1;
  };
}

function described(error) {
  if (HostedMcpError.isInstance(error)) return { code: error.code, executed: error.executed };
  return { code: error.code ?? error.name, text: String(error.message).replace(/\s+/g, ' ').slice(0, 60) };
}

function ended(signal) {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', resolve, { once: true });
  });
}

/** True when the time has passed, false when the run ended before. */
function pause(ms, signal) {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(false);
    const stop = () => {
      clearTimeout(timer);
      resolve(false);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop);
      resolve(true);
    }, ms);
    signal.addEventListener('abort', stop, { once: true });
  });
}
