/**
 * One `subscriptions/listen` (MCP 2026-07-28, "Subscriptions"), kept alive for the Client that asked for it.
 *
 * Guarantees that a stream which was acknowledged once comes back by itself, however it ended; that the Client
 * sees one acknowledgement, one subscription id, and after each gap is told to read again what it
 * subscribed to. Never resumes (this revision has no cursor), and ends only with the call or by a refusal that
 * would be the same the next time.
 */
import { sleep } from '../clock.js';
import type { CredentialUse } from '../connection/credential-use.js';
import type { Call } from '../connection/ledger.js';
import { answeredAs, reissued, routeOf } from '../connection/outgoing.js';
import type { StreamFacts } from '../connection/route.js';
import type { ConnectionEvents } from '../connection/types.js';
import type { Wire } from '../connection/wire.js';
import type { AcquireOptions, Credential } from '../credentials/provider.js';
import type { Emitter } from '../events.js';
import type { ExchangeHandle } from '../http/exchange.js';
import { isErrorResponse, type JsonRpcMessage, type JsonRpcRequest, type RequestId } from '../json-rpc.js';
import type { ResolvedHostedOptions } from '../options.js';
import type { Toll } from '../rate-limit/toll.js';
import { rejectionOf } from '../session/handshake.js';
import type { Session } from '../session/session.js';
import { backOffMs, LIVED_MS, reopenGapMs } from './gaps.js';

export interface SubscriptionParts {
  readonly options: Pick<ResolvedHostedOptions, 'clock' | 'streams'>;
  readonly wire: Wire;
  readonly limiter: Toll;
  readonly credential: CredentialUse;
  readonly emitter: Emitter<ConnectionEvents>;
  deliver(message: JsonRpcMessage, session: Session): void;
}

const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';
const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged';
/** What a filter asks for by a flag, and the notification that makes a Client read that list again. */
const LISTS: readonly (readonly [string, string])[] = [
  ['toolsListChanged', 'notifications/tools/list_changed'],
  ['promptsListChanged', 'notifications/prompts/list_changed'],
  ['resourcesListChanged', 'notifications/resources/list_changed'],
];
/** Asking again brings the same: not a stream, not this method, not these parameters, not this version. */
const FINAL_FAILURES: ReadonlySet<string> = new Set([
  'redirect',
  'encoding',
  'invalid-request',
  'unsupported',
]);
const FINAL_CODES: ReadonlySet<number> = new Set([-32600, -32601, -32602, -32020, -32021, -32022]);
/** 404 is none of them: while a server is deployed its route may be missing for some seconds. */
const FINAL_STATUSES: ReadonlySet<number> = new Set([403, 405, 406, 415, 501]);

/** The acknowledgement is the first thing a server sends; one that comes later than this will not come. */
const OPENING_MS = 30_000;

export class Subscription {
  readonly #call: Call;
  readonly #session: Session;
  readonly #parts: SubscriptionParts;
  /** What the stream was asked for with: each one under an id of its own. */
  #request: JsonRpcRequest;
  #exchange: ExchangeHandle | undefined;
  #filter: Readonly<Record<string, unknown>>;
  /** The Client has its acknowledgement. */
  #stands = false;
  /** This stream was acknowledged, or brought something. */
  #open = false;
  #openedAtMs = 0;
  /** Messages of this stream, the acknowledgement not counted. */
  #carried = 0;
  #cutAtMs: number | undefined;
  #streams = 0;

  constructor(call: Call, first: JsonRpcRequest, session: Session, parts: SubscriptionParts) {
    this.#call = call;
    this.#session = session;
    this.#parts = parts;
    this.#request = first;
    this.#filter = asRecord(call.message.params?.notifications);
  }

  get stands(): boolean {
    return this.#stands;
  }

  /** The exchange that carries the stream. */
  attach(handle: ExchangeHandle): void {
    this.#exchange = handle;
    this.#call.attach(handle);
  }

