/**
 * The real engine over a network and a server under the model's hand, in fake time, and what must hold of it at
 * every moment.
 *
 * What is found at a moment when the engine would swallow an exception is kept in `violations` and thrown by `check`.
 */
import { getEventListeners } from 'node:events';
import { HostedConnection } from '../../src/connection/connection.js';
import type { Call } from '../../src/connection/ledger.js';
import type { Credential, CredentialProvider } from '../../src/credentials/provider.js';
import { HostedMcpError } from '../../src/errors.js';
import { isResult, type JsonRpcMessage, type JsonRpcResponse } from '../../src/json-rpc.js';
import { resolveHostedOptions } from '../../src/options.js';
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.js';
import { OPEN } from './open.js';
import { FakeServer, type ServerTraits } from './server.js';
import { type Exchange, FakeWire, type Purpose } from './wire.js';

export type CallKind = 'tool' | 'safe' | 'read';

export interface Traits extends ServerTraits {
  readonly seed: number;
  readonly boundToToken: 'detect' | boolean;
  readonly probe: 'ping' | 'off';
  readonly queuedCalls: 'continue' | 'reject';
  readonly resendOn401: 'once' | 'never';
  readonly maxAttempts: number;
  readonly idleTimeoutMs: number | undefined;
  readonly tokenLifetimeMs: number | undefined;
  readonly canRevoke: boolean;
}

interface Tracked {
  readonly id: number;
  readonly tag: string;
  readonly kind: CallKind;
  readonly startedMs: number;
  readonly hasDeadline: boolean;
  readonly controller: AbortController;
  call: Call | undefined;
  /** When it last had an exchange under way, and on which session it left. */
  carriedMs: number;
  sentOn: string | undefined;
  outcome: { readonly answer: JsonRpcResponse } | { readonly error: HostedMcpError } | undefined;
}

const URL_OF_THE_MODEL = 'https://model.example/mcp';
/** `retry.maxElapsedMs`: what bounds waits of callers whose time is not known. */
const WAIT_BOUND_MS = 50_000;
/** A call that has left is carried by an exchange, or by tries to take its answer up again. */
const UNCARRIED_BOUND_MS = 2 * WAIT_BOUND_MS;
/** `session.graceMs`: what has left may still be answered for so long. */
const GRACE_MS = 5_000;
/** A DELETE at the end has 2 s, a revocation 1 s. */
const CLOSE_BOUND_MS = 3_100;
/** Requests at one moment: more is a loop. */
const STORM = 400;
export const AUTOMATIC: readonly Purpose[] = [
  'initialize',
  'initialized',
  'probe',
  'read',
  'cancelled',
  'notice',
  'reply',
  'listen',
  'resume',
  'delete',
];

export class FakeCredentials implements CredentialProvider {
  readonly id = 'model';
  generation = 1;
  /** What comes of a renewal. */
  mode: 'ready' | 'waits' | 'fails' = 'ready';
  readonly #clock: ManualClock;
  readonly #lifetimeMs: number | undefined;
  #expiresAtMs: number | undefined;
  #waiting: (() => void)[] = [];
  revocation: 'revoked' | 'unsupported' | 'hangs' | 'rejects' = 'revoked';
  revoke?: NonNullable<CredentialProvider['revoke']>;

  constructor(clock: ManualClock, lifetimeMs: number | undefined, canRevoke: boolean) {
    this.#clock = clock;
    this.#lifetimeMs = lifetimeMs;
    this.#date();
    if (canRevoke) {
      this.revoke = async () => {
        if (this.revocation === 'hangs') return new Promise(() => {});
        if (this.revocation === 'rejects') throw new HostedMcpError('ERR_TOKEN_ENDPOINT', 'No');
        return this.revocation;
      };
    }
  }

