/** A legacy server (HTTP+SSE, 2024-11-05) of the simulator, and what tests ask of it. */
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { HostedClient } from '../../src/client.js';
import type { HostedServer, HostedServerOptions, ToolCallContext } from '../../src/testing/index.js';
import { closeLater, machine, type Scene, startServer } from './support.js';

export const LEGACY: HostedServerOptions = { transport: 'legacy-sse' };
export const CALL = { http: 'POST', method: 'tools/call' } as const;
/** Tokens last, so that every ping is one of those that keep the stream awake. */
export const legacy = (options: HostedServerOptions = {}) =>
  startServer({ ...LEGACY, tokenLifetimeMs: 3_600_000, ...options });

/** What reached the server, in order: `POST /sse initialize`, `GET /sse`, ... */
export const requestsAt = ({ log }: HostedServer) =>
  log
    .filter(({ path }) => path === '/sse' || path === '/messages')
    .map(({ http, path, rpcMethod }) => [http, path, rpcMethod].filter(Boolean).join(' '));

export const HANDSHAKE = [
  'GET /sse',
  'POST /messages initialize',
  'POST /messages notifications/initialized',
];

export const ASKING: NonNullable<HostedServerOptions['tools']> = [
  { name: 'echo', handler: (args) => String(args.text) },
  {
    name: 'ask',
    handler: (_: unknown, call: ToolCallContext) =>
      call.request('elicitation/create', {
        message: 'sure?',
        requestedSchema: { type: 'object', properties: {} },
      }),
  },
];

/** A client that answers questions and counts what it was told. */
export async function listening(scene: Scene) {
  const client = new HostedClient(
    { name: 'test', version: '1.0.0' },
    {
      url: scene.server.url,
      credentials: machine(scene),
      clock: scene.clock,
      capabilities: { elicitation: {} },
    },
  );
  closeLater(() => client.close());
  const heard = { changes: 0, questions: 0 };
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
    heard.changes += 1;
  });
  client.setRequestHandler(ElicitRequestSchema, () => {
    heard.questions += 1;
    return { action: 'decline' };
  });
  await client.connect();
  return { client, heard };
}

export function slow(client: HostedClient, callId: string, ms: number) {
  return client.callTool(
    { name: 'slow', arguments: { ms }, _meta: { 'mcp-holdfast/callId': callId } },
    { timeout: 600_000 },
  );
}
