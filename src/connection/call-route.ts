/**
 * How a call travels, for one exchange.
 *
 * Guarantees that a call which has ended, was lost with its session or has paid too long ago is stopped before a byte of
 * it leaves; and that messages beside its answer are told as its own. Never waits for anything.
 */
import type { Credential } from '../credentials/provider.js';
import type { ExchangeHandle } from '../http/exchange.js';
import type { JsonRpcMessage } from '../json-rpc.js';
import type { Session } from '../session/session.js';
import { RecentIds } from '../streams/recent-ids.js';
import type { Subscription } from '../streams/subscription.js';
import type { Call } from './ledger.js';
import { HELD_BACK, isHeldBackNow, type Payment } from './payment.js';
import type { Route } from './route.js';
import type { MessageWayParts } from './way-parts.js';

export class CallRoute implements Route {
  readonly toll = 'paid';
  readonly protocolVersion: string | undefined;
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** It was stopped at the last moment, and nothing left. */
  isHeldBack = false;
  /** Ids of events that have come. */
  seen: Set<string> | undefined;
  readonly subscribed: Subscription | undefined;
  readonly #call: Call;
  readonly #payment: Payment;
  readonly #parts: MessageWayParts;

  constructor(
    call: Call,
    readonly session: Session,
    readonly credential: Credential,
    given: Pick<Route, 'protocolVersion' | 'headers'>,
    subscribed: Subscription | undefined,
    payment: Payment,
    parts: MessageWayParts,
  ) {
    this.protocolVersion = given.protocolVersion;
    this.headers = given.headers;
    this.subscribed = subscribed;
    this.#call = call;
    this.#payment = payment;
    this.#parts = parts;
  }

  /** Whether an answer that was cut can be asked for by the id of the last event. */
  get hasCursors(): boolean {
    return this.session.info.era === 'initialize' && this.session.road === undefined;
  }

  onSent(): void {
    const call = this.#call;
    if (call.ended) throw call.signal.reason;
    // Lost while a socket was waited for: the call goes out on the next session.
    const isLost = call.phase === 'queued' && this.session.phase === 'ended';
    if (isLost || isHeldBackNow(call, this.#payment, this.#parts)) {
      this.isHeldBack = true;
      throw HELD_BACK;
    }
    call.markSent(this.session);
  }

  attach(handle: ExchangeHandle): void {
    (this.subscribed ?? this.#call).attach(handle);
  }

  onMessage(message: JsonRpcMessage): void {
    if (this.subscribed === undefined) this.#parts.deliver(message, this.session, this.#call);
    else this.subscribed.receive(message);
  }

  onEventId(id: string): void {
    if (!this.hasCursors) return;
    this.seen ??= new RecentIds();
    this.seen.add(id);
    this.#call.options.onresumptiontoken?.(id);
  }
}
