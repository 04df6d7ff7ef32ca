/**
 * The reference server `@modelcontextprotocol/server-everything` as it is, in a process of its own, behind a
 * proxy that counts and, where asked to, cuts.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, request as httpRequest, type ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import { type AddressInfo, connect as connectSocket, createServer as createSocketServer } from 'node:net';
import { dirname, join } from 'node:path';

const MAIN = join(
  dirname(createRequire(import.meta.url).resolve('@modelcontextprotocol/server-everything/package.json')),
  'dist/index.js',
);

export interface Everything {
  /** Of the proxy. */
  readonly url: string;
  /** Of the server itself: the proxy sees nothing of it. */
  readonly serverUrl: string;
  /** `POST tools/call 400`, `GET 200`, ... in order of arrival. */
  seen: string[];
  count(start: string): number;
  /** Closes the client's side of every answer to such a request that is under way. */
  cut(start: string): number;
  close(): Promise<void>;
}

export async function startEverything(): Promise<Everything> {
  const port = await freePort();
  const child = spawn(process.execPath, [MAIN, 'streamableHttp'], {
    env: { ...process.env, PORT: String(port) },
    stdio: 'ignore',
  });
  await accepting(port, child);
  const serverUrl = `http://127.0.0.1:${port}/mcp`;
  const open = new Map<ServerResponse, string>();
  const proxy = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      const body = Buffer.concat(chunks);
      const message = body.length === 0 ? {} : (JSON.parse(body.toString()) as { method?: string });
      const line = [incoming.method, message.method].filter((part) => part !== undefined).join(' ');
      const at = everything.seen.push(line) - 1;
      open.set(outgoing, line);
      const onward = httpRequest(
        serverUrl,
        { method: incoming.method, headers: { ...incoming.headers, host: `127.0.0.1:${port}` } },
        (answer) => {
          everything.seen[at] = `${line} ${answer.statusCode}`;
          outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(outgoing);
          answer.on('error', () => outgoing.destroy());
        },
      );
      onward.on('error', () => outgoing.destroy());
      outgoing.on('close', () => {
        open.delete(outgoing);
        onward.destroy();
      });
      onward.end(body);
    });
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const everything: Everything = {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/mcp`,
    serverUrl,
    seen: [],
    count: (start) => everything.seen.filter((line) => line.startsWith(start)).length,
    cut(start) {
      const cut = [...open].filter(([, line]) => line.startsWith(start));
      for (const [answer] of cut) answer.destroy();
      return cut.length;
    },
    async close() {
      proxy.close();
      proxy.closeAllConnections();
      if (child.exitCode !== null || child.pid === undefined) return;
      const gone = once(child, 'exit');
      process.kill(child.pid, 'SIGKILL');
      await gone;
    },
  };
  return everything;
}

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
