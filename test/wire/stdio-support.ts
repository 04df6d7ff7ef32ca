/**
 * The scripted stdio server through `connectServer`; judged by what the server has written down.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type ConnectServerOptions,
  connectServer,
  type HostedClient,
  parseServersConfig,
} from '../../src/client.js';
import { closeLater } from './support.js';

const SERVER = fileURLToPath(new URL('./stdio-server.mjs', import.meta.url));
export const INFO = { name: 'test', version: '1.0.0' };

interface Line {
  pid: number;
  start?: true;
  eof?: true;
  run?: string;
  signal?: string;
  message?: {
    id?: unknown;
    method?: string;
    params?: { name?: string; requestId?: unknown };
    result?: unknown;
  };
}

export interface Bench {
  /** A folder of the test's own. */
  readonly folder: string;
  readonly entry: { command: string; args: string[]; env: Record<string, string>; cwd?: string };
  /** Everything that reached a process, in order. */
  lines(): Line[];
  /** Messages by method that reached any process. */
  received(method: string): Line[];
  runs(tool: string): number;
  pids(): number[];
  connect(options?: ConnectServerOptions, env?: Record<string, string | undefined>): Promise<HostedClient>;
}

export function bench(env: Record<string, string> = {}, args: string[] = []): Bench {
  const folder = mkdtempSync(join(tmpdir(), 'stdio-'));
  closeLater(async () => rmSync(folder, { recursive: true, force: true }));
  const log = join(folder, 'log');
  const lines = (): Line[] =>
    existsSync(log)
      ? readFileSync(log, 'utf8')
          .split('\n')
          .filter((line) => line !== '')
          .map((line) => JSON.parse(line) as Line)
      : [];
  const entry = { command: process.execPath, args: [SERVER, ...args], env: { LOG: log, ...env } };
  return {
    folder,
    entry,
    lines,
    received: (method) => lines().filter(({ message }) => message?.method === method),
    runs: (tool) => lines().filter(({ run }) => run === tool).length,
    pids: () => lines().flatMap(({ pid, start }) => (start === true ? [pid] : [])),
    async connect(options, variables) {
      const { mine } = parseServersConfig({ mcpServers: { mine: entry } }, variables);
      const client = await connectServer(INFO, mine!, options);
      closeLater(() => client.close());
      return client;
    },
  };
}

/** `${inner}`, as it stands in a configuration. */
export const placeholder = (inner: string) => `\${${inner}}`;

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Gives the event loop turns until it is so; the test's own timeout is the bound. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise<void>((resolve) => setImmediate(resolve));
}

export async function textOf(result: unknown): Promise<string> {
  const { content } = (await result) as { content: { text: string }[] };
  return content[0]?.text ?? '';
}

export const call = (client: HostedClient, name: string, args: Record<string, unknown> = {}) =>
  client.callTool({ name, arguments: args });
