/**
 * Keeps one usable session: opens it, tells whether it is lost, replaces it.
 *
 * Guarantees that however many callers meet a loss there is one handshake; that the old session is given
 * up only when the new one stands; and that whatever arrives late is released, not used. Never re-sends a
 * call: it only says on which session the next one may go.
 */
import { type Clock, fullJitter } from '../clock.js';
import { withRetries } from '../connection/retry.js';
import type { Wire } from '../connection/wire.js';
import type { Credential, CredentialProvider } from '../credentials/provider.js';
import { HostedMcpError } from '../errors.js';
import type { JsonRpcMessage, JsonRpcRequest } from '../json-rpc.js';
import { Breaker } from './breaker.js';
import { Handshake } from './handshake.js';
import type { ResolvedSessionOptions } from './options.js';
import { probe } from './probe.js';
import type { Session } from './session.js';

export type ConnectionState =
  | 'idle'
  | 'connecting'
  | 'ready'
  | 'recovering'
  | 'unstable'
  | 'blocked'
  | 'closed';

/** Why a session was replaced or lost: by our own change of credential, or by the server. */
export type LossCause = 'server' | 'credential';

export interface KeeperParts {
  readonly clock: Clock;
  readonly wire: Wire;
  readonly credentials: CredentialProvider;
  readonly target: URL;
  readonly options: ResolvedSessionOptions;
  readonly maxAttempts: number;
  readonly maxElapsedMs: number;
  onState(state: ConnectionState, previous: ConnectionState, error?: HostedMcpError): void;
  onMessage(message: JsonRpcMessage, session: Session | undefined): void;
  /** Before waiting calls go out: puts back what the old session had, then the app's own set-up. */
  setUp(session: Session, previous: Session | undefined, reason: string, signal: AbortSignal): Promise<void>;
  onEstablished(session: Session, previous: Session | undefined, reason: string): void;
  onSuspect(session: Session, reason: string): void;
  onLost(session: Session, reason: string, cause: LossCause): void;
}

/** Which states may follow which; everything else is a late arrival. */
const NEXT: Readonly<Record<ConnectionState, readonly ConnectionState[]>> = Object.freeze({
  idle: ['connecting', 'recovering', 'ready', 'closed'],
  connecting: ['ready', 'idle', 'unstable', 'blocked', 'closed'],
  ready: ['recovering', 'idle', 'unstable', 'blocked', 'closed'],
  recovering: ['ready', 'idle', 'recovering', 'unstable', 'blocked', 'closed'],
  unstable: ['recovering', 'closed'],
  blocked: ['connecting', 'recovering', 'closed'],
  closed: [],
});

/** After this long without news, one refused request may ask again whether the session lives. */
const ACQUITTAL_MS = 5_000;
const SUSPECTS_IN_ROW = 3;
/** A failed set-up is tried once more on a new session. */
const SET_UP_TRIES = 2;

export class SessionKeeper {
  readonly #parts: KeeperParts;
  readonly #handshake: Handshake;
  readonly #breaker: Breaker;
  readonly #ended = new AbortController();
  #state: ConnectionState = 'idle';
  #session: Session | undefined;
  #opening: Promise<Session> | undefined;
  #initialize: JsonRpcRequest | undefined;
  /** Sessions that have stood; the next one's number is one more. */
  #stood = 0;
  #probes = 0;
  #probing:
    | { session: Session; generation: number; answer: Promise<'alive' | 'refused' | 'undecided'> }
    | undefined;
  #rest: { untilMs: number; error: HostedMcpError } | undefined;
  #failure: HostedMcpError | undefined;
  /** Learned: this server ties a session to the token that opened it. */
  #bound: boolean;
  /** Learned: a ping on a healthy session is refused here. */
  #probeUseless = false;
  #probeAccepted = false;
  /** The session that took the place of one given up on a ping's or three suspects' word. */
  #bornOfDoubt: Session | undefined;
  sinceMs: number;

  constructor(parts: KeeperParts) {
    this.#parts = parts;
    this.#handshake = new Handshake(parts);
    this.#breaker = new Breaker(parts.clock);
    this.#bound = parts.options.boundToToken === true;
    this.sinceMs = parts.clock.now();
  }

