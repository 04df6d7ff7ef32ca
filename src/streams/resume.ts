/**
 * Takes up the response stream of a call that was cut, by its cursor (MCP 2025-11-25, transports,
 * "Resumability and Redelivery"; SEP-1699 polling).
 *
 * Guarantees that the call itself is never sent again: only its answer is asked for. Bounded by the
 * caller's time.
 */
import { type Clock, fullJitter, sleep } from '../clock.js';
import type { StreamFacts, Wire } from '../connection/wire.js';
import type { Credential } from '../credentials/provider.js';
import type { ExchangeHandle } from '../http/exchange.js';
import type { JsonRpcMessage, RequestId } from '../json-rpc.js';
import { rejectionOf } from '../session/handshake.js';
import type { Session } from '../session/session.js';

export interface ResumeParts {
  readonly clock: Clock;
  readonly wire: Wire;
  readonly session: Session | undefined;
  /** The request that is owed an answer. */
  readonly id: RequestId;
  /** The answer may come under another id: the request was sent by a client of before a restart. */
  readonly adopts: boolean;
  readonly method: string;
  readonly signal: AbortSignal;
  /** No attempt begins after it, on the monotonic clock. */
  untilMs(): number;
  credential(rejected?: {
    generation: number;
    status: number;
    challenge?: string | undefined;
  }): Promise<Credential>;
  attach(handle: ExchangeHandle): void;
  onMessage(message: JsonRpcMessage): void;
  onEventId?: ((id: string) => void) | undefined;
  onCut(): void;
}

const FIRST_JITTER_MS = 20;
const RETRY_JITTER_MS = 100;
const LONGEST_GAP_MS = 5_000;

/** The facts of the exchange that brought the answer, or of the one after which there is no hope. */
export async function resumeAnswer(
  first: NonNullable<StreamFacts['resume']>,
  parts: ResumeParts,
): Promise<StreamFacts> {
  const { clock, wire, signal } = parts;
  const seen = new Set<string>();
  let { cursor, retryMs } = first;
  let fruitless = 0;
  let rejected: { generation: number; status: number; challenge?: string | undefined } | undefined;
  for (;;) {
    const random = clock.random?.() ?? Math.random();
    const gapMs =
      retryMs !== undefined
        ? retryMs + random * RETRY_JITTER_MS
        : fruitless === 0
          ? random * FIRST_JITTER_MS
          : Math.max(50, fullJitter(clock, fruitless, 100, LONGEST_GAP_MS));
    await sleep(clock, gapMs, signal);
    const credential = await parts.credential(rejected);
    const facts = await wire.stream({
      method: parts.method,
      session: parts.session,
      credential,
      cursor,
      expects: parts.id,
      seen,
      adopts: parts.adopts,
      attach: parts.attach,
      onMessage: parts.onMessage,
      ...(parts.onEventId !== undefined && { onEventId: parts.onEventId }),
    });
    if (signal.aborted) throw signal.reason;
    if (facts.message !== undefined && facts.relation === 'own') return facts;
    const away = facts.status === undefined || facts.status >= 500 || facts.status === 429;
    const cut = facts.failure !== undefined && facts.status !== undefined && facts.status < 300;
    const renew = facts.status === 401 && rejected === undefined;
    if (!cut && !away && !renew) return facts;
    rejected = renew ? rejectionOf(credential, facts) : undefined;
    fruitless = facts.events > 0 ? 0 : fruitless + 1;
    cursor = facts.lastEventId ?? cursor;
    retryMs = facts.retryMs ?? (cut ? retryMs : undefined);
    if (cut) parts.onCut();
    if (clock.monotonic() >= parts.untilMs()) return facts;
  }
}
