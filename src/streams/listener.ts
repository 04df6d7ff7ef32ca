/**
 * The listen stream of one session: what the server tells on its own account.
 *
 * Guarantees that it comes back by itself with the cursor it had, with gaps that grow while opening it
 * brings nothing, and that it ends with its session. Never initializes, never fails a call, never ends a stream
 * that is open: bytes from the server are all that keeps one alive, and behind some intermediaries a stream
 * that was left keeps its place for a minute.
 */
import { type Clock, sleep } from '../clock.js';
import type { StreamFacts } from '../connection/route.js';
import type { Wire } from '../connection/wire.js';
import type { Credential, Rejection } from '../credentials/provider.js';
import { HostedMcpError } from '../errors.js';
import type { ExchangeHandle } from '../http/exchange.js';
import { isErrorResponse, type JsonRpcMessage, type JsonRpcResponse } from '../json-rpc.js';
import { rejectionOf } from '../session/handshake.js';
import type { Session } from '../session/session.js';
import { backOffMs, LIVED_MS, reopenGapMs, takenGapMs } from './gaps.js';
import { isAway, isForGood, isTaken } from './refusals.js';

export interface ListenerParts {
  readonly clock: Clock;
  readonly wire: Wire;
  readonly reopenMaxDelayMs: number;
  /** Before each request; undefined: it may leave now. */
  pay?(signal: AbortSignal): Promise<unknown> | undefined;
  credential(rejected?: Rejection): Promise<Credential>;
  onMessage(message: JsonRpcMessage, session: Session): void;
  /** Some servers give the answer of a call that was cut off to whichever stream comes next. */
  onAnswer?(message: JsonRpcResponse, session: Session): void;
  /** The server does not know the session. `tentative`: it did not say so in words of MCP. */
  onLost(session: Session, tentative: boolean): void;
  /** Resolves with true where the session is lost; undefined where the refusal does not speak of it. */
  onDoubt?(facts: StreamFacts, credential: Credential): Promise<boolean> | undefined;
  onEvent(event: StreamEvent): void;
}

export type StreamEvent =
  | { type: 'stream-cut'; session: number; ageMs: number; idleMs?: number }
  | { type: 'stream-reopened'; session: number; gapMs: number; resumed: boolean }
  | { type: 'stream-gap'; session: number; gapMs: number }
  | { type: 'stream-unavailable'; session: number; reason: string; final: boolean };

/** What comes next: an attempt after so long, or none. */
type Next = { readonly waitMs: number; readonly rejected?: Rejection } | undefined;

interface Attempt {
  readonly credential: Credential;
  readonly cursor: string | undefined;
  readonly startedAtMs: number;
  open: boolean;
  /** Messages it brought. */
  carried: number;
}

/** Some servers send the head with the first event only: who waited so long in vain had a silent stream. */
const WAITED_MS = 10_000;
/** Streams that end at once after they brought something are reopened at once, but not for ever. */
const MOST_BUSY_GAPS = 3;
/** So many tries in vain are told. */
const FAILURES_TO_TELL = 3;
/** The longest time that a Retry-After can keep a stream away. */
const LONGEST_HINT_MS = 60_000;
const METHOD_NOT_FOUND = -32601;

export class Listener {
  readonly #parts: ListenerParts;
  readonly #session: Session;
  readonly #stopped = new AbortController();
  /** Settled when the stream is open for the first time, or known not to be. */
  readonly opened: Promise<void>;
  #exchange: ExchangeHandle | undefined;
  #settleOpened: () => void = () => {};
  #cursor: string | undefined;
  /** The server's word on the gap holds until it gives another. */
  #retryMs: number | undefined;
  #wasOpen = false;
  /** Streams in a row that ended soon after they were opened. */
  #brief = 0;
  /** Since the stream was open: tries in vain, refusals because its place is taken, questions about the session, renewals. */
  #failures = 0;
  #taken = 0;
  #doubted = false;
  #renewed = false;
  #downSinceMs: number | undefined;
  #said: string | undefined;

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
    const { signal } = this.#stopped;
    for (let next: Next = { waitMs: 0 }; next !== undefined && !signal.aborted; ) {
      if (next.waitMs > 0) await sleep(this.#parts.clock, next.waitMs, signal);
      next = await this.#attempt(next.rejected);
    }
    this.#settleOpened();
  }

