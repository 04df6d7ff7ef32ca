/**
 * The reference server `@modelcontextprotocol/server-everything` as it is, behind a proxy that only counts.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, request as httpRequest, type Server } from 'node:http';
import { createRequire } from 'node:module';
import { type AddressInfo, connect as connectSocket, createServer as createSocketServer } from 'node:net';
import { dirname, join } from 'node:path';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { HostedMcpError, HostedTransport } from '../../src/index.js';

const MAIN = join(
  dirname(createRequire(import.meta.url).resolve('@modelcontextprotocol/server-everything/package.json')),
  'dist/index.js',
);
const INFO = { name: 'test', version: '1.0.0' };

let child: ChildProcess;
let proxy: Server;
let serverUrl: string;
let url: string;
/** `POST tools/call 400`, `DELETE 200`, ... in order of arrival. */
let seen: string[] = [];

const count = (start: string) => seen.filter((line) => line.startsWith(start)).length;

beforeAll(async () => {
  const port = await freePort();
  child = spawn(process.execPath, [MAIN, 'streamableHttp'], {
    env: { ...process.env, PORT: String(port) },
    stdio: 'ignore',
  });
  await accepting(port, child);
  serverUrl = `http://127.0.0.1:${port}/mcp`;
  proxy = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      const body = Buffer.concat(chunks);
      const message = body.length === 0 ? {} : (JSON.parse(body.toString()) as { method?: string });
      const line = [incoming.method, message.method].filter((part) => part !== undefined).join(' ');
      const at = seen.push(line) - 1;
      const onward = httpRequest(
        serverUrl,
        { method: incoming.method, headers: { ...incoming.headers, host: `127.0.0.1:${port}` } },
        (answer) => {
          seen[at] = `${line} ${answer.statusCode}`;
          outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(outgoing);
          answer.on('error', () => outgoing.destroy());
        },
      );
      onward.on('error', () => outgoing.destroy());
      outgoing.on('close', () => onward.destroy());
      onward.end(body);
    });
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/mcp`;
});

afterAll(async () => {
  proxy?.close();
  proxy?.closeAllConnections();
  if (child?.exitCode === null && child.pid !== undefined) {
    const gone = once(child, 'exit');
    process.kill(child.pid, 'SIGKILL');
    await gone;
  }
});

beforeEach(() => {
  seen = [];
});

describe.each(['v1', 'v2'] as const)('server-everything under the stock %s Client', (sdk) => {
  it('lists and calls; after a DELETE by somebody else one ping, one initialize, nothing replayed', async () => {
    const client = sdk === 'v1' ? new ClientV1(INFO) : new ClientV2(INFO);
    const transport = new HostedTransport(url);
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
      const deleted = await fetch(serverUrl, {
        method: 'DELETE',
        headers: { 'mcp-session-id': first, 'mcp-protocol-version': '2025-11-25' },
      });
      expect(deleted.status).toBe(200);
      const failure = await echo('lost').catch((error: unknown) => error);

      expect(HostedMcpError.isInstance(failure, 'ERR_SESSION_LOST')).toBe(true);
      expect(failure).toMatchObject({ executed: false, status: 400 });
      expect((await echo('after')).content).toEqual([{ type: 'text', text: 'Echo: after' }]);
      expect(transport.sessionId).not.toBe(first);
      expect(count('POST initialize')).toBe(2);
      expect(count('POST ping')).toBe(1);
      expect(seen.filter((line) => line.startsWith('POST tools/call'))).toEqual([
        'POST tools/call 200',
        'POST tools/call 400',
        'POST tools/call 200',
      ]);
    } finally {
      await client.close();
    }
  });
});

async function freePort(): Promise<number> {
  const server = createSocketServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Waits until the port takes a connection; rejects if the server ends before. */
async function accepting(port: number, server: ChildProcess): Promise<void> {
  for (;;) {
    if (server.exitCode !== null) throw new Error(`the server ended with code ${server.exitCode}`);
    const open = await new Promise<boolean>((resolve) => {
      const socket = connectSocket(port, '127.0.0.1');
      socket.once('connect', () => {
        socket.destroy();
        resolve(true);
      });
      socket.once('error', () => resolve(false));
    });
    if (open) return;
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}
