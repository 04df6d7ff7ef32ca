/**
 * The ledger: of each request, whether it is queued, sent, refused or answered.
 *
 * Guarantees that `executed` on an error is read from here, never guessed by the step that failed, and
 * that a call ends exactly once, leaving no timer, listener or exchange behind. Never sends anything.
 */
import type { Clock, Timer } from '../clock.js';
import {
  type Executed,
  HostedMcpError,
  type HostedMcpErrorCode,
  type HostedMcpErrorFields,
} from '../errors.js';
import type { ExchangeHandle } from '../http/exchange.js';
import type { JsonRpcRequest, JsonRpcResponse, RequestId } from '../json-rpc.js';
import { toolOf } from '../json-rpc.js';
import { type Linked, LinkedSet } from '../linked-set.js';
import type { Session } from '../session/session.js';
import type { CallTrace } from './call-trace.js';
import { Deadlines } from './deadlines.js';
import type { GateRecord } from './gate-record.js';
import { LISTEN } from './outgoing.js';

export interface RequestOptions {
  /** Milliseconds on the monotonic clock at which the caller's own time is up; the caller's owner ends it. */
  readonly deadlineMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Takes up the response stream of an earlier request instead of sending this one. */
  readonly resumptionToken?: string | undefined;
  readonly onresumptiontoken?: ((token: string) => void) | undefined;
  /** The call keeps its caller's time and signal itself: told when one of them is up, to take the call back. */
  readonly takeBack?: ((call: Call, error: HostedMcpError) => void) | undefined;
  /** Stops the caller's own timer, where its owner can; what it gives starts it again. */
  readonly hold?: (() => () => void) | undefined;
  /** Told of the call before it begins its way. */
  readonly onCall?: ((call: Call) => void) | undefined;
  /** Asked by the connection itself, and no call of the agent's. */
  readonly isOwn?: boolean | undefined;
  /** Extra request headers of the SDK (later era). */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** One request of a caller, from the moment it was handed in to its end. */
export class Call implements Linked<Call> {
  previous: Call | undefined;
  next: Call | undefined;
  isLinked = false;
  readonly message: JsonRpcRequest;
  readonly options: RequestOptions;
  readonly tool: string | undefined;
  readonly startedAtMs: number;
  /** When its waits end, on the monotonic clock; its owner may move it. */
  deadlineMs: number;
  readonly promise: Promise<JsonRpcResponse>;
  /** Milliseconds it has waited, and for what. */
  readonly waits = { gatesMs: 0, sessionMs: 0, credentialMs: 0, rateMs: 0 };
  phase: 'queued' | 'sent' | 'answered' = 'queued';
  /** Times it left this process. */
  attempts = 0;
  /** Rounds it has made, the first included. */
  tries = 1;
  #roundsFor: Set<string> | undefined;
  /** Times it had to pay again, because its payment had become too old before it left. */
  heldBack = 0;
  /** The session it was last sent on. */
  session: Session | undefined;
  /** Where the app wants to know of it. */
  trace: CallTrace | undefined;
  /** Where gates or an audit look at it. */
  gates: GateRecord | undefined;
  /** The arguments a gate put in place of the caller's. */
  rewritten: Readonly<Record<string, unknown>> | undefined;
  /** The caller has taken it back itself and knows. */
  takenBack = false;
  ended = false;
  /** The answer that came on another stream than its own. */
  elsewhere: JsonRpcResponse | undefined;
  /** Ends the asking for its answer. */
  resumption: AbortController | undefined;
  /** An earlier try was neither refused nor answered: whatever befalls a later one, that may have run. */
  mayHaveRun = false;
  /** Where its time is kept, if it keeps it itself. */
  deadlines: Deadlines | undefined;
  readonly #clock: Clock;
  #resolve!: (message: JsonRpcResponse) => void;
  #reject!: (error: unknown) => void;
  #controller: AbortController | undefined;
  #error: unknown;
  #exchange: ExchangeHandle | undefined;
  #waitTimer: Timer | undefined;
  #holds = 0;
  #onEnd: ((call: Call, error: unknown) => void) | undefined;
  #removeListener: (() => void) | undefined;
  /** Made when somebody waits. */
  #waiting: Set<(error: unknown) => void> | undefined;

