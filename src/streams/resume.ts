/**
 * Takes up the response stream of a call that was cut, by its cursor (MCP 2025-11-25, transports,
 * "Resumability and Redelivery"; SEP-1699 polling).
 *
 * Guarantees that the call itself is never sent again: only its answer is asked for, over any number of cuts,
 * until the caller's time is up; and that nothing is told twice. A stream that falls silent is asked for again beside the
 * one that is open, so that a healthy one is not given up. Never waits where there is no hope.
 */
import { type Clock, sleep, type Timer } from '../clock.js';
import type { StreamFacts } from '../connection/route.js';
import type { Wire } from '../connection/wire.js';
import { within } from '../credentials/deadline.js';
import type { Credential, Rejection } from '../credentials/provider.js';
import { HostedMcpError } from '../errors.js';
import type { ExchangeHandle } from '../http/exchange.js';
import type { JsonRpcMessage, RequestId } from '../json-rpc.js';
import { rejectionOf } from '../session/handshake.js';
import type { Session } from '../session/session.js';
import { backOffMs, LIVED_MS, reopenGapMs, takenGapMs } from './gaps.js';
import { isAway, isForGood, isTaken } from './refusals.js';

export interface ResumeParts {
  readonly clock: Clock;
  readonly wire: Wire;
  readonly session: Session | undefined;
  /** The request that is owed an answer. */
  readonly id: RequestId;
  /** The answer may come under another id: the request was sent by a client of before a restart. */
  readonly adopts: boolean;
  readonly method: string;
  /** Ids of events already seen; grows. */
  readonly seen: Set<string>;
  /** Ends with the caller's time, and what is open with it. */
  readonly signal: AbortSignal;
  /** No attempt begins after it, on the monotonic clock. `openMs`: when a stream was last open. */
  untilMs(openMs: number): number;
  /** Before each request; undefined: it may leave now. */
  pay?(signal: AbortSignal): Promise<unknown> | undefined;
  credential(rejected?: Rejection): Promise<Credential>;
  onMessage(message: JsonRpcMessage): void;
  onEventId?: ((id: string) => void) | undefined;
  onCut(facts: StreamFacts): void;
}

const LONGEST_GAP_MS = 5_000;
/** A server that asks to be polled at such a pace is polled so, however long it has nothing to say. */
const POLLING_PACE_MS = 250;
/** The longest time that a Retry-After can keep us away. */
const LONGEST_HINT_MS = 60_000;
/**
 * Silence after which a stream is asked for beside the open one; the last one again and again. Bytes that tell
 * nothing put it off, but not for ever: a server may send comments on a stream that it has lost sight of.
 */
const SILENCES_MS = [15_000, 20_000, 30_000, 60_000] as const;
const MOST_WATCHES = 12;

/** The facts of the exchange that brought the answer, or of the one after which there is no hope. */
export function resumeAnswer(
  first: NonNullable<StreamFacts['resume']>,
  parts: ResumeParts,
): Promise<StreamFacts> {
  return new Resumption(first, parts).run();
}

class Resumption {
  readonly #parts: ResumeParts;
  #cursor: string;
  /** The server's word on the gap holds until it gives another. */
  #retryMs: number | undefined;
  /** On the monotonic clock: when a stream was open last, and when something new was told or asked for. */
  #openMs: number;
  #newsMs: number;
  /** Streams in a row that ended soon and brought nothing. */
  #empty = 0;
  /** Since a stream was open: tries in vain, refusals because its place is taken, renewals. */
  #failures = 0;
  #taken = 0;
  #renewed = false;
  #rejected: Rejection | undefined;
  /** Silences in a row after which nothing new came. */
  #silences = 0;

  constructor(first: NonNullable<StreamFacts['resume']>, parts: ResumeParts) {
    this.#parts = parts;
    this.#cursor = first.cursor;
    this.#retryMs = first.retryMs;
    this.#openMs = parts.clock.monotonic();
    this.#newsMs = this.#openMs;
  }

