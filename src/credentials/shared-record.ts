/**
 * One credential's record in a store, with bounds on time.
 *
 * Guarantees that a store that hangs counts as down, that whatever it throws becomes `ERR_STORE_UNAVAILABLE`
 * in our words, and that a lease obtained after its caller gave up is released. Never overwrites a record it
 * did not read.
 */
import type { Clock } from '../clock.js';
import { HostedMcpError } from '../errors.js';
import { within } from './deadline.js';
import { STORE_TIMEOUT_MS } from './options.js';
import type { CredentialStore, Lease, StoredRecord } from './provider.js';

export class SharedRecord {
  readonly #store: CredentialStore;
  readonly #id: string;
  readonly #clock: Clock;

  constructor(store: CredentialStore, id: string, clock: Clock) {
    this.#store = store;
    this.#id = id;
    this.#clock = clock;
  }

  read(): Promise<StoredRecord | undefined> {
    return this.#bounded((signal) => this.#store.read(this.#id, { signal }));
  }

  compareAndSet(expected: number | undefined, next: StoredRecord | undefined): Promise<boolean> {
    return this.#bounded((signal) => this.#store.compareAndSet(this.#id, expected, next, { signal }));
  }

  async lease(leaseMs: number): Promise<Lease | undefined> {
    let abandoned = false;
    try {
      return await this.#bounded(async (signal) => {
        const lease = await this.#store.lease(this.#id, leaseMs, { signal });
        if (abandoned && lease !== undefined) await lease.release();
        return lease;
      });
    } catch (error) {
      abandoned = true;
      throw error;
    }
  }

  async release(lease: Lease | undefined): Promise<void> {
    // A lease that cannot be released ends by itself.
    await this.#bounded(async () => await lease?.release()).catch(() => {});
  }

  async #bounded<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const controller = new AbortController();
    try {
      return await within(this.#clock, start(work, controller.signal), STORE_TIMEOUT_MS, () => {
        controller.abort();
        return storeError('did not answer in time');
      });
    } catch (error) {
      if (HostedMcpError.isInstance(error)) throw error;
      throw storeError('failed', error);
    }
  }
}

/** A store that throws at once instead of rejecting is treated alike. */
async function start<T>(work: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
  return await work(signal);
}

export function storeError(what: string, cause?: unknown): HostedMcpError {
  return new HostedMcpError('ERR_STORE_UNAVAILABLE', `The credential store ${what}`, {
    retryable: true,
    cause,
  });
}
