/**
 * `mcp-holdfast doctor`, run in this process with a world of its own.
 */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, connect as connectTo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach } from 'vitest';
import type { CommandIo } from '../../src/cli/command.js';
import { doctor } from '../../src/cli/doctor/index.js';
import { runCli } from '../../src/cli/run.js';
import { systemClock } from '../../src/clock.js';
import {
  type HostedServer,
  type HostedServerOptions,
  type ManualClock,
  startHostedServer,
} from '../../src/testing/index.js';

const open: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});
export function closeLater(close: () => Promise<unknown>): void {
  open.push(close);
}

export interface Ran {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
  // biome-ignore lint/suspicious/noExplicitAny: JSON of the command, read by tests.
  readonly json: any;
}

export interface World extends Partial<Omit<CommandIo, 'stdout' | 'stderr'>> {
  onStderr?: (text: string) => void;
}

/** With `--json`, unless `table` is asked for. */
export async function run(args: readonly string[], world: World = {}, table = false): Promise<Ran> {
  let stdout = '';
  let stderr = '';
  const io: CommandIo = {
    stdin: (async function* () {})(),
    env: {},
    isTTY: { stdout: false, stderr: false },
    signal: new AbortController().signal,
    clock: systemClock(),
    cwd: tmpdir(),
    ...world,
    stdout: { write: (text) => (stdout += text) },
    stderr: {
      write: (text) => {
        stderr += text;
        world.onStderr?.(text);
      },
    },
  };
  const command = { name: 'doctor', summary: '', load: async () => doctor };
  const status = await runCli(['doctor', ...args, ...(table ? [] : ['--json'])], io, [command]);
  return { status, stdout, stderr, json: !table && stdout !== '' ? JSON.parse(stdout) : undefined };
}

/** Moves the clock in steps until the run has ended, from its handshake on: before, modules are loaded, in no time of the clock's. */
export async function throughTime<T>(
  running: Promise<T>,
  { clock, server, stepMs }: { clock: ManualClock; server: HostedServer; stepMs: number },
): Promise<T> {
  let ended = false;
  const end = () => {
    ended = true;
  };
  running.then(end, end);
  while (!ended && server.counts.initializes === 0) await new Promise(setImmediate);
  while (!ended) await clock.advance(stepMs);
  return running;
}

export async function hosted(options: HostedServerOptions = {}): Promise<HostedServer> {
  const server = await startHostedServer(options);
  closeLater(() => server.close());
  return server;
}

/** The simulator's OAuth client, as an environment has it. */
export function clientEnv({ issuer, client }: HostedServer): Record<string, string> {
  return {
    HOLDFAST_ISSUER: issuer,
    HOLDFAST_CLIENT_ID: client.id,
    HOLDFAST_CLIENT_SECRET: client.secret,
  };
}

async function listening(server: Server, close: () => void): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closeLater(async () => {
    close();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

export async function webServer(answer: RequestListener): Promise<string> {
  const server = createHttpServer(answer);
  return `http://127.0.0.1:${await listening(server, () => server.closeAllConnections())}`;
}

/** A proxy that leads to `port` by CONNECT, or refuses with `status`; gives what it was asked. */
export async function connectProxy(status: number, port: number): Promise<{ url: URL; asked: string[] }> {
  const asked: string[] = [];
  const server = createHttpServer();
  server.on('connect', ({ url, headers }, near) => {
    asked.push(`${url} ${headers['proxy-authorization'] ?? ''}`);
    near.on('error', () => {});
    if (status !== 200) return near.end(`HTTP/1.1 ${status} Refused\r\n\r\n`);
    const far = connectTo(port, '127.0.0.1', () => {
      near.write('HTTP/1.1 200 OK\r\n\r\n');
      near.pipe(far).pipe(near);
    });
    return far.on('error', () => near.destroy());
  });
  const at = await listening(server, () => server.closeAllConnections());
  return { url: new URL(`http://user:canary-password@127.0.0.1:${at}`), asked };
}

export async function tlsServer(certificate: Certificate, answer: RequestListener): Promise<string> {
  const server = createHttpsServer(certificate, answer);
  return `https://localhost:${await listening(server, () => server.closeAllConnections())}`;
}

/** Accepts, and says nothing. */
export async function silentServer(): Promise<string> {
  const sockets = new Set<{ destroy(): void }>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}));
  });
  const close = () => {
    for (const socket of sockets) socket.destroy();
  };
  return `http://127.0.0.1:${await listening(server, close)}`;
}

export async function closedPort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

/** Signed by itself, for `name`. */
export function certificateFor(name: string, days: number): Certificate {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-certificate-'));
  try {
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
    execFileSync(
      'openssl',
      [
        ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
        ...['-keyout', key, '-out', cert, '-days', String(days), '-subj', `/O=Test Authority/CN=${name}`],
        ...['-addext', `subjectAltName=DNS:${name}`],
      ],
      { stdio: 'ignore' },
    );
    return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * An authorization server in front of the simulator's own, for a server that is reached at another address than its
 * own: what the token is for (RFC 8707) is left out.
 */
export async function issuerFor({ tokenEndpoint, client }: HostedServer): Promise<Record<string, string>> {
  const issuer = await webServer(async (request, response) => {
    const json = (status: number, body: string) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(body);
    if (request.method !== 'POST') {
      json(
        200,
        JSON.stringify({ issuer, token_endpoint: `${issuer}/token`, response_types_supported: ['code'] }),
      );
      return;
    }
    const body = new URLSearchParams(Buffer.concat(await request.toArray()).toString());
    body.delete('resource');
    const { authorization = '' } = request.headers;
    const headers = { ...(authorization !== '' && { authorization }) };
    const answer = await fetch(tokenEndpoint, { method: 'POST', headers, body });
    json(answer.status, await answer.text());
  });
  return { HOLDFAST_ISSUER: issuer, HOLDFAST_CLIENT_ID: client.id, HOLDFAST_CLIENT_SECRET: client.secret };
}
