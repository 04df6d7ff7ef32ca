// Its program: opens sessions (or no more than their sockets), leaves them alone, and weighs the heap.
import { createHook } from 'node:async_hooks';
import { pathToFileURL } from 'node:url';
import { hostedOptions, INFO } from '../cpu/contenders.mjs';
import { serve } from '../kit/processes.mjs';

/** Longer than unused sockets are kept, and than undici's timers hold what it has closed. */
const SOCKETS_GONE_MS = 14_000;
const AT_ONCE = 50;
const CALL = { name: 'echo', arguments: { text: 'hello' } };

await serve(async ({ origin, sessions, baseline, what }) => {
  const url = `${origin}/json`;
  const openOne = what === 'sockets' ? await socketOpener(url, baseline) : await sessionOpener(url, origin);
  // One of each beforehand: code, shapes and tables that all of them share are not a session's.
  const kept = [await openOne(), await openOne()];
  await settled(SOCKETS_GONE_MS);
  const timers = what === 'timers' ? watchTimers() : undefined;
  const before = weighed();
  const timersBefore = timers?.size ?? 0;
  await openMany(openOne, sessions, kept);
  await settled(500);
  const open = perSession(before, weighed(), sessions);
  await settled(SOCKETS_GONE_MS);
  const idle = perSession(before, weighed(), sessions);
  const left = timers === undefined ? undefined : census(timers, sessions, timersBefore);
  return { first: { open, idle, timers: left, kept: kept.length } };
});

async function sessionOpener(url, origin) {
  const library = await import('mcp-holdfast/client');
  const { contract, rateLimit } = await hostedOptions(library, { url, origin });
  return async () => {
    // A credential of its own for each, as for a user each; what was reviewed and the limit are the app's.
    const credentials = library.clientCredentialsGrant({
      issuer: origin,
      clientId: 'bench',
      clientSecret: 'bench-secret',
    });
    const client = new library.HostedClient(INFO, { url, credentials, contract, rateLimit });
    await client.connect();
    await client.callTool(CALL);
    return client;
  };
}

async function socketOpener(url, baseline) {
  const { openBaseline } = await import(pathToFileURL(baseline).href);
  return async () => {
    const bare = openBaseline(url, 'static');
    await bare.call(CALL);
    return bare;
  };
}

async function openMany(openOne, count, kept) {
  for (let at = 0; at < count; at += AT_ONCE)
    kept.push(...(await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - at) }, openOne))));
}

function weighed() {
  // Twice: finalizers of the first leave garbage for the second.
  globalThis.gc();
  globalThis.gc();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heapUsed, external, rss };
}

function perSession(before, after, sessions) {
  const share = (name) => (after[name] - before[name]) / sessions;
  return { heap: share('heapUsed'), external: share('external'), rss: share('rss') };
}

/** Every timer of the process that is set and not over: those that do not keep it alive and Node's own, too. */
function watchTimers() {
  const live = new Map();
  createHook({
    init(id, type, _trigger, resource) {
      if (type === 'Timeout') live.set(id, { ms: resource._idleTimeout, stack: new Error('set here').stack });
    },
    destroy: (id) => live.delete(id),
  }).enable();
  return live;
}

function census(timers, sessions, before) {
  const places = new Map();
  for (const { stack } of timers.values()) {
    const frames = stack.split('\n').slice(2);
    const ours =
      frames.find((frame) => !/node:|Object\.setTimeout|idle-sessions/.test(frame)) ?? frames.at(-1);
    const name = /at (?:async )?([^ (]+)/.exec(ours ?? '')?.[1] ?? 'unknown';
    places.set(name, (places.get(name) ?? 0) + 1);
  }
  return {
    perSession: (timers.size - before) / sessions,
    keepingAlive: process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length,
    places: [...places].sort(([, a], [, b]) => b - a).slice(0, 5),
  };
}

async function settled(ms) {
  await new Promise((resolve) => setTimeout(resolve, ms));
}
