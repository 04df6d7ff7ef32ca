/**
 * The proxy in front of the simulator: its limits, its shapes of a cut, and what it keeps from the server.
 *
 * Guarantees that every limit is counted on the server's clock, and that no timer outlives its answer or the
 * server. Never looks into a body: it sees bytes and silence, as a proxy does.
 */
import type { IncomingMessage } from 'node:http';
import type { Clock, Timer } from '../clock.js';
import type { Answer, AnswerWay } from './answer.js';
import type { ServerOptions } from './options.js';

type Limits = Pick<
  ServerOptions,
  'idleCutMs' | 'ageCutMs' | 'silentDropMs' | 'cutShape' | 'keepAbandonedMs' | 'keepAliveHintMs'
>;

/** Statuses that proxies were seen to give for a server that they cannot reach just now. */
const PAGES_AFTER_A_CUT: readonly number[] = [502, 503, 504];
const PAGE_TITLES: Readonly<Record<number, string>> = {
  502: '502 Bad Gateway',
  503: '503 Service Temporarily Unavailable',
  504: '504 Gateway Time-out',
};

export class Intermediary {
  readonly #clock: Clock;
  readonly #limits: () => Limits;
  readonly #ways = new Set<Way>();
  /** Pages due, by what a proxy can tell clients apart by. */
  readonly #pages = new Map<string, number[]>();

  constructor(clock: Clock, limits: () => Limits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  /** The limits hold for this answer from now on. */
  guard(request: IncomingMessage, answer: Answer): void {
    const { keepAliveHintMs } = this.#limits();
    if (keepAliveHintMs !== undefined) {
      answer.extraHeaders['keep-alive'] = `timeout=${Math.ceil(keepAliveHintMs / 1000)}`;
    }
    const way = new Way(answer, this.#clock, this.#limits, () => {
      this.#pages.set(clientOf(request), [...PAGES_AFTER_A_CUT]);
    });
    this.#ways.add(way);
    answer.onClosed(() => {
      way.stop();
      this.#ways.delete(way);
    });
  }

  /** Answers a request for a stream with a page, where one is due; true where it did. */
  answersWithPage(request: IncomingMessage, answer: Answer): boolean {
    const status = this.#pages.get(clientOf(request))?.shift();
    if (status === undefined) return false;
    sendPage(answer, status);
    return true;
  }

  /** The limits were changed. */
  onLimitsChanged(): void {
    for (const way of this.#ways) way.arm();
  }

  /** The server hears of every client that has left. */
  releaseAbandoned(): void {
    for (const way of [...this.#ways]) way.releaseIfAbandoned();
  }

  /** No limit and no pretence holds any more for the answers under way. */
  letGo(): void {
    for (const way of [...this.#ways]) way.stop();
  }
}

/** The way of one answer. */
class Way implements AnswerWay {
  readonly #answer: Answer;
  readonly #clock: Clock;
  readonly #limits: () => Limits;
  readonly #beginMs: number;
  readonly onStatusCut: () => void;
  #lastSentMs: number;
  #streamSinceMs = Number.POSITIVE_INFINITY;
  #abandonedSinceMs: number | undefined;
  #dropped = false;
  #stopped = false;
  #timer: Timer | undefined;

  constructor(answer: Answer, clock: Clock, limits: () => Limits, onStatusCut: () => void) {
    this.#answer = answer;
    this.#clock = clock;
    this.#limits = limits;
    this.onStatusCut = onStatusCut;
    this.#beginMs = clock.monotonic();
    this.#lastSentMs = this.#beginMs;
    answer.way = this;
    this.arm();
  }

  onSent(): void {
    this.#lastSentMs = this.#clock.monotonic();
    if (!this.#answer.isEventStream || this.#streamSinceMs !== Number.POSITIVE_INFINITY) return;
    this.#streamSinceMs = this.#lastSentMs;
    this.arm();
  }

  keepsAbandoned(): boolean {
    return !this.#stopped && this.#limits().keepAbandonedMs !== undefined;
  }

  onAbandoned(): void {
    this.#abandonedSinceMs = this.#clock.monotonic();
    this.arm();
  }

  releaseIfAbandoned(): void {
    if (this.#abandonedSinceMs !== undefined) this.#answer.release();
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.clear();
    this.#timer = undefined;
    this.releaseIfAbandoned();
  }

  /** Sets the timer for whatever comes first. Bytes do not set it anew: it looks again when it is due. */
  arm(): void {
    this.#timer?.clear();
    this.#timer = undefined;
    if (this.#stopped) return;
    const dueMs = Math.min(this.#cutDueMs(), this.#dropDueMs(), this.#releaseDueMs());
    if (dueMs === Number.POSITIVE_INFINITY) return;
    const waitMs = dueMs - this.#clock.monotonic();
    this.#timer = this.#clock.setTimeout(() => this.#onDue(), waitMs, { background: true });
  }

  #onDue(): void {
    const nowMs = this.#clock.monotonic();
    if (this.#releaseDueMs() <= nowMs) this.#answer.release();
    else if (this.#dropDueMs() <= nowMs) {
      this.#dropped = true;
      this.#answer.drop();
    } else if (this.#cutDueMs() <= nowMs) this.#cut();
    this.arm();
  }

  #cutDueMs(): number {
    // What has got lost beyond the proxy is out of its reach.
    if (this.#dropped) return Number.POSITIVE_INFINITY;
    const { idleCutMs, ageCutMs } = this.#limits();
    return Math.min(this.#lastSentMs + idleCutMs, this.#beginMs + ageCutMs);
  }

  #dropDueMs(): number {
    return this.#dropped ? Number.POSITIVE_INFINITY : this.#streamSinceMs + this.#limits().silentDropMs;
  }

  #releaseDueMs(): number {
    const since = this.#abandonedSinceMs;
    return since === undefined
      ? Number.POSITIVE_INFINITY
      : since + (this.#limits().keepAbandonedMs ?? Number.NEGATIVE_INFINITY);
  }

  #cut(): void {
    const answer = this.#answer;
    // Held until the bytes have left, so that a manual clock does not run ahead of the cut.
    const hold = this.#clock.track?.();
    answer.onClosed(() => hold?.dispose());
    this.#stopped = true;
    if (!answer.isStarted) {
      sendPage(answer, 504);
      return;
    }
    const { cutShape } = this.#limits();
    if (cutShape === 'status') this.onStatusCut();
    answer.cut(cutShape === 'status' ? 'fin' : cutShape);
    // The client has left before, and nothing was there to be cut.
    this.releaseIfAbandoned();
  }
}

function sendPage(answer: Answer, status: number): void {
  const title = PAGE_TITLES[status] ?? String(status);
  const page = `<html><head><title>${title}</title></head><body><center><h1>${title}</h1></center></body></html>\n`;
  answer.send(status, { 'content-type': 'text/html' }, page);
}

function clientOf(request: IncomingMessage): string {
  return String(request.headers['mcp-session-id'] ?? '');
}
