// From the loss of a session to the next call that is answered, in requests as the server saw them.
import { clientCredentialsGrant, HostedClient } from 'mcp-holdfast/client';
import { startHostedServer } from 'mcp-holdfast/testing';

const INFO = { name: 'bench', version: '1.0.0' };
const ECHO = { name: 'echo', arguments: { text: 'hello' } };
const URI = 'memo://welcome';

/** What a session had in use that has to stand again before the next call. Each adds one request, no more. */
const IN_USE = [
  { title: 'nothing else', uses: [] },
  { title: 'a pinned contract', uses: ['contract'] },
  { title: 'a log level', uses: ['level'] },
  { title: 'a resource subscription', uses: ['subscription'] },
  { title: 'all three', uses: ['contract', 'level', 'subscription'] },
];

/** `[{ title, methods, requests, expected }]`; `methods` in the order of their arrival, the next call last. */
export async function measureLoss() {
  const rows = [];
  for (const { title, uses } of IN_USE) {
    const methods = await lossWith(uses);
    rows.push({ title, methods, requests: methods.length, expected: 3 + uses.length });
  }
  return rows;
}

async function lossWith(uses) {
  const server = await startHostedServer();
  server.deploy({ capabilities: { tools: {}, logging: {}, resources: { subscribe: true } } });
  // The simulator has no log of its own to send.
  server.reply(
    { method: 'logging/setLevel' },
    { status: 200, body: ({ message }) => ({ jsonrpc: '2.0', id: message.id, result: {} }) },
  );
  const open = (options) => {
    const { id, secret } = server.client;
    const credentials = clientCredentialsGrant({
      issuer: server.issuer,
      clientId: id,
      clientSecret: secret,
    });
    return new HostedClient(INFO, { url: server.url, credentials, streams: { listen: false }, ...options });
  };
  const reader = open({});
  await reader.connect();
  const pinned = await reader.snapshot();
  await reader.close();

  const client = open(uses.includes('contract') ? { contract: { pinned } } : {});
  try {
    await client.connect();
    if (uses.includes('level')) await client.setLoggingLevel('warning');
    if (uses.includes('subscription')) await client.subscribeResource({ uri: URI });
    await client.callTool(ECHO);
    server.dropSessions();
    const lost = server.log.length;
    const failed = await client.callTool(ECHO).then(
      () => false,
      () => true,
    );
    if (!failed) throw new Error('the call that met the loss was answered');
    await client.callTool(ECHO);
    const seen = server.log.slice(lost).filter(({ path }) => path === new URL(server.url).pathname);
    // After the call that met the loss, up to the one that was answered; what is deleted or opened beside it delays nothing.
    const steps = seen.filter(({ http }) => http === 'POST').map(({ rpcMethod }) => rpcMethod);
    if (steps.shift() !== 'tools/call') throw new Error(`the loss was met by ${seen[0]?.rpcMethod}`);
    return steps.slice(0, steps.indexOf('tools/call') + 1);
  } finally {
    await client.close();
    await server.close();
  }
}
