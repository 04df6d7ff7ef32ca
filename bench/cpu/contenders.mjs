// The ways to call a tool that are compared. Each opens one connection; its `call(params)` makes one call.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ClientCredentialsProvider as ProviderV2 } from '@modelcontextprotocol/client';
import { ClientCredentialsProvider } from '@modelcontextprotocol/sdk/client/auth-extensions.js';

export const INFO = { name: 'bench', version: '1.0.0' };
const CLIENT = { clientId: 'bench', clientSecret: 'bench-secret' };
/** Clock ticks of Linux's /proc in a second: the same on all platforms that Node supports. */
const TICKS = 100;

export const CONTENDERS = {
  baseline: { title: 'baseline', open: openBaseline },
  client: { title: 'HostedClient', open: openHostedClient },
  transport: { title: 'HostedTransport', open: openHostedTransport },
  v1: { title: 'stock v1', open: openStockV1 },
  v2: { title: 'stock v2', open: openStockV2 },
  'ai-sdk': { title: '@ai-sdk/mcp', open: openAiSdk, isPeer: true },
  'mcp-remote': { title: 'mcp-remote', open: openMcpRemote, isPeer: true, isSlow: true },
};

async function openBaseline({ url, baseline }) {
  const { openBaseline: open } = await import(pathToFileURL(baseline).href);
  const { call, close } = open(url, 'static');
  return { call: async (params) => (await call(params)).result, close };
}

/** All that an app of some size turns on: a credential that is refreshed, a limit of its own, and the reviewed contract. */
export async function hostedOptions(library, { url, origin }) {
  const options = { credentials: library.clientCredentialsGrant({ issuer: origin, ...CLIENT }) };
  const reader = new library.HostedClient(INFO, { url, ...options });
  await reader.connect();
  const pinned = await reader.snapshot();
  await reader.close();
  if (pinned.tools.length === 0) throw new Error('the pinned contract has no tool');
  return {
    credentials: library.clientCredentialsGrant({ issuer: origin, ...CLIENT }),
    rateLimit: { limit: 1_000_000, intervalMs: 10_000 },
    contract: { pinned },
  };
}

async function openHostedClient({ url, origin }) {
  const library = await import('mcp-holdfast/client');
  const client = new library.HostedClient(INFO, { url, ...(await hostedOptions(library, { url, origin })) });
  await client.connect();
  return { call: (params) => client.callTool(params), close: () => client.close() };
}

async function openHostedTransport({ url, origin }) {
  const library = await import('mcp-holdfast/client');
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const client = new Client(INFO);
  await client.connect(new library.HostedTransport(url, await hostedOptions(library, { url, origin })));
  return { call: (params) => client.callTool(params), close: () => client.close() };
}

async function openStockV1({ url, origin }) {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { StreamableHTTPClientTransport } = await import(
    '@modelcontextprotocol/sdk/client/streamableHttp.js'
  );
  const client = new Client(INFO);
  const authProvider = new ClientCredentialsProvider({ ...CLIENT, expectedIssuer: origin });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider }));
  return { call: (params) => client.callTool(params), close: () => client.close() };
}

async function openStockV2({ url, origin }) {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const client = new Client(INFO);
  const authProvider = new ProviderV2({ ...CLIENT, expectedIssuer: origin });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider }));
  return { call: (params) => client.callTool(params), close: () => client.close() };
}

async function openAiSdk({ url, peers }) {
  const entry = createRequire(join(peers, 'package.json')).resolve('@ai-sdk/mcp');
  const { createMCPClient } = await import(pathToFileURL(entry).href);
  const transport = { type: 'http', url, headers: { authorization: 'Bearer static' } };
  const client = await createMCPClient({ transport });
  const tools = await client.tools();
  const options = { toolCallId: 'call', messages: [] };
  return {
    call: ({ name, arguments: given }) => tools[name].execute(given, options),
    close: () => client.close(),
  };
}

/** A bridge between processes: its CPU counts with that of the client that speaks to it. */
async function openMcpRemote({ url, peers }) {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
  const bridge = join(peers, 'node_modules/mcp-remote/dist/proxy.js');
  const settings = ['--transport', 'http-only', '--allow-http', '--header', 'Authorization: Bearer static'];
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: ['--no-warnings', bridge, url, ...settings],
    env: { ...process.env, MCP_REMOTE_CONFIG_DIR: join(peers, 'config') },
    stderr: 'ignore',
  });
  const client = new Client(INFO);
  await client.connect(transport);
  return {
    call: (params) => client.callTool(params, undefined, { timeout: 600_000 }),
    close: () => client.close(),
    cpuOfOthersUs: () => cpuOfProcessUs(transport.pid),
  };
}

/** What a process has spent so far, to a hundredth of a second. Linux alone says so. */
function cpuOfProcessUs(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // After the name, which may contain anything and ends with the last parenthesis: user and system are fields 14 and 15.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return ((Number(fields[11]) + Number(fields[12])) * 1_000_000) / TICKS;
}
