/**
 * `mcp-holdfast/client`: HostedClient on the SDK v1, servers of a configuration, and everything of `mcp-holdfast`.
 */
export { HostedTransport } from './client-transport.js';
export { HostedClient } from './hosted-client.js';
export type { HostedClientOptions } from './hosted-client-options.js';
export type { Turn, TurnOptions } from './hosted-client-turn.js';
export * from './index.js';
export type { ServerStub } from './relay/stub.js';
export { parseServersConfig } from './servers/config.js';
export { type ConnectServerOptions, connectServer } from './servers/connect-server.js';
export type { CommandEntry, EntryAuth, ServerEntry, UrlEntry } from './servers/entry.js';
export {
  type ConnectServersOptions,
  connectServers,
  type NamedTool,
  type ServerSet,
  type ServersConfig,
} from './servers/server-set.js';
