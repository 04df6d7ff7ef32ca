/**
 * Who wants to know that a signal aborts.
 *
 * Guarantees one listener on each signal, however many calls share it: a framework's transport has one for its whole
 * life, and Node warns of a leak from the eleventh listener on. Never keeps a signal alive, nor a listener
 * that nobody waits for.
 */
export class SignalWatch {
  readonly #watched = new WeakMap<AbortSignal, { readonly told: Set<() => void>; remove(): void }>();

  /** Calls `tell` when the signal aborts; gives what takes that back. */
  on(signal: AbortSignal | undefined, tell: () => void): () => void {
    if (signal === undefined) return () => {};
    const { told } = this.#watched.get(signal) ?? this.#watch(signal);
    told.add(tell);
    return () => {
      told.delete(tell);
      if (told.size === 0) this.#watched.get(signal)?.remove();
    };
  }

  #watch(signal: AbortSignal): { told: Set<() => void> } {
    const told = new Set<() => void>();
    const onAbort = () => {
      for (const tell of [...told]) tell();
    };
    const remove = () => {
      signal.removeEventListener('abort', onAbort);
      this.#watched.delete(signal);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    const watched = { told, remove };
    this.#watched.set(signal, watched);
    return watched;
  }
}
