/**
 * How the simulator's MCP endpoint says no.
 *
 * Guarantees the words and codes of SDK servers, with the JSON-RPC id `null`: the refusal comes from before
 * the method. Never gives a reason away beyond what those servers give.
 */
import type { Answer } from './answer.js';
import type { ServerOptions } from './options.js';
import type { ScriptedHeaders } from './types.js';

export function refuse(
  answer: Answer,
  status: number,
  code: number,
  message: string,
  headers: ScriptedHeaders = {},
): void {
  answer.sendJson(status, { jsonrpc: '2.0', error: { code, message }, id: null }, headers);
}

export function refuseSession(answer: Answer, status: ServerOptions['sessionLostStatus']): void {
  if (status === 400) refuse(answer, 400, -32000, 'Bad Request: No valid session ID provided');
  else refuse(answer, status, -32001, 'Session not found');
}

/** RFC 6750, section 3, and RFC 9728, section 5.1. */
export function refuseToken(
  answer: Answer,
  o: { metadataUrl: string; challenge: 'bearer' | 'none'; wasGiven: boolean },
): void {
  const metadata = `resource_metadata="${o.metadataUrl}"`;
  const reason = 'error="invalid_token", error_description="The access token is missing, expired or revoked"';
  const challenge = o.wasGiven ? `Bearer ${reason}, ${metadata}` : `Bearer ${metadata}`;
  const headers: ScriptedHeaders = o.challenge === 'none' ? {} : { 'www-authenticate': challenge };
  answer.sendJson(401, { error: 'invalid_token' }, headers);
}
