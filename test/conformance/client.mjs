// The client that the official suite drives: `node client.mjs URL`, the scenario's name in the environment.
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { HostedClient } from 'mcp-holdfast/client';

const url = process.argv.at(-1);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;

const SCENARIOS = {
  initialize: (client) => client.listTools(),
  tools_call: async (client) => {
    await client.listTools();
    await client.callTool({ name: 'add_numbers', arguments: { a: 2, b: 3 } });
  },
  'elicitation-sep1034-client-defaults': async (client) => {
    const { tools } = await client.listTools();
    for (const { name } of tools) await client.callTool({ name, arguments: {} });
  },
  'sse-retry': async (client) => {
    await client.listTools();
    await client.callTool({ name: 'test_reconnection', arguments: {} });
  },
};

const run = SCENARIOS[scenario];
if (run === undefined) {
  process.stderr.write(`No such scenario here: ${scenario}\n`);
  process.exit(1);
}
const asks = scenario.startsWith('elicitation');
// A client that hears notifications keeps a listen stream open.
const listens = process.env.CONFORMANCE_LISTENS === '1';
const client = new HostedClient(
  { name: 'mcp-holdfast-conformance', version: '1.0.0' },
  { url, capabilities: asks ? { elicitation: { form: { applyDefaults: true } } } : {} },
);
if (asks) client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: {} }));
if (listens) client.setNotificationHandler(ToolListChangedNotificationSchema, () => {});
await client.connect();
await run(client);
await client.close();
process.exit(0);
