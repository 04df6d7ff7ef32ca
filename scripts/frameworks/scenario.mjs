// What every framework is put through, and what the server has seen of it.
import { startHostedServer } from 'mcp-holdfast/testing';

/** Of the token that a foreseen expiry ends: of the first one, and of one that is given out in the time of the first. */
const LIFETIMES_MS = [6_000, 12_000];
/** Of all others. */
const LONG_MS = 3_600_000;
/** After a redeploy, as models do. */
const THINK_MS = 1_000;
/** Calls at once, after each disturbance. */
export const HERD = 4;
const TOOL = 'charge';

/** How a call's answer is lost after its tool has run. */
export const CUTS = [
  { name: 'cut', what: 'the connection is reset', reply: { tool: 'run', cut: 'reset' } },
  { name: 'refused', what: '503', reply: { tool: 'run', status: 503, body: 'Service Unavailable' } },
];

/**
 * A few calls; then after each expiry of the tokens, and after each redeploy, some at once and one more. A redeploy finds
 * one call at work, and the agent thinks for a second before it goes on. An expiry is `foreseen` when the tokens' time
 * has passed, and `sudden` when the server does not wait for that. Each takes one token with it, and no more.
 */
export async function playRun(player, options, { expiries, redeploys }) {
  // Lifetimes are decided when a token is given out: always one ahead of the expiry that is next.
  const lifetimeMs = (index) => (expiries[index] === 'foreseen' ? LIFETIMES_MS[index] : LONG_MS);
  const scene = await openScene(player, { ...options, tokenLifetimeMs: lifetimeMs(0) });
  const { server, call, herd } = scene;
  server.set({ tokenLifetimeMs: lifetimeMs(1) });
  await call('first');
  await call('second');
  for (const [index, kind] of expiries.entries()) {
    if (kind === 'sudden') server.expireTokens();
    else await pause(lifetimeMs(index) * 1.1 - (Date.now() - scene.tokensAskedAt().at(-1)));
    await herd(`expiry-${index + 1}`);
    await call(`expiry-${index + 1}-later`);
    server.set({ tokenLifetimeMs: lifetimeMs(index + 2) });
  }
  for (let number = 1; number <= redeploys; number += 1) {
    const held = scene.hold(`redeploy-${number}`);
    const outcome = call(`redeploy-${number}`);
    await Promise.race([held, outcome]);
    server.deploy({ restart: true });
    await outcome;
    await pause(THINK_MS);
    await herd(`redeploy-${number}`);
    await call(`redeploy-${number}-later`);
  }
  return scene.end();
}

/** A call at work whose session the server forgets. */
export const FORGOTTEN = 'forgotten';

/** A call whose answer is lost after its tool has run, in each way, and the next call. */
export async function playCuts(player, options, { forgets }) {
  const scene = await openScene(player, options);
  for (const { name, reply } of CUTS) {
    scene.server.replyOnce({ method: 'tools/call', tool: TOOL }, reply);
    await scene.call(name);
    await scene.call(`${name}-later`);
  }
  if (forgets) {
    const held = scene.hold(FORGOTTEN);
    const outcome = scene.call(FORGOTTEN);
    await Promise.race([held, outcome]);
    scene.server.dropSessions();
    // The listen stream is opened again, and refused: so it is known, although nothing is called.
    scene.server.cutStreams();
    await outcome;
    await scene.call(`${FORGOTTEN}-later`);
  }
  return scene.end();
}

async function openScene(player, options) {
  const runs = new Map();
  const holds = new Map();
  const server = await startHostedServer({
    ...options,
    tools: [
      {
        name: TOOL,
        description: 'Charges for an order. Do not call it twice.',
        inputSchema: { type: 'object', properties: { ticket: { type: 'string' } }, required: ['ticket'] },
        async handler({ ticket }, { signal }) {
          runs.set(ticket, (runs.get(ticket) ?? 0) + 1);
          const started = holds.get(ticket);
          if (started !== undefined) {
            // Once only: whoever runs it again gets an answer.
            holds.delete(ticket);
            started();
            await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
          }
          return `done ${ticket}`;
        },
      },
    ],
  });
  const calls = [];
  const { url, issuer, tokenEndpoint, client } = server;
  const opened = await player.ask('open', {
    server: { url, issuer, tokenEndpoint, clientId: client.id, clientSecret: client.secret },
  });
  const call = async (ticket) => {
    calls.push({ ticket, ...(await player.ask('call', { tool: TOOL, ticket })) });
  };
  const tokenPath = new URL(tokenEndpoint).pathname;
  return {
    server,
    call,
    /** Epoch milliseconds. */
    tokensAskedAt: () => server.log.filter(({ path }) => path === tokenPath).map(({ at }) => at),
    herd: (ticket) =>
      Promise.all(Array.from({ length: HERD }, (_, index) => call(`${ticket}-at-once-${index + 1}`))),
    /** That call stays at work until the server restarts; resolves when it is there. */
    hold: (ticket) => new Promise((resolve) => holds.set(ticket, resolve)),
    async end() {
      const { unhandled = [], failure } = await player.ask('close');
      const { initializes, tokenRequests } = server.counts;
      await server.close();
      return {
        opened,
        calls: calls.map((each) => ({ ...each, runs: runs.get(each.ticket) ?? 0 })),
        closed: failure === undefined,
        unhandled,
        initializes,
        tokenRequests,
      };
    },
  };
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
