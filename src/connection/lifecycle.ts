/**
 * What happens around a session: its listen stream, its end, and the calls that are still on it.
 *
 * Guarantees that a session is let go in the right order: calls that can still be answered get their
 * time, then its streams end, then it is deleted where that is ours to do. Leaves no timer behind.
 */
import type { Timer } from '../clock.js';
import type { Credential } from '../credentials/provider.js';
import type { Emitter } from '../events.js';
import type { JsonRpcMessage } from '../json-rpc.js';
import type { ResolvedHostedOptions } from '../options.js';
import type { Toll } from '../rate-limit/toll.js';
import type { SessionKeeper } from '../session/keeper.js';
import type { LossCause } from '../session/keeper-parts.js';
import type { ServerRequests } from '../session/server-requests.js';
import type { Session } from '../session/session.js';
import { LegacyCare } from '../streams/legacy-care.js';
import { Listener } from '../streams/listener.js';
import type { Verdict } from './classify.js';
import type { Ledger } from './ledger.js';
import type { StreamFacts } from './route.js';
import type { ConnectionEvents } from './types.js';
import type { Wire } from './wire.js';

export interface LifecycleParts {
  readonly options: ResolvedHostedOptions;
  readonly wire: Wire;
  readonly ledger: Ledger;
  readonly emitter: Emitter<ConnectionEvents>;
  readonly serverRequests: ServerRequests;
  readonly toll: Toll;
  keeper(): SessionKeeper;
  classify(facts: StreamFacts, session: Session, credential: Credential): Verdict;
  /** A message for the face, as it is. */
  tell(message: JsonRpcMessage): void;
  deliver(message: JsonRpcMessage, session: Session): void;
  onSession(session: Session): void;
  /** How long the way is known to leave a silent stream alone. */
  idleLimitMs(): number | undefined;
  /** Nothing is open any more: sockets may go. */
  onRest(): void;
}

/** Some servers send the head of a listen stream with its first event only; a call does not wait for that. */
const OPENING_MS = 250;

export class Lifecycle {
  readonly #parts: LifecycleParts;
  /** Sessions that take no new calls, with the timer that ends what is still on them. */
  readonly #leaving = new Map<Session, Timer>();
  #listener: Listener | undefined;
  #listens: boolean;
  #opening: Promise<void> | undefined;
  #idle: Timer | undefined;
  #lastUseMs = 0;
  readonly #legacy: LegacyCare;

  constructor(parts: LifecycleParts) {
    this.#parts = parts;
    this.#listens = parts.options.streams.listen !== false;
    this.#legacy = new LegacyCare({ ...parts, isHeard: () => this.#listens });
  }

  established(session: Session, previous: Session | undefined, reason: string): void {
    const { emitter } = this.#parts;
    this.#parts.onSession(session);
    emitter.emit('session-established', { session: session.info });
    if (previous !== undefined) {
      emitter.emit('session-replaced', { previous: previous.info, current: session.info, reason });
    }
    if (session.road !== undefined) this.#legacy.take(session, session.road);
    this.startListening(session);
  }

  /** A session takes no new calls: what is on it gets its grace, or, after our own change of token, that token's life. */
  lost(session: Session, reason: string, cause: LossCause): void {
    const { options, ledger, emitter } = this.#parts;
    this.#stopListening();
    if (cause === 'server') emitter.emit('session-lost', { session: session.info, reason });
    if (options.session.queuedCalls === 'reject') {
      for (const call of ledger.all()) {
        if (call.phase === 'queued' && call.method !== 'initialize') {
          call.fail(
            call.error('ERR_SESSION_LOST', 'The session was replaced while the call waited', {
              retryable: true,
            }),
          );
        }
      }
    }
    if (cause === 'server') this.withdraw(session);
    const { expiresAtMs } = session.credential;
    const leftMs =
      cause === 'server' ? 0 : Math.max(0, (expiresAtMs ?? Number.POSITIVE_INFINITY) - options.clock.now());
    const timer = options.clock.setTimeout(
      () => this.#end(session, cause),
      leftMs + options.session.graceMs,
      { background: true },
    );
    this.#leaving.set(session, timer);
    this.#drained(session, cause);
  }

