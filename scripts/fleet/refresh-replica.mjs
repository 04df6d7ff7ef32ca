// One replica of an agent that holds a user's rotating refresh token together with the others: a process with its own
// client, its own Redis connection and as many callers as it is told to have.
//
// It can be told to come to rest at one point of its next refresh, so that it can be ended or put aside there.
import { Redis } from 'ioredis';
import { clientCredentialsGrant, HostedClient, refreshTokenGrant } from 'mcp-holdfast/client';
import { redisCredentialStore } from 'mcp-holdfast/redis';
import { Agent, fetch as undiciFetch } from 'undici';
import { elapse, nowMs, serve } from './child.mjs';

const INFO = { name: 'refresh-replica', version: '1.0.0' };

let client;
let credentials;
let connection;
let state = newState();
/** The point at which to come to rest, and who is told. */
let rest;
let tellClosing;
const closing = new Promise((resolve) => {
  tellClosing = resolve;
});

serve({
  /** `grant`: 'refresh-token' (the default) or 'client-credentials'. */
  async begin(options) {
    connection = new Redis(options.redisUrl);
    connection.on('error', () => {});
    credentials = credentialsOf(options);
    credentials.onEvent(({ type, error }) => {
      const name = type === 'failed' ? `failed ${error.code}` : type;
      state.events[name] = (state.events[name] ?? 0) + 1;
    });
    client = new HostedClient(INFO, { url: options.url, credentials, streams: { listen: false } });
  },

  connect: () => client.connect(),

  /** Of the token that a call would have now. */
  generation: async (url) => (await credentials.acquire(new URL(url))).generation,

  /** One call: its outcome. */
  call: (timeout) => call(timeout),

  /** So many callers from now on, each with a pause between its calls. */
  run({ callers, pauseMs }) {
    state.ending.abort();
    state = newState();
    const { ending } = state;
    for (let number = 0; number < callers; number += 1) void again(ending, pauseMs, number / callers);
  },

  /** What became of the calls since `run`; the callers stop. */
  async stop() {
    state.ending.abort();
    await Promise.all(state.running);
    return report();
  },

  report,

  /**
   * Comes to rest at that point of the next refresh. 'posting' (with `pauseable: 'requests'`): the request is about to
   * leave; resolves when it is so far, and it stays there. The other points stop the process as a whole, see
   * `stopHere`, and nobody is told.
   */
  restAt(point) {
    return new Promise((tell) => {
      rest = { point, tell };
      if (point !== 'posting') tell();
    });
  },

  /** Resolves when SIGTERM has arrived. */
  closing: () => closing,

  /** For who waits for this process's end. */
  forever: () => new Promise(() => {}),
});

process.once('SIGTERM', async () => {
  tellClosing();
  state.ending.abort();
  await client.close();
  await credentials.close({ drainMs: 10_000 });
  connection.disconnect();
  process.disconnect();
});

function newState() {
  return {
    answered: 0,
    failed: {},
    longestMs: 0,
    events: {},
    running: new Set(),
    ending: new AbortController(),
  };
}

function report() {
  const { answered, failed, longestMs, events } = state;
  return { answered, failed, longestMs, events };
}

async function again({ signal }, pauseMs, phase) {
  // Spread over the pause, as callers that know nothing of each other are.
  await elapse(pauseMs * phase);
  while (!signal.aborted) {
    const calling = call();
    state.running.add(calling);
    const outcome = await calling;
    state.running.delete(calling);
    count(outcome);
    await elapse(pauseMs);
  }
}

function count(outcome) {
  if (outcome === 'answered') state.answered += 1;
  else state.failed[outcome] = (state.failed[outcome] ?? 0) + 1;
}

/** 'answered', or the code of the failure with its reason. */
async function call(timeout = 30_000) {
  const sinceMs = nowMs();
  try {
    await client.callTool({ name: 'work', arguments: {} }, undefined, { timeout });
    return 'answered';
  } catch (error) {
    const { code, reason } = error;
    return [code ?? String(error), reason].filter((part) => part !== undefined).join(' ');
  } finally {
    state.longestMs = Math.max(state.longestMs, nowMs() - sinceMs);
  }
}

function credentialsOf({ issuer, grant, identity, refreshToken, encryptionKey, refresh, pauseable = false }) {
  const store = redisCredentialStore(connection, { encryptionKeys: [encryptionKey] });
  const shared = {
    issuer,
    clientId: identity.id,
    clientSecret: identity.secret,
    store: pauseable === false ? store : resting(store),
    subject: 'user',
    refresh,
    ...(pauseable === 'requests' && { fetch: restingFetch }),
  };
  return grant === 'client-credentials'
    ? clientCredentialsGrant({ ...shared, scope: 'mcp' })
    : refreshTokenGrant({ ...shared, refreshToken });
}

/**
 * Stops this process as a whole, in the middle of what it does: nothing of it runs until somebody sends SIGCONT. Who
 * waits for it sees the state that the system shows.
 */
function stopHere(point) {
  if (rest?.point !== point) return;
  rest = undefined;
  process.kill(process.pid, 'SIGSTOP');
}

/** 'leased': with the lease just taken. 'checked': after the first look at what is left of it, before the last one. */
function resting(store) {
  return {
    read: (...given) => store.read(...given),
    compareAndSet: (...given) => store.compareAndSet(...given),
    async lease(...given) {
      const lease = await store.lease(...given);
      if (lease === undefined) return lease;
      stopHere('leased');
      return {
        remainingMs() {
          const leftMs = lease.remainingMs();
          // When what was looked at has been judged, and before anything else is.
          queueMicrotask(() => stopHere('checked'));
          return leftMs;
        },
        release: () => lease.release(),
      };
    },
  };
}

/** Tells the server whose request it is. */
async function restingFetch(url, init) {
  if (init.method === 'POST' && rest?.point === 'posting') {
    rest.tell();
    await new Promise(() => {});
  }
  const headers = { ...init.headers, 'x-replica': String(process.pid) };
  return await undiciFetch(url, { ...init, headers, dispatcher: new Agent({ keepAliveTimeout: 1 }) });
}
