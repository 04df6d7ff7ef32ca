// AI SDK: an own transport instead of `{ type: 'http', url }`. `maxRetries` may stay: what may have run is not retried.
import { createMCPClient } from '@ai-sdk/mcp';
import { clientCredentialsGrant, HostedTransport } from 'mcp-holdfast';

export async function open({ url, issuer, clientId, clientSecret }) {
  const credentials = clientCredentialsGrant({ issuer, clientId, clientSecret });
  const transport = new HostedTransport(url, { credentials });
  const client = await createMCPClient({ transport, maxRetries: 2 });
  // For `generateText({ model, tools, ... })`, which calls them as below.
  const tools = await client.tools();

  return {
    callTool: (name, args) => tools[name].execute(args, { toolCallId: crypto.randomUUID(), messages: [] }),
    async close() {
      await transport.terminateSession();
      await client.close();
    },
  };
}
