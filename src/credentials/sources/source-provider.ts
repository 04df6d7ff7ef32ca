/**
 * The provider around any source of one value: a variable, a file, a command, a callback.
 *
 * Guarantees one reading at a time per target, a generation that moves exactly when the value changed, and
 * that a refused value is read once more before it is given up. Never keeps a value longer than its source
 * says, and never quotes it.
 */
import { type Clock, untilAborted } from '../../clock.js';
import type { Disposer } from '../../disposer.js';
import { HostedMcpError } from '../../errors.js';
import { makeCredential } from '../credential.js';
import { CredentialEvents } from '../credential-events.js';
import { within } from '../deadline.js';
import { elapsedSince, type Moment, momentOf } from '../moment.js';
import { DEFAULT_MAX_WAIT_MS } from '../options.js';
import { abortedError, closedError, type Problem, problemError, problemOf } from '../problem.js';
import type { AcquireOptions, Credential, CredentialEvent, CredentialProvider } from '../provider.js';
import { insufficientScope } from '../scope-step-up.js';
import { Secret } from '../secret.js';

export interface Reading {
  readonly value: string;
  /** Epoch milliseconds. */
  readonly expiresAtMs?: number | undefined;
  /** How long the reading need not be repeated; 0: it is repeated at every acquire. */
  readonly freshForMs: number;
}

export interface SourceOptions {
  readonly id: string;
  readonly clock: Clock;
  readonly header: string;
  readonly prefix: string;
  /** Gets `rejected: true` after a refusal of the value it gave last. Values are checked by the source. */
  read(request: { target: URL; signal: AbortSignal; rejected: boolean }): Promise<Reading>;
  /** What to say when the value was refused and reading it again brought the same. */
  readonly onUnchanged?: Problem | undefined;
}

interface Held {
  readonly generation: number;
  readonly secret: Secret;
  readonly target: string;
  readonly readAt: Moment;
  readonly freshForMs: number;
  readonly expiresAtMs?: number | undefined;
}

/** A refused value that its source still gives is not read again for every refusal; soon enough for a rewritten file. */
const UNCHANGED_LATCH_MS = 5_000;

const UNCHANGED: Problem = Object.freeze({
  code: 'ERR_CREDENTIAL_REJECTED' as const,
  what: 'The server refused the credential, and its source has no other',
  fields: { reason: 'rejected' },
});

export class SourceProvider implements CredentialProvider {
  readonly id: string;
  readonly #options: SourceOptions;
  readonly #clock: Clock;
  readonly #events = new CredentialEvents();
  readonly #closing = new AbortController();
  readonly #flights = new Map<string, Promise<Held>>();
  #held: Held | undefined;
  #generation = 0;
  /** This generation was refused and reading it again brought the same. */
  #unchanged: { readonly generation: number; readonly untilMs: number } | undefined;

  constructor(options: SourceOptions) {
    this.id = options.id;
    this.#options = options;
    this.#clock = options.clock;
  }