  async run(): Promise<StreamFacts> {
    const { clock, signal } = this.#parts;
    for (let waitMs = this.#gapMs(); ; ) {
      await sleep(clock, waitMs, signal);
      let stream: AnswerStream;
      try {
        stream = await this.#open();
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        const isPassing = HostedMcpError.isInstance(error) && error.retryable;
        if (!isPassing || this.#isLate) throw error;
        waitMs = this.#inVain(error.retryAfterMs);
        continue;
      }
      const ended = await this.#follow(stream);
      if (signal.aborted) throw signal.reason;
      const next = this.#next(ended.stream, ended.facts);
      if (next === undefined || this.#isLate) return ended.facts;
      waitMs = next;
    }
  }

  get #isLate(): boolean {
    return this.#parts.clock.monotonic() >= this.#parts.untilMs(this.#openMs);
  }

  async #open(): Promise<AnswerStream> {
    const rejected = this.#rejected;
    this.#rejected = undefined;
    await this.#parts.pay?.(this.#parts.signal);
    const credential = await this.#credential(rejected);
    if (this.#parts.signal.aborted) throw this.#parts.signal.reason;
    return new AnswerStream(this.#parts, credential, this.#cursor, {
      onNews: () => {
        this.#silences = 0;
        this.#newsMs = this.#parts.clock.monotonic();
      },
      onEventId: (id) => {
        this.#cursor = id;
      },
    });
  }

  /** No longer than the answer may be asked for: a source of the app's may never give one. */
  #credential(rejected: Rejection | undefined): Promise<Credential> {
    const { clock, credential, signal, untilMs } = this.#parts;
    const leftMs = Math.max(0, untilMs(this.#openMs) - clock.monotonic());
    const onTimeout = () =>
      new HostedMcpError('ERR_CREDENTIAL_SOURCE', 'No credential came in the time there was', {
        retryable: true,
        reason: 'timeout',
      });
    return within(clock, credential(rejected), leftMs, onTimeout, signal);
  }

  /** Stays with one stream, or with one that took its place while it was silent, to its end. */
  async #follow(first: AnswerStream): Promise<{ stream: AnswerStream; facts: StreamFacts }> {
    let stream = first;
    this.#newsMs = this.#parts.clock.monotonic();
    for (;;) {
      const facts = await this.#endOrSilence(stream);
      if (facts !== undefined) return { stream, facts };
      this.#silences += 1;
      this.#newsMs = this.#parts.clock.monotonic();
      const beside = await this.#open().catch(() => undefined);
      if (beside === undefined) continue;
      const refusal = await Promise.race([beside.opened, beside.refused, stream.ended.then(() => undefined)]);
      if (stream.answered) {
        beside.abort();
        return { stream, facts: await stream.ended };
      }
      // A refusal leaves the open one in place: for the server it is open, too, until the answer has been sent on it.
      if (refusal === undefined || beside.answered) {
        stream.abort();
        stream = beside;
      }
    }
  }

