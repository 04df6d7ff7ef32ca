/**
 * `mcp-holdfast/testing`: a hosted server to test against, a manual clock, and contract suites. Imports no test
 * runner and no SDK.
 */
export { startHostedServer } from './hosted-server.js';
export { type ManualClock, manualClock } from './manual-clock.js';
export { credentialStoreSuite, rateLimitStoreSuite, type SuiteRunner } from './store-suite.js';
export type {
  CutShape,
  Deployment,
  HostedServer,
  HostedServerControls,
  HostedServerOptions,
  RequestMatch,
  ScriptedChunk,
  ScriptedHeaders,
  ScriptedReply,
  ScriptedRequest,
  ServerCounts,
  ServerLogEntry,
  ServerRateLimit,
  StreamCutShape,
  TokenReply,
  ToolCallContext,
  ToolDefinition,
} from './types.js';
