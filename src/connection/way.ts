/**
 * The way of one message, from a caller to a server and back.
 *
 * Guarantees that a tool call leaves this process at most once, save where nothing left, where a 401
 * challenge or a 429 refused it unread, and for tools the app lists as safe; and that every failure
 * carries the ledger's word on what happened.
 */
import { fullJitter, sleep } from '../clock.js';
import type { Credential } from '../credentials/provider.js';
import { HostedMcpError } from '../errors.js';
import { isErrorResponse, type JsonRpcResponse } from '../json-rpc.js';
import { InitializeRefused, rejectionOf, renewalReason } from '../session/handshake.js';
import { Session } from '../session/session.js';
import { Subscription } from '../streams/subscription.js';
import { CallRoute } from './call-route.js';
import { afterResume, type ClassifyContext, classify, type Verdict } from './classify.js';
import { refusalInBand } from './discovery.js';
import { failureOf, isRead } from './failures.js';
import type { Call } from './ledger.js';
import { answeredAs, LISTEN, outgoing } from './outgoing.js';
import { OwnProgress } from './own-progress.js';
import { isGood, NOTHING_DUE, type Payment, pay } from './payment.js';
import { elsewhereFacts, resumeCall, tellCut } from './resume-call.js';
import type { StreamFacts } from './route.js';
import type { MessageWayParts } from './way-parts.js';

/** How often the last look may find something changed before the call gives up. */
const LOOKS = 10;
const RETRY_BASE_MS = 100;
const RETRY_MAX_MS = 2_000;
export class MessageWay {
  readonly #parts: MessageWayParts;
  readonly #ownProgress = new OwnProgress();

  constructor(parts: MessageWayParts) {
    this.#parts = parts;
  }

  /** Where nothing has to be waited for, the exchange is all that it waits for. */
  async travel(call: Call): Promise<JsonRpcResponse> {
    if (call.method === 'initialize') return this.#initialize(call);
    const probe = this.#parts.discovery.probeFor(call);
    const admitted = this.#admit(call);
    if (admitted !== undefined) await admitted;
    const passing = this.#passGates(call);
    if (passing !== undefined) await passing;
    let payment: Payment | undefined;
    for (let looks = 0; ; ) {
      const ready = probe ?? this.#ready(call);
      const session = ready instanceof Session ? ready : await ready;
      const credential = this.#parts.credential.atHand() ?? (await this.#acquire(call));
      const verified = this.#verify(call, session, credential);
      if (verified !== undefined) await verified;
      if (payment === undefined) {
        const paying = call.options.resumptionToken === undefined ? pay(call, this.#parts) : NOTHING_DUE;
        payment = paying instanceof Promise ? await paying : paying;
      }
      // What the gates and waits took: the tool may have changed in it.
      const stillAdmitted = this.#admit(call);
      if (stillAdmitted !== undefined) await stillAdmitted;
      const stands = this.#parts.gates.stand(call);
      const again = stands ? undefined : this.#passGates(call);
      if (again !== undefined) await again;
      if (!stands || !this.#lastLook(call, session, credential, probe, payment)) {
        // Spent when it is used: one that was made for another moment would crowd the server's window.
        if (isGood(call, payment, this.#parts)) payment.waited = false;
        else {
          call.heldBack += 1;
          payment = undefined;
        }
        if (++looks < LOOKS) continue;
        throw call.error(
          'ERR_SESSION_UNSTABLE',
          'The session changed again and again before the call could leave',
          { retryable: true, retryAfterMs: 1_000 },
        );
      }
      const facts = await this.#exchange(call, session, credential, payment);
      payment = undefined;
      if (facts === undefined) continue;
      const refused = probe === undefined ? undefined : refusalInBand(facts, call.id);
      if (refused !== undefined) return refused;
      const classified = this.classify(facts, session, credential);
      const verdict = facts.resumed === true ? afterResume(classified) : classified;
      // Most are answers, and those need no waiting for.
      const acting =
        verdict.kind === 'answer'
          ? this.#answered(verdict.message, call, session, credential, facts)
          : this.#act(verdict, call, session, credential, facts);
      const answer = acting instanceof Promise ? await acting : acting;
      if (answer === 'again') {
        call.tryAgain();
        continue;
      }
      if (probe !== undefined) this.#parts.discovery.answered(probe, call, answer);
      return answer;
    }
  }

  /** The contract's gate, ahead of the app's. */
  #admit(call: Call): Promise<void> | undefined {
    const admitted = this.#parts.contract?.admit(call.tool);
    if (admitted === undefined) return undefined;
    const beforeMs = call.waits.gatesMs;
    return this.#timed(call, 'gatesMs', call.waitFor(admitted, 'the contract to be read')).then(() =>
      this.#parts.stats.gate('contract', call.waits.gatesMs - beforeMs),
    );
  }

  #passGates(call: Call): Promise<void> | undefined {
    const passing = this.#parts.gates.before(call);
    return passing && this.#timed(call, 'gatesMs', passing);
  }

