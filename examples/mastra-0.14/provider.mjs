// Mastra 0.14 takes no fetch and no transport, but it takes credentials: they are renewed ahead of their end, once for all
// callers. Its own transport cannot open a session again: where the server ends sessions, take the bridge (bridge.mjs).
import { MCPClient } from '@mastra/mcp';
import { clientCredentialsGrant, toOAuthClientProvider } from 'mcp-holdfast';

export async function open({ url, issuer, clientId, clientSecret }) {
  const credentials = clientCredentialsGrant({ issuer, clientId, clientSecret });
  const authProvider = toOAuthClientProvider(credentials, url);
  const mcp = new MCPClient({ servers: { hosted: { url: new URL(url), authProvider } } });
  // For `new Agent({ tools, ... })`, which calls them as below.
  const tools = await mcp.getTools();

  return {
    callTool: (name, args) => tools[`hosted_${name}`].execute({ context: args }),
    async close() {
      await mcp.disconnect();
      await credentials.close();
    },
  };
}
