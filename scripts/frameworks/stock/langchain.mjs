import { MultiServerMCPClient } from '@langchain/mcp-adapters';
import { ClientCredentialsProvider } from '@modelcontextprotocol/sdk/client/auth-extensions.js';

export async function open({ url, clientId, clientSecret }) {
  const authProvider = new ClientCredentialsProvider({ clientId, clientSecret });
  const hosted = { transport: 'http', url, authProvider, reconnect: { enabled: true } };
  const client = new MultiServerMCPClient({ mcpServers: { hosted } });
  const tools = await client.getTools();
  return {
    callTool: (name, args) => tools.find((tool) => tool.name === name).invoke(args),
    close: () => client.close(),
  };
}
