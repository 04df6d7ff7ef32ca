/**
 * The engine behind every face: one connection to one hosted server.
 *
 * Guarantees that every message goes one way (`way.ts`), that what the server sends reaches the face bound
 * to its session, and that nothing outlives `close()`. Imports no SDK; never throws from `close()`.
 */
import type { SnapshotOptions } from '../contract/read.js';
import type { ContractSnapshot } from '../contract/types.js';
import type { Disposer } from '../disposer.js';
import { HostedMcpError } from '../errors.js';
import type { OnceOptions } from '../events.js';
import { createHttpClient } from '../http/create.js';
import type { HttpClient } from '../http/exchange.js';
import type { JsonRpcMessage, JsonRpcNotification, JsonRpcRequest, JsonRpcResponse } from '../json-rpc.js';
import type { ResolvedHostedOptions } from '../options.js';
import { Limiter } from '../rate-limit/limiter.js';
import { ServerLimits } from '../rate-limit/server-limits.js';
import { Redactor } from '../redactor.js';
import type { OwnHttp } from '../servers/own-http.js';
import { SessionKeeper } from '../session/keeper.js';
import { ServerRequests } from '../session/server-requests.js';
import type { Session, SessionInfo } from '../session/session.js';
import { SetUp } from '../session/set-up.js';
import type { ConnectionState } from '../session/state.js';
import { doneFacts } from './call-facts.js';
import { ContractUse } from './contract-use.js';
import { CredentialUse } from './credential-use.js';
import { observe, PublishedEvents } from './diagnostics.js';
import { Discovery } from './discovery.js';
import { asTheLedgerSays, brokenOnTheWay } from './failures.js';
import { GateUse } from './gate-use.js';
import { healthOf } from './health.js';
import { IdleLearning } from './idle-learning.js';
import { Call, Ledger, type RequestOptions } from './ledger.js';
import { Lifecycle } from './lifecycle.js';
import { LISTEN } from './outgoing.js';
import { isOwnProgress } from './own-progress.js';
import { Posts } from './posts.js';
import { hearProvider } from './provider-events.js';
import { Ending, type Revocation } from './revocation.js';
import { Stats } from './stats.js';
import type { Connection, ConnectionEvents, ConnectionHealth } from './types.js';
import { MessageWay } from './way.js';
import { Wire } from './wire.js';

/** What a face does with messages that are no answers (`about`: the call on whose stream one came), and with errors. */
export interface Face {
  onMessage(message: JsonRpcMessage, about?: Call): void;
  onError(error: Error): void;
  /** A session stands: its id, which the SDK's interface shows. */
  onSession(id: string | undefined, info: SessionInfo): void;
}

export class HostedConnection implements Connection {
  readonly stats = new Stats();
  readonly #options: ResolvedHostedOptions;
  readonly #emitter = new PublishedEvents();
  readonly #redactor = new Redactor();
  readonly #ledger = new Ledger();
  readonly #http: HttpClient;
  readonly #wire: Wire;
  readonly #keeper: SessionKeeper;
  readonly #setUp: SetUp;
  readonly #lifecycle: Lifecycle;
  readonly #serverRequests = new ServerRequests();
  readonly #limiter: Limiter;
  readonly #credential: CredentialUse;
  readonly #way: MessageWay;
  readonly #idle: IdleLearning;
  readonly #discovery: Discovery;
  readonly #posts: Posts;
  readonly #contract: ContractUse;
  readonly #gates: GateUse;
  readonly #ending: Ending;
  #face: Face | undefined;
  #lastCallMs: number | undefined;

