// A test suite that makes a token expire on purpose: no waiting, counted at the server. Runs under any runner.
import assert from 'node:assert/strict';
import { clientCredentialsGrant, HostedClient } from 'mcp-holdfast/client';
import { manualClock, startHostedServer } from 'mcp-holdfast/testing';

export async function anAgentDoesNotNoticeAnExpiry() {
  const clock = manualClock();
  const server = await startHostedServer({ tokenLifetimeMs: 60_000, bindSession: 'token', clock });
  const { id: clientId, secret: clientSecret } = server.client;
  const client = new HostedClient(
    { name: 'suite', version: '1.0.0' },
    {
      url: server.url,
      credentials: clientCredentialsGrant({ issuer: server.issuer, clientId, clientSecret, clock }),
      clock,
    },
  );
  try {
    await client.connect();
    await client.callTool({ name: 'echo', arguments: { text: 'before' } });

    await clock.advance(61_000);
    await client.callTool({ name: 'echo', arguments: { text: 'after' } });

    assert.equal(server.counts.executions.echo, 2);
    assert.equal(server.counts.initializes, 2);
    assert.ok(server.counts.tokenRequests >= 2);
  } finally {
    await client.close();
    await server.close();
  }
}
