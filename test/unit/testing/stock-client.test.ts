import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { afterEach, expect, test } from 'vitest';
import {
  type HostedServer,
  type HostedServerOptions,
  startHostedServer,
} from '../../../src/testing/index.js';

let server: HostedServer;
let client: Client;

async function connect(options: HostedServerOptions): Promise<void> {
  server = await startHostedServer(options);
  client = new Client({ name: 'stock', version: '1' }, { capabilities: { elicitation: {} } });
  const headers = { authorization: `Bearer ${server.issueToken()}` };
  const transport = new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers } });
  // biome-ignore lint/suspicious/noExplicitAny: the SDK's class does not fit its own interface under exactOptionalPropertyTypes.
  await client.connect(transport as any);
}

afterEach(async () => {
  await client.close();
  await server.close();
});

test.each(['json', 'sse', undefined] as const)('the stock client works with answer %s', async (answer) => {
  await connect({ answer });
  const { tools } = await client.listTools();
  expect(tools.map((tool) => tool.name)).toEqual(['echo', 'add', 'slow', 'fail']);
  const sum = await client.callTool({ name: 'add', arguments: { a: 2, b: 3 } });
  expect(sum.content).toEqual([{ type: 'text', text: '5' }]);
  const failed = await client.callTool({ name: 'fail', arguments: {} });
  expect(failed.isError).toBe(true);
  expect(server.counts.executions).toEqual({ add: 1, fail: 1 });
  expect(server.counts.initializes).toBe(1);
});

test('progress arrives ahead of the answer', async () => {
  await connect({});
  const seen: number[] = [];
  await client.callTool({ name: 'slow', arguments: { ms: 5 } }, undefined, {
    onprogress: ({ progress }) => seen.push(progress),
  });
  expect(seen).toEqual([0, 50, 100]);
});

const asking = [
  {
    name: 'ask',
    handler: async (_args: unknown, call: { request(method: string, params: object): Promise<unknown> }) => {
      const schema = { type: 'object', properties: { ok: { type: 'boolean' } } };
      return call.request('elicitation/create', { message: 'sure?', requestedSchema: schema });
    },
  },
];

test('a tool asks the client on the stream of its call, with ids from 0', async () => {
  await connect({ tools: asking });
  const ids: unknown[] = [];
  client.setRequestHandler(ElicitRequestSchema, (_request, extra) => {
    ids.push(extra.requestId);
    return { action: 'accept', content: { ok: true } };
  });
  const first = await client.callTool({ name: 'ask', arguments: {} });
  expect(first.content).toEqual([{ type: 'text', text: '{"action":"accept","content":{"ok":true}}' }]);
  await client.callTool({ name: 'ask', arguments: {} });
  expect(ids).toEqual([0, 1]);
});

test('with plain JSON answers a tool asks on the listen stream', async () => {
  await connect({ tools: asking, answer: 'json' });
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'decline' }));
  const listens = () => server.log.some((entry) => entry.http === 'GET' && entry.status === 200);
  await expect.poll(listens).toBe(true);
  const result = await client.callTool({ name: 'ask', arguments: {} });
  expect(result.content).toEqual([{ type: 'text', text: '{"action":"decline"}' }]);
});

test('a cut answer is resumed by the stock client where events are kept', async () => {
  await connect({ answer: 'sse', eventStore: true });
  const call = client.callTool({ name: 'slow', arguments: { ms: 150 } });
  await expect.poll(() => server.counts.executions).toEqual({ slow: 1 });
  server.cutStreams('eof');
  expect((await call).content).toEqual([{ type: 'text', text: 'waited 150 ms' }]);
  expect(server.log.some((entry) => entry.headers['last-event-id']?.startsWith('s'))).toBe(true);
  expect(server.counts.executions).toEqual({ slow: 1 });
});
