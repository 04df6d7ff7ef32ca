import { MCPClient } from '@mastra/mcp';
import { ClientCredentialsProvider } from '@modelcontextprotocol/client';

export async function open({ url, clientId, clientSecret }) {
  const authProvider = new ClientCredentialsProvider({ clientId, clientSecret });
  const mcp = new MCPClient({ servers: { hosted: { url: new URL(url), authProvider } } });
  const tools = await mcp.listTools();
  return {
    callTool: (name, args) => tools[`hosted_${name}`].execute(args, {}),
    close: () => mcp.disconnect(),
  };
}
