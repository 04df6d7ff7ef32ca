/**
 * Keeps one usable session: opens it, tells whether it is lost, replaces it.
 *
 * Guarantees that however many callers meet a loss there is one handshake; that the old session is given
 * up only when the new one stands; and that whatever arrives late is released, not used. Never re-sends a call.
 */
import { fullJitter, untilAborted } from '../clock.js';
import { withRetries } from '../connection/retry.js';
import type { Credential } from '../credentials/provider.js';
import { HostedMcpError } from '../errors.js';
import type { JsonRpcRequest } from '../json-rpc.js';
import { Breaker } from './breaker.js';
import { closedError, SetUpFailed, unstableError } from './failures.js';
import { Handshake } from './handshake.js';
import type { KeeperParts, LossCause, Suspicion } from './keeper-parts.js';
import { Prober } from './probe.js';
import { Releases } from './release.js';
import type { Session } from './session.js';
import { type ConnectionState, StateMachine } from './state.js';

const SUSPECTS_IN_ROW = 3;
/** One session may have been lost in the same think-time by chance. */
const DEATHS_TO_LEARN_FROM = 2;
/** A failed set-up is tried once more on a new session. */
const SET_UP_TRIES = 2;
/** No further try helps until somebody has seen to the credential. */
const BLOCKING: ReadonlySet<string> = new Set(['ERR_REAUTHORIZATION_REQUIRED', 'ERR_CREDENTIAL_REJECTED']);

export class SessionKeeper {
  readonly releases: Releases;
  readonly #parts: KeeperParts;
  readonly #handshake: Handshake;
  readonly #breaker: Breaker;
  readonly #machine: StateMachine;
  readonly #prober: Prober;
  readonly #ended = new AbortController();
  #session: Session | undefined;
  /** The one that stood last, until the agent rests: what the next one takes the place of. */
  #last: Session | undefined;
  #opening: Promise<Session> | undefined;
  #initialize: JsonRpcRequest | undefined;
  #hasStood = false;
  /** The last number given out: a session whose set-up failed keeps its own. */
  #numbered = 0;
  #rest: { untilMs: number; error: HostedMcpError } | undefined;
  #failure: HostedMcpError | undefined;
  /** Learned: this server ties a session to the token that opened it. */
  #bound: boolean;
  /** Sessions in a row that did not survive a change of token. */
  #diedOfChange = 0;
  /** Sessions given up on a ping's word. */
  #givenUpOnPing = 0;
  /** The session that took the place of one given up on a ping's or three suspects' word. */
  #bornOfDoubt: Session | undefined;
  /** The next session will be such a one. */
  #inDoubt = false;

  constructor(parts: KeeperParts) {
    this.#parts = parts;
    this.releases = new Releases(parts);
    this.#handshake = new Handshake({ ...parts, releases: this.releases });
    this.#breaker = new Breaker(parts.clock);
    this.#prober = new Prober({ ...parts, method: parts.options.probe, signal: this.#ended.signal });
    this.#bound = parts.options.boundToToken === true;
    this.#machine = new StateMachine(parts.clock, parts.onState);
  }

  get state(): ConnectionState {
    return this.#machine.state;
  }
  get sinceMs(): number {
    return this.#machine.sinceMs;
  }
  get session(): Session | undefined {
    return this.#session;
  }
  get failure(): HostedMcpError | undefined {
    return this.state === 'unstable' ? this.#rest?.error : this.#failure;
  }
  get captured(): boolean {
    return this.#initialize !== undefined;
  }

