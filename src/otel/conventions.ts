/**
 * Names of spans, metrics and attributes, in one place.
 *
 * Those without our prefix are of OpenTelemetry's semantic conventions for the Model Context Protocol: the repository
 * `open-telemetry/semantic-conventions-genai`, `docs/gen-ai/mcp.md`, v0.1.0, status "Development": they may change,
 * so they are constants of our own and not imported. Never holds a value.
 */
export const ATTRIBUTE = Object.freeze({
  method: 'mcp.method.name',
  protocolVersion: 'mcp.protocol.version',
  sessionId: 'mcp.session.id',
  resourceUri: 'mcp.resource.uri',
  requestId: 'jsonrpc.request.id',
  rpcStatus: 'rpc.response.status_code',
  tool: 'gen_ai.tool.name',
  prompt: 'gen_ai.prompt.name',
  operation: 'gen_ai.operation.name',
  error: 'error.type',
  transport: 'network.transport',
  protocolName: 'network.protocol.name',
  networkVersion: 'network.protocol.version',
  address: 'server.address',
  port: 'server.port',
  // ---- ours: the conventions have no names for these ----
  executed: 'mcp_holdfast.executed',
  attempts: 'mcp_holdfast.attempts',
  session: 'mcp_holdfast.session.number',
  previousSession: 'mcp_holdfast.session.previous_number',
  recoveryCause: 'mcp_holdfast.recovery.cause',
  credentialOutcome: 'mcp_holdfast.credential.outcome',
  stream: 'mcp_holdfast.stream.kind',
  waitS: 'mcp_holdfast.wait.duration',
  ageS: 'mcp_holdfast.stream.age',
  idleS: 'mcp_holdfast.stream.idle',
});

/** `gen_ai.operation.name` of a tool call; other requests have none. */
export const EXECUTE_TOOL = 'execute_tool';

export const METRIC = Object.freeze({
  operation: 'mcp.client.operation.duration',
  session: 'mcp.client.session.duration',
  refreshes: 'mcp_holdfast.credential.refreshes',
  recoveries: 'mcp_holdfast.session.recoveries',
  cuts: 'mcp_holdfast.stream.cuts',
  rateWait: 'mcp_holdfast.rate_limit.wait.duration',
});

/** Of span events. */
export const EVENT = Object.freeze({
  'session-lost': 'mcp_holdfast.session.lost',
  'session-replaced': 'mcp_holdfast.session.replaced',
  'session-wait': 'mcp_holdfast.session.wait',
  'credential-wait': 'mcp_holdfast.credential.wait',
  'rate-wait': 'mcp_holdfast.rate_limit.wait',
  'stream-cut': 'mcp_holdfast.stream.cut',
  'stream-resumed': 'mcp_holdfast.stream.resumed',
});

/** In seconds, as the conventions give them for both of their histograms. */
export const BUCKETS_S: readonly number[] = Object.freeze([
  0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300,
]);
