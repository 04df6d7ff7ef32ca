/**
 * Commands run in process: their output, environment and clock are the test's.
 */
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach } from 'vitest';
import type { CommandIo } from '../../src/cli/command.js';
import { COMMANDS } from '../../src/cli/commands.js';
import { runCli } from '../../src/cli/run.js';
import { systemClock } from '../../src/clock.js';

const closing: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Done, in reverse order, after the test. */
export function closeLater(close: () => Promise<unknown>): void {
  closing.push(close);
}

export interface Ran {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Setting extends Partial<Omit<CommandIo, 'stdout' | 'stderr' | 'stdin'>> {
  readonly stdin?: string | Iterable<string | Uint8Array> | undefined;
}

/** Runs `mcp-holdfast` with `args`; nothing of the process reaches it. */
export async function run(args: readonly string[], setting: Setting = {}): Promise<Ran> {
  const out = { stdout: '', stderr: '' };
  const { stdin = '', ...rest } = setting;
  const chunks = typeof stdin === 'string' ? [stdin] : stdin;
  const status = await runCli(
    args,
    {
      stdout: { write: (text) => (out.stdout += text) },
      stderr: { write: (text) => (out.stderr += text) },
      stdin: (async function* () {
        yield* chunks;
      })(),
      env: {},
      isTTY: { stdout: false, stderr: false },
      signal: new AbortController().signal,
      clock: systemClock(),
      cwd: tmpdir(),
      ...rest,
    },
    COMMANDS,
  );
  return { status, ...out };
}

/** A directory of its own, gone after the test. */
export async function folder(files: Record<string, string | Uint8Array> = {}): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'holdfast-cli-'));
  closeLater(() => rm(path, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) await writeFile(join(path, name), text);
  return path;
}

export interface FakeServer {
  readonly url: string;
  /** The headers of every request. */
  readonly seen: IncomingHttpHeaders[];
}

type Tools = readonly object[] | ((headers: IncomingHttpHeaders) => readonly object[]);

/** An MCP server that lists what no decent server would. */
export async function startFakeServer({ tools }: { tools: Tools }): Promise<FakeServer> {
  const seen: IncomingHttpHeaders[] = [];
  const server = createServer(async (request, response) => {
    seen.push(request.headers);
    let body = '';
    for await (const chunk of request) body += chunk;
    if (request.method !== 'POST') return response.writeHead(405).end();
    const { id, method } = JSON.parse(body) as { id?: unknown; method: string };
    if (id === undefined) return response.writeHead(202).end();
    const result =
      method === 'initialize'
        ? {
            protocolVersion: '2025-11-25',
            capabilities: { tools: {} },
            serverInfo: { name: 'fake', version: '1' },
          }
        : { tools: typeof tools === 'function' ? tools(request.headers) : tools };
    response.writeHead(200, { 'content-type': 'application/json' });
    return response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closeLater(async () => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, seen };
}
