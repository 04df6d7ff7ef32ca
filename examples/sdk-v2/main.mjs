// SDK v2: the transport is another one. As it stands this Client opens a session, as all servers did before 2026-07-28;
// with `versionNegotiation` it asks first, and needs none where the server can do without.
import { Client } from '@modelcontextprotocol/client';
import { clientCredentialsGrant, HostedTransport } from 'mcp-holdfast';

export async function open({ url, issuer, clientId, clientSecret }, { versionNegotiation } = {}) {
  const credentials = clientCredentialsGrant({ issuer, clientId, clientSecret });
  const transport = new HostedTransport(url, { credentials });
  const client = new Client({ name: 'agent', version: '1.0.0' }, { versionNegotiation });
  await client.connect(transport);

  return {
    callTool: (name, args) => client.callTool({ name, arguments: args }),
    async close() {
      await transport.terminateSession();
      await client.close();
    },
  };
}

/** The same with negotiation. */
export const openAuto = (server) => open(server, { versionNegotiation: { mode: 'auto' } });
