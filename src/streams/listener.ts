/**
 * The listen stream of one session: what the server tells on its own account.
 *
 * Guarantees that it comes back by itself with the cursor it had, with gaps that grow while opening it
 * brings nothing, and that it ends with its session. Never initializes, never fails a call.
 */
import { type Clock, fullJitter, sleep } from '../clock.js';
import type { StreamFacts, Wire } from '../connection/wire.js';
import type { Credential } from '../credentials/provider.js';
import type { ExchangeHandle } from '../http/exchange.js';
import type { JsonRpcMessage } from '../json-rpc.js';
import { rejectionOf } from '../session/handshake.js';
import type { Session } from '../session/session.js';

export interface ListenerParts {
  readonly clock: Clock;
  readonly wire: Wire;
  readonly reopenMaxDelayMs: number;
  credential(rejected?: {
    generation: number;
    status: number;
    challenge?: string | undefined;
  }): Promise<Credential>;
  onMessage(message: JsonRpcMessage, session: Session): void;
  /** The server does not know the session. */
  onLost(session: Session): void;
  onEvent(event: StreamEvent): void;
}

export type StreamEvent =
  | { type: 'stream-cut'; session: number; ageMs: number }
  | { type: 'stream-reopened'; session: number; gapMs: number; resumed: boolean }
  | { type: 'stream-gap'; session: number; gapMs: number }
  | { type: 'stream-unavailable'; session: number; reason: string; final: boolean };

/** Gaps before reopening a stream that carried nothing although each open succeeded. */
const EMPTY_GAPS_MS = [50, 500, 2_000, 5_000, 15_000, 30_000] as const;
/** The first reopening spreads out a little when thousands of streams are cut at once. */
const FIRST_JITTER_MS = 20;
/** Jitter on a delay that the server asked for only adds. */
const RETRY_JITTER_MS = 100;
const FIRST_BACKOFF_MS = 500;
/** Asking again brings the same: a redirect elsewhere, an unknown coding, a header that cannot be written. */
const FOR_GOOD: ReadonlySet<string> = new Set(['redirect', 'encoding', 'invalid-request']);

export class Listener {
  readonly #parts: ListenerParts;
  readonly #session: Session;
  readonly #stopped = new AbortController();
  /** Settled when the stream is open for the first time, or known not to be. */
  readonly opened: Promise<void>;
  #exchange: ExchangeHandle | undefined;
  #settleOpened: () => void = () => {};

  constructor(session: Session, parts: ListenerParts) {
    this.#session = session;
    this.#parts = parts;
    this.opened = new Promise((resolve) => {
      this.#settleOpened = resolve;
    });
  }

  start(): void {
    this.#listen().catch(() => {});
  }

  stop(): void {
    this.#settleOpened();
    this.#stopped.abort();
    this.#exchange?.abort();
  }

  async #listen(): Promise<void> {
    const { clock, wire } = this.#parts;
    const session = this.#session;
    const { signal } = this.#stopped;
    let cursor: string | undefined;
    let credential: Credential | undefined;
    let empty = 0;
    let failures = 0;
    let cutAtMs: number | undefined;
    while (!signal.aborted) {
      try {
        credential ??= await this.#parts.credential();
      } catch {
        await sleep(clock, this.#backOffMs(failures++), signal);
        continue;
      }
      const openedAtMs = clock.monotonic();
      const resumed = cursor !== undefined;
      let opened = false;
      const facts: StreamFacts = await wire.stream({
        method: 'GET',
        session,
        credential,
        cursor,
        attach: (handle) => {
          this.#exchange = handle;
          if (signal.aborted) handle.abort();
        },
        onOpen: () => {
          opened = true;
          this.#settleOpened();
          if (cutAtMs !== undefined) this.#reopened(clock.monotonic() - cutAtMs, resumed);
          cutAtMs = undefined;
        },
        onMessage: (message) => this.#parts.onMessage(message, session),
      });
      this.#settleOpened();
      if (signal.aborted) return;
      if (opened) {
        cursor = facts.lastEventId ?? cursor;
        cutAtMs = clock.monotonic();
        this.#parts.onEvent({ type: 'stream-cut', session: session.number, ageMs: cutAtMs - openedAtMs });
        failures = 0;
        empty = facts.events > 0 ? 0 : empty + 1;
        credential = undefined;
        await sleep(clock, this.#gapMs(empty, facts.retryMs), signal);
        continue;
      }
      const next = this.#refused(facts, cutAtMs !== undefined);
      if (next === 'stop') return;
      credential = next === 'renew' && failures === 0 ? await this.#renewed(credential, facts) : undefined;
      failures += 1;
      if (credential === undefined) await sleep(clock, this.#backOffMs(failures), signal);
    }
  }

  /** What an answer that is no stream means. */
  #refused(facts: StreamFacts, afterCut: boolean): 'stop' | 'renew' | 'again' {
    const { status, failure } = facts;
    if (failure !== undefined && FOR_GOOD.has(failure.kind)) {
      this.#unavailable('the answer to it is one that cannot be read or followed', true);
      return 'stop';
    }
    if (status === undefined) return 'again';
    if (status === 404 && facts.sessionSent) {
      this.#parts.onLost(this.#session);
      return 'stop';
    }
    if (status === 401) return 'renew';
    // The slot of the stream that was cut may not be free yet; that is no reason to give it up.
    if (status === 409) {
      this.#unavailable('another stream of this session is still open', false);
      return 'again';
    }
    if (status === 429 || (status >= 500 && status !== 501)) return 'again';
    if (status === 405 || status === 501) this.#unavailable('the server offers none', true);
    else if (status < 300) this.#unavailable('the answer is no event stream', true);
    else if (afterCut && status === 400) return 'again';
    else this.#unavailable(`the server refuses it (status ${status})`, true);
    return 'stop';
  }

  async #renewed(credential: Credential, facts: StreamFacts): Promise<Credential | undefined> {
    return this.#parts.credential(rejectionOf(credential, facts)).catch(() => undefined);
  }

  #reopened(gapMs: number, resumed: boolean): void {
    const session = this.#session.number;
    this.#parts.onEvent({ type: 'stream-reopened', session, gapMs, resumed });
    if (!resumed) this.#parts.onEvent({ type: 'stream-gap', session, gapMs });
  }

  #unavailable(reason: string, final: boolean): void {
    this.#parts.onEvent({ type: 'stream-unavailable', session: this.#session.number, reason, final });
  }

  #gapMs(empty: number, retryMs: number | undefined): number {
    const random = this.#parts.clock.random?.() ?? Math.random();
    const asked = retryMs === undefined ? 0 : retryMs + random * RETRY_JITTER_MS;
    if (empty === 0) return Math.max(asked, random * FIRST_JITTER_MS);
    const step = EMPTY_GAPS_MS[Math.min(empty, EMPTY_GAPS_MS.length) - 1] ?? 0;
    return Math.max(asked, Math.min(step, this.#parts.reopenMaxDelayMs) * (1 + random / 10));
  }

  #backOffMs(failures: number): number {
    return Math.max(
      250,
      fullJitter(this.#parts.clock, failures, FIRST_BACKOFF_MS, this.#parts.reopenMaxDelayMs),
    );
  }
}
