// The client that the official suite drives: the SDK v2's Client over a HostedTransport; the server says which revision
// it speaks. `node client-v2.mjs URL`.
import { Client } from '@modelcontextprotocol/client';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';
import { HostedMcpError, HostedTransport } from 'mcp-holdfast';
import { credentialsFor } from './credentials.mjs';
import { finish, INFO, told } from './scenarios.mjs';

const it = told();
const { url, entry } = it;
const credentials = credentialsFor(it);
const client = new Client(INFO, {
  capabilities: entry.capabilities ?? {},
  versionNegotiation: { mode: 'auto' },
});
if (entry.answer !== undefined)
  client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: entry.answer }));

await finish(async () => {
  await client.connect(new HostedTransport(url, credentials === undefined ? {} : { credentials }));
  await entry.run(client, { ...it, skills: entry.skills === true ? new SkillsClient(client) : undefined });
  await client.close();
}, HostedMcpError.from);
