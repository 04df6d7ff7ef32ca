// LangChain: a client that is ready goes to `loadMcpTools`, which does not ask where it came from.
import { loadMcpTools } from '@langchain/mcp-adapters';
import { clientCredentialsGrant, HostedClient } from 'mcp-holdfast/client';

export async function open({ url, issuer, clientId, clientSecret }) {
  const credentials = clientCredentialsGrant({ issuer, clientId, clientSecret });
  // A stream is held open only for who wants to hear something; by it a redeploy is known before the next call.
  const streams = { listen: true };
  const client = new ClientForLangChain({ name: 'agent', version: '1.0.0' }, { url, credentials, streams });
  await client.connect();
  // For `createAgent({ model, tools })`, which calls them as below.
  const tools = await loadMcpTools('hosted', client);

  return {
    callTool: (name, args) => tools.find((tool) => tool.name === name).invoke(args),
    close: () => client.close(),
  };
}

/** Of an error with another name, LangChain keeps the text alone: this way `HostedMcpError.from(error)` finds its own. */
class ClientForLangChain extends HostedClient {
  async callTool(...call) {
    try {
      return await super.callTool(...call);
    } catch (cause) {
      throw Object.assign(new Error(cause.message, { cause }), { name: 'ToolException' });
    }
  }
}
