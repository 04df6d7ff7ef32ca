/**
 * One cell of the matrix: a simulator, a real proxy with a short limit in front of it, and clients behind it.
 *
 * Cells run at the same time, so everything is closed with the test it belongs to. Tests judge at the server.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { vi } from 'vitest';
import { HostedClient, type HostedClientOptions } from '../../src/client.js';
import {
  type HostedServer,
  type HostedServerOptions,
  startHostedServer,
  type ToolDefinition,
} from '../../src/testing/index.js';
import { startHaproxy, startNginx } from './proxy.js';

/** The proxies' idle limit, for streams, answers and idle sockets alike. */
export const LIMIT_MS = 1_200;
/** Where listen streams are watched: one that lives less than 2 s counts as ended by the server, at once. */
export const LISTEN_LIMIT_MS = 2_400;
/** HAProxy holds small writes back by some 210 ms: what is seen of a cut comes that much earlier. */
export const EARLY_MS = 300;
/** What a cut may cost here, on a machine that does other things, too. A stock client is blind for 1,000. */
export const LARGEST_GAP_MS = 800;

const STARTERS = { nginx: startNginx, HAProxy: startHaproxy };
export type ProxyName = keyof typeof STARTERS;
export const PROXIES: readonly ProxyName[] = ['nginx', 'HAProxy'];

type OnFinished = (close: () => Promise<void>) => void;

type CellOptions = HostedServerOptions & { limitMs?: number; oneWayMs?: number };

export interface Cell {
  readonly server: HostedServer;
  /** A connected client behind the proxy; `onLog` makes it listen. */
  connect(
    options?: Partial<HostedClientOptions> & { onLog?: (data: unknown) => void },
  ): Promise<HostedClient>;
  /** Comes back after so long, past the proxy: the server's own time. */
  wait(ms: number): Promise<void>;
}

/** Silent for `ms`, whatever the caller would like to hear. */
const SILENT: ToolDefinition = {
  name: 'silent',
  handler: async ({ ms }, call) => {
    await call.wait(Number(ms));
    return `silent for ${String(ms)} ms`;
  },
};

/** `limitMs`: the proxy's; `oneWayMs`: how long the way between client and proxy is. */
export async function openCell(
  name: ProxyName,
  onTestFinished: OnFinished,
  { limitMs = LIMIT_MS, oneWayMs = 0, ...options }: CellOptions = {},
): Promise<Cell> {
  const server = await startHostedServer({ auth: false, tools: [SILENT], ...options });
  onTestFinished(() => server.close());
  const proxy = await STARTERS[name](Number(new URL(server.url).port), { idleMs: limitMs });
  onTestFinished(() => proxy.close());
  const port = oneWayMs === 0 ? proxy.port : await startRelay(proxy.port, oneWayMs, onTestFinished);
  const url = `http://127.0.0.1:${port}${new URL(server.url).pathname}`;
  let clock: Promise<HostedClient> | undefined;
  return {
    server,
    async wait(ms) {
      clock ??= openClock(onTestFinished);
      await silent(await clock, 'tick', ms);
    },
    async connect({ onLog, ...given } = {}) {
      const client = new HostedClient({ name: 'matrix', version: '1.0.0' }, { url, ...given });
      onTestFinished(() => client.close());
      if (onLog !== undefined)
        client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => onLog(params.data));
      await client.connect();
      return client;
    },
  };
}

/** A tool of a server of its own tells the time, so that no test sets a timer. */
async function openClock(onTestFinished: OnFinished): Promise<HostedClient> {
  const server = await startHostedServer({ auth: false, tools: [SILENT] });
  onTestFinished(() => server.close());
  const client = new HostedClient({ name: 'clock', version: '1.0.0' }, { url: server.url });
  onTestFinished(() => client.close());
  await client.connect();
  return client;
}

/** A long way: what is sent, ends included, arrives so much later. Gives the port of its near end. */
async function startRelay(port: number, oneWayMs: number, onTestFinished: OnFinished): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (near) => {
    const far = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      const later = (what: () => void) => void setTimeout(what, oneWayMs);
      sockets.add(from);
      from.on('data', (bytes) => later(() => to.writable && to.write(bytes)));
      from.on('end', () => later(() => to.end()));
      from.on('error', () => {});
      from.on('close', () => later(() => to.destroy()));
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return (server.address() as AddressInfo).port;
}

/** `silent` under an id that the server counts by. */
export function silent(client: HostedClient, callId: string, ms: number, timeout = 10_000) {
  const _meta = { 'mcp-holdfast/callId': callId };
  return client.callTool({ name: 'silent', arguments: { ms }, _meta }, { timeout });
}

/** The server says something to everybody who listens. */
export function tell(server: HostedServer, data: unknown): void {
  server.notify('notifications/message', { level: 'info', data });
}

/** The server has opened so many listen streams in all, which may be before a head is back. */
export async function listening(server: HostedServer, times: number): Promise<void> {
  const opened = () => server.log.filter(({ http, status }) => http === 'GET' && status === 200).length;
  await until(() => opened() >= times, `the server has opened ${times} streams`);
}

export async function arrived(list: readonly unknown[], count: number): Promise<void> {
  await until(() => list.length >= count, `${count} have arrived`);
}

async function until(holds: () => boolean, what: string): Promise<void> {
  await vi.waitFor(
    () => {
      if (!holds()) throw new Error(`Not yet: ${what}`);
    },
    { interval: 2, timeout: 5_000 },
  );
}
