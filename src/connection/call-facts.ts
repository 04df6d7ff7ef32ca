/**
 * A call as the app sees it: on its way, in its gates, and at its end, as an event.
 *
 * Guarantees plain facts: never the engine's own objects, never arguments or results in an event.
 */
import { HostedMcpError } from '../errors.js';
import type { CallFacts } from '../gates/gate.js';
import type { KnownTool } from '../gates/tool-book.js';
import type { SessionInfo } from '../session/session.js';
import type { Call } from './ledger.js';
import type { CallDone } from './types.js';

/** `known`: the tool as it was listed last. */
export function callFacts(
  call: Call,
  session: SessionInfo | undefined,
  known: KnownTool | undefined,
): CallFacts {
  const { arguments: args, _meta: meta } = call.message.params ?? {};
  return {
    method: call.method,
    ...(call.tool !== undefined && { tool: call.tool }),
    ...(typeof args === 'object' && args !== null && { arguments: args as Record<string, unknown> }),
    ...(known !== undefined && { toolDigest: known.digest }),
    ...(known?.annotations !== undefined && { annotations: known.annotations }),
    ...(typeof meta === 'object' && meta !== null && { meta: meta as Record<string, unknown> }),
    ...(session !== undefined && { session }),
  };
}

export function doneFacts(call: Call, startedAtMs: number, durationMs: number, error: unknown): CallDone {
  return {
    requestId: call.id,
    method: call.method,
    ...(call.tool !== undefined && { tool: call.tool }),
    ...(call.session !== undefined && { session: call.session.number }),
    startedAtMs,
    durationMs,
    waits: call.waits,
    executed: HostedMcpError.isInstance(error) ? error.executed : call.executed,
    ...(HostedMcpError.isInstance(error) && { code: error.code }),
  };
}
