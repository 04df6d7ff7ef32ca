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
  // One by one: for every call, spreading costs more than the gates do.
  const facts: { -readonly [K in keyof CallFacts]: CallFacts[K] } = { method: call.method };
  if (call.tool !== undefined) facts.tool = call.tool;
  if (typeof args === 'object' && args !== null) facts.arguments = args as Record<string, unknown>;
  if (known !== undefined) facts.toolDigest = known.digest;
  if (known?.annotations !== undefined) facts.annotations = known.annotations;
  if (typeof meta === 'object' && meta !== null) facts.meta = meta as Record<string, unknown>;
  if (session !== undefined) facts.session = session;
  return facts;
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