  async acquire(
    _target: URL,
    options: Parameters<CredentialProvider['acquire']>[1] = {},
  ): Promise<Credential> {
    const { signal, rejected } = options;
    signal?.throwIfAborted();
    const isOver = this.#expiresAtMs !== undefined && this.#expiresAtMs <= this.#clock.now();
    if (rejected?.generation === this.generation || isOver) {
      if (this.mode === 'fails') throw new HostedMcpError('ERR_CREDENTIAL_REJECTED', 'No more tokens');
      if (this.mode === 'ready') this.rotate();
      else {
        const generation = this.generation;
        await new Promise<void>((resolve, reject) => {
          this.#waiting.push(resolve);
          signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
        });
        if (generation === this.generation) this.rotate();
      }
    }
    const generation = this.generation;
    const headers = () => ({ authorization: `Bearer token-${generation}` });
    return {
      generation,
      headers,
      ...(this.#expiresAtMs !== undefined && { expiresAtMs: this.#expiresAtMs }),
    };
  }

  rotate(): void {
    this.generation += 1;
    this.#date();
  }

  /** Those who wait for a token get one. */
  arrive(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  #date(): void {
    this.#expiresAtMs = this.#lifetimeMs === undefined ? undefined : this.#clock.now() + this.#lifetimeMs;
  }
}

export class Scene {
  readonly clock: ManualClock;
  readonly wire = new FakeWire();
  readonly server: FakeServer;
  readonly credentials: FakeCredentials;
  readonly connection: HostedConnection;
  readonly calls = new Map<number, Tracked>();
  readonly violations: string[] = [];
  /** What the server answers by itself. */
  automatic = new Set<Purpose>(AUTOMATIC);
  /** Ids of sessions by the number under which the engine took them up, in its order. */
  readonly taken = new Map<number, string>();
  current: string | undefined;
  /** The engine has said that they are lost, or replaced; or a server has told it so in words of MCP. */
  readonly lost = new Map<string, number>();
  readonly replaced = new Set<string>();
  readonly deleted = new Set<string>();
  /** Questions of the server that the face has seen and not answered. */
  readonly questions: { readonly key: JsonRpcMessage; readonly own: string }[] = [];
  readonly #askedBy = new Map<string, string>();
  closing: { readonly sinceMs: number; done: boolean } | undefined;
  readonly #open: ReadonlySet<string>;
  #isRevoking = false;
  /** A DELETE does not wait for the end of a pause that the server asked for: then it is left out. */
  #wasPaused = false;
  #calls = 0;
  #begun = 0;
  #asked = 0;

  /** `open`: what is not kept yet, and overlooked. */
  constructor(traits: Traits, open: ReadonlySet<string> = OPEN) {
    this.#open = open;
    this.clock = manualClock(undefined, { seed: traits.seed });
    this.server = new FakeServer(traits);
    this.server.listening = (id) =>
      [...this.wire.underWay].filter(
        ({ purpose, phase, sessionId }) => purpose === 'listen' && phase === 'open' && sessionId === id,
      );
    this.credentials = new FakeCredentials(this.clock, traits.tokenLifetimeMs, traits.canRevoke);
    const options = resolveHostedOptions(URL_OF_THE_MODEL, {
      clock: this.clock,
      credentials: this.credentials,
      session: {
        probe: traits.probe,
        boundToToken: traits.boundToToken,
        queuedCalls: traits.queuedCalls,
        idleTimeoutMs: traits.idleTimeoutMs,
      },
      streams: { listen: traits.listens },
      retry: { resendOn401: traits.resendOn401, maxAttempts: traits.maxAttempts, safeTools: ['safe'] },
    });
    this.wire.onBegin = (exchange) => this.#begins(exchange);
    this.wire.onLeft = (exchange) => this.#leaves(exchange);
    this.wire.onGivenUp = (exchange) => this.server.late.push(exchange);
    this.wire.onEnd = ({ id, cursor }) => {
      // Tries to take an answer up are short while the network is down, and stand between two looks.
      const resumed = /^call-(\d+)-/.exec(cursor ?? '')?.[1];
      const tracked = this.#trackedBy(resumed === undefined ? id : Number(resumed));
      if (tracked !== undefined) tracked.carriedMs = this.clock.monotonic();
    };
    this.connection = new HostedConnection(options, { http: () => this.wire });
    this.connection.attach({
      onMessage: (message) => this.#heard(message),
      onError: () => {},
      onSession: (id, info) => {
        const name = id ?? `none-${info.number}`;
        if (this.taken.has(info.number)) this.violations.push(`two sessions have the number ${info.number}`);
        this.taken.set(info.number, name);
        this.current = name;
      },
    });
    const idOf = (number: number) => this.taken.get(number) ?? '';
    this.connection.on('session-lost', ({ session }) =>
      this.lost.set(idOf(session.number), this.clock.monotonic()),
    );
    this.connection.on('session-replaced', ({ previous }) => this.replaced.add(idOf(previous.number)));
    this.connection.on('rate-paused', () => {
      this.#wasPaused = true;
    });
    this.connection.capture({
      jsonrpc: '2.0',
      id: 0,
      method: 'initialize',
      params: {
        protocolVersion: '2025-11-25',
        capabilities: {},
        clientInfo: { name: 'model', version: '1' },
      },
    });
  }

