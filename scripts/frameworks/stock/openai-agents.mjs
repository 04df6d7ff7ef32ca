import { ClientCredentialsProvider } from '@modelcontextprotocol/client';
import { MCPServerStreamableHttp } from '@openai/agents';

export async function open({ url, clientId, clientSecret }) {
  const authProvider = new ClientCredentialsProvider({ clientId, clientSecret });
  const server = new MCPServerStreamableHttp({ url, authProvider });
  await server.connect();
  return {
    callTool: (name, args) => server.callTool(name, args),
    close: () => server.close(),
  };
}
