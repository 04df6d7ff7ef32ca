// OpenAI Agents: the `fetch` of a server is another one; it brings the token, so there is no `authProvider`.
import { MCPServerStreamableHttp } from '@openai/agents';
import { clientCredentialsGrant, hostedFetch } from 'mcp-holdfast';

export async function open({ url, issuer, clientId, clientSecret }) {
  const credentials = clientCredentialsGrant({ issuer, clientId, clientSecret });
  const fetch = hostedFetch(url, { credentials });
  const server = new MCPServerStreamableHttp({ url, fetch });
  await server.connect();

  return {
    // For `new Agent({ mcpServers: [server], ... })`, which calls its tools as below.
    callTool: (name, args) => server.callTool(name, args),
    async close() {
      await server.close();
      await fetch.close();
    },
  };
}