  /** A message of the stream. */
  receive(message: JsonRpcMessage): void {
    const method = 'method' in message ? message.method : undefined;
    const params = 'method' in message ? asRecord(message.params) : {};
    // The server ends this stream on its own account; there will be another.
    if (method === 'notifications/cancelled' && params.requestId === this.#request.id) {
      const known = { ...message, params: { ...params, requestId: this.#call.id } };
      if (this.#stands) this.#exchange?.abort();
      else this.#deliver(known as JsonRpcMessage);
      return;
    }
    if (!this.#open) this.#openedAtMs = this.#parts.options.clock.monotonic();
    this.#open = true;
    const isAcknowledgement = method === ACKNOWLEDGED;
    if (isAcknowledgement) this.#filter = honoured(this.#filter, params.notifications);
    else this.#carried += 1;
    if (!isAcknowledgement || !this.#stands) this.#deliver(this.#known(message, params));
    if (isAcknowledgement) this.#stands = true;
    this.#reopened();
  }

  /** Opens the stream again and again; gives the facts by which the subscription ends. */
  async keep(first: StreamFacts): Promise<StreamFacts> {
    const { emitter, options } = this.#parts;
    const { clock } = options;
    const { reopenMaxDelayMs } = options.streams;
    const about = { session: this.#session.number };
    let facts: StreamFacts | undefined = first;
    let credential: Credential | undefined;
    /** The generation that a refusal was taken to the provider with. */
    let refused: number | undefined;
    let empty = 0;
    let failures = 0;
    for (;;) {
      if (this.#call.ended) throw this.#call.signal.reason;
      let waitMs: number;
      let rejected: AcquireOptions['rejected'];
      const refusal = facts === undefined ? undefined : refusalOf(facts);
      if (facts !== undefined && refusal !== undefined) {
        emitter.emit('stream-unavailable', { ...about, reason: refusal, final: true });
        return answeredAs(facts, this.#call.id);
      }
      if (facts !== undefined && this.#open) {
        this.#cutAtMs = clock.monotonic();
        const { ageMs = this.#cutAtMs - this.#openedAtMs, idleMs, retryMs } = facts;
        const method = this.#call.method;
        emitter.emit('stream-cut', { ...about, ageMs, ...(idleMs !== undefined && { idleMs }), method });
        failures = 0;
        empty = this.#carried > 0 || ageMs >= LIVED_MS ? 0 : empty + 1;
        waitMs = reopenGapMs(clock, empty, retryMs, reopenMaxDelayMs);
      } else {
        if (facts?.status === 401 && credential !== undefined && credential.generation !== refused) {
          refused = credential.generation;
          rejected = rejectionOf(credential, facts);
        } else failures += 1;
        waitMs = rejected !== undefined ? 0 : backOffMs(clock, failures, reopenMaxDelayMs);
      }
      await sleep(clock, waitMs, this.#call.signal);
      const isPaid = await this.#pay();
      credential = await this.#parts.credential
        .acquire(rejected === undefined ? {} : { rejected })
        .catch(() => undefined);
      facts = credential === undefined || !isPaid ? undefined : await this.#stream(credential);
    }
  }

  async #stream(credential: Credential): Promise<StreamFacts> {
    if (this.#call.ended) throw this.#call.signal.reason;
    this.#open = false;
    this.#carried = 0;
    this.#streams += 1;
    // The first one had as many ids as it had attempts.
    this.#request = reissued(this.#call.message, this.#call.attempts + this.#streams - 1);
    const giveUp = () => {
      if (!this.#open) this.#exchange?.abort();
    };
    const timer = this.#parts.options.clock.setTimeout(giveUp, OPENING_MS, { background: true });
    try {
      return await this.#parts.wire.send(this.#request, {
        session: this.#session,
        credential,
        toll: 'paid',
        ...routeOf(this.#request, this.#call.options.headers),
        attach: (handle) => this.attach(handle),
        onMessage: (message) => this.receive(message),
      });
    } finally {
      timer.clear();
    }
  }

  /** False where the rate limit leaves no request for it now. */
  async #pay(): Promise<boolean> {
    const { signal } = this.#call;
    try {
      await this.#parts.limiter.pay('reopen', { signal });
      return true;
    } catch {
      if (signal.aborted) throw signal.reason;
      return false;
    }
  }

  #reopened(): void {
    if (this.#cutAtMs === undefined) return;
    const gapMs = this.#parts.options.clock.monotonic() - this.#cutAtMs;
    const about = { session: this.#session.number, gapMs };
    // Without a cursor, what was sent meanwhile is lost.
    this.#parts.emitter.emit('stream-reopened', { ...about, resumed: false });
    this.#parts.emitter.emit('stream-gap', about);
    this.#cutAtMs = undefined;
    const _meta = { [SUBSCRIPTION_ID]: this.#call.id };
    for (const [flag, method] of LISTS) {
      if (this.#filter[flag] === true) this.#deliver({ jsonrpc: '2.0', method, params: { _meta } });
    }
    const uris = this.#filter.resourceSubscriptions;
    for (const uri of Array.isArray(uris) ? uris : []) {
      const params = { uri, _meta };
      if (typeof uri === 'string')
        this.#deliver({ jsonrpc: '2.0', method: 'notifications/resources/updated', params });
    }
  }

  #deliver(message: JsonRpcMessage): void {
    this.#parts.deliver(message, this.#session);
  }

  /** Under the id of the subscription that the Client knows. */
  #known(message: JsonRpcMessage, params: Readonly<Record<string, unknown>>): JsonRpcMessage {
    const meta = asRecord(params._meta);
    if (meta[SUBSCRIPTION_ID] !== this.#request.id || this.#request.id === this.#call.id) return message;
    const _meta = { ...meta, [SUBSCRIPTION_ID]: this.#call.id satisfies RequestId };
    return { ...message, params: { ...params, _meta } } as JsonRpcMessage;
  }
}

/** Why there is no use in asking again. */
function refusalOf(facts: StreamFacts): string | undefined {
  const { failure, message, status = 0, relation } = facts;
  if (failure !== undefined)
    return FINAL_FAILURES.has(failure.kind)
      ? 'the answer to it is one that cannot be read or followed'
      : undefined;
  if (relation === 'own' && isErrorResponse(message) && FINAL_CODES.has(message.error.code))
    return 'the server takes no such subscription';
  return FINAL_STATUSES.has(status) ? `the server refuses it (status ${status})` : undefined;
}

/** What the server agreed to, of what was asked; all of it where it does not say. */
function honoured(
  asked: Readonly<Record<string, unknown>>,
  agreed: unknown,
): Readonly<Record<string, unknown>> {
  if (typeof agreed !== 'object' || agreed === null) return asked;
  const named = agreed as Record<string, unknown>;
  return Object.fromEntries(Object.keys(asked).map((name) => [name, named[name]]));
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}
