/**
 * The SDKs' own Clients over a HostedTransport, v1 and v2 alike.
 */
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { HostedTransport, type HostedTransportOptions } from '../../src/index.js';
import { closeLater, machine, type Scene } from './support.js';

export type Sdk = 'v1' | 'v2';
export const SDKS: readonly Sdk[] = ['v1', 'v2'];

const INFO = { name: 'stock', version: '1.0.0' };

/** What tests need of either Client. */
export interface StockClient {
  callTool(
    params: { name: string; arguments?: Record<string, unknown>; _meta?: Record<string, unknown> },
    ...rest: never[]
  ): Promise<unknown>;
  close(): Promise<void>;
}

/** A stock Client that is not connected yet, so that handlers can be set before. */
export function stockClient(sdk: 'v1', capabilities?: object): ClientV1;
export function stockClient(sdk: 'v2', capabilities?: object): ClientV2;
export function stockClient(sdk: Sdk, capabilities?: object): ClientV1 | ClientV2;
export function stockClient(sdk: Sdk, capabilities: object = {}): ClientV1 | ClientV2 {
  return sdk === 'v1' ? new ClientV1(INFO, { capabilities }) : new ClientV2(INFO, { capabilities });
}

/** Connects it over a HostedTransport; `credentials` default to `machine`. */
export async function connectOver(
  scene: Scene,
  client: ClientV1 | ClientV2,
  options: HostedTransportOptions = {},
): Promise<HostedTransport> {
  const transport = new HostedTransport(scene.server.url, {
    credentials: machine(scene),
    clock: scene.clock,
    streams: { listen: false },
    ...options,
  });
  closeLater(() => client.close());
  await (client as ClientV1).connect(transport as Transport);
  return transport;
}

export async function connectStock(
  scene: Scene,
  sdk: Sdk,
  options: HostedTransportOptions = {},
): Promise<{ client: StockClient; transport: HostedTransport }> {
  const client = stockClient(sdk);
  const transport = await connectOver(scene, client, options);
  return { client: client as StockClient, transport };
}

/** A call under an id that the server counts by; `echo` by default. */
export function call(
  client: StockClient,
  callId: string,
  name = 'echo',
  args: Record<string, unknown> = { text: callId },
): Promise<unknown> {
  return client.callTool({ name, arguments: args, _meta: { 'mcp-holdfast/callId': callId } });
}
