// Client CPU and wall time per call: the stock transport and ours under the same SDK Client, HostedClient, and raw undici.request, alternating in one run.
import { ClientCredentialsProvider } from '@modelcontextprotocol/sdk/client/auth-extensions.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { clientCredentialsGrant, HostedClient, HostedTransport } from 'mcp-holdfast/client';
import { Agent, request } from 'undici';

const INFO = { name: 'bench', version: '1.0.0' };
const CALL = { name: 'echo', arguments: { text: 'hello' } };
const CLIENT = { clientId: 'bench', clientSecret: 'bench-secret' };

/** The contenders, each a function that makes one call. */
async function contenders(url, origin) {
  const stock = new Client(INFO);
  const authProvider = new ClientCredentialsProvider({ ...CLIENT, expectedIssuer: origin });
  await stock.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider }));

  const swapped = new Client(INFO);
  await swapped.connect(
    new HostedTransport(url, { credentials: clientCredentialsGrant({ issuer: origin, ...CLIENT }) }),
  );

  const client = new HostedClient(INFO, {
    url,
    credentials: clientCredentialsGrant({ issuer: origin, ...CLIENT }),
  });
  await client.connect();

  const agent = new Agent({ connections: 64 });
  const headers = {
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    authorization: 'Bearer static',
  };
  let id = 0;
  const raw = async () => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: ++id, method: 'tools/call', params: CALL });
    const response = await request(url, { method: 'POST', headers, body, dispatcher: agent });
    const text = await response.body.text();
    return JSON.parse(text.startsWith('event') ? text.slice(text.indexOf('data: ') + 6) : text);
  };
  return {
    calls: {
      stock: () => stock.callTool(CALL),
      transport: () => swapped.callTool(CALL),
      client: () => client.callTool(CALL),
      raw,
    },
    close: async () => {
      await stock.close();
      await swapped.close();
      await client.close();
      await agent.close();
    },
  };
}

async function round(call, count, concurrency) {
  const cpu = process.cpuUsage();
  const started = performance.now();
  let left = count;
  const worker = async () => {
    while (left-- > 0) await call();
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  const { user, system } = process.cpuUsage(cpu);
  return { cpuUs: (user + system) / count, wallUs: ((performance.now() - started) * 1000) / count };
}

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** Medians per cell: `{ cell, cpu, wall }` by contender in microseconds of CPU, and wall time beside it. */
export async function measureCpu(port, { rounds, calls, say }) {
  const origin = `http://127.0.0.1:${port}`;
  const rows = [];
  for (const kind of ['json', 'sse']) {
    const { calls: contender, close } = await contenders(`${origin}/${kind}`, origin);
    for (const concurrency of [1, 64]) {
      const seen = { stock: [], transport: [], client: [], raw: [] };
      // Until the JIT is done: the first thousands of calls cost three times as much, for each contender.
      for (const call of Object.values(contender)) await round(call, calls * 3, concurrency);
      for (let turn = 0; turn < rounds; turn += 1) {
        const order = Object.keys(contender);
        for (const name of turn % 2 === 0 ? order : order.reverse())
          seen[name].push(await round(contender[name], calls, concurrency));
        say(`${kind}, ${concurrency} concurrent: round ${turn + 1} of ${rounds}`);
      }
      const cpu = Object.fromEntries(
        Object.entries(seen).map(([name, all]) => [name, median(all.map((each) => each.cpuUs))]),
      );
      const wall = Object.fromEntries(
        Object.entries(seen).map(([name, all]) => [name, median(all.map((each) => each.wallUs))]),
      );
      rows.push({ cell: `${kind.toUpperCase()}, ${concurrency}`, cpu, wall });
    }
    await close();
  }
  return rows;
}
