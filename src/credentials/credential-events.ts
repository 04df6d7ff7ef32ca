/**
 * The listeners of one provider.
 *
 * Guarantees that a listener that throws harms neither the renewal that told it nor the other listeners.
 */
import { type Disposer, disposer } from '../disposer.js';
import type { CredentialEvent } from './provider.js';

export class CredentialEvents {
  readonly #listeners = new Set<(event: CredentialEvent) => void>();

  add(listener: (event: CredentialEvent) => void): Disposer {
    // A wrapper of its own, so that one function added twice is two listeners.
    const entry = (event: CredentialEvent) => listener(event);
    this.#listeners.add(entry);
    return disposer(() => this.#listeners.delete(entry));
  }

  emit(event: CredentialEvent): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(event);
      } catch {
        // The app's own trouble; a renewal must not fail over it.
      }
    }
  }
}
