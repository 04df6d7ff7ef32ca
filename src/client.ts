/**
 * `mcp-holdfast/client`: HostedClient on the SDK v1, and everything of `mcp-holdfast`.
 */
export { HostedClient, type HostedClientOptions } from './hosted-client.js';
export * from './index.js';