  /** What every handshake of this connection will say. */
  capture(initialize: JsonRpcRequest): void {
    this.#initialize = initialize;
    // The Client has chosen the earlier era after all.
    if (this.#session?.info.era === 'stateless') this.#session = undefined;
  }

  /** The server needs no session (2026-07-28): what stands from here on is only what is known of it. */
  adopt(make: (number: number) => Session): void {
    if (this.state === 'closed' || this.#opening !== undefined) return;
    const previous = this.#session;
    this.#stands(this.#take(make(this.#numbered + 1)), previous, 'the server needs no session', 'credential');
  }

  /** Takes up a session of before a restart; it is believed until a server says otherwise. */
  resume(id: string, protocolVersion: string, credential: Credential): Session {
    return this.#take(this.#handshake.resume(id, protocolVersion, credential, this.#numbered + 1));
  }

  /** The session that a call may go out on now, or a promise of it. */
  ready(): Session | Promise<Session> {
    if (this.#opening !== undefined) return this.#opening;
    if (this.#session !== undefined) return this.#session;
    if (this.state === 'closed') throw closedError();
    if (this.state === 'unstable' && this.#rest !== undefined) {
      const leftMs = this.#rest.untilMs - this.#parts.clock.monotonic();
      if (leftMs > 0) throw unstableError(this.#rest.error.reason ?? '', leftMs);
    }
    return this.#open(this.#hasStood ? 'no session stands' : 'first session');
  }

  /** Whether `credential` may be used on `session`: at once where it was, else after one shared probe or a new session. */
  verify(session: Session, credential: Credential): undefined | Promise<unknown> {
    if (!session.isNamed || session.acceptedGeneration === credential.generation || session !== this.#session)
      return undefined;
    // An older credential than the session's cannot be news.
    if (credential.generation < session.acceptedGeneration) return undefined;
    if (this.#bound) return this.#replace(session, 'the session is bound to the token it was opened with');
    if (this.#parts.options.boundToToken === false || !this.#prober.isOfUse) return undefined;
    return this.#prober.ask(session, credential).then((verdict) => {
      if (verdict !== 'refused') {
        if (verdict === 'alive') this.#diedOfChange = 0;
        // Undecided: the session stays, and the next call's own answer will tell.
        session.acceptedGeneration = Math.max(session.acceptedGeneration, credential.generation);
        return undefined;
      }
      return this.#replaceAfterChange(session);
    });
  }

  /** A suspect answer: one ping, or three in a row, decide. */
  async decide(
    session: Session,
    credential: Credential,
    { strong, reason, otherwise }: Suspicion,
  ): Promise<'lost' | 'kept'> {
    if (session !== this.#session) return session.phase === 'ended' ? 'lost' : 'kept';
    // An answer that does not speak of the session may be a caller's mistake, however often: there only a ping counts.
    if (strong || otherwise.kind !== 'answer') session.suspects += 1;
    this.#parts.onSuspect(session, reason);
    const untried = session === this.#bornOfDoubt && session.answered === 0;
    // Its own layer names the session, on a fresh one again: another node than the one that answers pings.
    const named = strong && otherwise.kind !== 'answer';
    const doubtful = untried && !named;
    if ((session.suspects >= SUSPECTS_IN_ROW && !doubtful) || (untried && named)) {
      this.#giveUpOnDoubt(session, reason, named);
      return 'lost';
    }
    if (this.#parts.clock.monotonic() < session.acquittedUntilMs) return 'kept';
    if (!this.#prober.isOfUse) {
      if (!strong || doubtful) return 'kept';
      this.#giveUpOnDoubt(session, reason, named);
      return 'lost';
    }
    const verdict = await this.#prober.ask(session, credential);
    if (session !== this.#session) return session.phase === 'ended' ? 'lost' : 'kept';
    if (verdict !== 'refused') return 'kept';
    if (doubtful && this.#prober.refusedOnFresh()) return 'kept';
    const opening = this.#giveUpOnDoubt(session, reason, true);
    // Twice on the word of pings of which none was ever answered: are they worth anything?
    if (++this.#givenUpOnPing > 1) this.#calibrate(opening);
    return 'lost';
  }

  /** Whether the server itself says that it takes this credential: one shared probe, or one answered just now. */
  async accepts(session: Session, credential: Credential): Promise<boolean> {
    if (session.info.era === 'stateless') return false;
    const isRecent = this.#parts.clock.monotonic() < session.acquittedUntilMs;
    if (isRecent && session.acceptedGeneration === credential.generation) return true;
    return this.#prober.isOfUse && (await this.#prober.ask(session, credential)) === 'alive';
  }

  /**
   * The server does not know the session, or the stream that carried it is gone. `tentative`: it is kept should no
   * new one be had. `counts`: it says something against the server. `opens`: the next one stands before it is wanted.
   */
  lost(session: Session, reason: string, tentative: boolean, { counts = true, opens = true } = {}): void {
    if (session !== this.#session || this.state === 'closed') return;
    session.isForgotten = !tentative;
    if (!tentative) this.#drop(session, reason, counts);
    if (this.#opening !== undefined || this.state === 'unstable') return;
    if (opens) this.#open(reason, tentative ? session : undefined).catch(() => {});
    else this.#machine.move('idle');
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
    if (this.#opening !== undefined || session === undefined || session.info.era === 'stateless')
      return undefined;
    if (!this.#machine.move('idle')) return undefined;
    this.#session = undefined;
    this.#last = undefined;
    session.phase = 'ended';
    return session;
  }

  /** No session from here on; gives the one that stood, for a DELETE. `listens`: there is time for one that is being opened. */
  close(listens: boolean): Session | undefined {
    const session = this.#session;
    if (!this.#machine.move('closed')) return undefined;
    this.#session = undefined;
    if (session !== undefined) session.phase = 'ended';
    this.releases.close(listens);
    this.#ended.abort(closedError());
    return session;
  }

  /** After `close()`: when all that was being opened or deleted has come to its end. */
  released(): Promise<void> {
    return this.releases.settled(this.#opening);
  }

  /** A session that nobody had to open. */
  #take(session: Session): Session {
    this.#numbered = session.number;
    this.#hasStood = true;
    this.#session = session;
    this.#last = session;
    this.#machine.move('ready');
    return session;
  }

  /** `isSaid`: the server itself has said it, and not only failed again and again. */
  #giveUpOnDoubt(session: Session, reason: string, isSaid: boolean): Promise<Session> | undefined {
    session.isForgotten = isSaid;
    this.#drop(session, reason);
    this.#inDoubt = true;
    return this.#opening ?? (this.state === 'unstable' ? undefined : this.#open(reason));
  }

  /**
   * The new token was refused with the session: it may be bound to the old one, or gone with a deploy, or pings may
   * say nothing here. Once proves nothing and costs nobody a further question; the second time it is settled.
   */
  #replaceAfterChange(session: Session): Promise<Session> {
    const isFirstToKnow = session === this.#session && this.#opening === undefined;
    const replaced = this.#replace(session, 'the session did not survive a change of token');
    if (isFirstToKnow && ++this.#diedOfChange >= DEATHS_TO_LEARN_FROM) void this.#learn(replaced);
    return replaced;
  }

  async #learn(replaced: Promise<Session>): Promise<void> {
    await this.#calibrate(replaced);
    if (this.#prober.isOfUse) this.#bound ||= this.#parts.options.boundToToken === 'detect';
  }

  /** Asks a fresh session: one that refuses, too, proves that pings say nothing here. */
  async #calibrate(opening: Promise<Session> | undefined): Promise<void> {
    if (this.#prober.wasAccepted) return;
    const fresh = await opening?.catch(() => undefined);
    if (fresh === undefined) return;
    if ((await this.#prober.ask(fresh, fresh.credential)) === 'refused') this.#prober.refusedOnFresh();
  }

  /** Make before break: the old session serves what is under way on it, and is retired when the new one stands. */
  #replace(session: Session, reason: string): Promise<Session> {
    if (this.#opening !== undefined) return this.#opening;
    if (this.#session !== session) return Promise.resolve(this.ready());
    return this.#open(reason, session, 'credential');
  }

  #drop(session: Session, reason: string, counts = true): void {
    if (this.#session !== session) return;
    this.#session = undefined;
    session.phase = 'ended';
    this.#parts.onLost(session, reason, 'server');
    const restMs = counts ? this.#breaker.lost(session.answered) : undefined;
    if (restMs !== undefined) this.#unstable(reason, restMs);
  }

  #unstable(reason: string, restMs: number): void {
    this.#rest = { untilMs: this.#parts.clock.monotonic() + restMs, error: unstableError(reason, restMs) };
    this.#machine.move('unstable', this.#rest.error);
  }

  /** One opening for all callers. `kept` stays in service until the new session stands. */
  #open(reason: string, kept?: Session, cause: LossCause = 'server'): Promise<Session> {
    if (this.#opening !== undefined) return this.#opening;
    if (!this.#machine.move(this.#hasStood ? 'recovering' : 'connecting'))
      return Promise.reject(closedError());
    const opening = this.#establish(reason)
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

  async #establish(reason: string): Promise<Session> {
    const { clock, maxAttempts, maxElapsedMs } = this.#parts;
    const initialize = this.#initialize;
    if (initialize === undefined)
      throw new HostedMcpError('ERR_PROTOCOL', 'Nothing was said yet of how to open a session');
    const { signal } = this.#ended;
    const untilMs = clock.monotonic() + maxElapsedMs;
    for (let setUps = 1; ; setUps += 1) {
      const number = this.#numbered + 1;
      const open = (attempt: number) => this.#handshake.open(initialize, number, signal, attempt, untilMs);
      const session = await withRetries(open, {
        clock,
        signal,
        attempts: Math.max(3, maxAttempts),
        untilMs,
        again: (error) =>
          HostedMcpError.isInstance(error) && error.retryable && error.code !== 'ERR_RATE_WAIT_EXCEEDED',
        delayMs: (attempt) => fullJitter(clock, attempt, 250, 5_000),
      });
      this.#numbered = number;
      try {
        await untilAborted(this.#parts.setUp(session, this.#last, reason, signal), signal);
        return session;
      } catch (error) {
        this.releases.release(session);
        if (signal.aborted) throw signal.reason;
        if (setUps >= SET_UP_TRIES) throw new SetUpFailed(error);
      }
    }
  }

  #install(session: Session, kept: Session | undefined, reason: string, cause: LossCause): Session {
    const previous = this.#last;
    const restMs = kept !== undefined && cause === 'server' ? this.#breaker.lost(kept.answered) : undefined;
    if (restMs !== undefined) {
      this.releases.release(session);
      if (kept !== undefined && kept === this.#session) {
        kept.phase = 'ended';
        this.#session = undefined;
        this.#parts.onLost(kept, reason, cause);
      }
      this.#unstable(reason, restMs);
      throw unstableError(reason, restMs);
    }
    if (!this.#machine.move('ready')) {
      this.releases.release(session);
      throw closedError();
    }
    this.#hasStood = true;
    this.#session = session;
    this.#last = session;
    this.#bornOfDoubt = this.#inDoubt ? session : undefined;
    this.#inDoubt = false;
    this.#failure = undefined;
    this.#rest = undefined;
    this.#stands(session, previous, reason, cause);
    return session;
  }

  /** The one before it, if it is still there, only finishes what is under way on it. */
  #stands(session: Session, previous: Session | undefined, reason: string, cause: LossCause): void {
    if (previous?.phase === 'current' && (previous.isNamed || session.info.era === 'initialize')) {
      previous.phase = cause === 'credential' ? 'retired' : 'ended';
      this.#parts.onLost(previous, reason, cause);
    }
    this.#parts.onEstablished(session, previous, reason);
  }

  #failed(error: unknown, kept: Session | undefined): never {
    const failure = HostedMcpError.isInstance(error)
      ? error
      : new HostedMcpError('ERR_PROTOCOL', 'No session could be opened', { cause: error });
    if (this.state === 'closed') throw closedError();
    if (this.state === 'unstable') throw failure;
    this.#failure = failure;
    if (kept !== undefined && this.#session === kept) {
      // The old session may still be good: the next call will tell.
      this.#machine.move('ready');
    } else if (error instanceof SetUpFailed) {
      this.#unstable(failure.reason ?? 'the set-up of the session failed', 5_000);
    } else if (BLOCKING.has(failure.code)) {
      this.#machine.move('blocked', failure);
    } else if (failure.code === 'ERR_SESSION_LOST') {
      const restMs = this.#breaker.lost(0);
      if (restMs === undefined) this.#machine.move('idle', failure);
      else this.#unstable('the server forgets sessions within the handshake', restMs);
    } else {
      this.#machine.move('idle', failure);
    }
    throw failure;
  }
}
