/** HostedClient and both stock Clients over a HostedTransport, behind one way to call `echo`. */
import type { Connection, HostedTransportOptions } from '../../src/index.js';
import { connectOver, stockClient } from './stock.js';
import { connect, echo, type Scene } from './support.js';

export type Face = 'HostedClient' | 'v1' | 'v2';
export const FACES: readonly Face[] = ['HostedClient', 'v1', 'v2'];

export interface Caller {
  readonly connection: Connection;
  /** Calls `echo` under an id that the server counts by. */
  echo(callId: string): Promise<unknown>;
}

/** A connected client of that kind; the stock ones listen by themselves. `credentials` default to `machine`. */
export async function connectFace(
  face: Face,
  scene: Scene,
  options: HostedTransportOptions = {},
): Promise<Caller> {
  if (face === 'HostedClient') {
    const client = await connect(scene, options);
    return { connection: client.connection, echo: (callId) => echo(client, callId) };
  }
  const client = stockClient(face);
  const { connection } = await connectOver(scene, client, { streams: { listen: 'auto' }, ...options });
  const meta = (callId: string) => ({ 'mcp-holdfast/callId': callId });
  return {
    connection,
    echo: (callId) => client.callTool({ name: 'echo', arguments: { text: callId }, _meta: meta(callId) }),
  };
}
