/**
 * Who may speak to a server now, and who waits, in the order of coming.
 *
 * Guarantees that no more than the given number are inside, that whoever gives up does not hold up the others, and a
 * bound on the line. Never runs anything itself.
 */
import { HostedMcpError } from '../errors.js';

/** Far more than a server that answers one at a time gets done within anybody's deadline. */
const MAX_WAITING = 256;

export class Turnstile {
  readonly #places: number;
  #inside = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(places: number) {
    this.#places = places;
  }

  /** Resolves with what gives the place back. Rejects with the signal's reason, or where too many wait. */
  enter(signal: AbortSignal): Promise<() => void> {
    if (this.#inside < this.#places) return Promise.resolve(this.#place());
    if (this.#waiting.length >= MAX_WAITING)
      return Promise.reject(
        new HostedMcpError('ERR_NOT_SENT', 'Too many calls wait for this server', {
          reason: 'queue',
          retryable: true,
        }),
      );
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        this.#waiting.splice(this.#waiting.indexOf(admit), 1);
        reject(signal.reason);
      };
      const admit = () => {
        signal.removeEventListener('abort', onAbort);
        resolve(this.#place());
      };
      this.#waiting.push(admit);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  #place(): () => void {
    this.#inside += 1;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#inside -= 1;
      this.#waiting.shift()?.();
    };
  }
}
