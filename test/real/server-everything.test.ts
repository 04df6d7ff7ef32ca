/**
 * The reference server as it is: how it loses sessions, and how its store loses answers.
 */
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { HostedClient } from '../../src/client.js';
import { HostedMcpError, HostedTransport } from '../../src/index.js';
import { type Everything, startEverything } from './everything.js';

const INFO = { name: 'test', version: '1.0.0' };

let everything: Everything;

beforeAll(async () => {
  everything = await startEverything();
});
afterAll(() => everything?.close());
beforeEach(() => {
  everything.seen = [];
});

describe.each(['v1', 'v2'] as const)('server-everything under the stock %s Client', (sdk) => {
  it('lists and calls; after a DELETE by somebody else one ping, one initialize, nothing replayed', async () => {
    const client = sdk === 'v1' ? new ClientV1(INFO) : new ClientV2(INFO);
    const transport = new HostedTransport(everything.url);
    await (client as ClientV1).connect(transport as Transport);
    const echo = (message: string) =>
      (client as ClientV1).callTool({ name: 'echo', arguments: { message } }) as Promise<{
        content: unknown;
      }>;
    try {
      const { tools } = await (client as ClientV1).listTools();
      expect(tools.map((tool) => tool.name)).toContain('echo');
      expect(tools.length).toBeGreaterThan(5);
      expect((await echo('before')).content).toEqual([{ type: 'text', text: 'Echo: before' }]);
      const first = transport.sessionId ?? '';

      // Straight to the server: the client's side of the proxy sees nothing of it.
      const deleted = await fetch(everything.serverUrl, {
        method: 'DELETE',
        headers: { 'mcp-session-id': first, 'mcp-protocol-version': '2025-11-25' },
      });
      expect(deleted.status).toBe(200);
      const failure = await echo('lost').catch((error: unknown) => error);

      expect(HostedMcpError.isInstance(failure, 'ERR_SESSION_LOST')).toBe(true);
      expect(failure).toMatchObject({ executed: false, status: 400 });
      expect((await echo('after')).content).toEqual([{ type: 'text', text: 'Echo: after' }]);
      expect(transport.sessionId).not.toBe(first);
      expect(everything.count('POST initialize')).toBe(2);
      expect(everything.count('POST ping')).toBe(1);
      expect(everything.seen.filter((line) => line.startsWith('POST tools/call'))).toEqual([
        'POST tools/call 200',
        'POST tools/call 400',
        'POST tools/call 200',
      ]);
    } finally {
      await client.close();
    }
  });
});

const FACES = ['HostedClient', 'v1', 'v2'] as const;

it.concurrent.each(FACES)(
  'H21, %s: a call cut on its way is answered, though the server’s store brings only what is old and then goes silent',
  async (face) => {
    const server = await startEverything();
    const hosted = face === 'HostedClient' ? new HostedClient(INFO, { url: server.url }) : undefined;
    const client = hosted ?? (face === 'v1' ? new ClientV1(INFO) : new ClientV2(INFO));
    if (hosted !== undefined) await hosted.connect();
    else await (client as ClientV1).connect(new HostedTransport(server.url) as Transport);
    try {
      const progress: number[] = [];
      let cuts = 0;
      const params = { name: 'trigger-long-running-operation', arguments: { duration: 4, steps: 8 } };
      const options = {
        timeout: 25_000,
        onprogress: ({ progress: step }: { progress: number }) => {
          progress.push(step);
          if (step === 2) cuts += server.cut('POST tools/call');
        },
      };
      const result = await (face === 'v2'
        ? (client as ClientV2).callTool(params, options)
        : (client as ClientV1).callTool(params, undefined, options));

      expect(result.content).toMatchObject([{ text: expect.stringContaining('operation completed') }]);
      expect(cuts).toBe(1);
      expect(progress).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
      expect(server.count('POST tools/call')).toBe(1);
      expect(server.count('POST initialize')).toBe(1);
      expect(server.count('GET')).toBeGreaterThanOrEqual(2);
      expect(server.count('GET')).toBeLessThanOrEqual(5);
    } finally {
      await client.close();
      await server.close();
    }
  },
);
