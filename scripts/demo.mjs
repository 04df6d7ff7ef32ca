// The same agent loop twice, against two hosted servers that behave alike: the SDK's stock client on one,
// mcp-holdfast on the other. Tokens live 4 s, sessions are bound to their token, and halfway both servers
// are redeployed. Everything in the table but "asked" and "answered" is counted at the servers.
import { ClientCredentialsProvider } from '@modelcontextprotocol/sdk/client/auth-extensions.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { clientCredentialsGrant, HostedClient, HostedMcpError } from 'mcp-holdfast/client';
import { startHostedServer } from 'mcp-holdfast/testing';

const HELP = `npm run demo -- [--seconds N] [--json]

Runs an agent that calls a tool every 0.7 s against a simulated hosted server, once with the SDK's stock
client and once with mcp-holdfast, side by side.

  --seconds N   how long (default 20, at least 6)
  --json        only the closing figures, as JSON
  --help        this text

Exit status: 0 when mcp-holdfast answered every call save at most one that met the redeploy, and no tool
ran twice; 1 otherwise; 2 for a usage error.`;

const options = readArguments(process.argv.slice(2));
const TOKEN_LIFETIME_MS = 4_000;
const CALL_EVERY_MS = 700;
const AGENT = { name: 'demo-agent', version: '1.0.0' };

const say = options.json ? () => {} : (line) => process.stdout.write(`${line}\n`);

const stock = await makeRunner('stock SDK client', async (server) => {
  const client = new Client(AGENT);
  const authProvider = new ClientCredentialsProvider({
    clientId: server.client.id,
    clientSecret: server.client.secret,
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(server.url), { authProvider }));
  return client;
});
const holdfast = await makeRunner('mcp-holdfast', async (server) => {
  const { id, secret } = server.client;
  const credentials = clientCredentialsGrant({ issuer: server.issuer, clientId: id, clientSecret: secret });
  const client = new HostedClient(AGENT, { url: server.url, credentials });
  await client.connect();
  return client;
});
const runners = [stock, holdfast];

say(
  `Tokens live ${TOKEN_LIFETIME_MS / 1000} s, sessions are bound to their token, one redeploy halfway; ${options.seconds} s.`,
);
say('');
say(`   time   ${stock.name.padEnd(34)}${holdfast.name}`);

const startedAt = performance.now();
const redeployAt = (options.seconds * 1000) / 2;
let redeployed = false;
for (let turn = 1; elapsed() < options.seconds * 1000; turn += 1) {
  if (!redeployed && elapsed() >= redeployAt) {
    redeployed = true;
    for (const { server } of runners) server.deploy({ restart: true });
    say(`${seconds()}   ---- the vendor redeploys: all sessions are gone ----`);
  }
  const outcomes = await Promise.all(runners.map((runner) => call(runner, `call-${turn}`)));
  say(`${seconds()}   ${outcomes[0].padEnd(34)}${outcomes[1]}`);
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, turn * CALL_EVERY_MS - elapsed())));
}

await Promise.all(runners.map(({ client }) => client.close()));
const rows = runners.map(figures);
await Promise.all(runners.map(({ server }) => server.close()));
report(rows);
process.exit(verdict(rows[1]) ? 0 : 1);

async function makeRunner(name, open) {
  const server = await startHostedServer({ tokenLifetimeMs: TOKEN_LIFETIME_MS, bindSession: 'token' });
  return { name, server, client: await open(server), asked: 0, answered: 0, failures: [] };
}

async function call(runner, callId) {
  runner.asked += 1;
  try {
    await runner.client.callTool(
      { name: 'echo', arguments: { text: callId }, _meta: { 'mcp-holdfast/callId': callId } },
      undefined,
      { timeout: 5_000 },
    );
    runner.answered += 1;
    return 'answered';
  } catch (error) {
    const known = HostedMcpError.isInstance(error);
    runner.failures.push(
      known ? { code: error.code, executed: error.executed } : { code: error.code ?? error.name },
    );
    return known
      ? `${error.code}, executed: ${error.executed}`
      : `failed: ${String(error.message).replace(/\s+/g, ' ').slice(0, 24)}`;
  }
}

function figures({ name, server, asked, answered, failures }) {
  const { executionsById, initializes, tokenRequests } = server.counts;
  const runTwice = Object.values(executionsById).filter((times) => times > 1).length;
  return {
    client: name,
    asked,
    answered,
    failed: failures.length,
    runTwice,
    initializes,
    tokenRequests,
    failures,
  };
}

function verdict(row) {
  const honest = row.failures.every(({ executed }) => executed !== undefined);
  return (
    row.answered >= row.asked - 1 && row.asked === row.answered + row.failed && row.runTwice === 0 && honest
  );
}

function report(rows) {
  if (options.json) {
    process.stdout.write(`${JSON.stringify(rows, null, 2)}\n`);
    return;
  }
  const columns = ['client', 'asked', 'answered', 'failed', 'runTwice', 'initializes', 'tokenRequests'];
  const titles = ['client', 'asked', 'answered', 'failed', 'run twice', 'initializes', 'token requests'];
  const width = (index) =>
    Math.max(titles[index].length, ...rows.map((row) => String(row[columns[index]]).length)) + 2;
  const line = (cells) =>
    cells
      .map((cell, index) => String(cell).padEnd(width(index)))
      .join('')
      .trimEnd();
  say('');
  say(line(titles));
  for (const row of rows) say(line(columns.map((column) => row[column])));
  for (const { code, executed } of rows[1].failures) {
    say(
      `\nThe one call that met the redeploy was reported as ${code}, executed: ${executed}. It was not sent again.`,
    );
  }
}

function elapsed() {
  return performance.now() - startedAt;
}

function seconds() {
  return `${(elapsed() / 1000).toFixed(1).padStart(5)} s`;
}

function readArguments(args) {
  const read = { seconds: 20, json: false };
  for (let at = 0; at < args.length; at += 1) {
    const name = args[at];
    const value = Number(args[at + 1]);
    if (name === '--help') {
      process.stdout.write(`${HELP}\n`);
      process.exit(0);
    } else if (name === '--json') read.json = true;
    else if (name === '--seconds' && value >= 6 && value <= 600) {
      read.seconds = value;
      at += 1;
    } else {
      process.stderr.write(`Not understood: ${name}\n\n${HELP}\n`);
      process.exit(2);
    }
  }
  return read;
}