  async #attempt(rejected: Rejection | undefined): Promise<Next> {
    const { clock, wire } = this.#parts;
    const { signal } = this.#stopped;
    const unpaid = await this.#parts.pay?.(signal)?.then(
      () => undefined,
      (error: unknown) => ({ error }),
    );
    if (signal.aborted) return undefined;
    if (unpaid !== undefined) {
      const retryAfterMs = HostedMcpError.isInstance(unpaid.error) ? unpaid.error.retryAfterMs : undefined;
      return this.#inVain('the rate limit leaves no request for it', false, retryAfterMs);
    }
    const credential = await this.#parts.credential(rejected).catch(() => undefined);
    if (signal.aborted) return undefined;
    if (credential === undefined) return this.#inVain('there is no credential to open it with');
    const startedAtMs = clock.monotonic();
    const attempt: Attempt = { credential, cursor: this.#cursor, startedAtMs, open: false, carried: 0 };
    const facts = await wire
      .stream({
        method: 'GET',
        session: this.#session,
        credential,
        toll: 'paid',
        cursor: attempt.cursor,
        attach: (handle) => {
          this.#exchange = handle;
          if (signal.aborted) handle.abort();
        },
        onOpen: () => this.#onOpen(attempt),
        onMessage: (message) => {
          attempt.carried += 1;
          this.#parts.onMessage(message, this.#session);
        },
        onAnswer: (message) => {
          attempt.carried += 1;
          this.#parts.onAnswer?.(message, this.#session);
        },
      })
      // The credential could not be written as headers.
      .catch(() => undefined);
    this.#settleOpened();
    if (signal.aborted) return undefined;
    if (facts === undefined) return this.#inVain('the credential cannot be used');
    this.#retryMs = facts.retryMs ?? this.#retryMs;
    return attempt.open ? this.#cut(facts, attempt) : this.#refused(facts, attempt);
  }

  #onOpen(attempt: Attempt): void {
    attempt.open = true;
    this.#wasOpen = true;
    this.#failures = 0;
    this.#taken = 0;
    this.#doubted = false;
    this.#renewed = false;
    this.#said = undefined;
    this.#settleOpened();
    if (this.#downSinceMs === undefined) return;
    const gapMs = this.#parts.clock.monotonic() - this.#downSinceMs;
    this.#downSinceMs = undefined;
    const session = this.#session.number;
    const resumed = attempt.cursor !== undefined;
    this.#parts.onEvent({ type: 'stream-reopened', session, gapMs, resumed });
    if (!resumed) this.#parts.onEvent({ type: 'stream-gap', session, gapMs });
  }

  /** It was open and has ended, cleanly or not: proxies end streams as servers do. */
  #cut(facts: StreamFacts, { startedAtMs, carried }: Attempt): Next {
    const { clock, reopenMaxDelayMs } = this.#parts;
    const { ageMs = clock.monotonic() - startedAtMs, damage } = facts;
    this.#cursor = facts.lastEventId ?? this.#cursor;
    this.#wasCut(ageMs, facts.idleMs);
    if (damage !== undefined) this.#unavailable('an event on it is larger than allowed', false);
    this.#brief = ageMs >= LIVED_MS && damage === undefined ? 0 : this.#brief + 1;
    const isBusy = carried > 0 && damage === undefined;
    const empty = isBusy ? Math.min(Math.max(this.#brief - 1, 0), MOST_BUSY_GAPS) : this.#brief;
    return { waitMs: reopenGapMs(clock, empty, this.#retryMs, reopenMaxDelayMs) };
  }

  /** What an answer that is no stream means. */
  async #refused(facts: StreamFacts, attempt: Attempt): Promise<Next> {
    const { clock } = this.#parts;
    const { status = 0, message } = facts;
    if (isForGood(facts)) return this.#none('the answer to it is one that cannot be read or followed');
    if (isTaken(facts)) {
      this.#down();
      this.#taken += 1;
      this.#unavailable('another stream of this session still counts as open', false);
      return { waitMs: this.#atLeastAsked(takenGapMs(clock, this.#taken)) };
    }
    if (isAway(facts)) return this.#away(facts, attempt);
    if (status === 404 && facts.sessionSent) {
      const inMcp = isErrorResponse(message);
      if (inMcp && message.error.code !== METHOD_NOT_FOUND) {
        this.#parts.onLost(this.#session, false);
        return undefined;
      }
      // A route may be missing for some seconds; where there never was one, there is no stream either.
      if (!inMcp && this.#wasOpen) {
        if (!this.#doubted) this.#parts.onLost(this.#session, true);
        this.#doubted = true;
        return this.#inVain('the server does not know its address', true);
      }
    }
    if ((this.#wasOpen || status === 401) && (await this.#isLost(facts, attempt))) return undefined;
    if (status === 401) {
      if (this.#renewed) return this.#inVain('the credential is refused', true);
      this.#renewed = true;
      return { waitMs: 0, rejected: rejectionOf(attempt.credential, facts) };
    }
    if (status === 405 || status === 501) return this.#none('the server offers none');
    if (status === 400 && attempt.cursor !== undefined) {
      // The server has not kept what came after it.
      this.#cursor = undefined;
      return { waitMs: this.#atLeastAsked(0) };
    }
    const reason =
      status < 300 ? 'the answer is no event stream' : `the server refuses it (status ${status})`;
    return this.#wasOpen ? this.#inVain(reason, true) : this.#none(reason);
  }

  /** Nobody was there to open it, or nobody had time to. */
  async #away(facts: StreamFacts, attempt: Attempt): Promise<Next> {
    const { clock, reopenMaxDelayMs } = this.#parts;
    const { status, retryAfterMs = 0 } = facts;
    const waitedMs = clock.monotonic() - attempt.startedAtMs;
    if (waitedMs >= WAITED_MS && status !== 429) {
      this.#wasCut(facts.ageMs ?? waitedMs, facts.idleMs);
      return { waitMs: reopenGapMs(clock, 0, this.#retryMs, reopenMaxDelayMs) };
    }
    if (this.#wasOpen && (await this.#isLost(facts, attempt))) return undefined;
    const reason =
      status === undefined ? 'the server is not reached' : `the server is away (status ${status})`;
    return this.#inVain(reason, false, Math.min(retryAfterMs, LONGEST_HINT_MS));
  }

  /** Asked once in a row: refusals of this stream alone must not bring a session into doubt again and again. */
  async #isLost(facts: StreamFacts, { credential }: Attempt): Promise<boolean> {
    const lost = this.#doubted ? undefined : this.#parts.onDoubt?.(facts, credential);
    if (lost === undefined) return false;
    this.#doubted = true;
    return (await lost) || this.#stopped.signal.aborted;
  }

  #inVain(reason: string, tell = false, atLeastMs = 0): Next {
    const { clock, reopenMaxDelayMs } = this.#parts;
    this.#down();
    this.#failures += 1;
    if (tell || this.#failures === FAILURES_TO_TELL) this.#unavailable(reason, false);
    const waitMs = Math.max(backOffMs(clock, this.#failures, reopenMaxDelayMs), atLeastMs);
    return { waitMs: this.#atLeastAsked(waitMs) };
  }

  #none(reason: string): undefined {
    this.#said = undefined;
    this.#unavailable(reason, true);
  }

  #wasCut(ageMs: number, idleMs: number | undefined): void {
    this.#down();
    this.#parts.onEvent({
      type: 'stream-cut',
      session: this.#session.number,
      ageMs,
      ...(idleMs !== undefined && { idleMs }),
    });
  }

  #down(): void {
    this.#downSinceMs ??= this.#parts.clock.monotonic();
  }

  #atLeastAsked(ms: number): number {
    return Math.max(ms, reopenGapMs(this.#parts.clock, 0, this.#retryMs, this.#parts.reopenMaxDelayMs));
  }

  /** Once in a row. */
  #unavailable(reason: string, final: boolean): void {
    if (this.#said !== undefined) return;
    this.#said = reason;
    this.#parts.onEvent({ type: 'stream-unavailable', session: this.#session.number, reason, final });
  }
}
