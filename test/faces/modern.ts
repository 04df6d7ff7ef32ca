/** SDK v2's Client over a HostedTransport, against a server of protocol 2026-07-28. */
import { Client, type ClientOptions, type ConnectOptions } from '@modelcontextprotocol/client';
import { expect } from 'vitest';
import { HostedTransport, type HostedTransportOptions } from '../../src/index.js';
import type { HostedServerOptions } from '../../src/testing/index.js';
import { closeLater, machine, type Scene, startServer } from '../wire/support.js';

export const VERSION = '2026-07-28';
export const INFO = { name: 'v2', version: '1.0.0' };
export const AUTO: ClientOptions = { versionNegotiation: { mode: 'auto' } };
export const PIN: ClientOptions = { versionNegotiation: { mode: { pin: VERSION } } };

export const modern = (options: HostedServerOptions = {}) =>
  startServer({ protocolVersion: VERSION, ...options });

export interface Setting {
  transport?: HostedTransportOptions;
  client?: ClientOptions;
  connect?: ConnectOptions;
}

export function prepare(
  scene: Scene,
  { transport: options = {}, client: clientOptions = AUTO }: Setting = {},
) {
  const transport = new HostedTransport(scene.server.url, {
    clock: scene.clock,
    ...(options.authProvider === undefined && { credentials: machine(scene) }),
    ...options,
  });
  const client = new Client(INFO, clientOptions);
  const errors: Error[] = [];
  client.onerror = (error) => errors.push(error);
  closeLater(() => client.close());
  return { client, transport, errors, connection: transport.connection };
}

export async function connect(scene: Scene, setting: Setting = {}) {
  const prepared = prepare(scene, setting);
  await prepared.client.connect(prepared.transport, setting.connect);
  await scene.clock.settle();
  return prepared;
}

export const echo = (client: Client, callId: string, options?: Parameters<Client['callTool']>[1]) =>
  client.callTool(
    { name: 'echo', arguments: { text: callId }, _meta: { 'mcp-holdfast/callId': callId } },
    options,
  );

export const atEndpoint = (scene: Scene) => scene.server.log.filter(({ path }) => path === '/mcp');
export const methods = (scene: Scene) => atEndpoint(scene).map(({ rpcMethod, http }) => rpcMethod ?? http);
export const count = (scene: Scene, method: string) =>
  methods(scene).filter((each) => each === method).length;

/** Nothing of the earlier era has reached the server, and every request says what it is. */
export function expectModernOnly(scene: Scene): void {
  const { server } = scene;
  expect(server.counts).toMatchObject({ initializes: 0, gets: 0, resumes: 0, deletes: 0, pings: 0 });
  for (const { http, headers, rpcMethod, rpcId } of atEndpoint(scene)) {
    expect(http).toBe('POST');
    expect(rpcId).toBeDefined();
    expect(headers).toMatchObject({ 'mcp-protocol-version': VERSION, 'mcp-method': rpcMethod });
    expect(headers).not.toHaveProperty('mcp-session-id');
    expect(headers).not.toHaveProperty('last-event-id');
    expect(headers['mcp-name'] === undefined).toBe(rpcMethod !== 'tools/call');
  }
}
