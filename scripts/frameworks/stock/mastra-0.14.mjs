import { MCPClient } from '@mastra/mcp';
import { ClientCredentialsProvider } from '@modelcontextprotocol/sdk/client/auth-extensions.js';

export async function open({ url, clientId, clientSecret }) {
  const authProvider = new ClientCredentialsProvider({ clientId, clientSecret });
  const mcp = new MCPClient({ servers: { hosted: { url: new URL(url), authProvider } } });
  const tools = await mcp.getTools();
  return {
    callTool: (name, args) => tools[`hosted_${name}`].execute({ context: args }),
    close: () => mcp.disconnect(),
  };
}
