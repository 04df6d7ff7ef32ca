/**
 * The states of a connection, and the one way from one to another.
 *
 * Guarantees that what arrives late changes nothing: a step that is not in the table is not made.
 */
import type { Clock } from '../clock.js';
import type { HostedMcpError } from '../errors.js';

export type ConnectionState =
  | 'idle'
  | 'connecting'
  | 'ready'
  | 'recovering'
  | 'unstable'
  | 'blocked'
  | 'closed';

/** Which states may follow which. */
const NEXT: Readonly<Record<ConnectionState, readonly ConnectionState[]>> = Object.freeze({
  idle: ['connecting', 'recovering', 'ready', 'closed'],
  connecting: ['ready', 'idle', 'unstable', 'blocked', 'closed'],
  ready: ['recovering', 'idle', 'unstable', 'blocked', 'closed'],
  recovering: ['ready', 'idle', 'recovering', 'unstable', 'blocked', 'closed'],
  // Not even the first session may have stood.
  unstable: ['connecting', 'recovering', 'closed'],
  blocked: ['connecting', 'recovering', 'closed'],
  closed: [],
});

type OnState = (state: ConnectionState, previous: ConnectionState, error?: HostedMcpError) => void;

export class StateMachine {
  readonly #clock: Clock;
  readonly #onState: OnState;
  #state: ConnectionState = 'idle';
  /** Since when, in epoch milliseconds. */
  sinceMs: number;

  constructor(clock: Clock, onState: OnState) {
    this.#clock = clock;
    this.#onState = onState;
    this.sinceMs = clock.now();
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** False, and nothing happened, where the step is not allowed. */
  move(to: ConnectionState, error?: HostedMcpError): boolean {
    const from = this.#state;
    if (!NEXT[from].includes(to)) return false;
    this.#state = to;
    if (from === to) return true;
    this.sinceMs = this.#clock.now();
    this.#onState(to, from, error);
    return true;
  }
}