  constructor(
    message: JsonRpcRequest,
    options: RequestOptions,
    clock: Clock,
    maxWaitMs: number,
    onEnd: (call: Call, error: unknown) => void,
  ) {
    this.message = message;
    this.options = options;
    this.tool = toolOf(message);
    this.#clock = clock;
    this.startedAtMs = clock.monotonic();
    this.deadlineMs = options.deadlineMs ?? this.startedAtMs + maxWaitMs;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#onEnd = onEnd;
    const { signal } = options;
    if (signal !== undefined) {
      const onAbort = () => this.#giveUp('ERR_ABORTED', 'The caller gave the call up');
      if (signal.aborted) queueMicrotask(onAbort);
      else {
        signal.addEventListener('abort', onAbort, { once: true });
        this.#removeListener = () => signal.removeEventListener('abort', onAbort);
      }
    }
  }

  get clock(): Clock {
    return this.#clock;
  }
  get id(): RequestId {
    return this.message.id;
  }
  get method(): string {
    return this.message.method;
  }

  /** What is known of its outcome now. */
  get executed(): Executed {
    if (this.phase === 'queued') return this.mayHaveRun ? 'unknown' : false;
    return this.phase === 'sent' ? 'unknown' : true;
  }

  /** Ends with the call; made only when somebody has to wait. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.ended) this.#controller.abort(this.#error);
    return this.#controller.signal;
  }

  /** True once for each reason. */
  isFirstRoundFor(reason: string): boolean {
    this.#roundsFor ??= new Set();
    if (this.#roundsFor.has(reason)) return false;
    this.#roundsFor.add(reason);
    return true;
  }

  /** An error about this call, with the ledger's word on what happened to it. */
  error(code: HostedMcpErrorCode, what: string, fields: HostedMcpErrorFields = {}): HostedMcpError {
    return new HostedMcpError(code, what, {
      executed: this.executed,
      method: this.method,
      tool: this.tool,
      ...fields,
      ...(fields.executed === false && this.mayHaveRun && { executed: 'unknown' as const }),
    });
  }

  /** Waits for `promise`, but no longer than the caller's time; a queued call whose time is up did not run. */
  waitFor<T>(promise: Promise<T>, what: string): Promise<T> {
    if (this.ended) {
      promise.catch(() => {});
      return Promise.reject(this.#error);
    }
    if (this.options.deadlineMs === undefined) this.#armWait(what);
    return new Promise<T>((resolve, reject) => {
      this.#waiting ??= new Set();
      const waiting = this.#waiting;
      waiting.add(reject);
      promise.then(
        (value) => {
          waiting.delete(reject);
          resolve(value);
        },
        (error) => {
          waiting.delete(reject);
          reject(error);
        },
      );
    });
  }

  /** Stops the caller's time; what it gives starts it again. */
  hold(): () => void {
    const { hold, takeBack } = this.options;
    if (hold !== undefined) return hold();
    if (takeBack === undefined) return () => {};
    const heldAtMs = this.#clock.monotonic();
    this.#holds += 1;
    return () => {
      this.#holds -= 1;
      this.deadlineMs += this.#clock.monotonic() - heldAtMs;
      this.deadlines?.moved(this);
    };
  }

  /** Its caller's time is its own to keep, and runs. */
  get keepsTime(): boolean {
    return this.options.takeBack !== undefined && !this.ended && this.#holds === 0;
  }

  timeIsUp(): void {
    const forMs = Math.round(this.#clock.monotonic() - this.startedAtMs);
    this.#giveUp('ERR_TIMEOUT', `No answer within ${forMs} ms`);
  }

  /** The exchange that carries it; ended with the call. */
  attach(exchange: ExchangeHandle | undefined): void {
    this.#exchange = exchange;
    if (this.ended) exchange?.abort();
  }

  /** Its answer came on another stream than its own: what carries it ends, and its way goes on with the answer. */
  answeredElsewhere(message: JsonRpcResponse): void {
    if (this.ended || this.phase !== 'sent' || this.elsewhere !== undefined) return;
    this.elsewhere = message;
    this.#exchange?.abort();
    this.resumption?.abort();
  }

  /** The moment before bytes leave. */
  markSent(session: Session | undefined): void {
    this.phase = 'sent';
    this.attempts += 1;
    this.session = session;
    this.#waitTimer?.clear();
    this.#waitTimer = undefined;
  }

  /** It is to go out once more. */
  tryAgain(): void {
    this.mayHaveRun ||= this.phase === 'sent';
  }

  /** The server refused it before processing: it is as if this try had never left. */
  markRefused(): void {
    if (this.phase === 'sent') this.phase = 'queued';
  }

  succeed(message: JsonRpcResponse): void {
    if (this.ended) return;
    this.phase = 'answered';
    this.#finish(undefined);
    this.#resolve(message);
  }

  /** Rejects the caller; whatever is under way for it ends. */
  fail(error: unknown): void {
    if (this.ended) return;
    this.#finish(error);
    this.#exchange?.abort();
    this.#reject(error);
  }

  /** Where nobody else holds the caller's time, a wait ends by this timer. */
  #armWait(what: string): void {
    this.#waitTimer ??= this.#clock.setTimeout(
      () =>
        this.fail(
          this.error('ERR_TIMEOUT', `The time was up while the call waited for ${what}`, { retryable: true }),
        ),
      Math.max(0, this.deadlineMs - this.#clock.monotonic()),
    );
  }

  #giveUp(code: 'ERR_TIMEOUT' | 'ERR_ABORTED', what: string): void {
    const { takeBack } = this.options;
    if (takeBack === undefined) this.fail(this.error(code, what));
    else takeBack(this, this.error(code, what, { retryable: true }));
  }

  #finish(error: unknown): void {
    this.ended = true;
    this.#error = error;
    this.#waitTimer?.clear();
    this.#removeListener?.();
    if (error !== undefined) {
      this.#controller?.abort(error);
      for (const reject of this.#waiting ?? []) reject(error);
    }
    this.#onEnd?.(this, error);
    this.#onEnd = undefined;
  }
}

/** With more calls than these, one is looked up by an index. */
const MOST_LOOKED_THROUGH = 32;

/** All calls that have not ended. */
export class Ledger {
  readonly #calls = new LinkedSet<Call>();
  readonly #standing = new Set<Call>();
  /** Made when one is asked for by its id among many, and dropped when there are none: few ever are. */
  #byId: Map<RequestId, Call> | undefined;
  #deadlines: Deadlines | undefined;
  #isClosed = false;
  /** Told of each call before it begins its way. */
  onAdd: ((call: Call) => void) | undefined;

