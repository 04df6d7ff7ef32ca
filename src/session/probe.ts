/**
 * One question to a session: do you live?
 *
 * Guarantees that only a complete refusal under a credential that is still current counts as a no. A
 * gateway's silence, an overload or an expired token decide nothing. Never takes longer than its bound.
 */

import type { Clock } from '../clock.js';
import { classify, PLAIN_CONTEXT } from '../connection/classify.js';
import type { StreamFacts, Wire } from '../connection/wire.js';
import type { Credential } from '../credentials/provider.js';
import { isErrorResponse, type JsonRpcMessage } from '../json-rpc.js';
import type { Session } from './session.js';

export type ProbeVerdict = 'alive' | 'refused' | 'undecided';

/** A ping that takes longer says nothing about the session. */
const PROBE_TIMEOUT_MS = 5_000;
const REFUSALS: ReadonlySet<number> = new Set([400, 401, 403, 404]);

export async function probe(
  session: Session,
  credential: Credential,
  method: 'ping' | 'tools/list',
  parts: {
    wire: Wire;
    clock: Clock;
    onMessage(message: JsonRpcMessage, session: Session): void;
    signal: AbortSignal;
  },
  id: string,
): Promise<{ verdict: ProbeVerdict; facts: StreamFacts }> {
  let abort: (() => void) | undefined;
  const timer = parts.clock.setTimeout(() => abort?.(), PROBE_TIMEOUT_MS);
  try {
    const facts = await parts.wire.send(
      { jsonrpc: '2.0', id, method },
      {
        session,
        credential,
        signal: parts.signal,
        attach: (handle) => {
          abort = () => handle.abort();
        },
        onMessage: (message) => parts.onMessage(message, session),
      },
    );
    return { verdict: judge(facts, credential, parts.clock), facts };
  } finally {
    timer.clear();
  }
}

function judge(facts: StreamFacts, credential: Credential, clock: Clock): ProbeVerdict {
  if (facts.failure !== undefined || facts.damage !== undefined) return 'undecided';
  const status = facts.status ?? 0;
  const error = isErrorResponse(facts.message) ? facts.message.error : undefined;
  if (error?.code === -32601) return 'undecided';
  if (status === 401 && credential.expiresAtMs !== undefined && credential.expiresAtMs <= clock.now())
    return 'undecided';
  if (REFUSALS.has(status)) return 'refused';
  if (status < 200 || status >= 300) return 'undecided';
  if (error === undefined) return facts.relation === 'own' ? 'alive' : 'undecided';
  const verdict = classify(facts, PLAIN_CONTEXT);
  return verdict.kind === 'session-suspect' ? 'refused' : 'undecided';
}
