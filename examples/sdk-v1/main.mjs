// SDK v1: the transport is another one, the Client and everything around it stay as they are.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { clientCredentialsGrant, HostedTransport } from 'mcp-holdfast';

export async function open({ url, issuer, clientId, clientSecret }) {
  const credentials = clientCredentialsGrant({ issuer, clientId, clientSecret });
  const transport = new HostedTransport(url, { credentials });
  const client = new Client({ name: 'agent', version: '1.0.0' });
  await client.connect(transport);

  return {
    callTool: (name, args) => client.callTool({ name, arguments: args }),
    async close() {
      await transport.terminateSession();
      await client.close();
    },
  };
}
