// A hosted URL and a machine's own identity: what an app needs, whole.
import { clientCredentialsGrant, HostedClient } from 'mcp-holdfast/client';

export async function run(url: string, issuer: string, clientId: string, clientSecret: string) {
  const client = new HostedClient(
    { name: 'weather-agent', version: '1.0.0' },
    { url, credentials: clientCredentialsGrant({ issuer, clientId, clientSecret }) },
  );
  await client.connect();
  const result = await client.callTool({ name: 'echo', arguments: { text: 'hello' } });
  await client.close();
  return result;
}