  #ready(call: Call): Session | Promise<Session> {
    const ready = this.#parts.keeper.ready();
    if (!(ready instanceof Session))
      return this.#timed(call, 'sessionMs', call.waitFor(ready, 'a session')).then((session) =>
        this.#listening(call, session),
      );
    return this.#listening(call, ready);
  }

  #listening(call: Call, session: Session): Session | Promise<Session> {
    const opening = call.method === 'tools/call' ? this.#parts.opening() : undefined;
    if (opening === undefined) return session;
    return this.#timed(call, 'sessionMs', call.waitFor(opening, 'the listen stream')).then(() => session);
  }

  async #acquire(call: Call, rejected?: ReturnType<typeof rejectionOf>): Promise<Credential> {
    const maxWaitMs = Math.max(0, call.deadlineMs - this.#parts.options.clock.monotonic());
    const acquired = this.#parts.credential.acquire(
      rejected === undefined
        ? { maxWaitMs }
        : { maxWaitMs, rejected, ...(rejected.status === 403 && { scope: rejected.scope }) },
    );
    return this.#timed(call, 'credentialMs', call.waitFor(acquired, 'a credential'));
  }

  #verify(call: Call, session: Session, credential: Credential): Promise<unknown> | undefined {
    // A source that is new at every use would cost a ping a call; there the first refusal decides.
    if (this.#parts.credential.isAlwaysNew) return undefined;
    const verified = this.#parts.keeper.verify(session, credential);
    return verified && this.#timed(call, 'sessionMs', call.waitFor(verified, 'the session to be checked'));
  }

  /** Synchronous, right before the exchange: nothing that was found on the way has changed since. */
  #lastLook(
    call: Call,
    session: Session,
    credential: Credential,
    probe: Session | undefined,
    payment: Payment,
  ): boolean {
    return (
      // After a wait all is found anew: a credential may have come of age in it.
      !payment.waited &&
      (session === probe || session === this.#parts.keeper.session) &&
      credential.generation === this.#parts.credential.generation &&
      isGood(call, payment, this.#parts)
    );
  }

  /** Undefined where it was held back at the last moment, and nothing left. */
  #exchange(
    call: Call,
    session: Session,
    credential: Credential,
    payment: Payment,
  ): Promise<StreamFacts | undefined> {
    if (call.ended) throw call.signal.reason;
    const { resumptionToken } = call.options;
    if (resumptionToken !== undefined) return this.#resume(call, session, resumptionToken);
    if (call.gates !== undefined) call.gates.generation = credential.generation;
    const { message: asked, route } = outgoing(call, session);
    const message = this.#ownProgress.ask(asked);
    const subscribed =
      session.info.era === 'stateless' && call.method === LISTEN
        ? new Subscription(call, message, session, this.#parts)
        : undefined;
    const way = new CallRoute(call, session, credential, route, subscribed, payment, this.#parts);
    return this.#parts.wire.send(message, way).then((facts) => this.#arrived(call, session, way, facts));
  }

  #arrived(
    call: Call,
    session: Session,
    way: CallRoute,
    facts: StreamFacts,
  ): StreamFacts | undefined | Promise<StreamFacts> {
    if (way.isHeldBack && !call.ended) return undefined;
    if (call.elsewhere !== undefined) return elsewhereFacts(this.#parts, call, session);
    if (way.subscribed?.stands === true) return way.subscribed.keep(facts);
    if (!way.hasCursors) return answeredAs(facts, call.id);
    if (facts.resume === undefined || call.ended) return facts;
    tellCut(this.#parts, call, session, facts);
    return resumeCall(this.#parts, call, session, { from: facts.resume, seen: way.seen });
  }

  #resume(call: Call, session: Session, cursor: string): Promise<StreamFacts> {
    const { era, protocolVersion } = session.info;
    if (era === 'initialize' && session.road === undefined)
      return resumeCall(this.#parts, call, session, { from: { cursor }, adopts: true });
    const why = `This server (protocol ${protocolVersion}) keeps no answers that could be asked for again`;
    throw call.error('ERR_OUTCOME_UNKNOWN', why, { executed: 'unknown' });
  }

  /** One verdict from what one exchange brought. */
  classify(facts: StreamFacts, session: Session, credential: Credential): Verdict {
    const { clock, session: options } = this.#parts.options;
    const context: ClassifyContext = {
      era: session.info.era,
      credentialStale:
        credential.generation < this.#parts.credential.generation ||
        (credential.expiresAtMs !== undefined && credential.expiresAtMs <= clock.now()),
      credentialNewer: credential.generation > session.acceptedGeneration,
      errorsInRow: session.errorsInRow,
    };
    const verdict = classify(facts, context);
    const rule = facts.failure === undefined && facts.sessionSent ? options.isLost?.(facts) : undefined;
    if (rule === undefined) return verdict;
    const executed =
      verdict.kind === 'session-lost' || verdict.kind === 'session-suspect' ? verdict.executed : 'unknown';
    if (rule === true)
      return { kind: 'session-lost', executed, tentative: false, reason: "the app's own rule" };
    const otherwise = classify({ ...facts, sessionSent: false }, context);
    return rule === false
      ? otherwise
      : { kind: 'session-suspect', executed, strong: true, reason: "the app's own rule", otherwise };
  }

  /** Does what the verdict asks for: the answer for the caller, another round, or an error that says what happened. */
  async #act(
    verdict: Verdict,
    call: Call,
    session: Session,
    credential: Credential,
    facts: StreamFacts,
  ): Promise<JsonRpcResponse | 'again'> {
    const { retry } = this.#parts.options;
    switch (verdict.kind) {
      case 'answer':
        return this.#answered(verdict.message, call, session, credential, facts);
      case 'credential': {
        if (verdict.executed === false) call.markRefused();
        // Without a challenge of its own it may be another's 401, passed on: our token is not to be spent for that.
        else if (await this.#parts.keeper.accepts(session, credential)) throw failureOf(verdict, call, facts);
        const hadAnswered = session.answeredGeneration === credential.generation;
        const renewed = this.#acquire(call, { ...rejectionOf(credential, facts), hadAnswered });
        const reason = renewalReason(verdict, credential, facts);
        if (retry.resendOn401 === 'never' || !verdict.challenged || !this.#mayGoAgain(call, reason)) {
          // The next call finds it renewed; this one cannot be sent again.
          renewed.catch(() => {});
          throw failureOf(verdict, call, facts);
        }
        await renewed;
        return 'again';
      }
      case 'scope': {
        // Without a word on what is missing there is nothing to ask for.
        if (
          verdict.executed !== false ||
          verdict.requiredScope === undefined ||
          retry.resendOn401 === 'never'
        )
          throw failureOf(verdict, call, facts);
        call.markRefused();
        await this.#acquire(call, rejectionOf(credential, facts)).catch((error: unknown) => {
          const refusal = HostedMcpError.from(error);
          if (refusal?.code !== 'ERR_INSUFFICIENT_SCOPE') throw error;
          throw failureOf(verdict, call, facts, { authorizationUrl: refusal.authorizationUrl });
        });
        if (!this.#mayGoAgain(call)) throw failureOf(verdict, call, facts);
        return 'again';
      }
      case 'limited': {
        if (verdict.executed === false) call.markRefused();
        this.#parts.serverLimits.told(facts);
        const mayWait = verdict.executed === false && retry.resendOn429 === 'auto';
        if (mayWait && this.#parts.serverLimits.mayRetry && this.#mayGoAgain(call)) return 'again';
        throw failureOf(verdict, call, facts, { retryAfterMs: this.#parts.limiter.pausedMs });
      }
      case 'session-lost': {
        this.#parts.keeper.lost(session, verdict.reason, verdict.tentative);
        if (verdict.executed === false) call.markRefused();
        if (this.#mayRepeat(call) && this.#mayGoAgain(call)) return 'again';
        throw failureOf(verdict, call, facts);
      }
      case 'session-suspect': {
        const decision = await this.#parts.keeper.decide(session, credential, verdict);
        if (decision === 'kept') return this.#act(verdict.otherwise, call, session, credential, facts);
        if (verdict.executed === false) call.markRefused();
        const challenged =
          verdict.otherwise.kind === 'credential' &&
          verdict.otherwise.challenged &&
          retry.resendOn401 === 'once';
        if ((challenged || this.#mayRepeat(call)) && this.#mayGoAgain(call)) return 'again';
        throw failureOf({ ...verdict, kind: 'session-lost', tentative: false }, call, facts);
      }
      case 'not-sent':
      case 'cut':
      case 'failed': {
        const unsent = verdict.kind === 'not-sent';
        const passing =
          unsent ||
          verdict.kind === 'cut' ||
          facts.status === 502 ||
          facts.status === 503 ||
          facts.status === 504;
        if (!call.ended && passing && (unsent || this.#mayRepeat(call)) && this.#mayGoAgain(call)) {
          await call.waitFor(
            sleep(
              this.#parts.options.clock,
              fullJitter(this.#parts.options.clock, call.tries, RETRY_BASE_MS, RETRY_MAX_MS),
              call.signal,
            ),
            'another try',
          );
          return 'again';
        }
        throw failureOf(verdict, call, facts);
      }
      default:
        throw failureOf(verdict, call, facts);
    }
  }

  #answered(
    message: JsonRpcResponse,
    call: Call,
    session: Session,
    credential: Credential,
    facts: StreamFacts,
  ): JsonRpcResponse | Promise<JsonRpcResponse> {
    const error = isErrorResponse(message);
    session.errorsInRow = error && (facts.status ?? 0) >= 400 ? session.errorsInRow + 1 : 0;
    if (session.errorsInRow === 0) this.#parts.keeper.succeeded(session, credential);
    if (!error) session.answeredGeneration = credential.generation;
    if (!error) this.#parts.setUp.note(call.message);
    return this.#parts.gates.answered(call, session, message);
  }

  async #initialize(call: Call): Promise<JsonRpcResponse> {
    this.#parts.keeper.capture(call.message);
    try {
      const session = await this.#ready(call);
      return { jsonrpc: '2.0', id: call.id, result: this.#parts.gates.shownResult(session) };
    } catch (error) {
      // The server's own refusal is for the Client that asked, as it is.
      if (error instanceof InitializeRefused) return { ...error.answer, id: call.id };
      throw error;
    }
  }

  #mayRepeat(call: Call): boolean {
    return (
      isRead(call.method) || (call.tool !== undefined && this.#parts.options.retry.isSafeTool(call.tool))
    );
  }

  /**
   * Counts a further round; false when there were enough, or no time is left. Those that authorization costs by its own
   * rules, before the first credential and for a nonce, are not counted, once each.
   */
  #mayGoAgain(call: Call, reason?: string): boolean {
    if (call.ended || this.#parts.options.clock.monotonic() >= call.deadlineMs) return false;
    if (reason === 'none' || reason === 'use_dpop_nonce') return call.isFirstRoundFor(reason);
    if (call.tries >= this.#parts.options.retry.maxAttempts) return false;
    call.tries += 1;
    return true;
  }

  async #timed<T>(call: Call, wait: keyof Call['waits'], promise: Promise<T>): Promise<T> {
    const started = this.#parts.options.clock.monotonic();
    try {
      return await promise;
    } finally {
      const ms = this.#parts.options.clock.monotonic() - started;
      call.waits[wait] += ms;
      call.trace?.waited(wait, ms);
    }
  }
}