  /** The facts of its end; undefined where it falls silent first. */
  async #endOrSilence(stream: AnswerStream): Promise<StreamFacts | undefined> {
    const { clock } = this.#parts;
    if (this.#silences >= MOST_WATCHES) return stream.ended;
    let timer: Timer | undefined;
    const silence = new Promise<undefined>((resolve) => {
      const look = () => {
        const lengthMs = SILENCES_MS[Math.min(this.#silences, SILENCES_MS.length - 1)] ?? 0;
        const quietMs = Math.max(this.#newsMs, stream.lastByteMs) + lengthMs;
        const leftMs = Math.min(quietMs, this.#newsMs + 2 * lengthMs) - clock.monotonic();
        if (leftMs <= 0) resolve(undefined);
        else timer = clock.setTimeout(look, leftMs);
      };
      look();
    });
    try {
      return await Promise.race([stream.ended, silence]);
    } finally {
      timer?.clear();
    }
  }

  /** How long until the next attempt; undefined where there is no need or no hope. */
  #next(stream: AnswerStream, facts: StreamFacts): number | undefined {
    const { clock, onCut } = this.#parts;
    if (stream.answered || isForGood(facts) || facts.damage !== undefined) return undefined;
    if (stream.isOpen) {
      // An error that names no request: the server has said all it will.
      if (facts.failure === undefined) return undefined;
      onCut(facts);
      this.#openMs = clock.monotonic();
      this.#failures = 0;
      this.#taken = 0;
      this.#renewed = false;
      this.#retryMs = facts.retryMs ?? this.#retryMs;
      this.#empty = stream.carried > 0 || stream.ageMs >= LIVED_MS ? 0 : this.#empty + 1;
      return this.#gapMs();
    }
    if (isTaken(facts)) {
      this.#taken += 1;
      return Math.max(this.#gapMs(), takenGapMs(clock, this.#taken));
    }
    if (isAway(facts)) {
      return this.#inVain(facts.retryAfterMs);
    }
    if (facts.status !== 401 || this.#renewed) return undefined;
    this.#renewed = true;
    this.#rejected = rejectionOf(stream.credential, facts);
    return 0;
  }

  #inVain(retryAfterMs = 0): number {
    const { clock } = this.#parts;
    this.#failures += 1;
    const backMs = backOffMs(clock, this.#failures, LONGEST_GAP_MS);
    return Math.max(this.#gapMs(), backMs, Math.min(retryAfterMs, LONGEST_HINT_MS));
  }

  #gapMs(): number {
    const isPolling = (this.#retryMs ?? 0) >= POLLING_PACE_MS;
    return reopenGapMs(this.#parts.clock, isPolling ? 0 : this.#empty, this.#retryMs, LONGEST_GAP_MS);
  }
}

/** One GET for the answer. */
class AnswerStream {
  readonly credential: Credential;
  readonly ended: Promise<StreamFacts>;
  /** Resolves with undefined when it is an event stream. */
  readonly opened: Promise<undefined>;
  /** Resolves when it has ended without being one, or with the answer. */
  readonly refused: Promise<StreamFacts | 'failed'>;
  readonly #clock: Clock;
  readonly #startedAtMs: number;
  #endedAtMs: number | undefined;
  #handle: ExchangeHandle | undefined;
  isOpen = false;
  answered = false;
  /** Messages that were new. */
  carried = 0;
  lastByteMs: number;

  constructor(
    parts: ResumeParts,
    credential: Credential,
    cursor: string,
    on: { onNews(): void; onEventId(id: string): void },
  ) {
    const { clock, wire } = parts;
    this.credential = credential;
    this.#clock = clock;
    this.#startedAtMs = clock.monotonic();
    this.lastByteMs = this.#startedAtMs;
    let settleOpened: (nothing: undefined) => void = () => {};
    this.opened = new Promise((resolve) => {
      settleOpened = resolve;
    });
    const ended = wire.stream({
      method: parts.method,
      session: parts.session,
      credential,
      toll: 'paid',
      cursor,
      expects: parts.id,
      seen: parts.seen,
      adopts: parts.adopts,
      signal: parts.signal,
      attach: (handle) => {
        this.#handle = handle;
      },
      onOpen: () => {
        this.isOpen = true;
        this.lastByteMs = clock.monotonic();
        settleOpened(undefined);
      },
      onBytes: () => {
        this.lastByteMs = clock.monotonic();
      },
      onMessage: (message) => {
        this.carried += 1;
        on.onNews();
        parts.onMessage(message);
      },
      onEventId: (id) => {
        on.onEventId(id);
        parts.onEventId?.(id);
      },
    });
    this.ended = ended.then((facts) => {
      this.#endedAtMs = clock.monotonic();
      this.answered = facts.message !== undefined && facts.relation === 'own';
      return facts;
    });
    // A stream beside another one may fail unheard.
    this.refused = this.ended.catch(() => 'failed');
  }

  get ageMs(): number {
    return (this.#endedAtMs ?? this.#clock.monotonic()) - this.#startedAtMs;
  }

  abort(): void {
    this.#handle?.abort();
  }
}