  get size(): number {
    return this.#calls.size;
  }
  /** Those that somebody waits for: a subscription may stand for days. */
  get waiting(): number {
    return this.#calls.size - this.#standing.size;
  }
  add(call: Call): void {
    this.#calls.add(call);
    this.#byId?.set(call.id, call);
    if (call.method === LISTEN) this.#standing.add(call);
    if (call.keepsTime && !this.#isClosed) {
      this.#deadlines ??= new Deadlines(call.clock, this);
      call.deadlines = this.#deadlines;
      call.deadlines.add(call);
    }
    this.onAdd?.(call);
  }
  /** The latest of that id. */
  get(id: unknown): Call | undefined {
    if (typeof id !== 'string' && typeof id !== 'number') return undefined;
    if (this.#byId === undefined && this.#calls.size <= MOST_LOOKED_THROUGH)
      return this.all().findLast((call) => call.id === id);
    this.#byId ??= new Map(this.all().map((call) => [call.id, call]));
    return this.#byId.get(id);
  }
  remove(call: Call): void {
    this.#standing.delete(call);
    this.#calls.delete(call);
    if (this.#byId?.get(call.id) === call) this.#byId.delete(call.id);
    if (this.#calls.size === 0) this.#byId = undefined;
    call.deadlines?.remove();
    call.deadlines = undefined;
  }
  /** No timer is left, and none is made any more. */
  close(): void {
    this.#isClosed = true;
    this.#deadlines?.close();
  }
  /** A copy: the calls may end while it is walked. */
  all(): Call[] {
    return this.#calls.all();
  }
  /** An answer that came on the session's own stream: for the call that waits for it there, if any does. */
  answered(message: JsonRpcResponse, session: Session): void {
    const call = this.get(message.id);
    if (call?.session === session) call.answeredElsewhere(message);
  }
  /** Calls that have left on a session and have no answer yet. */
  sentOn(session: Session): Call[] {
    return this.all().filter((call) => call.session === session && call.phase === 'sent');
  }
}
