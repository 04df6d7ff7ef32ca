// Mastra 0.14 by way of the bridge: a server that is launched, and does everything for the hosted one behind it.
import { MCPClient } from '@mastra/mcp';

export async function open({ url, issuer, clientId, clientSecret }) {
  const env = { HOLDFAST_ISSUER: issuer, HOLDFAST_CLIENT_ID: clientId, HOLDFAST_CLIENT_SECRET: clientSecret };
  const server = { command: 'npx', args: ['mcp-holdfast', 'bridge', url], env };
  const mcp = new MCPClient({ servers: { hosted: server } });
  // For `new Agent({ tools, ... })`, which calls them as below.
  const tools = await mcp.getTools();

  return {
    callTool: (name, args) => tools[`hosted_${name}`].execute({ context: args }),
    close: () => mcp.disconnect(),
  };
}
