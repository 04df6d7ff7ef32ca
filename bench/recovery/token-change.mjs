// Calls under way while the token that their session is bound to is replaced, in think-time and under load.
import { clientCredentialsGrant, HostedClient } from 'mcp-holdfast/client';
import { startHostedServer } from 'mcp-holdfast/testing';

const CALLERS = 16;
const CHANGES = 5;
/** Refreshed at three quarters of it. */
const LIFETIME_MS = 2_000;

/** Counted at the server, but for `failed`, which the callers saw. */
export async function measureTokenChange() {
  const server = await startHostedServer({ tokenLifetimeMs: LIFETIME_MS, bindSession: 'token' });
  const { id, secret } = server.client;
  const credentials = clientCredentialsGrant({ issuer: server.issuer, clientId: id, clientSecret: secret });
  const client = new HostedClient({ name: 'bench', version: '1.0.0' }, { url: server.url, credentials });
  await client.connect();
  const before = structuredClone({ ...server.counts });
  let changes = 0;
  client.connection.on('credential-refreshed', () => {
    changes += 1;
  });
  let calls = 0;
  let failed = 0;
  const caller = async () => {
    while (changes < CHANGES) {
      calls += 1;
      const _meta = { 'mcp-holdfast/callId': `call-${calls}` };
      await client.callTool({ name: 'slow', arguments: { ms: 20 }, _meta }).catch(() => {
        failed += 1;
      });
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  const { counts } = server;
  const times = Object.values(counts.executionsById);
  const figures = {
    callers: CALLERS,
    changes,
    calls,
    failed,
    executedOnce: times.filter((each) => each === 1).length,
    executedTwice: times.filter((each) => each > 1).length,
    tokenRequests: counts.tokenRequests - before.tokenRequests,
    probes: counts.pings - before.pings,
    initializes: counts.initializes - before.initializes,
  };
  await client.close();
  await server.close();
  return figures;
}
