// 1,000 callers meet the expiry of a token that their session is bound to; counted at the server.
import { clientCredentialsGrant, HostedClient } from 'mcp-holdfast/client';
import { startHostedServer } from 'mcp-holdfast/testing';

export async function thousandCallers() {
  const server = await startHostedServer({ tokenLifetimeMs: 3_600_000, bindSession: 'token' });
  const { id, secret } = server.client;
  const client = new HostedClient(
    { name: 'bench', version: '1.0.0' },
    {
      url: server.url,
      credentials: clientCredentialsGrant({ issuer: server.issuer, clientId: id, clientSecret: secret }),
    },
  );
  await client.connect();
  await client.callTool({ name: 'echo', arguments: { text: 'first' } });
  const before = structuredClone(server.counts);
  server.expireTokens();
  const startedAt = performance.now();
  const calls = Array.from({ length: 1_000 }, (_, index) =>
    client.callTool({
      name: 'echo',
      arguments: { text: `${index}` },
      _meta: { 'mcp-holdfast/callId': `call-${index}` },
    }),
  );
  const outcomes = await Promise.allSettled(calls);
  const ms = performance.now() - startedAt;
  const { counts } = server;
  const figures = {
    answered: outcomes.filter(({ status }) => status === 'fulfilled').length,
    executedOnce: Object.values(counts.executionsById).filter((times) => times === 1).length,
    executedTwice: Object.values(counts.executionsById).filter((times) => times > 1).length,
    tokenRequests: counts.tokenRequests - before.tokenRequests,
    probes: counts.pings - before.pings,
    initializes: counts.initializes - before.initializes,
    ms: Math.round(ms),
  };
  await client.close();
  await server.close();
  return figures;
}
