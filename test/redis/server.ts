/**
 * Real Redis for tests: one server, or a cluster of three masters, on private ports of loopback.
 *
 * Guarantees that a server answers when its promise resolves and is gone when `close()` resolves, and that it begins
 * empty and writes nothing to disk that outlives it. Never touches a process or a file that it did not make.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ENSURE_TOOLS = fileURLToPath(new URL('../../scripts/ensure-tools.sh', import.meta.url));
const STARTS = 3;
const ACCEPT_WITHIN_MS = 10_000;
const LOOK_AGAIN_MS = 10;
const MASTERS = 3;
/** A cluster's nodes talk to each other on a second port, so far above the first. */
const BUS_OFFSET = 10_000;

/** Finds redis-server, and what else is named, or installs them where that is possible; otherwise says what is missing. */
export function ensureRedis(mode: 'install' | 'check', ...others: string[]): string | undefined {
  const flags = mode === 'check' ? ['--check'] : [];
  const { status, stderr, error } = spawnSync('sh', [ENSURE_TOOLS, ...flags, 'redis-server', ...others], {
    encoding: 'utf8',
  });
  if (status === 0) return undefined;
  return stderr?.trim() || error?.message || `ensure-tools.sh ended with ${status}`;
}

export interface RedisServer {
  readonly port: number;
  readonly url: string;
  /** A command as redis-cli would send it; the reply as Redis writes it. */
  command(...words: string[]): Promise<Reply>;
  /** Holds the process (SIGSTOP): it takes connections and bytes, and answers nothing. */
  freeze(): void;
  thaw(): void;
  kill(): Promise<void>;
  /** Ends the process if it runs, and starts an empty one on the same port. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

export interface RedisCluster {
  readonly ports: readonly number[];
  readonly nodes: readonly RedisServer[];
  close(): Promise<void>;
}

export type Reply = string | number | null | readonly Reply[];

/** A server with no data and no persistence. With `running: false` only the port is chosen: `restart()` starts it. */
export async function startRedis(
  options: { running?: boolean; cluster?: boolean } = {},
): Promise<RedisServer> {
  for (let attempt = 1; ; attempt += 1) {
    const server = new OneServer(await freePort(options.cluster === true), options.cluster === true);
    try {
      if (options.running !== false) await server.restart();
      return server;
    } catch (error) {
      // The port was free when it was asked for, and may be taken by now.
      await server.close();
      if (attempt === STARTS) throw error;
    }
  }
}

export async function startCluster(): Promise<RedisCluster> {
  const nodes = await Promise.all(Array.from({ length: MASTERS }, () => startRedis({ cluster: true })));
  const close = async () => {
    await Promise.all(nodes.map((node) => node.close()));
  };
  const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`);
  const made = spawnSync('redis-cli', ['--cluster', 'create', ...addresses, '--cluster-yes'], {
    encoding: 'utf8',
    env: withSystemPath(),
  });
  if (made.status !== 0) {
    await close();
    throw new Error(`redis-cli could not make a cluster: ${made.stdout}${made.stderr}`);
  }
  for (const node of nodes) {
    await until(async () => String(await node.command('CLUSTER', 'INFO')).includes('cluster_state:ok'));
  }
  return { ports: nodes.map(({ port }) => port), nodes, close };
}

class OneServer implements RedisServer {
  readonly port: number;
  readonly #isNode: boolean;
  readonly #folder = mkdtempSync(join(tmpdir(), 'holdfast-redis-'));
  #child: ChildProcess | undefined;
  // A test process that is ended in the middle must not leave its servers behind.
  readonly #onExit = () => void this.#child?.kill('SIGKILL');

  constructor(port: number, isNode: boolean) {
    this.port = port;
    this.#isNode = isNode;
    process.once('exit', this.#onExit);
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  async restart(): Promise<void> {
    await this.kill();
    const cluster = this.#isNode ? ['--cluster-enabled', 'yes', '--cluster-node-timeout', '5000'] : [];
    const child = spawn(
      'redis-server',
      [
        ...['--port', String(this.port), '--bind', '127.0.0.1', '--dir', this.#folder],
        ...['--save', '', '--appendonly', 'no', '--loglevel', 'warning'],
        ...cluster,
      ],
      { stdio: ['ignore', 'pipe', 'pipe'], env: withSystemPath() },
    );
    this.#child = child;
    let said = '';
    child.once('error', (error) => {
      said += error.message;
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        said += text;
      });
    }
    await until(async () => {
      if (!isRunning(child)) throw new Error(`redis-server did not start: ${said.trim()}`);
      return (await this.command('PING').catch(() => undefined)) === 'PONG';
    });
  }

  freeze(): void {
    this.#child?.kill('SIGSTOP');
  }

  thaw(): void {
    this.#child?.kill('SIGCONT');
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || !isRunning(child)) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }

  async close(): Promise<void> {
    await this.kill();
    process.off('exit', this.#onExit);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  command(...words: string[]): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const socket = connect(this.port, '127.0.0.1');
      let bytes = Buffer.alloc(0);
      socket.once('error', reject);
      socket.once('close', () => reject(new Error('redis-server ended the connection')));
      socket.on('data', (chunk: Buffer) => {
        bytes = Buffer.concat([bytes, chunk]);
        const parsed = parse(bytes, 0);
        if (parsed === undefined) return;
        socket.destroy();
        if (parsed.reply instanceof Error) reject(parsed.reply);
        else resolve(parsed.reply);
      });
      const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
      socket.write(`*${words.length}\r\n${parts.join('')}`);
    });
  }
}

/** RESP2 (redis.io, "Redis serialization protocol specification"); undefined where bytes are still missing. */
function parse(bytes: Buffer, at: number): { reply: Reply | Error; end: number } | undefined {
  const lineEnd = bytes.indexOf('\r\n', at);
  if (lineEnd < 0) return undefined;
  const line = bytes.toString('utf8', at + 1, lineEnd);
  const next = lineEnd + 2;
  switch (String.fromCharCode(bytes[at] ?? 0)) {
    case '+':
      return { reply: line, end: next };
    case '-':
      return { reply: new Error(line), end: next };
    case ':':
      return { reply: Number(line), end: next };
    case '$': {
      const length = Number(line);
      if (length < 0) return { reply: null, end: next };
      if (bytes.length < next + length + 2) return undefined;
      return { reply: bytes.toString('utf8', next, next + length), end: next + length + 2 };
    }
    case '*': {
      const replies: Reply[] = [];
      let end = next;
      for (let index = 0; index < Number(line); index += 1) {
        const parsed = parse(bytes, end);
        if (parsed === undefined) return undefined;
        if (parsed.reply instanceof Error) return parsed;
        replies.push(parsed.reply);
        end = parsed.end;
      }
      return { reply: replies, end };
    }
    default:
      throw new Error('no reply of Redis begins so');
  }
}

/** Daemons are not on a plain user's path. */
function withSystemPath(): NodeJS.ProcessEnv {
  return { ...process.env, PATH: `${process.env.PATH ?? ''}:/usr/local/sbin:/usr/sbin:/sbin` };
}

async function freePort(withBus: boolean): Promise<number> {
  for (;;) {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, 'close');
    if (!withBus || port + BUS_OFFSET <= 65_535) return port;
  }
}

function isRunning(child: ChildProcess): boolean {
  return child.pid !== undefined && child.exitCode === null && child.signalCode === null;
}

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  const untilMs = performance.now() + ACCEPT_WITHIN_MS;
  while (!(await isTrue())) {
    if (performance.now() > untilMs) throw new Error('redis-server is not ready in time');
    await new Promise<void>((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
  }
}