  get pending(): readonly Tracked[] {
    return [...this.calls.values()].filter(({ outcome }) => outcome === undefined);
  }

  /** What the server has and has not decided on. */
  get undecided(): readonly Exchange[] {
    return [...this.wire.underWay].filter(({ phase, decided }) => phase === 'sent' && !decided);
  }

  get streams(): readonly Exchange[] {
    return [...this.wire.underWay].filter(({ phase }) => phase === 'open');
  }

  // ---- what the agent does -----------------------------------------------------------------------

  call(kind: CallKind, timeoutMs: number | undefined): void {
    const id = ++this.#calls;
    const tag = `call-${id}`;
    const nowMs = this.clock.monotonic();
    const controller = new AbortController();
    const tracked: Tracked = {
      id,
      tag,
      kind,
      startedMs: nowMs,
      hasDeadline: timeoutMs !== undefined,
      controller,
      call: undefined,
      carriedMs: nowMs,
      sentOn: undefined,
      outcome: undefined,
    };
    this.calls.set(id, tracked);
    const _meta = { tag };
    const message =
      kind === 'read'
        ? { jsonrpc: '2.0' as const, id, method: 'tools/list', params: { _meta } }
        : {
            jsonrpc: '2.0' as const,
            id,
            method: 'tools/call',
            params: { name: kind === 'safe' ? 'safe' : 'work', arguments: {}, _meta },
          };
    const timer =
      timeoutMs === undefined
        ? undefined
        : this.clock.setTimeout(() => {
            const { call } = tracked;
            if (call !== undefined) this.connection.takeBack(call, call.error('ERR_TIMEOUT', 'Late'));
          }, timeoutMs);
    this.connection
      .request(message, {
        signal: controller.signal,
        deadlineMs: timeoutMs === undefined ? undefined : nowMs + timeoutMs,
        onCall: (call) => {
          tracked.call = call;
        },
      })
      .then(
        (answer) => {
          timer?.clear();
          tracked.outcome = { answer };
        },
        (error: unknown) => {
          timer?.clear();
          if (HostedMcpError.isInstance(error)) tracked.outcome = { error };
          else {
            this.violations.push(`${tag} was rejected with a foreign error: ${String(error)}`);
            tracked.outcome = { error: new HostedMcpError('ERR_PROTOCOL', 'foreign') };
          }
        },
      );
  }

  cancel(tracked: Tracked, how: 'signal' | 'notification'): void {
    if (how === 'signal') tracked.controller.abort();
    else {
      const params = { requestId: tracked.id };
      void this.connection.notify({ jsonrpc: '2.0', method: 'notifications/cancelled', params });
    }
  }

