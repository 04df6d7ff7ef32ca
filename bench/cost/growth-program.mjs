// Its program: one size of one axis, in CPU of this process.

import { hostedOptions, INFO } from '../cpu/contenders.mjs';
import { serve } from '../kit/processes.mjs';
import { repeat, round } from '../kit/rounds.mjs';

const CALL = { name: 'echo', arguments: { text: 'hello' } };
const CALLS = 3_000;
/** At least so many of the unit are measured, in several goes where one has fewer. */
const UNITS = { sessions: 60, tools: 20_000, 'in-flight': 10_000 };

await serve(async ({ axis, size, origin }) => {
  const library = await import('mcp-holdfast/client');
  const open = async (url, { credentials, ...options }) => {
    const client = new library.HostedClient(INFO, { url, ...options, credentials: credentials() });
    await client.connect();
    return client;
  };
  return { first: await { sessions, tools, 'in-flight': inFlight }[axis]({ size, origin, library, open }) };
});

async function optionsFor({ origin, library }, url) {
  const { contract, rateLimit } = await hostedOptions(library, { url, origin });
  const credentials = () =>
    library.clientCredentialsGrant({ issuer: origin, clientId: 'bench', clientSecret: 'bench-secret' });
  return { contract, rateLimit, credentials };
}

async function sessions({ size, origin, library, open }) {
  const url = `${origin}/json`;
  const options = await optionsFor({ origin, library }, url);
  const openAndUse = async () => {
    const client = await open(url, options);
    await client.callTool(CALL);
    return client;
  };
  const warm = [];
  await repeat(async () => warm.push(await openAndUse()), 100, 10);
  await Promise.all(warm.map((client) => client.close()));
  let clients = [];
  let spentUs = 0;
  const goes = Math.max(1, Math.ceil(UNITS.sessions / size));
  for (let go = 0; go < goes; go += 1) {
    await Promise.all(clients.map((client) => client.close()));
    clients = [];
    const { cpuUs } = await round(async () => clients.push(await openAndUse()), size, 10);
    spentUs += cpuUs;
  }
  // Calls on one of them: what the others cost it while they are idle.
  const [first] = clients;
  await repeat(() => first.callTool(CALL), CALLS, 1);
  const { cpuUs: callUs } = await round(() => first.callTool(CALL), CALLS, 1);
  await Promise.all(clients.map((client) => client.close()));
  return { unitUs: spentUs / goes, callUs };
}

async function tools({ size, origin, library, open }) {
  const url = `${origin}/json?tools=${size}`;
  const options = await optionsFor({ origin, library }, url);
  const compare = async () => {
    const client = await open(url, options);
    // The contract has been read and compared when the first call has left.
    await client.callTool(CALL);
    return client;
  };
  const goes = Math.max(3, Math.ceil(UNITS.tools / size));
  const bare = await costOfOpening(goes, () => open(url, { ...options, contract: undefined }));
  const compared = await costOfOpening(goes, compare);
  const client = await compare();
  await repeat(() => client.callTool(CALL), CALLS, 1);
  const { cpuUs: callUs } = await round(() => client.callTool(CALL), CALLS, 1);
  await client.close();
  return { unitUs: Math.max(0, compared - bare) / size, callUs };
}

async function costOfOpening(goes, openOne) {
  const once = async () => (await openOne()).close();
  await repeat(once, goes, 1);
  const { cpuUs } = await round(once, goes, 1);
  return cpuUs;
}

async function inFlight({ size, origin, library, open }) {
  const url = `${origin}/json`;
  const client = await open(url, await optionsFor({ origin, library }, url));
  const params = { name: 'hold', arguments: { until: size } };
  let failed = 0;
  const one = () =>
    client.callTool(params, undefined, { timeout: 60_000 }).catch(() => {
      failed += 1;
    });
  const wave = () => Promise.all(Array.from({ length: size }, one));
  const goes = Math.ceil(UNITS['in-flight'] / size);
  // The sockets are opened by the first wave; the JIT is done after some thousands of calls.
  await repeat(() => client.callTool(CALL), 6_000, 64);
  await wave();
  const { cpuUs } = await round(wave, goes, 1);
  await repeat(() => client.callTool(CALL), CALLS, 1);
  const { cpuUs: callUs } = await round(() => client.callTool(CALL), CALLS, 1);
  await client.close();
  return { unitUs: cpuUs / size, callUs, failed };
}
