/** The examples, as they stand, against the simulator. They import the built package, as a reader would. */
import { afterEach, expect, test, vi } from 'vitest';
import { run as oneLineSwap } from '../../examples/one-line-swap.js';
import { run as quickstart } from '../../examples/quickstart.js';
import { anAgentDoesNotNoticeAnExpiry } from '../../examples/token-expiry.js';
import { startHostedServer } from '../../src/testing/index.js';

afterEach(() => vi.unstubAllEnvs());

test('quickstart', async () => {
  const server = await startHostedServer();
  const result = await quickstart(server.url, server.issuer, server.client.id, server.client.secret);
  expect(result.content).toEqual([{ type: 'text', text: 'hello' }]);
  expect(server.counts).toMatchObject({
    executions: { echo: 1 },
    initializes: 1,
    tokenRequests: 1,
    deletes: 1,
  });
  await server.close();
});

test('one-line swap', async () => {
  const server = await startHostedServer();
  vi.stubEnv('MCP_TOKEN', server.issueToken());
  expect(await oneLineSwap(server.url)).toEqual(['echo', 'add', 'slow', 'fail']);
  expect(server.counts).toMatchObject({ initializes: 1, deletes: 1 });
  await server.close();
});

test('a suite that simulates token expiry', () => anAgentDoesNotNoticeAnExpiry());
