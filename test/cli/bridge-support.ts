/**
 * Hosts that launch the bridge as it is built: the SDKs' own clients over stdio, and one that speaks line by line.
 *
 * Guarantees that every byte of standard output is kept, so that a test can say that all of it is JSON-RPC.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { expect } from 'vitest';
import { Lines } from '../../src/servers/lines.js';
import { type HostedServer, type HostedServerOptions, startHostedServer } from '../../src/testing/index.js';
import { closeLater } from './support.js';

export const PROGRAM = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));
export const CLIENT_INFO = { name: 'a-desktop-client', version: '7.1' };

export async function startServer(options: HostedServerOptions = {}): Promise<HostedServer> {
  const server = await startHostedServer(options);
  closeLater(() => server.close());
  return server;
}

/** The variables of a bridge that gets its tokens by client credentials. */
export function clientOf({ issuer, client }: HostedServer): Record<string, string> {
  return { HOLDFAST_ISSUER: issuer, HOLDFAST_CLIENT_ID: client.id, HOLDFAST_CLIENT_SECRET: client.secret };
}

/** Standard output, judged whole. */
export class Heard {
  readonly #chunks: Buffer[] = [];
  readonly #whole: Record<string, unknown>[] = [];
  readonly #lines = new Lines(
    {
      line: (bytes) => this.#whole.push(JSON.parse(bytes.toString('utf8'))),
      tooLong: () => {},
    },
    Number.POSITIVE_INFINITY,
  );

  add(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#lines.push(chunk);
  }
  get text(): string {
    return Buffer.concat(this.#chunks).toString('utf8');
  }
  /** Of the lines that have come to their end. */
  get soFar(): readonly Record<string, unknown>[] {
    return this.#whole;
  }
  /** Throws where a byte is not of a JSON-RPC message on a line of its own. */
  get messages(): Record<string, unknown>[] {
    const lines = this.text.split('\n');
    if (lines.pop() !== '') throw new Error('the last line has no end');
    return lines.map((line) => {
      const message = JSON.parse(line);
      const isMessage =
        message?.jsonrpc === '2.0' && ['method', 'result', 'error'].some((member) => member in message);
      if (!isMessage) throw new Error(`no JSON-RPC message: ${line}`);
      return message;
    });
  }
}

export interface Stock {
  readonly client: ClientV1;
  readonly heard: Heard;
  readonly child: ChildProcess;
  readonly stderr: () => string;
  /** What the client complained of. */
  readonly complaints: Error[];
}

export interface StockOptions {
  readonly sdk?: 'v1' | 'v2' | undefined;
  readonly env?: Record<string, string> | undefined;
  readonly cwd?: string | undefined;
  readonly capabilities?: object | undefined;
  /** Of v2's Client. */
  readonly negotiates?: boolean | undefined;
  readonly prepare?: ((client: ClientV1) => void) | undefined;
}

/** A stock client, connected by way of the bridge. Both SDKs' have the same methods. */
export async function stockHost(args: readonly string[], options: StockOptions = {}): Promise<Stock> {
  const { sdk = 'v1', env = {}, cwd, capabilities = {}, negotiates = false, prepare } = options;
  const Transport = (sdk === 'v1' ? StdioV1 : StdioV2) as typeof StdioV1;
  const Client = (sdk === 'v1' ? ClientV1 : ClientV2) as typeof ClientV1;
  const transport = new Transport({
    command: process.execPath,
    args: [PROGRAM, 'bridge', ...args],
    env,
    stderr: 'pipe',
    ...(cwd !== undefined && { cwd }),
  });
  const said: Buffer[] = [];
  transport.stderr?.on('data', (chunk: Buffer) => said.push(chunk));
  const heard = new Heard();
  const start = transport.start.bind(transport);
  let child: ChildProcess | undefined;
  transport.start = async () => {
    await start();
    child = (transport as unknown as { _process: ChildProcess })._process;
    child.stdout?.on('data', (chunk: Buffer) => heard.add(chunk));
  };
  const negotiation = negotiates ? { versionNegotiation: { mode: 'auto' } } : {};
  const client = new Client(CLIENT_INFO, { capabilities, ...negotiation } as never);
  const complaints: Error[] = [];
  client.onerror = (error) => complaints.push(error);
  prepare?.(client);
  closeLater(() => client.close());
  await client.connect(transport);
  return {
    client,
    heard,
    child: child as unknown as ChildProcess,
    stderr: () => Buffer.concat(said).toString('utf8'),
    complaints,
  };
}

type Message = Record<string, unknown> & { id?: unknown; error?: Failure; result?: Record<string, unknown> };
export interface Failure {
  code: number;
  message: string;
  data?: { holdfast?: { code: string; executed: unknown; retryAfterMs?: number } };
}

/** A host that says line by line what a test wants. */
export class RawHost {
  readonly child: ChildProcess;
  readonly heard = new Heard();
  readonly exited: Promise<{ status: number | null; signal: string | null }>;
  #stderr = '';

  constructor(args: readonly string[], options: { env?: Record<string, string>; cwd?: string } = {}) {
    const { PATH = '' } = process.env;
    const { env = {}, cwd } = options;
    this.child = spawn(process.execPath, [PROGRAM, 'bridge', ...args], { env: { PATH, ...env }, cwd });
    this.child.stdout?.on('data', (chunk: Buffer) => this.heard.add(chunk));
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
    });
    this.child.stdin?.on('error', () => {});
    this.exited = once(this.child, 'close').then(([status, signal]) => ({ status, signal }));
    closeLater(async () => {
      if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill('SIGKILL');
      await this.exited;
    });
  }

  get stderr(): string {
    return this.#stderr;
  }

  say(line: string | Uint8Array | object): void {
    const isBytes = typeof line === 'string' || line instanceof Uint8Array;
    this.child.stdin?.write(isBytes ? line : JSON.stringify({ jsonrpc: '2.0', ...line }));
    this.child.stdin?.write('\n');
  }

  /** The first message that fits. Those of before count, too. */
  async hears(fits: (message: Message) => boolean): Promise<Message> {
    for (;;) {
      const found = (this.heard.soFar as readonly Message[]).find(fits);
      if (found !== undefined) return found;
      await once(this.child.stdout as NodeJS.ReadableStream, 'data');
    }
  }

  async ask(id: string | number, method: string, params: object = {}): Promise<Message> {
    this.say({ id, method, params });
    return await this.hears((message) => message.id === id && !('method' in message));
  }

  async initialize(id: string | number = 'first', capabilities: object = {}): Promise<Message> {
    const answer = await this.ask(id, 'initialize', {
      protocolVersion: '2025-11-25',
      capabilities,
      clientInfo: CLIENT_INFO,
    });
    if (answer.result !== undefined) this.say({ method: 'notifications/initialized' });
    return answer;
  }
}

/** As `expect.poll`, with time enough for a machine that has much else to do. */
export function eventually<T>(read: () => T | Promise<T>) {
  return expect.poll(read, { timeout: 20_000, interval: 20 });
}

export function textOf(result: unknown): string {
  return (result as { content: { text: string }[] }).content[0]?.text ?? '';
}
