/**
 * A wider scope, when a server asks for one (RFC 6750, 3.1 `insufficient_scope`).
 *
 * Guarantees that a set of scopes is asked for once however many callers and refusals name it, and only by
 * grants that can get more than they have: a refresh token never can (RFC 6749, 6). Never narrows a scope.
 */
import { HostedMcpError } from '../errors.js';
import type { Holding } from './held-token.js';
import type { Latches } from './latches.js';
import { problemError } from './problem.js';
import type { AcquireOptions } from './provider.js';
import type { RenewalResult } from './renewal.js';
import { coversScope, isScope, unionScope } from './scopes.js';

/** A server that names ever new scopes must not make us ask for ever. */
const MAX_SCOPE_SETS = 20;

export interface ScopeStepUpOptions {
  readonly holding: Holding;
  readonly latches: Latches;
  readonly spendsRefreshToken: boolean;
  renewWithScope(scope: string): Promise<RenewalResult>;
  /** A machine's credential is never widened without a word. */
  widened(scope: string): void;
}

export class ScopeStepUp {
  readonly #options: ScopeStepUpOptions;
  readonly #asked = new Map<string, Promise<RenewalResult>>();

  constructor(options: ScopeStepUpOptions) {
    this.#options = options;
  }

  /** Resolves when the held token has `scope`. Throws `ERR_INSUFFICIENT_SCOPE`, or why it could not be asked for. */
  async widen(
    scope: string,
    rejected: AcquireOptions['rejected'],
    wait: <T>(work: Promise<T>) => Promise<T>,
  ): Promise<void> {
    const { holding, latches, spendsRefreshToken } = this.#options;
    const token = holding.token;
    const isNewer = rejected !== undefined && token !== undefined && rejected.generation < token.generation;
    if (token !== undefined && coversScope(token.scope, scope) && (rejected?.status !== 403 || isNewer))
      return;
    if (spendsRefreshToken || !isScope(scope)) throw insufficientScope(scope);
    const union = unionScope(holding.asked, token?.scope, scope);
    let asking = this.#asked.get(union);
    if (asking === undefined) {
      if (this.#asked.size >= MAX_SCOPE_SETS) throw insufficientScope(scope);
      const blocked = latches.refusal() ?? (latches.waitMs() > 0 ? latches.outage() : undefined);
      if (blocked !== undefined) throw blocked;
      asking = this.#options.renewWithScope(union).then((result) => {
        if (result.kind === 'minted') this.#options.widened(union);
        return result;
      });
      this.#asked.set(union, asking);
    }
    const result = await wait(asking);
    if (result.kind === 'unavailable') {
      this.#asked.delete(union);
      throw problemError(result.problem, { retryAfterMs: Math.ceil(latches.waitMs()) });
    }
    const now = holding.token;
    if (result.kind !== 'minted' || !coversScope(now?.scope, scope)) throw insufficientScope(scope);
    // Asked for, granted, and refused again.
    if (rejected?.status === 403 && rejected.generation >= (now?.generation ?? 0))
      throw insufficientScope(scope);
  }
}

export function insufficientScope(scope: string): HostedMcpError {
  return new HostedMcpError(
    'ERR_INSUFFICIENT_SCOPE',
    'The credential lacks a scope that the server asks for',
    {
      requiredScope: scope.slice(0, 2048),
    },
  );
}
