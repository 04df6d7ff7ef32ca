// Mastra 2: the `fetch` of a server is another one; it brings the token, so there is no `authProvider`.
import { MCPClient } from '@mastra/mcp';
import { clientCredentialsGrant, hostedFetch } from 'mcp-holdfast';

export async function open({ url, issuer, clientId, clientSecret }) {
  const credentials = clientCredentialsGrant({ issuer, clientId, clientSecret });
  const fetch = hostedFetch(url, { credentials });
  const mcp = new MCPClient({ servers: { hosted: { url: new URL(url), fetch } } });
  // For `new Agent({ tools, ... })`, which calls them as below.
  const tools = await mcp.listTools();

  return {
    callTool: (name, args) => tools[`hosted_${name}`].execute(args, {}),
    async close() {
      await mcp.disconnect();
      await fetch.close();
    },
  };
}
