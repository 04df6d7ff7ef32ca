/**
 * A grant that presents a token and gets one (RFC 8693, RFC 7523): what token exchange and JWT bearer share.
 *
 * Guarantees that getting what is presented and the token request together take no longer than one token request may,
 * and that a failure on the way is the outcome that says who failed. Spends nothing: a store or a lease is a saving
 * only, and no token request is held back for one. Never presents a token twice, unless its source gives it twice.
 */
import type { Clock } from '../clock.js';
import { HostedMcpError } from '../errors.js';
import type { Grant } from './grant.js';
import { elapsedSince, momentOf } from './moment.js';
import type { AskingForToken } from './presented-token.js';
import { closedError, problemOf } from './problem.js';
import type { Presentation, TokenEndpoint, TokenOutcome, TokenRequest } from './token-endpoint.js';
import type { RevokedToken } from './token-revocation.js';

export type FailedOutcome = Exclude<TokenOutcome, { readonly kind: 'token' }>;

export interface PresentingGrantOptions {
  readonly endpoint: TokenEndpoint;
  readonly clock: Clock;
  /** Gets what this one request presents. What it throws is a failure of the source. */
  present(request: TokenRequest, asking: AskingForToken): Promise<Presentation | FailedOutcome>;
  /** Another grant that `present` uses. */
  readonly before?: Grant | undefined;
}

export class PresentingGrant implements Grant {
  readonly spendsRefreshToken = false;
  readonly #options: PresentingGrantOptions;
  readonly #asking = new Set<AbortController>();

  constructor(options: PresentingGrantOptions) {
    this.#options = options;
  }

  async prepare(): Promise<void> {
    await Promise.all([this.#options.before?.prepare(), this.#options.endpoint.prepare()]);
  }

  /** Never rejects. */
  async request(request: TokenRequest): Promise<TokenOutcome> {
    const { clock, endpoint, present } = this.#options;
    const started = momentOf(clock);
    const leftMs = () => request.timeoutMs - elapsedSince(started, clock);
    const controller = new AbortController();
    this.#asking.add(controller);
    let presented: Presentation | FailedOutcome;
    try {
      presented = await present(request, { signal: controller.signal, leftMs });
      if (!('kind' in presented) && leftMs() <= 0) throw lateError();
    } catch (error) {
      // Of two functions that were asked, one may still be at it.
      controller.abort(error);
      return failureOfSource(error);
    } finally {
      this.#asking.delete(controller);
    }
    if ('kind' in presented) return presented;
    const { scope, resource } = request;
    return await endpoint.request({ scope, resource, presented, timeoutMs: leftMs() });
  }

  revoke(tokens: readonly RevokedToken[], timeoutMs: number): Promise<'revoked' | 'unsupported'> {
    return this.#options.endpoint.revoke(tokens, timeoutMs);
  }

  async close(): Promise<void> {
    for (const controller of this.#asking) controller.abort(closedError());
    await Promise.all([this.#options.before?.close(), this.#options.endpoint.close()]);
  }
}

/** A failure that will be over is an outage, which is backed off; what an app calls final is latched like a refusal. */
function failureOfSource(error: unknown): FailedOutcome {
  const problem = problemOf(error, {
    code: 'ERR_CREDENTIAL_SOURCE',
    what: 'The token to present could not be had',
    fields: { retryable: true },
  });
  if (problem.fields?.retryable !== true) return { kind: 'refused', problem };
  return { kind: 'unavailable', problem, retryAfterMs: problem.fields.retryAfterMs, inDoubt: false };
}

function lateError(): HostedMcpError {
  return new HostedMcpError('ERR_CREDENTIAL_SOURCE', 'The token to present came too late', {
    retryable: true,
    reason: 'timeout',
  });
}
