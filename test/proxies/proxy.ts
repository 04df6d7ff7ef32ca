/**
 * Real proxies in front of a server of a test: nginx and HAProxy, as shipped, with a short idle limit.
 *
 * Guarantees that a proxy listens on loopback when its promise resolves, and is gone when `close()` resolves.
 * Never touches a configuration or a process that it did not make. They are what the simulator's
 * `idleCutMs` is held against.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ensureProxies } from './tools.js';

/** One twentieth of the usual 60 s: long enough for a loaded machine, short enough for a test. */
const DEFAULT_IDLE_MS = 3_000;
/** The port is free when it is asked for, and may be taken when the proxy wants it. */
const STARTS = 3;
const ACCEPT_WITHIN_MS = 10_000;
const STOP_WITHIN_MS = 3_000;
const LOOK_AGAIN_MS = 10;

export interface RunningProxy {
  /** Without a path: `http://127.0.0.1:<port>`. */
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

export interface ProxyOptions {
  /** After so long without a byte from the server an answer is cut, and an idle socket closed. */
  idleMs?: number | undefined;
}

/**
 * Why there are no proxies here; undefined where there are. For `describe.skipIf(proxiesMissing !== undefined)`.
 * In CI nothing is skipped: there it is an error to load this file without them.
 */
export const proxiesMissing: string | undefined = ensureProxies('check');
if (proxiesMissing !== undefined && process.env.CI === 'true') throw new Error(proxiesMissing);

/** nginx in front of a server on loopback: cuts with a FIN after `proxy_read_timeout`. */
export function startNginx(upstreamPort: number, options: ProxyOptions = {}): Promise<RunningProxy> {
  const idleMs = options.idleMs ?? DEFAULT_IDLE_MS;
  return start((port, folder) => {
    const file = join(folder, 'nginx.conf');
    writeFileSync(file, nginxConfig(port, upstreamPort, idleMs));
    // Until the file is read, nginx would log to a folder that a plain user cannot write to.
    return ['nginx', ['-p', `${folder}/`, '-c', file, '-e', 'stderr']];
  });
}

/** HAProxy in front of a server on loopback: cuts with a FIN after `timeout server`, and keeps aborts to itself. */
export function startHaproxy(upstreamPort: number, options: ProxyOptions = {}): Promise<RunningProxy> {
  const idleMs = options.idleMs ?? DEFAULT_IDLE_MS;
  return start((port, folder) => {
    const file = join(folder, 'haproxy.cfg');
    writeFileSync(file, haproxyConfig(port, upstreamPort, idleMs));
    return ['haproxy', ['-db', '-f', file]];
  });
}

/** One process, so that one pid is all there is to end. Paths are relative to the folder given by `-p`. */
function nginxConfig(port: number, upstreamPort: number, idleMs: number): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  return `
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events { worker_connections 512; }
http {
  access_log off;
  ${temporary.map((name) => `${name}_temp_path ${name}_temp;`).join('\n  ')}
  keepalive_timeout ${idleMs}ms;
  upstream tested { server 127.0.0.1:${upstreamPort}; keepalive 16; }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://tested;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host 127.0.0.1:${upstreamPort};
      proxy_buffering off;
      proxy_read_timeout ${idleMs}ms;
    }
  }
}
`;
}

function haproxyConfig(port: number, upstreamPort: number, idleMs: number): string {
  return `
global
  maxconn 512
  nbthread 1
defaults
  mode http
  timeout connect 2000ms
  timeout client ${idleMs}ms
  timeout server ${idleMs}ms
  timeout http-keep-alive ${idleMs}ms
frontend tested
  bind 127.0.0.1:${port}
  http-request set-header Host 127.0.0.1:${upstreamPort}
  default_backend tested
backend tested
  server only 127.0.0.1:${upstreamPort}
`;
}

type Command = readonly [program: string, args: readonly string[]];

async function start(configure: (port: number, folder: string) => Command): Promise<RunningProxy> {
  if (proxiesMissing !== undefined) throw new Error(proxiesMissing);
  let said = '';
  for (let attempt = 0; attempt < STARTS; attempt += 1) {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-proxy-'));
    const port = await freePort();
    const [program, args] = configure(port, folder);
    const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], env: withSystemPath() });
    const log: string[] = [];
    child.stderr.setEncoding('utf8').on('data', (text: string) => log.push(text));
    // A test process that is ended in the middle must not leave its proxies behind.
    const onExit = () => void child.kill('SIGKILL');
    process.once('exit', onExit);
    const close = async () => {
      await end(child);
      process.off('exit', onExit);
      rmSync(folder, { recursive: true, force: true });
    };
    if (await accepts(port, child)) return { url: `http://127.0.0.1:${port}`, port, close };
    await close();
    said = `${program} did not start: ${log.join('').trim()}`;
  }
  throw new Error(said);
}

/** Where daemons are, which is not on a plain user's path. */
function withSystemPath(): NodeJS.ProcessEnv {
  return { ...process.env, PATH: `${process.env.PATH ?? ''}:/usr/local/sbin:/usr/sbin:/sbin` };
}

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

function isRunning(child: ChildProcess): boolean {
  return child.pid !== undefined && child.exitCode === null && child.signalCode === null;
}

/** Resolves once the port takes connections; with false where the child ends before, or never does. */
async function accepts(port: number, child: ChildProcess): Promise<boolean> {
  child.once('error', () => {});
  const until = performance.now() + ACCEPT_WITHIN_MS;
  while (isRunning(child) && performance.now() < until) {
    const isOpen = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1');
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
      socket.once('connect', () => socket.destroy());
    });
    // Somebody else may have taken the port: then the child ends by itself.
    if (isOpen) return isRunning(child);
    await new Promise<void>((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
  }
  return false;
}

async function end(child: ChildProcess): Promise<void> {
  if (!isRunning(child)) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  const impatience = setTimeout(() => child.kill('SIGKILL'), STOP_WITHIN_MS);
  await gone;
  clearTimeout(impatience);
}
