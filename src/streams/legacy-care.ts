/**
 * What a session of HTTP+SSE needs while it stands: that its stream is not silent for long, and that its end
 * is told.
 *
 * Guarantees a `ping` whenever the stream has been silent for the interval, because its answer is bytes from
 * the server on that very stream, the only thing that keeps intermediaries from cutting it; and that a server
 * which ends every stream at once is left in peace. Ends with the stream. Never fails a call.
 */
import type { Clock, Timer } from '../clock.js';
import { classify, PLAIN_CONTEXT } from '../connection/classify.js';
import type { Ledger } from '../connection/ledger.js';
import type { StreamFacts } from '../connection/route.js';
import type { ConnectionEvents } from '../connection/types.js';
import type { Wire } from '../connection/wire.js';
import type { Credential } from '../credentials/provider.js';
import type { Emitter } from '../events.js';
import type { ExchangeHandle } from '../http/exchange.js';
import type { ResolvedHostedOptions } from '../options.js';
import { rejectionOf } from '../session/handshake.js';
import type { SessionKeeper } from '../session/keeper.js';
import type { Session } from '../session/session.js';
import { reopenGapMs } from './gaps.js';
import type { LegacyRoad } from './legacy-sse.js';

export interface LegacyCareParts {
  readonly options: Pick<ResolvedHostedOptions, 'clock' | 'streams' | 'credentials' | 'url'>;
  readonly wire: Wire;
  readonly ledger: Ledger;
  readonly emitter: Emitter<ConnectionEvents>;
  keeper(): SessionKeeper;
  /** Whether anything above would hear what the server says on its own account. */
  isHeard(): boolean;
  /** How long the way is known to leave a silent stream alone. */
  idleLimitMs(): number | undefined;
}

/** A stream that is cut sooner was cut neither for its silence nor for its age. */
const SHORT_LIVED_MS = 5_000;

export class LegacyCare {
  readonly #parts: LegacyCareParts;
  /** When the stream of the last session was cut, until the next one stands. */
  #cutAtMs: number | undefined;
  /** Sessions in a row that were of no use to anybody. */
  #useless = 0;
  #reopening: Timer | undefined;

  constructor(parts: LegacyCareParts) {
    this.#parts = parts;
  }

  /** A session stands that lives on this road. */
  take(session: Session, road: LegacyRoad): void {
    const { options, emitter } = this.#parts;
    this.stop();
    if (this.#cutAtMs !== undefined) {
      const gap = { session: session.number, gapMs: options.clock.monotonic() - this.#cutAtMs };
      this.#cutAtMs = undefined;
      emitter.emit('stream-reopened', { ...gap, resumed: false });
      emitter.emit('stream-gap', gap);
    }
    const pings = new Pings(session, road, this.#parts);
    road.onOver((cut) => {
      pings.stop();
      if (cut !== undefined) this.#cut(session, cut);
    });
  }

  /** No session is opened from here on but by a call. */
  stop(): void {
    this.#reopening?.clear();
    this.#reopening = undefined;
  }

  /**
   * The next session stands before the next call, unless this one was of no use to anybody. The way is to
   * blame for a cut; the server only where a call was lost by it before any was answered.
   */
  #cut(session: Session, { ageMs = 0, idleMs = 0 }: StreamFacts): void {
    const { options, emitter, ledger } = this.#parts;
    const keeper = this.#parts.keeper();
    emitter.emit('stream-cut', { session: session.number, ageMs, idleMs });
    if (session !== keeper.session) return;
    const { clock, streams } = options;
    this.#cutAtMs = clock.monotonic();
    const wasOfUse = session.answered > 0 || ageMs >= SHORT_LIVED_MS;
    this.#useless = wasOfUse ? 0 : this.#useless + 1;
    const counts = session.answered === 0 && ledger.sentOn(session).length > 0;
    keeper.lost(session, 'the stream that carried it was cut', false, { counts, opens: wasOfUse });
    if (wasOfUse || keeper.state !== 'idle' || !this.#parts.isHeard()) return;
    const gapMs = reopenGapMs(clock, this.#useless, undefined, streams.reopenMaxDelayMs);
    this.#reopening = clock.setTimeout(() => this.#reopen().catch(() => {}), gapMs, { background: true });
  }

  async #reopen(): Promise<void> {
    await this.#parts.keeper().ready();
  }
}

class Pings {
  readonly #session: Session;
  readonly #road: LegacyRoad;
  readonly #parts: LegacyCareParts;
  readonly #clock: Clock;
  #timer: Timer | undefined;
  #last: ExchangeHandle | undefined;
  #made = 0;

  constructor(session: Session, road: LegacyRoad, parts: LegacyCareParts) {
    this.#session = session;
    this.#road = road;
    this.#parts = parts;
    this.#clock = parts.options.clock;
    if (parts.options.streams.legacyPingIntervalMs > 0) this.#look();
  }

  stop(): void {
    this.#timer?.clear();
    this.#timer = undefined;
  }

  /** Half of a limit that is known leaves time for an answer. */
  get #intervalMs(): number {
    const { legacyPingIntervalMs } = this.#parts.options.streams;
    return Math.min(legacyPingIntervalMs, (this.#parts.idleLimitMs() ?? Number.POSITIVE_INFINITY) / 2);
  }

  /** One timer, however much is said on the stream: it looks again when the silence could be long enough. */
  #look(): void {
    const intervalMs = this.#intervalMs;
    const leftMs = this.#road.heardAtMs + intervalMs - this.#clock.monotonic();
    if (leftMs <= 0) this.#ping().catch(() => {});
    const nextMs = leftMs > 0 ? leftMs : intervalMs;
    this.#timer = this.#clock.setTimeout(() => this.#look(), nextMs, { background: true });
  }

  async #ping(): Promise<void> {
    const session = this.#session;
    // One at a time: whoever has not answered the last one is asked afresh.
    this.#last?.abort();
    const credential = await this.#credential();
    const facts = await this.#parts.wire.send(
      { jsonrpc: '2.0', id: `holdfast-keep-${++this.#made}`, method: 'ping' },
      {
        session,
        credential,
        attach: (handle) => {
          this.#last = handle;
        },
        onMessage: () => {},
      },
    );
    const verdict = classify(facts, PLAIN_CONTEXT);
    if (verdict.kind === 'session-lost')
      this.#parts.keeper().lost(session, verdict.reason, verdict.tentative);
    // The next one finds it renewed.
    else if (verdict.kind === 'credential') await this.#credential(rejectionOf(credential, facts));
  }

  /** A session that no longer takes calls is spoken to with its own credential, to its end. */
  async #credential(rejected?: ReturnType<typeof rejectionOf>): Promise<Credential> {
    if (this.#session.phase !== 'current') return this.#session.credential;
    const { credentials, url } = this.#parts.options;
    return credentials.acquire(url, rejected === undefined ? {} : { rejected });
  }
}
