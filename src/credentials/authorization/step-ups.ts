/**
 * How often a user is sent away for a wider scope.
 *
 * Guarantees a bound on it: a server that names ever new scopes must not send the user away for ever. Does no I/O.
 */
import type { Clock } from '../../clock.js';
import { HostedMcpError } from '../../errors.js';

const MAX_STEP_UPS = 2;
const WITHIN_MS = 10 * 60_000;

export class StepUps {
  readonly #clock: Clock;
  #madeAtMs: number[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get areSpent(): boolean {
    const sinceMs = this.#clock.monotonic() - WITHIN_MS;
    this.#madeAtMs = this.#madeAtMs.filter((atMs) => atMs > sinceMs);
    return this.#madeAtMs.length >= MAX_STEP_UPS;
  }

  note(): void {
    this.#madeAtMs.push(this.#clock.monotonic());
  }
}

export function notGranted(
  scope: string,
  { authorizationUrl, reason }: { authorizationUrl?: string | undefined; reason?: string | undefined } = {},
): HostedMcpError {
  return new HostedMcpError(
    'ERR_INSUFFICIENT_SCOPE',
    'The user has not granted a scope that the server asks for',
    { requiredScope: scope.slice(0, 2_048), authorizationUrl, reason },
  );
}
