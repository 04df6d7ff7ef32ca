/**
 * One question to a session: do you live?
 *
 * Guarantees that only a complete refusal under a credential that is still current counts as a no. A
 * gateway's silence, an overload or an expired token decide nothing. Never takes longer than its bound.
 */

import type { Clock } from '../clock.js';
import { classify, PLAIN_CONTEXT } from '../connection/classify.js';
import type { StreamFacts } from '../connection/route.js';
import type { Wire } from '../connection/wire.js';
import type { Credential } from '../credentials/provider.js';
import { isErrorResponse, type JsonRpcMessage } from '../json-rpc.js';
import type { Session } from './session.js';

type ProbeVerdict = 'alive' | 'refused' | 'undecided';

/** A ping that takes longer says nothing about the session. */
const PROBE_TIMEOUT_MS = 5_000;
const REFUSALS: ReadonlySet<number> = new Set([400, 401, 403, 404]);
/** After this long without news, one refused request may ask again whether the session lives. */
const ACQUITTAL_MS = 5_000;

export interface ProberParts {
  readonly wire: Wire;
  readonly clock: Clock;
  readonly method: 'ping' | 'tools/list' | 'off';
  readonly signal: AbortSignal;
  onMessage(message: JsonRpcMessage, session: Session): void;
}

/** Asks the sessions of one connection, one question at a time for all callers, and learns what an answer is worth. */
export class Prober {
  readonly #parts: ProberParts;
  #asked = 0;
  #running: { session: Session; generation: number; answer: Promise<ProbeVerdict> } | undefined;
  #useless = false;
  /** Learned: a session that lives says so. */
  wasAccepted = false;

  constructor(parts: ProberParts) {
    this.#parts = parts;
  }

  get isOfUse(): boolean {
    return this.#parts.method !== 'off' && !this.#useless;
  }

  /** A fresh session refused it as the old one did: unless one was ever answered, asking says nothing here. */
  refusedOnFresh(): boolean {
    this.#useless ||= !this.wasAccepted;
    return this.#useless;
  }

  ask(session: Session, credential: Credential): Promise<ProbeVerdict> {
    const { generation } = credential;
    const running = this.#running;
    if (running?.session === session && running.generation === generation) return running.answer;
    const method = this.#parts.method === 'tools/list' ? 'tools/list' : 'ping';
    const id = `holdfast-probe-${++this.#asked}`;
    const answer = probe(session, credential, method, this.#parts, id).then(
      (verdict) => {
        if (verdict === 'alive') this.#lives(session, credential);
        return verdict;
      },
      () => 'undecided' as const,
    );
    const asked = { session, generation, answer };
    this.#running = asked;
    answer.finally(() => {
      if (this.#running === asked) this.#running = undefined;
    });
    return answer;
  }

  #lives(session: Session, credential: Credential): void {
    this.wasAccepted = true;
    session.acquittedUntilMs = this.#parts.clock.monotonic() + ACQUITTAL_MS;
    if (session.acceptedGeneration > credential.generation) return;
    session.acceptedGeneration = credential.generation;
    session.credential = credential;
  }
}

async function probe(
  session: Session,
  credential: Credential,
  method: 'ping' | 'tools/list',
  parts: ProberParts,
  id: string,
): Promise<ProbeVerdict> {
  await parts.wire.pay('recovery', { signal: parts.signal });
  let abort: (() => void) | undefined;
  const timer = parts.clock.setTimeout(() => abort?.(), PROBE_TIMEOUT_MS);
  try {
    const facts = await parts.wire.send(
      { jsonrpc: '2.0', id, method },
      {
        session,
        credential,
        toll: 'paid',
        signal: parts.signal,
        attach: (handle) => {
          abort = () => handle.abort();
        },
        onMessage: (message) => parts.onMessage(message, session),
      },
    );
    return judge(facts, credential, parts.clock);
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
