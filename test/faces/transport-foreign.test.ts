/**
 * HostedTransport under a client that is no SDK's: AI SDK's throws where an answer comes for an id it has forgotten, and
 * so would end the process.
 */
import { expect, it } from 'vitest';
import { HostedTransport } from '../../src/index.js';
import { closeLater, failureOf, machine, startServer } from '../wire/support.js';

const turn = () => new Promise((resolve) => setImmediate(resolve));

async function open() {
  const scene = await startServer();
  const transport = new HostedTransport(scene.server.url, {
    credentials: machine(scene),
    clock: scene.clock,
  });
  const heard: unknown[] = [];
  transport.onmessage = (message: { id?: unknown }) => heard.push(message.id);
  closeLater(() => transport.close());
  await transport.start();
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } };
  await transport.send({ jsonrpc: '2.0', id: 0, method: 'initialize', params });
  await transport.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
  scene.server.replyOnce({ method: 'tools/call' }, { tool: 'run', cut: 'reset' });
  return { ...scene, transport, heard };
}

const CALL = {
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'echo', arguments: { text: 'a' } },
} as const;

it.each([
  ['no options, as AI SDK', undefined],
  ['a signal, as AI SDK with a time limit', { signal: new AbortController().signal }],
  ['headers', { headers: { 'mcp-param-a': 'b' } }],
])('%s: a call that failed is heard of once', async (_name, options) => {
  const { transport, heard, server } = await open();

  const failure = await failureOf(transport.send(CALL, options as never));
  await turn();
  await turn();

  expect(failure).toMatchObject({ code: 'ERR_OUTCOME_UNKNOWN', executed: 'unknown' });
  expect(heard).toEqual([0]);
  expect(server.counts.executions.echo).toBe(1);
});

it('what SDK v1 sends with: the handler that its Client keeps is freed', async () => {
  const { transport, heard } = await open();

  const options = { relatedRequestId: undefined, resumptionToken: undefined, onresumptiontoken: undefined };
  await failureOf(transport.send(CALL, options));
  await turn();

  expect(heard).toEqual([0, 1]);
});
