/**
 * How the simulator's MCP endpoint says no.
 *
 * Guarantees the words and codes of SDK servers, with the JSON-RPC id `null`: the refusal comes from before
 * the method. Never gives a reason away beyond what those servers give.
 */
import type { Answer } from './answer.js';
import type { ServerOptions } from './options.js';
import type { ProofError } from './proof-check.js';
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

/** RFC 6750, section 3, RFC 9449, section 7.1, and RFC 9728, section 5.1. */
export function refuseToken(
  answer: Answer,
  o: {
    metadataUrl: string;
    challenge: 'bearer' | 'none';
    wasGiven: boolean;
    scheme: 'Bearer' | 'DPoP';
    error?: ProofError | undefined;
  },
): void {
  const { error = 'invalid_token' } = o;
  const words =
    error === 'invalid_token' ? 'access token is missing, expired or revoked' : 'proof will not do';
  const parameters = [
    ...(o.wasGiven ? [`error="${error}"`, `error_description="The ${words}"`] : []),
    ...(o.scheme === 'DPoP' ? ['algs="ES256"'] : []),
    `resource_metadata="${o.metadataUrl}"`,
  ];
  const challenge = `${o.scheme} ${parameters.join(', ')}`;
  const headers: ScriptedHeaders = o.challenge === 'none' ? {} : { 'www-authenticate': challenge };
  answer.sendJson(401, { error }, headers);
}