  /** `parts.http`: the way to a server that is not reached by HTTP. */
  constructor(options: ResolvedHostedOptions, parts: { http?: OwnHttp } = {}) {
    this.#options = options;
    const { clock, http, url, credentials } = options;
    this.#http =
      parts.http?.(this.#redactor, (id, reason, how) => {
        const { session } = this.#keeper;
        if (session?.revealId() === id) this.#keeper.lost(session, reason, false, how);
      }) ?? createHttpClient(http, clock);
    this.#limiter = new Limiter(options.rateLimit, {
      clock,
      tell: (event, payload) => this.#emitter.emit(event, payload as never),
    });
    const serverLimits = new ServerLimits({
      clock,
      respects: options.rateLimit.respectServer,
      pause: (forMs) => this.#limiter.pause(forMs),
    });
    this.#credential = new CredentialUse(credentials, url);
    this.#wire = new Wire({
      url,
      http: this.#http,
      clock,
      redactor: this.#redactor,
      headers: http.headers,
      maxMessageBytes: http.maxMessageBytes,
      affinityCookies: http.affinityCookies,
      toll: this.#limiter,
      onHead: (head) => serverLimits.heard(head),
      onExchange: (done) => this.#emitter.emit('exchange', done),
      wantsExchanges: () => this.#emitter.wants('exchange'),
      onCut: (cut) => this.#idle.cut(cut),
    });
    this.#idle = new IdleLearning({
      emitter: this.#emitter,
      stats: this.stats,
      http: this.#http,
      keepAliveTimeoutMs: http.keepAliveTimeoutMs,
      idleLimitMs: options.streams.idleLimitMs,
    });
    const onMessage = (message: JsonRpcMessage, session: Session | undefined, about?: Call) =>
      this.#deliver(message, session, about);
    this.#gates = new GateUse({
      options,
      stats: this.stats,
      emitter: this.#emitter,
      redactor: this.#redactor,
      session: () => this.#keeper.session,
      readTools: () => this.#contract.snapshot(),
    });
    this.#setUp = new SetUp({ clock, wire: this.#wire, options: this.#gates.sessionOptions, onMessage });
    this.#lifecycle = new Lifecycle({
      options,
      wire: this.#wire,
      ledger: this.#ledger,
      emitter: this.#emitter,
      serverRequests: this.#serverRequests,
      toll: this.#limiter,
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
        this.#gates
          .established(session, signal)
          .then(() => this.#setUp.run(session, previous, reason, signal))
          .catch((error: unknown) => {
            this.#lifecycle.withdraw(session);
            throw error;
          }),
      onEstablished: (session, previous, reason) => this.#lifecycle.established(session, previous, reason),
      onSuspect: (session, reason) =>
        this.#emitter.emit('session-suspect', { session: session.info, reason }),
      onLost: (session, reason, cause) => this.#lifecycle.lost(session, reason, cause),
    });
    this.#discovery = new Discovery(this.#keeper, clock);
    this.#contract = new ContractUse({
      options,
      emitter: this.#emitter,
      redactor: this.#redactor,
      keeper: this.#keeper,
      request: (message, own) => this.request(message, own),
      close: () => void this.close(),
    });
    this.#way = new MessageWay({
      options,
      contract: this.#contract.watch,
      discovery: this.#discovery,
      credential: this.#credential,
      keeper: this.#keeper,
      wire: this.#wire,
      limiter: this.#limiter,
      serverLimits,
      setUp: this.#setUp,
      gates: this.#gates,
      stats: this.stats,
      emitter: this.#emitter,
      deliver: onMessage,
      opening: () => this.#lifecycle.opening,
    });
    this.#posts = new Posts({
      wire: this.#wire,
      keeper: this.#keeper,
      credential: this.#credential,
      classify: (facts, session, credential) => this.#way.classify(facts, session, credential),
      deliver: onMessage,
      onPosted: () => this.#lifecycle.callEnded(),
    });
    const providerEvents = hearProvider(credentials, {
      emitter: this.#emitter,
      keeper: this.#keeper,
      credential: this.#credential,
      limiter: this.#limiter,
    });
    this.#ending = new Ending({
      clock,
      credentials,
      wire: this.#wire,
      http: this.#http,
      ledger: this.#ledger,
      keeper: this.#keeper,
      lifecycle: this.#lifecycle,
      posts: this.#posts,
      audit: this.#gates.audit,
      others: [
        { close: () => providerEvents?.dispose() },
        this.#limiter,
        { close: () => this.#contract.watch?.close() },
        this.#emitter,
      ],
    });
    observe(this, { options, emitter: this.#emitter, ledger: this.#ledger, redactor: this.#redactor });
  }

  get state(): ConnectionState {
    return this.#keeper.state;
  }
  get session(): SessionInfo | undefined {
    return this.#gates.session;
  }

  snapshot(options?: SnapshotOptions): Promise<ContractSnapshot> {
    return this.#contract.snapshot(options);
  }

  acceptContract(snapshot?: ContractSnapshot): void {
    if (this.#contract.watch === undefined) throw new TypeError('acceptContract needs the option `contract`');
    this.#contract.watch.accept(snapshot);
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
    return healthOf(this.#keeper, this.#limiter, this.#options.clock);
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
    // `list_changed` is heard there.
    this.#lifecycle.setListening(wanted || this.#gates.watchesTools);
  }

  /** Sends a request; resolves with the server's own answer, rejects with a `HostedMcpError`. */
  request(message: JsonRpcRequest, options: RequestOptions = {}): Promise<JsonRpcResponse> {
    const { clock, retry } = this.#options;
    const call = new Call(message, options, clock, retry.maxElapsedMs, (ended, error) =>
      this.#ended(ended, error),
    );
    options.onCall?.(call);
    this.#ledger.add(call);
    if (this.#ending.hasBegun) {
      call.fail(this.#ending.error(call));
      return call.promise;
    }
    if (options.isOwn !== true) this.#contract.seen(message);
    if (this.#lastCallMs !== undefined && this.#ledger.waiting === 1 && isOfAgent(call)) {
      this.#idle.gap(call.startedAtMs - this.#lastCallMs);
    }
    (call.trace?.within(() => this.#way.travel(call)) ?? this.#way.travel(call)).then(
      (answer) => call.succeed(answer),
      (error) =>
        call.fail(
          HostedMcpError.isInstance(error) ? asTheLedgerSays(call, error) : brokenOnTheWay(call, error),
        ),
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
      this.#posts
        .send(notice ?? { jsonrpc: '2.0', method: 'notifications/cancelled', params }, session)
        .catch(() => {});
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
    await this.#posts.send(message, session);
  }

  /** Sends the face's answer to a server's request, to the session that asked; to nobody if that is gone. */
  async respond(message: JsonRpcResponse): Promise<void> {
    const bound = this.#serverRequests.outgoing(message);
    if (bound !== undefined && !this.#ending.hasBegun) await this.#posts.send(bound.message, bound.session);
  }

  /** DELETEs the session; the next call opens another. */
  terminateSession(): Promise<void> {
    return this.#lifecycle.rest();
  }

  close(options: { deleteSession: boolean } = { deleteSession: true }): Promise<void> {
    return this.#ending.close(options.deleteSession);
  }

  revoke(reason?: string): Promise<Revocation> {
    return this.#ending.revoke(reason);
  }

  #ended(call: Call, error: unknown): void {
    this.#ledger.remove(call);
    const { clock } = this.#options;
    const durationMs = clock.monotonic() - call.startedAtMs;
    if (isOfAgent(call)) {
      this.#lastCallMs = clock.monotonic();
      this.stats.ended(call, durationMs, error);
    }
    if (call.options.isOwn !== true && this.#emitter.wants('call')) {
      this.#emitter.emit('call', doneFacts(call, clock.now() - durationMs, durationMs, error));
    }
    this.#gates.audit?.ended(call, error, durationMs);
    this.#lifecycle.callEnded();
  }

  #stands(session: Session): void {
    const id = session.revealId();
    this.#face?.onSession(id, this.#gates.shown(session.info));
  }

  #deliver(message: JsonRpcMessage, session: Session | undefined, about?: Call): void {
    if (session?.phase === 'ended' || isOwnProgress(message)) return;
    this.#gates.heard(message, session);
    if ('method' in message && message.method === 'notifications/tools/list_changed')
      this.#contract.watch?.changed();
    const known = session === undefined ? message : this.#serverRequests.incoming(message, session);
    this.#face?.onMessage(known, about);
  }
}

/** What it did not do itself, and somebody waits for: how long a subscription stood is no latency, and its end no call. */
function isOfAgent({ method, options }: Call): boolean {
  return method !== LISTEN && options.isOwn !== true;
}
