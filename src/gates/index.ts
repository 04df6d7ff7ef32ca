/**
 * `mcp-holdfast/gates`: policies, approvals, caps, inspection and audit for tool calls.
 *
 * The public surface, name by name; nothing else.
 */
export { type ApproveOptions, approve } from './approve.js';
export { type AuditVerdict, verifyAudit } from './audit-chain.js';
export { type AuditLog, type AuditLogOptions, auditLog } from './audit-log.js';
export type { AuditSink } from './audit-writer.js';
export { type ChainAlarmOptions, chainAlarm } from './chain-alarm.js';
export type {
  AfterVerdict,
  BeforeVerdict,
  CallChain,
  CallFacts,
  Gate,
  GateContext,
  InspectVerdict,
  ListedTool,
  ToolAnnotations,
  ToolResult,
} from './gate.js';
export { type Inspected, type InspectOptions, type Inspector, inspect } from './inspect.js';
export { type MaxCallsOptions, maxCalls } from './max-calls.js';
export { allowTools, denyTools } from './tool-lists.js';
export type { ToolChoice } from './tool-names.js';
export { TURN_KEY } from './turn.js';
export { type TextPiece, walkText } from './walk-text.js';
