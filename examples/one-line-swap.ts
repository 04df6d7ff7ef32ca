// An existing SDK Client keeps everything it has; only the transport changes.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { HostedTransport, tokenFromEnv } from 'mcp-holdfast';

export async function run(url: string) {
  const client = new Client({ name: 'weather-agent', version: '1.0.0' });
  // Before: new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })
  const transport = new HostedTransport(url, { credentials: tokenFromEnv('MCP_TOKEN') });
  await client.connect(transport);
  const { tools } = await client.listTools();
  await transport.terminateSession();
  await client.close();
  return tools.map((tool) => tool.name);
}
