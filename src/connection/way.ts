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
import { RecentIds } from '../streams/recent-ids.js';
import { Subscription } from '../streams/subscription.js';
import { afterResume, type ClassifyContext, classify, type Verdict } from './classify.js';
import { refusalInBand } from './discovery.js';
import { failureOf, isRead } from './failures.js';
import type { Call } from './ledger.js';
import { answeredAs, LISTEN, outgoing } from './outgoing.js';
import { OwnProgress } from './own-progress.js';
import { HELD_BACK, isGood, isHeldBackNow, NOTHING_DUE, type Payment, pay } from './payment.js';
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

  async travel(call: Call): Promise<JsonRpcResponse> {
    if (call.method === 'initialize') return this.#initialize(call);
    const probe = this.#parts.discovery.probeFor(call);
    await this.#admit(call);
    await this.#passGates(call);
    let payment: Payment | undefined;
    for (let looks = 0; ; ) {
      const session = probe ?? (await this.#ready(call));
      const credential = await this.#acquire(call);
      await this.#verify(call, session, credential);
      payment ??= call.options.resumptionToken === undefined ? await pay(call, this.#parts) : NOTHING_DUE;
      // What the gates and waits took: the tool may have changed in it.
      await this.#admit(call);
      const stands = this.#parts.gates.stand(call);
      if (!stands) await this.#passGates(call);
      if (!stands || !this.#lastLook(session, credential, probe, payment)) {
        // Spent when it is used: one that was made for another moment would crowd the server's window.
        if (!isGood(payment, this.#parts)) payment = undefined;
        else payment.waited = false;
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
      const answer = await this.#act(verdict, call, session, credential, facts);
      if (answer === 'again') {
        call.tryAgain();
        continue;
      }
      if (probe !== undefined) this.#parts.discovery.answered(probe, call, answer);
      return answer;
    }
  }

  /** The contract's gate, ahead of the app's. */
  async #admit(call: Call): Promise<void> {
    const admitted = this.#parts.contract?.admit(call.tool);
    if (admitted === undefined) return;
    const beforeMs = call.waits.gatesMs;
    await this.#timed(call, 'gatesMs', call.waitFor(admitted, 'the contract to be read'));
    this.#parts.stats.gate('contract', call.waits.gatesMs - beforeMs);
  }

  async #passGates(call: Call): Promise<void> {
    const passing = this.#parts.gates.before(call);
    if (passing !== undefined) await this.#timed(call, 'gatesMs', passing);
  }

  async #ready(call: Call): Promise<Session> {
    const ready = this.#parts.keeper.ready();
    const session =
      ready instanceof Session
        ? ready
        : await this.#timed(call, 'sessionMs', call.waitFor(ready, 'a session'));
    const opening = call.method === 'tools/call' ? this.#parts.opening() : undefined;
    if (opening !== undefined)
      await this.#timed(call, 'sessionMs', call.waitFor(opening, 'the listen stream'));
    return session;
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

  async #verify(call: Call, session: Session, credential: Credential): Promise<void> {
    // A source that is new at every use would cost a ping a call; there the first refusal decides.
    if (this.#parts.credential.isAlwaysNew) return;
    const verified = this.#parts.keeper.verify(session, credential);
    if (verified !== undefined)
      await this.#timed(call, 'sessionMs', call.waitFor(verified, 'the session to be checked'));
  }

  /** Synchronous, right before the exchange: nothing that was found on the way has changed since. */
  #lastLook(session: Session, credential: Credential, probe: Session | undefined, payment: Payment): boolean {
    return (
      // After a wait all is found anew: a credential may have come of age in it.
      !payment.waited &&
      (session === probe || session === this.#parts.keeper.session) &&
      credential.generation === this.#parts.credential.generation &&
      isGood(payment, this.#parts)
    );
  }

  /** Undefined where it was held back at the last moment, and nothing left. */
  async #exchange(
    call: Call,
    session: Session,
    credential: Credential,
    payment: Payment,
  ): Promise<StreamFacts | undefined> {
    if (call.ended) throw call.signal.reason;
    const { resumptionToken, onresumptiontoken } = call.options;
    const { era, protocolVersion } = session.info;
    const hasCursors = era === 'initialize' && session.road === undefined;
    if (resumptionToken !== undefined && !hasCursors) {
      const why = `This server (protocol ${protocolVersion}) keeps no answers that could be asked for again`;
      throw call.error('ERR_OUTCOME_UNKNOWN', why, { executed: 'unknown' });
    }
    if (resumptionToken !== undefined)
      return resumeCall(this.#parts, call, session, { from: { cursor: resumptionToken }, adopts: true });
    if (call.gates !== undefined) call.gates.generation = credential.generation;
    const { message: asked, route } = outgoing(call, session);
    const message = this.#ownProgress.ask(asked);
    const subscribed =
      era === 'stateless' && call.method === LISTEN
        ? new Subscription(call, message, session, this.#parts)
        : undefined;
    let seen: Set<string> | undefined;
    const onEventId = (id: string) => {
      seen ??= new RecentIds();
      seen.add(id);
      onresumptiontoken?.(id);
    };
    let isHeldBack = false;
    const facts = await this.#parts.wire.send(message, {
      protocolVersion: route.protocolVersion,
      headers: route.headers,
      session,
      credential,
      toll: 'paid',
      onSent: () => {
        if (call.ended) throw call.signal.reason;
        // Lost while a socket was waited for: the call goes out on the next session.
        const isLost = call.phase === 'queued' && session.phase === 'ended';
        if (isLost || isHeldBackNow(call, payment, this.#parts)) {
          isHeldBack = true;
          throw HELD_BACK;
        }
        call.markSent(session);
      },
      attach: (handle) => (subscribed ?? call).attach(handle),
      onMessage: (each) =>
        subscribed === undefined ? this.#parts.deliver(each, session, call) : subscribed.receive(each),
      onEventId: hasCursors ? onEventId : undefined,
    });
    if (isHeldBack && !call.ended) return undefined;
    if (call.elsewhere !== undefined) return elsewhereFacts(this.#parts, call, session);
    if (subscribed?.stands === true) return subscribed.keep(facts);
    if (!hasCursors) return answeredAs(facts, call.id);
    if (facts.resume === undefined || call.ended) return facts;
    tellCut(this.#parts, call, session, facts);
    return resumeCall(this.#parts, call, session, { from: facts.resume, seen });
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

  async #answered(
    message: JsonRpcResponse,
    call: Call,
    session: Session,
    credential: Credential,
    facts: StreamFacts,
  ): Promise<JsonRpcResponse> {
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
