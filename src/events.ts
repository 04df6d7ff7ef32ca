/**
 * A small typed emitter, without a word on what the events are.
 *
 * Guarantees that a listener that throws or rejects harms neither the emitter nor the other listeners,
 * that what was disposed of is not called again, and that an event nobody wants costs one look-up
 * (`wants()`). Never leaves a listener behind after `once()`, never shows Node's EventEmitter.
 */
import { type Disposer, disposer } from './disposer.js';
import { HostedMcpError } from './errors.js';

export interface OnceOptions<Payload> {
  /** Ends the waiting: the promise rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Waits for the first event it says `true` to; if it throws, the promise rejects with that. */
  filter?: ((payload: Payload) => boolean) | undefined;
}

export interface EmitterOptions {
  /** Told what a listener threw or rejected with. */
  onListenerError?: ((error: unknown, event: string) => void) | undefined;
}

interface Entry {
  readonly listener: (payload: never) => unknown;
  live: boolean;
  /** Set by `once()`: the emitter is done before the event came. */
  readonly abandon?: () => void;
}

export class Emitter<Events extends object> {
  /** The arrays are replaced, never changed: an emission under way walks the one it started with. */
  readonly #entries = new Map<keyof Events, readonly Entry[]>();
  readonly #onListenerError: ((error: unknown, event: string) => void) | undefined;
  #closed = false;

  constructor(options: EmitterOptions = {}) {
    this.#onListenerError = options.onListenerError;
  }

  on<E extends keyof Events>(event: E, listener: (payload: Events[E]) => void): Disposer {
    return disposer(this.#add(event, { listener, live: true }));
  }

  /** The next event of this name. Rejects with ERR_CLOSED when the emitter is cleared before. */
  once<E extends keyof Events>(event: E, options: OnceOptions<Events[E]> = {}): Promise<Events[E]> {
    const { signal, filter } = options;
    const promise = new Promise<Events[E]>((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason);
        return;
      }
      const abandon = () => {
        stop();
        reject(new HostedMcpError('ERR_CLOSED', 'Closed before the event that was waited for.'));
      };
      if (this.#closed) {
        reject(new HostedMcpError('ERR_CLOSED', 'Closed: no more events will come.'));
        return;
      }
      const onAbort = () => {
        stop();
        reject(signal?.reason);
      };
      const remove = this.#add(event, {
        live: true,
        abandon,
        listener: (payload: Events[E]) => {
          try {
            if (filter !== undefined && !filter(payload)) return;
          } catch (error) {
            stop();
            reject(error);
            return;
          }
          stop();
          resolve(payload);
        },
      });
      const stop = () => {
        remove();
        signal?.removeEventListener('abort', onAbort);
      };
      signal?.addEventListener('abort', onAbort, { once: true });
    });
    // Closing must not end the process of somebody who has stopped caring for the event.
    promise.catch(() => {});
    return promise;
  }

  /** Is anybody listening? Ask before making a payload that costs something. */
  wants(event: keyof Events): boolean {
    return this.#entries.has(event);
  }

  listenerCount(event: keyof Events): number {
    return this.#entries.get(event)?.length ?? 0;
  }

  emit<E extends keyof Events>(event: E, payload: Events[E]): void {
    const entries = this.#entries.get(event);
    if (entries === undefined) return;
    for (const entry of entries) {
      if (!entry.live) continue;
      try {
        const result = (entry.listener as (payload: Events[E]) => unknown)(payload);
        if (isThenable(result)) result.then(undefined, (error) => this.#report(error, event));
      } catch (error) {
        this.#report(error, event);
      }
    }
  }

  /** Forgets every listener; pending `once()` promises reject with ERR_CLOSED. */
  clear(): void {
    const all = [...this.#entries.values()].flat();
    this.#entries.clear();
    for (const entry of all) {
      entry.live = false;
      entry.abandon?.();
    }
  }

  /** `clear()` for good: from now on `on()` does nothing and `once()` rejects at once. */
  close(): void {
    this.#closed = true;
    this.clear();
  }

  #add(event: keyof Events, entry: Entry): () => void {
    if (this.#closed) return () => {};
    this.#entries.set(event, [...(this.#entries.get(event) ?? []), entry]);
    return () => {
      if (!entry.live) return;
      entry.live = false;
      const others = (this.#entries.get(event) ?? []).filter((other) => other !== entry);
      if (others.length === 0) this.#entries.delete(event);
      else this.#entries.set(event, others);
    };
  }

  #report(error: unknown, event: keyof Events): void {
    try {
      this.#onListenerError?.(error, String(event));
    } catch {
      // Whoever is told of errors must not make new ones.
    }
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
  );
}