  async acquire(target: URL, options: AcquireOptions = {}): Promise<Credential> {
    if (this.#closing.signal.aborted) throw closedError();
    if (options.signal?.aborted === true) throw abortedError();
    const { rejected, scope } = options;
    // A value is what it is: only its issuer could widen it.
    if (rejected?.status === 403 && scope !== undefined) throw insufficientScope(scope);
    const held = this.#held;
    if (held !== undefined && rejected?.generation === held.generation) {
      return this.#credential(target, await this.#wait(this.#readAgain(target, held.generation), options));
    }
    if (held !== undefined && this.#isFresh(held, target)) return this.#credential(target, held);
    return this.#credential(target, await this.#wait(this.#flight(target, false), options));
  }

  onEvent(listener: (event: CredentialEvent) => void): Disposer {
    return this.#events.add(listener);
  }

  async close(): Promise<void> {
    this.#closing.abort(closedError());
    this.#held = undefined;
  }

  #isFresh(held: Held, target: URL): boolean {
    if (held.target !== target.href) return false;
    return elapsedSince(held.readAt, this.#clock) < held.freshForMs;
  }

  async #readAgain(target: URL, generation: number): Promise<Held> {
    const before = this.#unchanged;
    if (before?.generation === generation && this.#clock.monotonic() < before.untilMs)
      throw this.#refusedError();
    // A reading under way was begun before the refusal: what it brings may be the refused value.
    await this.#flights.get(keyOf(target, false))?.catch(() => {});
    if (this.#held !== undefined && this.#held.generation > generation) return this.#held;
    const held = await this.#flight(target, true);
    if (held.generation > generation) return held;
    this.#unchanged = { generation, untilMs: this.#clock.monotonic() + UNCHANGED_LATCH_MS };
    this.#held = { ...held, freshForMs: Math.min(held.freshForMs, UNCHANGED_LATCH_MS) };
    throw this.#refusedError();
  }

  #refusedError(): HostedMcpError {
    return problemError(this.#options.onUnchanged ?? UNCHANGED);
  }

  #flight(target: URL, rejected: boolean): Promise<Held> {
    const key = keyOf(target, rejected);
    let flight = this.#flights.get(key);
    if (flight === undefined) {
      // One listener per reading, not per caller.
      flight = untilAborted(this.#read(target, rejected), this.#closing.signal).finally(() =>
        this.#flights.delete(key),
      );
      // Every waiting caller may have left.
      flight.catch(() => {});
      this.#flights.set(key, flight);
    }
    return flight;
  }

  async #read(target: URL, rejected: boolean): Promise<Held> {
    const readAt = momentOf(this.#clock);
    let reading: Reading;
    try {
      reading = await this.#options.read({ target: new URL(target), signal: this.#closing.signal, rejected });
    } catch (error) {
      const problem = problemOf(error, {
        code: 'ERR_CREDENTIAL_SOURCE',
        what: 'The source of the credential failed',
      });
      const failure = problemError(problem);
      this.#events.emit({ type: 'failed', id: this.id, error: failure });
      throw failure;
    }
    return this.#take(reading, target, readAt);
  }

  #take(reading: Reading, target: URL, readAt: Moment): Held {
    const isNew = this.#held?.secret.reveal() !== reading.value;
    if (isNew) this.#generation += 1;
    const generation = this.#generation;
    const { expiresAtMs, freshForMs } = reading;
    const secret = new Secret(reading.value, generation);
    const held: Held = { generation, secret, target: target.href, readAt, freshForMs, expiresAtMs };
    this.#held = held;
    if (isNew && generation > 1)
      this.#events.emit({ type: 'refreshed', id: this.id, generation, expiresAtMs });
    return held;
  }

  /** The reading goes on for others when this caller leaves or can wait no longer. */
  async #wait<T>(work: Promise<T>, { signal, maxWaitMs }: AcquireOptions): Promise<T> {
    try {
      return await within(
        this.#clock,
        work,
        maxWaitMs ?? DEFAULT_MAX_WAIT_MS,
        () =>
          new HostedMcpError('ERR_CREDENTIAL_SOURCE', 'The source of the credential did not answer in time', {
            retryable: true,
            reason: 'timeout',
          }),
        signal,
      );
    } catch (error) {
      if (HostedMcpError.isInstance(error)) throw error;
      throw signal?.aborted === true ? abortedError() : error;
    }
  }

  #credential(target: URL, held: Held): Credential {
    return makeCredential({
      generation: held.generation,
      origin: target.origin,
      header: this.#options.header,
      prefix: this.#options.prefix,
      secret: held.secret,
      expiresAtMs: held.expiresAtMs,
    });
  }
}

function keyOf(target: URL, rejected: boolean): string {
  return `${rejected ? 'again' : 'first'} ${target.href}`;
}
