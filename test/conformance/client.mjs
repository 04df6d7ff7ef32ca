// The client that the official suite drives: HostedClient, on the SDK v1. `node client.mjs URL`.
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { HostedClient, HostedMcpError } from 'mcp-holdfast/client';
import { credentialsFor } from './credentials.mjs';
import { finish, INFO, told } from './scenarios.mjs';

const it = told();
const { url, entry } = it;
const credentials = credentialsFor(it);
const client = new HostedClient(INFO, {
  url,
  capabilities: entry.capabilities ?? {},
  ...(credentials !== undefined && { credentials }),
});
if (entry.answer !== undefined)
  client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: entry.answer }));
// A client that hears notifications keeps a listen stream open.
if (process.env.CONFORMANCE_LISTENS === '1')
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => {});

await finish(async () => {
  await client.connect();
  await entry.run(client, it);
  await client.close();
}, HostedMcpError.from);
