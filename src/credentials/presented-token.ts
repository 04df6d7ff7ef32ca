/**
 * A token that is presented to a token endpoint to get another one: a subject token, an actor token, an assertion.
 *
 * Guarantees that a function is asked for every token request, once, and has the time of that request; and that one
 * that fails, hangs or gives no token ends in `ERR_CREDENTIAL_SOURCE` in our words. Never keeps what a function gave
 * beyond its request, never stores it and never quotes it.
 */
import type { Clock } from '../clock.js';
import { HostedMcpError } from '../errors.js';
import { within } from './deadline.js';
import { Secret } from './secret.js';

/**
 * A fixed text, or a function that is asked at every token request: such tokens are short-lived. The signal ends when
 * the time of the request is over or the provider is closed. Space around the token is cut off, as files end in a line
 * break. A function may throw a `HostedMcpError` of its own: it reaches the callers as it is, and is final unless it is
 * `retryable`. Whatever else it throws is tried again after a back-off.
 */
export type PresentedToken = string | ((request: { signal: AbortSignal }) => string | Promise<string>);

/** It stands in a body, not in a header: assertions with groups or in SAML are long. */
const MAX_LENGTH = 128 * 1024;

export interface AskingForToken {
  /** Ends the function's work. */
  readonly signal: AbortSignal;
  /** What is left of the time of the token request. */
  leftMs(): number;
}

export class PresentedTokenSource {
  readonly #name: string;
  readonly #given: Secret | Exclude<PresentedToken, string>;
  readonly #clock: Clock;

  /** Throws a `TypeError` that names the option. */
  constructor(name: string, given: PresentedToken, clock: Clock) {
    this.#name = name;
    this.#clock = clock;
    if (typeof given === 'function') {
      this.#given = given;
      return;
    }
    const text = textOf(given);
    if (text === undefined) {
      throw new TypeError(`${name} must be a token, or a function that gives one`);
    }
    this.#given = new Secret(text);
  }

  /** Throws what the function threw where that is ours, else `ERR_CREDENTIAL_SOURCE`. */
  async read({ signal, leftMs }: AskingForToken): Promise<Secret> {
    const given = this.#given;
    if (given instanceof Secret) return given;
    let value: unknown;
    try {
      const asking = (async () => await given({ signal }))();
      value = await within(
        this.#clock,
        asking,
        Math.max(0, leftMs()),
        () => this.#failure('did not answer in time', 'timeout'),
        signal,
      );
    } catch (error) {
      if (HostedMcpError.isInstance(error)) throw error;
      throw this.#failure('failed', undefined, error);
    }
    const text = textOf(value);
    if (text === undefined) throw this.#failure('gave no token');
    return new Secret(text);
  }

  #failure(what: string, reason?: string, cause?: unknown): HostedMcpError {
    return new HostedMcpError('ERR_CREDENTIAL_SOURCE', `The function ${this.#name} ${what}`, {
      // It is asked again after a back-off.
      retryable: true,
      reason,
      cause,
    });
  }
}

function textOf(value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > MAX_LENGTH) return undefined;
  const text = value.trim();
  return /^[\x21-\x7e]+$/.test(text) ? text : undefined;
}
