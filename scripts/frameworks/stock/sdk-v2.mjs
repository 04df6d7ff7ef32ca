import {
  Client,
  ClientCredentialsProvider,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';

export async function open({ url, clientId, clientSecret }, { versionNegotiation } = {}) {
  const authProvider = new ClientCredentialsProvider({ clientId, clientSecret });
  const client = new Client({ name: 'agent', version: '1.0.0' }, { versionNegotiation });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider }));
  return {
    callTool: (name, args) => client.callTool({ name, arguments: args }),
    close: () => client.close(),
  };
}

export const openAuto = (server) => open(server, { versionNegotiation: { mode: 'auto' } });
