/**
 * How long one handshake may take.
 *
 * Guarantees that its time stands still while the rate limit or a credential is waited for, a person's consent perhaps,
 * which says nothing about the server. Never outlives its handshake.
 */
import { type Clock, type Timer, untilAborted } from '../clock.js';
import type { Wire } from '../connection/wire.js';
import { HostedMcpError } from '../errors.js';

interface BoundParts {
  readonly clock: Clock;
  readonly wire: Pick<Wire, 'pay'>;
}

/**
 * A handshake that somebody on the way has swallowed is made again after it, for all callers wait for it; the
 * later tries have all the time that is left, for servers that need long to wake up.
 */
const FIRST_TRY_MS = 15_000;
export class Bound {
  readonly #parts: BoundParts;
  readonly #ended: AbortSignal;
  readonly #controller = new AbortController();
  readonly #untilMs: number;
  #leftMs: number;
  #startedMs = 0;
  #timer: Timer | undefined;
  #isReleased = false;

  constructor(parts: BoundParts, ended: AbortSignal, attempt: number, untilMs: number) {
    this.#parts = parts;
    this.#ended = ended;
    this.#untilMs = untilMs;
    const leftMs = untilMs - parts.clock.monotonic();
    this.#leftMs = Math.max(attempt === 1 ? Math.min(FIRST_TRY_MS, leftMs) : leftMs, 1_000);
    if (ended.aborted) this.#onEnded();
    ended.addEventListener('abort', this.#onEnded, { once: true });
    this.#start();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  async pay(): Promise<void> {
    const paying = this.#parts.wire.pay('recovery', { untilMs: this.#untilMs, signal: this.signal });
    if (paying !== undefined) await this.aside(paying);
  }

  /** Waits for what is not the server's to do. Ends with the handshake. */
  async aside<T>(work: Promise<T>): Promise<T> {
    this.#timer?.clear();
    this.#leftMs -= this.#parts.clock.monotonic() - this.#startedMs;
    try {
      return await untilAborted(work, this.signal);
    } finally {
      if (!this.#isReleased) this.#start();
    }
  }

  release(): void {
    this.#isReleased = true;
    this.#timer?.clear();
    this.#ended.removeEventListener('abort', this.#onEnded);
  }

  #start(): void {
    this.#startedMs = this.#parts.clock.monotonic();
    this.#timer = this.#parts.clock.setTimeout(() => this.#controller.abort(lateError()), this.#leftMs);
  }

  readonly #onEnded = () => this.#controller.abort(this.#ended.reason);
}

function lateError(): HostedMcpError {
  return new HostedMcpError('ERR_TIMEOUT', 'The server did not complete the handshake in time', {
    method: 'initialize',
    retryable: true,
  });
}
