import { afterEach } from 'vitest';
import {
  type HostedServer,
  type HostedServerOptions,
  startHostedServer,
} from '../../../src/testing/index.js';

const open: HostedServer[] = [];
afterEach(async () => {
  for (const server of open.splice(0)) await server.close();
});

/** A server that is closed after the test. */
export async function start(options?: HostedServerOptions): Promise<HostedServer> {
  const server = await startHostedServer(options);
  open.push(server);
  return server;
}

export interface Peer {
  readonly server: HostedServer;
  readonly headers: Record<string, string>;
  post(message: object, headers?: Record<string, string>): Promise<Response>;
  call(tool: string, args?: object, headers?: Record<string, string>): Promise<Response>;
  get(headers?: Record<string, string>): Promise<Response>;
}

let lastId = 0;

/** Headers of an honest client, and its handshake. */
export async function connect(
  server: HostedServer,
  token: string | undefined = server.issueToken(),
): Promise<Peer> {
  const peer = peerOf(server, token === '' ? {} : { authorization: `Bearer ${token}` });
  const response = await peer.post(initialize('2025-11-25'));
  const sessionId = response.headers.get('mcp-session-id');
  if (sessionId !== null) peer.headers['mcp-session-id'] = sessionId;
  peer.headers['mcp-protocol-version'] = '2025-11-25';
  await response.text();
  await (await peer.post({ jsonrpc: '2.0', method: 'notifications/initialized' })).text();
  return peer;
}

export function peerOf(server: HostedServer, headers: Record<string, string> = {}): Peer {
  const own = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...headers,
  };
  const post = (message: object, more: Record<string, string> = {}) =>
    fetch(server.url, { method: 'POST', headers: { ...own, ...more }, body: JSON.stringify(message) });
  return {
    server,
    headers: own,
    post,
    call: (name, args = {}, more = {}) => post(toolCall(name, args), more),
    get: (more = {}) => fetch(server.url, { headers: { ...own, accept: 'text/event-stream', ...more } }),
  };
}

export function initialize(protocolVersion: string): object {
  const params = { protocolVersion, capabilities: {}, clientInfo: { name: 'plain', version: '1' } };
  return request('initialize', params);
}

export function request(method: string, params: object = {}): { id: number } {
  lastId += 1;
  return { jsonrpc: '2.0', id: lastId, method, params } as { id: number };
}

export function toolCall(name: string, args: object = {}, meta?: object): { id: number } {
  return request('tools/call', { name, arguments: args, ...(meta === undefined ? {} : { _meta: meta }) });
}

/** Text of a result, whether it came as JSON or as an event stream. */
export async function textOf(response: Response): Promise<string | undefined> {
  const message = await messageOf(response);
  return message.result?.content?.[0]?.text;
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into whatever arrived.
export async function messageOf(response: Response): Promise<any> {
  const body = await response.text();
  return body.startsWith('{') || body === 'null' ? JSON.parse(body) : messages(body).at(-1);
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into whatever arrived.
export function messages(sse: string): any[] {
  const data = [...sse.matchAll(/^data: (.+)$/gm)];
  return data.map((match) => JSON.parse(match[1] ?? ''));
}

/** Reads a stream until its text satisfies. Leaves it open. */
export async function readUntil(response: Response, satisfies: (text: string) => boolean): Promise<string> {
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let text = '';
  while (!satisfies(text)) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
  }
  reader.releaseLock();
  return text;
}
