// A Redis of one's own on a private port, without persistence, that can be stopped, killed and started anew.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { elapse } from './child.mjs';

const ENSURE_TOOLS = fileURLToPath(new URL('../ensure-tools.sh', import.meta.url));
const START_MS = 10_000;
const LOOK_EVERY_MS = 20;

/** Undefined where everything is there, installed now if need be; otherwise what is missing. */
export function toolsMissing(...tools) {
  const { status, stderr, error } = spawnSync('sh', [ENSURE_TOOLS, ...tools], { encoding: 'utf8' });
  return status === 0
    ? undefined
    : stderr?.trim() || error?.message || `ensure-tools.sh ended with ${status}`;
}

export function redisVersion() {
  const { stdout } = spawnSync('redis-server', ['--version'], { encoding: 'utf8' });
  return /v=(\S+)/.exec(stdout ?? '')?.[1] ?? 'unknown';
}

/** `begin: false`: nothing listens on its port until `start()`. */
export async function openRedis({ begin = true } = {}) {
  const port = await freePort();
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-fleet-'));
  let child;
  let monitor;

  async function start() {
    const args = ['--port', port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', dir];
    child = spawn('redis-server', args.map(String), { stdio: 'ignore' });
    child.on('error', () => {});
    process.on('exit', endAtOnce);
    const untilMs = performance.now() + START_MS;
    while (!(await answers(port))) {
      if (performance.now() > untilMs || child.exitCode !== null)
        throw new Error('redis-server did not start');
      await elapse(LOOK_EVERY_MS);
    }
  }

  /** It is no child of Node's kind, and would outlive the harness. */
  function endAtOnce() {
    child.kill('SIGKILL');
  }

  async function kill() {
    process.off('exit', endAtOnce);
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  if (begin) await start();
  return {
    port,
    start,
    /** With everything in it. */
    kill,
    /** It keeps its sockets, and carries out later what was sent meanwhile. */
    freeze: () => child.kill('SIGSTOP'),
    thaw: () => child.kill('SIGCONT'),
    command: (...words) => command(port, words),
    /** Every command from now on, as Redis tells it. */
    async monitor() {
      const lines = [];
      monitor = connect(port, '127.0.0.1');
      monitor.on('error', () => {});
      const reader = createInterface({ input: monitor });
      const began = once(reader, 'line');
      reader.on('line', (line) => lines.push(line));
      monitor.write('MONITOR\r\n');
      await began;
      return lines;
    },
    async close() {
      monitor?.destroy();
      await kill();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** One command on a connection of its own; its answer as it came. */
async function command(port, words) {
  const socket = connect(port, '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk) => {
    answer += chunk.toString('latin1');
  });
  const send = (list) =>
    socket.write(
      `*${list.length}\r\n${list.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`,
    );
  send(words.map(String));
  send(['QUIT']);
  await once(socket, 'close');
  return answer.replace(/\+OK\r\n$/, '');
}

async function answers(port) {
  return await new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => resolve(false));
    socket.on('data', (data) => {
      socket.destroy();
      resolve(data.toString().startsWith('+PONG'));
    });
    socket.write('PING\r\n');
  });
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}
