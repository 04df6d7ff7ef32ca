/**
 * Supervised servers over real processes, and what the process table says of them.
 */
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { HostedClient, type HostedClientOptions } from '../../src/client.js';
import {
  type RelaySend,
  type RelayTransportOptions,
  relayTransport,
  type SupervisedServer,
  type SuperviseOptions,
  superviseServer,
} from '../../src/relay/index.js';
import { bench, INFO } from './stdio-support.js';
import { closeLater } from './support.js';

export const FAMILY = fileURLToPath(new URL('./relay-family.mjs', import.meta.url));
export const AGENT = fileURLToPath(new URL('./relay-agent.mjs', import.meta.url));

/** A scripted server of its own folder, supervised. */
export function supervised(env: Record<string, string> = {}, options: SuperviseOptions = {}) {
  const server = bench(env);
  const supervisor = superviseServer(server.entry, { name: 'mine', restartDelayMs: 0, ...options });
  closeLater(() => supervisor.close());
  return { server, supervisor };
}

export async function brain(
  supervisor: SupervisedServer | RelaySend,
  options: RelayTransportOptions = {},
  of: Partial<HostedClientOptions> = {},
): Promise<HostedClient> {
  const send: RelaySend =
    typeof supervisor === 'function' ? supervisor : (message, how) => supervisor.handle(message, how);
  const client = new HostedClient(INFO, of as HostedClientOptions);
  closeLater(() => client.close());
  await client.connect(relayTransport(send, { name: 'mine', ...options }));
  return client;
}

/** Carried by a process and by all it starts, unless they take it out. */
export const newTag = () => randomUUID();

/** Everybody alive whose environment holds the tag. */
export function tagged(tag: string): number[] {
  return everybody().filter((pid) => readOf(pid, 'environ').includes(tag));
}

/** Everybody alive, by a part of the command line. */
export function commanded(part: string): number[] {
  return everybody().filter((pid) => readOf(pid, 'cmdline').includes(part));
}

export function everybody(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => lives(pid));
}

/** A process that has ended and was not collected yet is none. */
export function lives(pid: number): boolean {
  const stat = readOf(pid, 'stat');
  return stat !== '' && !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2));
}

export function parentOf(pid: number): number {
  const stat = readOf(pid, 'stat');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
}

export function readOf(pid: number, what: 'environ' | 'cmdline' | 'stat'): string {
  try {
    return readFileSync(`/proc/${pid}/${what}`, 'latin1');
  } catch {
    return '';
  }
}

/** The supervisor as one file that Node runs as it is. */
export async function bundledSupervisor(): Promise<string> {
  const outfile = join(tmpdir(), `supervise-${randomUUID()}.mjs`);
  await build({
    entryPoints: [fileURLToPath(new URL('../../src/relay/supervise.ts', import.meta.url))],
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    outfile,
    logLevel: 'error',
  });
  return outfile;
}

/** Processes that are not our children give no sign of their end: the table is asked for it. The test's own timeout is the bound. */
export async function eventually(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise<void>((resolve) => setTimeout(resolve, 20));
}
