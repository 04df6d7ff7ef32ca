/**
 * `mcp-holdfast/client`: HostedClient on the SDK v1, and everything of `mcp-holdfast`.
 */
export { HostedClient } from './hosted-client.js';
export type { HostedClientOptions } from './hosted-client-options.js';
export * from './index.js';
