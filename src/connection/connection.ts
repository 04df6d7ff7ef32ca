/**
 * The engine behind every face: one connection to one hosted server.
 *
 * Guarantees that every message goes one way (`way.ts`), that what the server sends reaches the face bound
 * to its session, and that nothing outlives `close()`. Imports no SDK; never throws from `close()`.
 */
import type { Credential } from '../credentials/provider.js';
import type { Disposer } from '../disposer.js';
import { HostedMcpError } from '../errors.js';
import { Emitter, type OnceOptions } from '../events.js';
import { createHttpClient } from '../http/create.js';
import type { HttpClient } from '../http/exchange.js';
import type { JsonRpcMessage, JsonRpcNotification, JsonRpcRequest, JsonRpcResponse } from '../json-rpc.js';
import type { ResolvedHostedOptions } from '../options.js';
import { Pause } from '../rate-limit/pause.js';
import { Redactor } from '../redactor.js';
import { rejectionOf } from '../session/handshake.js';
import { SessionKeeper } from '../session/keeper.js';
import { ServerRequests } from '../session/server-requests.js';
import type { Session, SessionInfo } from '../session/session.js';
import { SetUp } from '../session/set-up.js';
import type { ConnectionState } from '../session/state.js';
import { doneFacts } from './call-facts.js';
import { CredentialUse } from './credential-use.js';
import { Discovery } from './discovery.js';
import { IdleLearning } from './idle-learning.js';
import { Call, Ledger, type RequestOptions } from './ledger.js';
import { Lifecycle } from './lifecycle.js';
import { logEvents } from './log.js';
import { LISTEN } from './outgoing.js';
import { isOwnProgress } from './own-progress.js';
import { Stats } from './stats.js';
import type { Connection, ConnectionEvents, ConnectionHealth } from './types.js';
import { MessageWay } from './way.js';
import { Wire } from './wire.js';

/** What a face does with messages that are no answers, and with errors nobody awaits. */
export interface Face {
  onMessage(message: JsonRpcMessage): void;
  onError(error: Error): void;
  /** A session stands: its id, which the SDK's interface shows. */
  onSession(id: string | undefined, info: SessionInfo): void;
}

/** The longest pause a server can impose. */
const MAX_PAUSE_MS = 60_000;

export class HostedConnection implements Connection {
  readonly stats = new Stats();
  readonly #options: ResolvedHostedOptions;
  readonly #emitter = new Emitter<ConnectionEvents>();
  readonly #redactor = new Redactor();
  readonly #ledger = new Ledger();
  readonly #http: HttpClient;
  readonly #wire: Wire;
  readonly #keeper: SessionKeeper;
  readonly #setUp: SetUp;
  readonly #lifecycle: Lifecycle;
  readonly #serverRequests = new ServerRequests();
  readonly #pause: Pause;
  readonly #credential: CredentialUse;
  readonly #way: MessageWay;
  readonly #idle: IdleLearning;
  readonly #discovery: Discovery;
  readonly #providerEvents: Disposer | undefined;
  #face: Face | undefined;
  #closing: Promise<void> | undefined;
  #lastCallMs: number | undefined;
  #verifyingAhead = false;

