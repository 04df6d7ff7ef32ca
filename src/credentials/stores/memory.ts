/**
 * Credentials in this process's memory.
 *
 * Guarantees the store contract among providers of one process. Never writes anything anywhere: with the
 * process the credentials are gone.
 */
import { type Clock, systemClock } from '../../clock.js';
import type { CredentialStore, Lease, StoredRecord } from '../provider.js';

/** A store in memory. Share one between the providers that hold the same credential. */
export function memoryCredentialStore(options: { clock?: Clock | undefined } = {}): CredentialStore {
  const clock = options.clock ?? systemClock();
  const records = new Map<string, StoredRecord>();
  const leases = new Map<string, { readonly untilMs: number }>();

  return {
    async read(id) {
      return records.get(id);
    },
    async compareAndSet(id, expectedGeneration, next) {
      if (records.get(id)?.generation !== expectedGeneration) return false;
      if (next === undefined) records.delete(id);
      else records.set(id, Object.freeze({ ...next }));
      return true;
    },
    async lease(id, leaseMs): Promise<Lease | undefined> {
      const held = leases.get(id);
      if (held !== undefined && held.untilMs > clock.monotonic()) return undefined;
      const mine = { untilMs: clock.monotonic() + leaseMs };
      leases.set(id, mine);
      return {
        remainingMs: () => (leases.get(id) === mine ? Math.max(0, mine.untilMs - clock.monotonic()) : 0),
        async release() {
          // One that outlived its lease must not free the lease of its successor.
          if (leases.get(id) === mine) leases.delete(id);
        },
      };
    },
  };
}