  /** A call or a post has ended: perhaps it was the last one on a session that is leaving. */
  callEnded(): void {
    // Of all that are leaving: a call that went out once more is on another session now.
    if (this.#leaving.size > 0)
      for (const leaving of [...this.#leaving.keys()])
        this.#drained(leaving, leaving.phase === 'retired' ? 'credential' : 'server');
    this.#armIdle();
  }

  setListening(wanted: boolean): void {
    if (this.#parts.options.streams.listen !== 'auto' || wanted === this.#listens) return;
    this.#listens = wanted;
    const { session } = this.#parts.keeper();
    if (!wanted) this.#stopListening();
    else if (session !== undefined) this.startListening(session);
  }

  startListening(session: Session): void {
    if (!this.#listens || !session.hasId) return;
    this.#stopListening();
    const { options, wire, emitter, toll } = this.#parts;
    this.#listener = new Listener(session, {
      clock: options.clock,
      wire,
      reopenMaxDelayMs: options.streams.reopenMaxDelayMs,
      credential: (rejected) =>
        options.credentials.acquire(options.url, rejected === undefined ? {} : { rejected }),
      onMessage: (message) => this.#parts.deliver(message, session),
      onAnswer: (message) => this.#parts.ledger.answered(message, session),
      pay: (signal) => toll.pay('reopen', { signal }),
      onLost: (_session, tentative) =>
        this.#parts.keeper().lost(session, 'the listen stream was refused as unknown', tentative),
      onDoubt: (facts, credential) => {
        const verdict = this.#parts.classify(facts, session, credential);
        if (verdict.kind !== 'session-suspect' || !verdict.strong) return undefined;
        const decided = this.#parts.keeper().decide(session, credential, verdict);
        return decided.then((decision) => decision === 'lost');
      },
      onEvent: ({ type, ...payload }) => emitter.emit(type, payload as never),
    });
    this.#listener.start();
    this.#awaitOpening(this.#listener);
  }

  /**
   * While the first listen stream of a session is being opened: what a call made the server tell or ask on it now
   * would be lost, for many servers drop what nobody is there to hear.
   */
  get opening(): Promise<void> | undefined {
    return this.#opening;
  }

  #awaitOpening(listener: Listener): void {
    const { clock } = this.#parts.options;
    let settle: () => void = () => {};
    const opening = new Promise<void>((resolve) => {
      settle = resolve;
    }).then(() => {
      timer.clear();
      if (this.#opening === opening) this.#opening = undefined;
    });
    const timer = clock.setTimeout(settle, OPENING_MS, { background: true });
    this.#opening = opening;
    listener.opened.then(settle);
  }

  /** The face is told of the questions of a session that will not hear their answers. */
  withdraw(session: Session): void {
    for (const notice of this.#parts.serverRequests.withdraw(session)) this.#parts.tell(notice);
  }

  close(): void {
    this.#stopListening();
    this.#legacy.stop();
    this.#idle?.clear();
    for (const [session, timer] of this.#leaving) {
      timer.clear();
      // The calls it was kept for are over.
      this.#release(session);
    }
    this.#leaving.clear();
  }

  #drained(session: Session, cause: LossCause): void {
    if (session.posts === 0 && this.#parts.ledger.sentOn(session).length === 0) this.#end(session, cause);
  }

  #end(session: Session, cause: LossCause): void {
    const timer = this.#leaving.get(session);
    if (timer === undefined) return;
    timer.clear();
    this.#leaving.delete(session);
    const retired = session.phase === 'retired';
    session.phase = 'ended';
    session.road?.end();
    for (const call of this.#parts.ledger.sentOn(session)) {
      call.fail(call.error('ERR_SESSION_LOST', 'The server forgot this client before the answer arrived'));
    }
    if (cause === 'credential' && retired) this.withdraw(session);
    this.#release(session);
  }

  /** Ends a session at the server, where it is known there: by a DELETE, or with the stream that carries it. */
  #release(session: Session, atOnce = false): Promise<void> {
    return this.#parts.keeper().releases.release(session, atOnce);
  }

  #stopListening(): void {
    this.#listener?.stop();
    this.#listener = undefined;
  }

  /** One timer for the whole of an idle time, however many calls there were. */
  #armIdle(): void {
    const { options, ledger } = this.#parts;
    const { idleTimeoutMs } = options.session;
    if (idleTimeoutMs === undefined || this.#parts.keeper().state === 'closed') return;
    this.#lastUseMs = options.clock.monotonic();
    if (this.#idle !== undefined) return;
    const check = () => {
      this.#idle = undefined;
      const leftMs = this.#lastUseMs + idleTimeoutMs - options.clock.monotonic();
      if (ledger.size > 0) return;
      if (leftMs > 0) this.#idle = options.clock.setTimeout(check, leftMs, { background: true });
      else void this.rest(false);
    };
    this.#idle = options.clock.setTimeout(check, idleTimeoutMs, { background: true });
  }

  /** Nothing is kept open; the next call opens a session again. `atOnce`: somebody waits for it. */
  async rest(atOnce = true): Promise<void> {
    if (this.#parts.keeper().session?.info.era === 'stateless') {
      if (this.#parts.ledger.size === 0) this.#parts.onRest();
      return;
    }
    this.#legacy.stop();
    const session = this.#parts.keeper().rest();
    if (session === undefined) return;
    this.#stopListening();
    this.withdraw(session);
    await this.#release(session, atOnce);
    const onRest = () => {
      if (this.#parts.keeper().state === 'idle') this.#parts.onRest();
    };
    // The sockets of those that are being deleted, too.
    const { releases } = this.#parts.keeper();
    if (releases.isSettled) onRest();
    else void releases.settled().then(onRest);
  }
}