  constructor(options: ResolvedHostedOptions) {
    this.#options = options;
    const { clock, http, url, credentials } = options;
    this.#http = createHttpClient(http, clock);
    this.#pause = new Pause(clock, MAX_PAUSE_MS);
    this.#credential = new CredentialUse(credentials, url);
    this.#wire = new Wire({
      url,
      http: this.#http,
      clock,
      redactor: this.#redactor,
      headers: http.headers,
      maxMessageBytes: http.maxMessageBytes,
      affinityCookies: http.affinityCookies,
      onExchange: (done) => this.#emitter.emit('exchange', done),
      onCut: (cut) => this.#idle.cut(cut),
    });
    this.#idle = new IdleLearning({
      emitter: this.#emitter,
      stats: this.stats,
      http: this.#http,
      keepAliveTimeoutMs: http.keepAliveTimeoutMs,
      idleLimitMs: options.streams.idleLimitMs,
    });
    const onMessage = (message: JsonRpcMessage, session: Session | undefined) =>
      this.#deliver(message, session);
    this.#setUp = new SetUp({ clock, wire: this.#wire, options: options.session, onMessage });
    this.#lifecycle = new Lifecycle({
      options,
      wire: this.#wire,
      ledger: this.#ledger,
      emitter: this.#emitter,
      serverRequests: this.#serverRequests,
      pause: this.#pause,
      keeper: () => this.#keeper,
      classify: (facts, session, credential) => this.#way.classify(facts, session, credential),
      tell: (message) => this.#face?.onMessage(message),
      deliver: onMessage,
      onSession: (session) => this.#stands(session),
      idleLimitMs: () => this.stats.idleLimitMs,
      onRest: () => {
        this.#wire.dropLingering();
        void this.#http.closeIdle();
      },
    });
    this.#keeper = new SessionKeeper({
      clock,
      wire: this.#wire,
      credentials,
      target: url,
      options: options.session,
      maxAttempts: options.retry.maxAttempts,
      maxElapsedMs: options.retry.maxElapsedMs,
      onMessage,
      onState: (current, previous, error) =>
        this.#emitter.emit('state', { current, previous, ...(error !== undefined && { code: error.code }) }),
      setUp: (session, previous, reason, signal) =>
        this.#setUp.run(session, previous, reason, signal).catch((error: unknown) => {
          this.#lifecycle.withdraw(session);
          throw error;
        }),
      onEstablished: (session, previous, reason) => this.#lifecycle.established(session, previous, reason),
      onSuspect: (session, reason) =>
        this.#emitter.emit('session-suspect', { session: session.info, reason }),
      onLost: (session, reason, cause) => this.#lifecycle.lost(session, reason, cause),
    });
    this.#discovery = new Discovery(this.#keeper, clock);
    this.#way = new MessageWay({
      options,
      discovery: this.#discovery,
      credential: this.#credential,
      keeper: this.#keeper,
      wire: this.#wire,
      pause: this.#pause,
      setUp: this.#setUp,
      stats: this.stats,
      emitter: this.#emitter,
      deliver: onMessage,
      opening: () => this.#lifecycle.opening,
    });
    this.#providerEvents = credentials.onEvent?.((event) => {
      const { type, ...payload } = event;
      this.#emitter.emit(`credential-${type}`, payload as never);
      if (type !== 'failed') this.#verifyAhead();
    });
    if (options.logger !== undefined) logEvents(this.#emitter, options.logger);
  }

  get state(): ConnectionState {
    return this.#keeper.state;
  }
  get session(): SessionInfo | undefined {
    return this.#keeper.session?.info;
  }

  on<E extends keyof ConnectionEvents>(event: E, listener: (payload: ConnectionEvents[E]) => void): Disposer {
    return this.#emitter.on(event, listener);
  }
  once<E extends keyof ConnectionEvents>(
    event: E,
    options?: OnceOptions<ConnectionEvents[E]>,
  ): Promise<ConnectionEvents[E]> {
    return this.#emitter.once(event, options);
  }

  health(): ConnectionHealth {
    const { state, failure, sinceMs } = this.#keeper;
    const retryAfterMs = failure?.retryAfterMs ?? (this.#pause.remainingMs || undefined);
    return {
      ok: state !== 'unstable' && state !== 'blocked' && state !== 'closed',
      state,
      sinceMs: this.#options.clock.now() - sinceMs,
      ...(failure !== undefined && { code: failure.code, reason: failure.reason ?? failure.message }),
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    };
  }

  // ---- what a face calls -------------------------------------------------------------------------

  attach(face: Face): void {
    this.#face = face;
    const { session } = this.#keeper;
    if (session !== undefined) face.onSession(session.revealId(), session.info);
  }

  /** What every handshake will say, where the face knows it before the first one. */
  capture(initialize: JsonRpcRequest): void {
    this.#keeper.capture(initialize);
  }

  /** The face knows which protocol version is spoken. */
  negotiated(version: string): void {
    this.#discovery.negotiated(version);
  }

  /** Takes up a session of before a restart. */
  async resumeSession(id: string, protocolVersion: string): Promise<void> {
    const credential = await this.#credential.acquire();
    const session = this.#keeper.resume(id, protocolVersion, credential);
    this.#stands(session);
    this.#lifecycle.startListening(session);
  }

  /** Whether anything above would hear a notification; decides under `streams.listen: 'auto'`. */
  setListening(wanted: boolean): void {
    this.#lifecycle.setListening(wanted);
  }

  /** Sends a request; resolves with the server's own answer, rejects with a `HostedMcpError`. */
  request(message: JsonRpcRequest, options: RequestOptions = {}): Promise<JsonRpcResponse> {
    const { clock, retry } = this.#options;
    const call = new Call(message, options, clock, retry.maxElapsedMs, (ended, error) =>
      this.#ended(ended, error),
    );
    options.onCall?.(call);
    if (this.#closing !== undefined) {
      call.fail(call.error('ERR_CLOSED', 'The connection was ended here'));
      return call.promise;
    }
    this.#ledger.add(call);
    if (this.#lastCallMs !== undefined && this.#ledger.waiting === 1 && call.method !== LISTEN) {
      this.#idle.gap(call.startedAtMs - this.#lastCallMs);
    }
    this.#way.travel(call).then(
      (answer) => call.succeed(answer),
      (error) => call.fail(HostedMcpError.isInstance(error) ? error : brokenOnTheWay(call, error)),
    );
    return call.promise;
  }

  /** Takes a call back: dropped if it has not left (then nothing is sent at all), else cancelled at the server. */
  takeBack(call: Call, error: HostedMcpError, notice?: JsonRpcNotification): void {
    const { session, phase, id } = call;
    // In the later era the end of its stream says it.
    if (phase === 'sent' && session?.info.era === 'initialize') {
      const reason = error.code === 'ERR_TIMEOUT' ? 'timed out' : 'given up by the caller';
      const params = { requestId: id, reason };
      // Before the call ends: a session that only waited for it would be deleted ahead of the notice.
      this.#post(notice ?? { jsonrpc: '2.0', method: 'notifications/cancelled', params }, session).catch(
        () => {},
      );
    }
    call.fail(error);
  }

  /** Sends a notification. */
  async notify(message: JsonRpcNotification): Promise<void> {
    // The handshake says it itself, for each session.
    if (message.method === 'notifications/initialized' && this.#keeper.captured) return;
    if (message.method === 'notifications/cancelled') {
      const call = this.#ledger.get(message.params?.requestId);
      if (call === undefined) return;
      call.takenBack = true;
      this.takeBack(call, call.error('ERR_ABORTED', 'The caller gave the call up'), message);
      return;
    }
    const session = await this.#keeper.ready();
    await this.#post(message, session);
  }

  /** Sends the face's answer to a server's request, to the session that asked; to nobody if that is gone. */
  async respond(message: JsonRpcResponse): Promise<void> {
    const bound = this.#serverRequests.outgoing(message);
    if (bound !== undefined) await this.#post(bound.message, bound.session);
  }

  /** DELETEs the session; the next call opens another. */
  terminateSession(): Promise<void> {
    return this.#lifecycle.rest();
  }

  close(options: { deleteSession: boolean } = { deleteSession: true }): Promise<void> {
    this.#closing ??= this.#close(options.deleteSession).catch(() => {});
    return this.#closing;
  }

  #ended(call: Call, error: unknown): void {
    this.#ledger.remove(call);
    const { clock } = this.#options;
    const durationMs = clock.monotonic() - call.startedAtMs;
    // How long a subscription stood is no latency, and its end no call of the agent's.
    if (call.method !== LISTEN) {
      this.#lastCallMs = clock.monotonic();
      this.stats.ended(call, durationMs, error);
    }
    if (this.#emitter.wants('call')) {
      this.#emitter.emit('call', doneFacts(call, clock.now() - durationMs, durationMs, error));
    }
    this.#lifecycle.callEnded(call.session);
  }

  /** After a refresh, in the agent's think-time: is the session still good? A real call shall not be the one to find out. */
  #verifyAhead(): void {
    const { session } = this.#keeper;
    // A source that is new at every use would otherwise call for its own next change.
    if (session === undefined || this.#verifyingAhead || this.#credential.isAlwaysNew) return;
    if (this.#pause.remainingMs > 0) return;
    this.#verifyingAhead = true;
    this.#credential
      .acquire()
      .then((credential) => this.#keeper.verify(session, credential))
      .catch(() => {})
      .finally(() => {
        this.#verifyingAhead = false;
      });
  }

  /** A message that wants no answer, on a session it belongs to. */
  async #post(message: JsonRpcMessage, session: Session): Promise<void> {
    session.posts += 1;
    try {
      await this.#postOn(session, message);
    } finally {
      session.posts -= 1;
      this.#lifecycle.callEnded(session);
    }
  }

  async #postOn(session: Session, message: JsonRpcMessage): Promise<void> {
    let rejected: ReturnType<typeof rejectionOf> | undefined;
    for (;;) {
      const credential = await this.#credentialOn(session, rejected);
      const facts = await this.#wire.send(message, {
        session,
        credential,
        onMessage: (each) => this.#deliver(each, session),
      });
      const verdict = this.#way.classify(facts, session, credential);
      if (verdict.kind === 'accepted') return;
      if (
        verdict.kind === 'credential' &&
        verdict.challenged &&
        rejected === undefined &&
        session.phase === 'current'
      ) {
        rejected = rejectionOf(credential, facts);
        continue;
      }
      if (verdict.kind === 'session-lost') this.#keeper.lost(session, verdict.reason, verdict.tentative);
      throw new HostedMcpError('ERR_PROTOCOL', 'A message that wants no answer was not taken', {
        executed: facts.sent ? 'unknown' : false,
        method: 'method' in message ? message.method : undefined,
        status: facts.status,
      });
    }
  }

  /** A session that no longer takes calls is spoken to with its own credential, to its end. */
  async #credentialOn(
    session: Session,
    rejected: ReturnType<typeof rejectionOf> | undefined,
  ): Promise<Credential> {
    if (session.phase === 'current') {
      const credential = await this.#credential.acquire(rejected === undefined ? {} : { rejected });
      if (!this.#credential.isAlwaysNew) await this.#keeper.verify(session, credential)?.catch(() => {});
      if (session.phase === 'current') return credential;
    }
    return session.credential;
  }

  #stands(session: Session): void {
    const id = session.revealId();
    this.#face?.onSession(id, session.info);
  }

  #deliver(message: JsonRpcMessage, session: Session | undefined): void {
    if (session?.phase === 'ended' || isOwnProgress(message)) return;
    this.#face?.onMessage(session === undefined ? message : this.#serverRequests.incoming(message, session));
  }

  async #close(deleteSession: boolean): Promise<void> {
    const session = this.#keeper.close();
    this.#lifecycle.close();
    this.#providerEvents?.dispose();
    for (const call of this.#ledger.all())
      call.fail(call.error('ERR_CLOSED', 'The connection was ended here'));
    if (session !== undefined && deleteSession) await this.#lifecycle.delete(session);
    this.#wire.dropLingering();
    this.#emitter.close();
    await this.#http.close();
  }
}

/** A function of the app (`session.isLost`, `retry.safeTools`, a credential's `headers`) threw something of its own. */
function brokenOnTheWay(call: Call, cause: unknown): HostedMcpError {
  return call.error('ERR_PROTOCOL', 'A function that was asked on the way of the call failed', { cause });
}
