/**
 * What one connection makes of a server's words on its limit.
 *
 * Guarantees that every answer's head is heard, of streams and recovery too, and that retries end while most
 * requests are refused. Never sends anything.
 */
import type { Clock } from '../clock.js';
import type { ExchangeFacts } from '../connection/facts.js';
import type { ResponseHead } from '../http/exchange.js';
import { isErrorResponse } from '../json-rpc.js';
import { backOffWithoutHint, RetryBudget } from './retry-budget.js';
import { pauseOfError, serverPause } from './server-hints.js';

interface ServerLimitsParts {
  readonly clock: Clock;
  /** Whether the app wants the server's word to count. */
  readonly respects: boolean;
  pause(forMs: number): void;
}

export class ServerLimits {
  readonly #parts: ServerLimitsParts;
  readonly #budget = new RetryBudget();
  /** Refusals in a row that did not say how long. */
  #refusals = 0;

  constructor(parts: ServerLimitsParts) {
    this.#parts = parts;
  }

  /** Whether a request that the limit refused may go out once more after the pause. */
  get mayRetry(): boolean {
    return this.#parts.respects && this.#budget.mayRetry();
  }

  heard(head: ResponseHead): void {
    const { clock, respects } = this.#parts;
    const { status } = head;
    if (status < 400) {
      this.#refusals = 0;
      this.#budget.succeeded();
    }
    if (!respects) return;
    const hint = serverPause(head, clock.now());
    if (status === 429) this.#refused(hint?.pauseMs);
    else if (hint !== undefined) this.#parts.pause(hint.pauseMs);
  }

  /** Some say it in the JSON-RPC error as well (SEP-3304). */
  told(facts: ExchangeFacts): void {
    const pauseMs = isErrorResponse(facts.message) ? pauseOfError(facts.message.error) : undefined;
    if (this.#parts.respects && pauseMs !== undefined) this.#parts.pause(pauseMs);
  }

  #refused(pauseMs: number | undefined): void {
    this.#budget.failed();
    this.#parts.pause(pauseMs ?? backOffWithoutHint(this.#refusals++, this.#parts.clock));
  }
}