  get state(): ConnectionState {
    return this.#state;
  }
  get session(): Session | undefined {
    return this.#session;
  }
  get failure(): HostedMcpError | undefined {
    return this.#state === 'unstable' ? this.#rest?.error : this.#failure;
  }
  get captured(): boolean {
    return this.#initialize !== undefined;
  }

  /** What every handshake of this connection will say. */
  capture(initialize: JsonRpcRequest): void {
    this.#initialize = initialize;
  }

  /** Takes up a session of before a restart; it is believed until a server says otherwise. */
  resume(id: string, protocolVersion: string, credential: Credential): Session {
    const session = this.#handshake.resume(id, protocolVersion, credential, ++this.#stood);
    this.#session = session;
    this.#move('ready');
    return session;
  }

  /** The session that a call may go out on now, or a promise of it. */
  ready(): Session | Promise<Session> {
    if (this.#opening !== undefined) return this.#opening;
    if (this.#session !== undefined) return this.#session;
    if (this.#state === 'closed') throw closedError();
    if (this.#state === 'unstable' && this.#rest !== undefined) {
      const leftMs = this.#rest.untilMs - this.#parts.clock.monotonic();
      if (leftMs > 0) throw unstableError(this.#rest.error.reason ?? '', leftMs);
    }
    return this.#open(this.#stood === 0 ? 'first session' : 'no session stands');
  }

  /** Whether `credential` may be used on `session`: at once where it was, else after one shared probe or a new session. */
  verify(session: Session, credential: Credential): undefined | Promise<unknown> {
    if (!session.hasId || session.acceptedGeneration === credential.generation || session !== this.#session)
      return undefined;
    // An older credential than the session's cannot be news.
    if (credential.generation < session.acceptedGeneration) return undefined;
    if (this.#bound) return this.#replace(session, 'the session is bound to the token it was opened with');
    const { boundToToken, probe: how } = this.#parts.options;
    if (boundToToken === false || how === 'off' || this.#probeUseless) return undefined;
    return this.#ask(session, credential).then((verdict) => {
      if (verdict !== 'refused') {
        // Undecided: the session stays, and the next call's own answer will tell.
        if (session.acceptedGeneration < credential.generation)
          session.acceptedGeneration = credential.generation;
        return undefined;
      }
      if (session === this.#session && boundToToken === 'detect') this.#bound = true;
      return this.#replace(session, 'the session did not survive a change of token');
    });
  }

  /** A suspect answer: one ping, or three in a row, decide. */
  async decide(
    session: Session,
    credential: Credential,
    strong: boolean,
    reason: string,
  ): Promise<'lost' | 'kept'> {
    if (session !== this.#session) return session.phase === 'ended' ? 'lost' : 'kept';
    session.suspects += 1;
    this.#parts.onSuspect(session, reason);
    const doubtful = session === this.#bornOfDoubt && session.answered === 0;
    if (session.suspects >= SUSPECTS_IN_ROW && !doubtful) {
      this.#giveUpOnDoubt(session, reason);
      return 'lost';
    }
    if (this.#parts.clock.monotonic() < session.acquittedUntilMs) return 'kept';
    if (this.#parts.options.probe === 'off' || this.#probeUseless) {
      if (!strong || doubtful) return 'kept';
      this.#giveUpOnDoubt(session, reason);
      return 'lost';
    }
    const verdict = await this.#ask(session, credential);
    if (session !== this.#session) return session.phase === 'ended' ? 'lost' : 'kept';
    if (verdict !== 'refused') return 'kept';
    if (doubtful && !this.#probeAccepted) {
      // Refused on the fresh session as on the old one: here, a ping says nothing.
      this.#probeUseless = true;
      return 'kept';
    }
    this.#giveUpOnDoubt(session, reason);
    return 'lost';
  }

  /** The server does not know the session. `tentative`: it is kept should no new one be had. */
  lost(session: Session, reason: string, tentative: boolean): void {
    if (session !== this.#session || this.#state === 'closed') return;
    if (!tentative) this.#drop(session, reason);
    if (this.#opening === undefined && this.#state !== 'unstable') {
      this.#open(reason, tentative ? session : undefined).catch(() => {});
    }
  }

  /** A call was answered on the session under this credential. */
  succeeded(session: Session, credential: Credential): void {
    session.answered += 1;
    session.suspects = 0;
    if (session.answered === 1) this.#breaker.useful();
    if (session.acceptedGeneration <= credential.generation) {
      session.acceptedGeneration = credential.generation;
      session.credential = credential;
    }
  }

  /** The agent rests: nothing is kept open; the next call opens again. */
  rest(): Session | undefined {
    const session = this.#session;
    if (this.#opening !== undefined || session === undefined || !this.#move('idle')) return undefined;
    this.#session = undefined;
    session.phase = 'ended';
    return session;
  }

  /** No session from here on; gives the one that stood, for a DELETE. */
  close(): Session | undefined {
    const session = this.#session;
    if (!this.#move('closed')) return undefined;
    this.#session = undefined;
    if (session !== undefined) session.phase = 'ended';
    this.#ended.abort(closedError());
    return session;
  }

  #giveUpOnDoubt(session: Session, reason: string): void {
    this.#drop(session, reason);
    const opening = this.#opening ?? this.#open(reason);
    opening.then(
      (fresh) => {
        this.#bornOfDoubt = fresh;
      },
      () => {},
    );
  }

  /** Make before break: the old session serves what is under way on it, and is retired when the new one stands. */
  #replace(session: Session, reason: string): Promise<Session> {
    if (this.#opening !== undefined) return this.#opening;
    if (this.#session !== session) return Promise.resolve(this.ready());
    return this.#open(reason, session, 'credential');
  }

  #drop(session: Session, reason: string): void {
    if (this.#session !== session) return;
    this.#session = undefined;
    session.phase = 'ended';
    this.#parts.onLost(session, reason, 'server');
    const restMs = this.#breaker.lost(session.answered);
    if (restMs !== undefined) this.#unstable(reason, restMs);
  }

  #unstable(reason: string, restMs: number): void {
    this.#rest = { untilMs: this.#parts.clock.monotonic() + restMs, error: unstableError(reason, restMs) };
    this.#move('unstable', this.#rest.error);
  }

  #ask(session: Session, credential: Credential): Promise<'alive' | 'refused' | 'undecided'> {
    const running = this.#probing;
    if (running !== undefined && running.session === session && running.generation === credential.generation)
      return running.answer;
    const method = this.#parts.options.probe === 'tools/list' ? 'tools/list' : 'ping';
    const answer = probe(
      session,
      credential,
      method,
      { ...this.#parts, signal: this.#ended.signal },
      `holdfast-probe-${++this.#probes}`,
    ).then(
      ({ verdict }) => {
        if (verdict === 'alive') {
          this.#probeAccepted = true;
          session.acquittedUntilMs = this.#parts.clock.monotonic() + ACQUITTAL_MS;
          if (session.acceptedGeneration <= credential.generation) {
            session.acceptedGeneration = credential.generation;
            session.credential = credential;
          }
        }
        return verdict;
      },
      () => 'undecided' as const,
    );
    const asked = { session, generation: credential.generation, answer };
    this.#probing = asked;
    answer.finally(() => {
      if (this.#probing === asked) this.#probing = undefined;
    });
    return answer;
  }

  /** One opening for all callers. `kept` stays in service until the new session stands. */
  #open(reason: string, kept?: Session, cause: LossCause = 'server'): Promise<Session> {
    if (this.#opening !== undefined) return this.#opening;
    if (!this.#move(this.#stood === 0 ? 'connecting' : 'recovering')) return Promise.reject(closedError());
    const opening = this.#establish(reason, kept)
      .then(
        (session) => this.#install(session, kept, reason, cause),
        (error: unknown) => this.#failed(error, kept),
      )
      .finally(() => {
        if (this.#opening === opening) this.#opening = undefined;
      });
    this.#opening = opening;
    opening.catch(() => {});
    return opening;
  }

  async #establish(reason: string, previous: Session | undefined): Promise<Session> {
    const { clock, maxAttempts, maxElapsedMs } = this.#parts;
    const initialize = this.#initialize;
    if (initialize === undefined)
      throw new HostedMcpError('ERR_PROTOCOL', 'Nothing was said yet of how to open a session');
    const { signal } = this.#ended;
    const untilMs = clock.monotonic() + maxElapsedMs;
    for (let setUps = 1; ; setUps += 1) {
      const session = await withRetries(() => this.#handshake.open(initialize, this.#stood + 1, signal), {
        clock,
        signal,
        attempts: Math.max(3, maxAttempts),
        untilMs,
        again: (error) =>
          HostedMcpError.isInstance(error) && error.retryable && error.code !== 'ERR_RATE_LIMITED',
        delayMs: (attempt) => fullJitter(clock, attempt, 250, 5_000),
      });
      try {
        await this.#parts.setUp(session, previous, reason, signal);
        return session;
      } catch (error) {
        session.phase = 'ended';
        this.#discard(session);
        if (signal.aborted) throw signal.reason;
        if (setUps >= SET_UP_TRIES) throw new SetUpFailed(error);
      }
    }
  }

  #install(session: Session, kept: Session | undefined, reason: string, cause: LossCause): Session {
    const previous = kept ?? this.#session;
    const restMs = kept !== undefined && cause === 'server' ? this.#breaker.lost(kept.answered) : undefined;
    if (restMs !== undefined) {
      this.#discard(session);
      if (kept !== undefined) kept.phase = 'ended';
      this.#session = undefined;
      this.#unstable(reason, restMs);
      throw unstableError(reason, restMs);
    }
    if (!this.#move('ready')) {
      this.#discard(session);
      throw closedError();
    }
    this.#stood = session.number;
    this.#session = session;
    this.#failure = undefined;
    this.#rest = undefined;
    if (previous !== undefined && previous.phase === 'current') {
      previous.phase = cause === 'credential' ? 'retired' : 'ended';
      this.#parts.onLost(previous, reason, cause);
    }
    this.#parts.onEstablished(session, previous, reason);
    return session;
  }

  #failed(error: unknown, kept: Session | undefined): never {
    const failure = HostedMcpError.isInstance(error)
      ? error
      : new HostedMcpError('ERR_PROTOCOL', 'No session could be opened', { cause: error });
    if (this.#state === 'closed') throw closedError();
    if (this.#state === 'unstable') throw failure;
    this.#failure = failure;
    if (kept !== undefined && this.#session === kept) {
      // The old session may still be good: the next call will tell.
      this.#move('ready');
    } else if (error instanceof SetUpFailed) {
      this.#unstable(failure.reason ?? 'the set-up of the session failed', 5_000);
    } else if (
      failure.code === 'ERR_REAUTHORIZATION_REQUIRED' ||
      failure.code === 'ERR_CREDENTIAL_REJECTED'
    ) {
      this.#move('blocked', failure);
    } else if (failure.code === 'ERR_SESSION_LOST') {
      const restMs = this.#breaker.lost(0);
      if (restMs === undefined) this.#move('idle', failure);
      else this.#unstable('the server forgets sessions within the handshake', restMs);
    } else {
      this.#move('idle', failure);
    }
    throw failure;
  }

  #discard(session: Session): void {
    const { wire } = this.#parts;
    wire.delete({ session, credential: session.credential, onMessage: () => {} }).catch(() => {});
  }

  #move(to: ConnectionState, error?: HostedMcpError): boolean {
    const from = this.#state;
    if (!NEXT[from].includes(to)) return false;
    this.#state = to;
    if (from !== to) {
      this.sinceMs = this.#parts.clock.now();
      this.#parts.onState(to, from, error);
    }
    return true;
  }
}

/** The app's own set-up threw or did not end in time, twice. */
class SetUpFailed extends HostedMcpError {
  constructor(cause: unknown) {
    const known = HostedMcpError.isInstance(cause) ? cause.reason : undefined;
    super('ERR_SESSION_UNSTABLE', 'The set-up of the session (session.onEstablished) failed', {
      retryable: true,
      retryAfterMs: 5_000,
      reason: known ?? 'onEstablished threw',
      cause,
    });
  }
}

function closedError(): HostedMcpError {
  return new HostedMcpError('ERR_CLOSED', 'The connection was ended here');
}

function unstableError(reason: string, restMs: number): HostedMcpError {
  return new HostedMcpError(
    'ERR_SESSION_UNSTABLE',
    'Sessions do not last here: either requests reach different nodes without session affinity, or the server restarts in a loop',
    { retryable: true, retryAfterMs: Math.ceil(restMs), reason },
  );
}