  notify(): void {
    this.connection
      .notify({ jsonrpc: '2.0', method: 'notifications/roots/list_changed' })
      .catch((error: unknown) => this.#mustBeOurs(error));
  }

  /** The person answers a question of the server. */
  respond(at: number): void {
    const [question] = this.questions.splice(at % Math.max(1, this.questions.length), 1);
    if (question === undefined || !('id' in question.key)) return;
    const { id } = question.key;
    this.connection
      .respond({ jsonrpc: '2.0', id: id as string, result: { own: question.own } })
      .catch((error: unknown) => this.#mustBeOurs(error));
  }

  close(how: 'close' | 'revoke'): void {
    // A revocation has its own time, also of what is closed.
    const isFirst = this.closing === undefined || (how === 'revoke' && !this.#isRevoking);
    const closing = isFirst ? { sinceMs: this.clock.monotonic(), done: false } : this.closing;
    this.closing = closing;
    this.#isRevoking ||= how === 'revoke';
    if (closing === undefined) return;
    const ended = how === 'close' ? this.connection.close() : this.connection.revoke('the model says so');
    ended.then(
      () => {
        closing.done = true;
      },
      () => this.violations.push(`${how}() rejected`),
    );
  }

  /** The server asks the person something, on a stream. */
  ask(stream: Exchange): void {
    const own = `question-${++this.#asked}`;
    this.#askedBy.set(own, stream.sessionId ?? '');
    stream.data(
      `data: ${JSON.stringify({ jsonrpc: '2.0', id: own, method: 'elicitation/create', params: { own } })}\n\n`,
    );
  }

  // ---- what must hold ----------------------------------------------------------------------------

  /** Lets everything come to rest, then looks. */
  async check(): Promise<void> {
    await this.clock.settle();
    this.#begun = 0;
    const nowMs = this.clock.monotonic();
    const wrong = this.violations;
    for (const tracked of this.calls.values()) this.#checkCall(tracked, nowMs);
    const { closing } = this;
    if (closing !== undefined) {
      if (this.pending.length > 0) wrong.push('a call outlived close()');
      if (this.connection.state !== 'closed')
        wrong.push(`the state after close() is ${this.connection.state}`);
      if (!closing.done && nowMs - closing.sinceMs > CLOSE_BOUND_MS)
        wrong.push('close() has not ended in time');
      if (closing.done && this.wire.underWay.size > 0) wrong.push('an exchange outlived close()');
      if (closing.done && !this.wire.isClosed) wrong.push('the HTTP client outlived close()');
      if (closing.done && this.clock.pendingTimers > 0) wrong.push('a timer outlived close()');
    }
    const found = wrong.filter((what) => ![...this.#open].some((known) => what.includes(known)));
    if (found.length > 0) throw new Error(found.join('\n'));
  }

  /** The world is kind again, time passes, the connection is closed: nothing may be left. */
  async finish(silent: boolean): Promise<void> {
    this.automatic = new Set(AUTOMATIC);
    this.wire.network = 'up';
    this.wire.connectAll();
    this.credentials.mode = 'ready';
    this.credentials.arrive();
    for (let round = 0; round < 8; round += 1) {
      for (const exchange of this.undecided) this.server.answer(exchange);
      await this.check();
      if (this.pending.length === 0) break;
      await this.clock.advance(WAIT_BOUND_MS / 2);
    }
    for (const { tag } of this.pending) this.violations.push(`${tag} never ends`);
    const isOrderly = this.closing === undefined && !this.#wasPaused;
    if (silent) this.automatic.clear();
    this.close('close');
    await this.check();
    await this.clock.advance(CLOSE_BOUND_MS);
    await this.check();
    if (this.closing?.done !== true) this.violations.push('close() never ends');
    for (const exchange of this.server.late) if (this.#mayRunLate(exchange)) this.server.run(exchange);
    const requests = this.#begunInAll;
    this.call('tool', undefined);
    this.notify();
    await this.clock.advance(600_000);
    await this.check();
    if (this.#begunInAll !== requests) this.violations.push('a request began after the end');
    if (isOrderly) this.#checkReleased();
    await this.check();
  }

  /** A request whose sender gave up may run once, as if it had only been slow. */
  runLate(at: number): void {
    const [exchange] = this.server.late.splice(at % Math.max(1, this.server.late.length), 1);
    if (exchange !== undefined && this.#mayRunLate(exchange)) this.server.run(exchange);
  }

  #mayRunLate({ purpose }: Exchange): boolean {
    return purpose === 'tool' || purpose === 'read';
  }

  #begunInAll = 0;

  #begins(exchange: Exchange): void {
    this.#begun += 1;
    this.#begunInAll += 1;
    const { purpose, sessionId } = exchange;
    const wrong = this.violations;
    if (this.#begun === STORM) wrong.push(`a storm: the ${STORM}th request of one moment is a ${purpose}`);
    if (this.#begun > STORM) this.automatic.clear();
    if (purpose === 'initialize') {
      if (sessionId !== undefined) wrong.push('an initialize carries a session id');
      for (const other of this.wire.underWay) {
        if (other === exchange) continue;
        if (other.purpose === 'initialize' || other.purpose === 'initialized')
          wrong.push('two handshakes at a time');
      }
    }
    if (purpose === 'delete' && sessionId !== undefined) this.deleted.add(sessionId);
    if (purpose === 'tool' || purpose === 'read') {
      if (this.lost.has(sessionId ?? '')) wrong.push(`a ${purpose} call begins on a lost session`);
      if (this.replaced.has(sessionId ?? '')) wrong.push(`a ${purpose} call begins on a replaced session`);
      if (this.deleted.has(sessionId ?? '')) wrong.push(`a ${purpose} call begins on a deleted session`);
      if (sessionId !== undefined && sessionId !== this.current)
        wrong.push(`a ${purpose} call begins on another session than the current one`);
    }
    if (purpose === 'reply' && exchange.message !== undefined) {
      const { id } = exchange.message as { id: string };
      if (this.#askedBy.get(id) !== sessionId) wrong.push('an answer of the face goes to another session');
    }
    // What ends things at the server may still go out.
    if (this.closing !== undefined && purpose !== 'delete' && purpose !== 'cancelled')
      wrong.push(`a ${purpose} begins after close()`);
  }

  #leaves(exchange: Exchange): void {
    const { purpose, sessionId, id } = exchange;
    const tracked = this.#trackedBy(id);
    if (tracked !== undefined) {
      tracked.carriedMs = this.clock.monotonic();
      tracked.sentOn = sessionId;
      if (tracked.outcome !== undefined) this.violations.push(`${tracked.tag} leaves after its end`);
      if (this.lost.has(sessionId ?? '')) this.violations.push(`${tracked.tag} leaves on a lost session`);
    }
    if (this.automatic.has(purpose))
      queueMicrotask(() => {
        if (exchange.phase === 'sent' && !exchange.decided) this.server.answer(exchange);
      });
  }

  #heard(message: JsonRpcMessage): void {
    if (!('method' in message)) return;
    if (message.method === 'elicitation/create')
      this.questions.push({ key: message, own: String(message.params?.own) });
    if (message.method === 'notifications/cancelled') {
      const at = this.questions.findIndex(({ key }) => 'id' in key && key.id === message.params?.requestId);
      if (at >= 0) this.questions.splice(at, 1);
    }
  }

  #trackedBy(id: unknown): Tracked | undefined {
    return typeof id === 'number' ? this.calls.get(id) : undefined;
  }

  #checkCall(tracked: Tracked, nowMs: number): void {
    const { tag, kind, outcome, startedMs, call } = tracked;
    const times = this.server.timesRun(tag);
    const wrong = (what: string) => this.violations.push(`${tag} (${kind}) ${what}`);
    if (kind === 'tool' && times > 1) wrong(`ran ${times} times`);
    if (outcome === undefined) {
      const lostMs = call?.phase === 'sent' ? this.lost.get(tracked.sentOn ?? '') : undefined;
      if (lostMs !== undefined && nowMs - lostMs > GRACE_MS) wrong('outlives the session it left on');
      const isCarried = [...this.wire.underWay].some(
        ({ id, cursor }) => id === tracked.id || cursor?.startsWith(`call-${tracked.id}-`) === true,
      );
      if (isCarried) tracked.carriedMs = nowMs;
      else if (call?.phase === 'queued' && nowMs - Math.max(startedMs, tracked.carriedMs) > WAIT_BOUND_MS)
        wrong('waits longer than it may');
      else if (nowMs - tracked.carriedMs > UNCARRIED_BOUND_MS) wrong('is carried by nothing');
      else if (
        this.clock.pendingTimers === 0 &&
        this.undecided.length === 0 &&
        this.credentials.mode !== 'waits'
      )
        if (this.wire.underWay.size === 0) wrong('waits for nothing');
      return;
    }
    if (getEventListeners(tracked.controller.signal, 'abort').length > 0) wrong('left a listener');
    if ('answer' in outcome) {
      if (isResult(outcome.answer) && times < 1) wrong('has a result and did not run');
      return;
    }
    const { executed, code, retryable } = outcome.error;
    if (executed === false && times > 0) wrong(`ran, and its ${code} says that it did not`);
    if (executed === true && times === 0) wrong(`did not run, and its ${code} says that it did`);
    if (retryable && executed !== false) wrong(`may have run, and its ${code} says that it may be repeated`);
  }

  /** A session that the engine came to know is one that it took up, gave back, or was told is gone. */
  #checkReleased(): void {
    const taken = new Set(this.taken.values());
    for (const { id, alive } of this.server.sessions.values()) {
      if (!alive || this.deleted.has(id) || this.lost.has(id)) continue;
      if (taken.has(id)) this.violations.push(`${id} was taken up and never given back`);
    }
  }

  #mustBeOurs(error: unknown): void {
    if (!HostedMcpError.isInstance(error)) this.violations.push(`a foreign error: ${String(error)}`);
  }
}
