import { describe, expect, it } from 'vitest';
import { memoryCredentialStore } from '../../../src/credentials/index.js';
import type { CredentialEvent, CredentialStore, StoredRecord } from '../../../src/credentials/provider.js';
import { Secret } from '../../../src/credentials/secret.js';
import type { TokenOutcome } from '../../../src/credentials/token-endpoint.js';
import {
  bearerOf,
  errorOf,
  gate,
  makeRefresher,
  refused,
  ScriptedGrant,
  skewedClock,
  TARGET,
  token,
  unavailable,
} from './support.js';

/** One strict authorization server behind any number of providers. */
class StrictServer {
  posts = 0;
  reuses = 0;
  current = 'R0';
  grant(): ScriptedGrant {
    const grant = new ScriptedGrant(true);
    grant.request = async (request): Promise<TokenOutcome> => {
      if (request.mayLeave?.() === false) return { kind: 'held-back' };
      this.posts += 1;
      if (request.refreshToken?.reveal() !== this.current) {
        this.reuses += 1;
        return refused('invalid_grant');
      }
      this.current = `R${this.posts}`;
      await new Promise((resolve) => setImmediate(resolve));
      return token(`A${this.posts}`, 600_000, { refreshToken: this.current });
    };
    return grant;
  }
}

/** A store whose operations can be made to fail. */
function fragile(inner: CredentialStore): CredentialStore & { broken: boolean; brokenWrites: boolean } {
  const store = {
    broken: false,
    brokenWrites: false,
    read: (id: string) =>
      store.broken ? Promise.reject(new Error('ECONNREFUSED secret-url')) : inner.read(id),
    compareAndSet: (id: string, expected: number | undefined, next: StoredRecord | undefined) =>
      store.broken || store.brokenWrites
        ? Promise.reject(new Error('down'))
        : inner.compareAndSet(id, expected, next),
    lease: (id: string, ms: number) =>
      store.broken ? Promise.reject(new Error('down')) : inner.lease(id, ms),
  };
  return store;
}

describe('across replicas', () => {
  it('H06: two providers over one store make one token request per expiry, for 20 expiries', async () => {
    const clock = skewedClock();
    const server = new StrictServer();
    const store = memoryCredentialStore({ clock });
    const replicas = [1, 2].map(() =>
      makeRefresher(server.grant(), clock, { store, refresh: { background: 'never' } }),
    );
    for (let expiry = 1; expiry <= 20; expiry++) {
      const acquiring = Promise.all(
        replicas.flatMap((replica) => Array.from({ length: 10 }, () => replica.acquire(TARGET))),
      );
      await clock.advance(500);
      const got = await acquiring;
      expect(server.posts).toBe(expiry);
      expect(new Set(await Promise.all(got.map(bearerOf)))).toEqual(new Set([`Bearer A${expiry}`]));
      expect(new Set(got.map((c) => c.generation))).toEqual(new Set([expiry]));
      await clock.advance(600_000);
    }
    expect(server.reuses).toBe(0);
  });

  it('a replica that is refused adopts what another has refreshed already', async () => {
    const clock = skewedClock();
    const server = new StrictServer();
    const store = memoryCredentialStore({ clock });
    const a = makeRefresher(server.grant(), clock, { store });
    const b = makeRefresher(server.grant(), clock, { store });
    await a.acquire(TARGET);
    await b.acquire(TARGET);
    expect(server.posts).toBe(1);
    await a.acquire(TARGET, { rejected: { generation: 1, status: 401 } });
    const events: CredentialEvent[] = [];
    b.onEvent((event) => events.push(event));
    const credential = await b.acquire(TARGET, { rejected: { generation: 1, status: 401 } });
    expect(credential.generation).toBe(2);
    expect(server.posts).toBe(2);
    expect(events.map((e) => e.type)).toEqual(['adopted']);
  });

  it('a process that starts later takes the pair from the store, not its configured token', async () => {
    const clock = skewedClock();
    const server = new StrictServer();
    const store = memoryCredentialStore({ clock });
    await makeRefresher(server.grant(), clock, { store }).acquire(TARGET);
    await clock.advance(700_000);
    const late = makeRefresher(server.grant(), clock, { store });
    expect(await bearerOf(await late.acquire(TARGET))).toBe('Bearer A2');
    expect(server.reuses).toBe(0);
  });

  it('a lease that ran out during a stall holds the request back', async () => {
    const clock = skewedClock();
    const server = new StrictServer();
    const store = memoryCredentialStore({ clock });
    const grant = server.grant();
    const stalled = gate();
    const request = grant.request.bind(grant);
    let first = true;
    grant.request = async (r) => {
      if (first) {
        first = false;
        await stalled.promise;
      }
      return await request(r);
    };
    const a = makeRefresher(grant, clock, { store });
    const b = makeRefresher(server.grant(), clock, { store });
    const waitingA = a.acquire(TARGET, { maxWaitMs: 60_000 });
    await clock.advance(16_000);
    await b.acquire(TARGET);
    expect(server.posts).toBe(1);
    stalled.open();
    await clock.advance(1_000);
    expect(await bearerOf(await waitingA)).toBe('Bearer A1');
    expect(server.posts).toBe(1);
    expect(server.reuses).toBe(0);
  });

  it('waits for the replica that holds the lease, and takes over when that one died', async () => {
    const clock = skewedClock();
    const server = new StrictServer();
    const store = memoryCredentialStore({ clock });
    await store.lease('test-credential', 15_000);
    const provider = makeRefresher(server.grant(), clock, { store });
    const waiting = provider.acquire(TARGET, { maxWaitMs: 20_000 });
    await clock.advance(14_000);
    expect(server.posts).toBe(0);
    await clock.advance(1_500);
    await waiting;
    expect(server.posts).toBe(1);
  });

  it('client credentials do not wait long for a lease: they spend nothing', async () => {
    const clock = skewedClock();
    const store = memoryCredentialStore({ clock });
    await store.lease('test-credential', 60_000);
    const grant = new ScriptedGrant(false);
    const waiting = makeRefresher(grant, clock, { store }).acquire(TARGET);
    await clock.advance(2_200);
    expect((await waiting).generation).toBe(1);
    expect(grant.requests).toHaveLength(1);
  });

  it('H08: invalid_grant adopts the newer pair of another replica, even one written a moment later', async () => {
    const clock = skewedClock();
    const store = memoryCredentialStore({ clock });
    const grant = new ScriptedGrant(true);
    grant.script.push(refused('invalid_grant'));
    const provider = makeRefresher(grant, clock, { store });
    const waiting = provider.acquire(TARGET);
    await clock.advance(50);
    const data = { v: 1, gen: 4, access: 'THEIRS', refresh: 'R9', atMs: clock.now(), lifeMs: 600_000 };
    await store.compareAndSet('test-credential', undefined, {
      generation: 3,
      data: JSON.stringify({ ...data, resource: TARGET.href }),
    });
    await clock.advance(100);
    const credential = await waiting;
    expect(await bearerOf(credential)).toBe('Bearer THEIRS');
    expect(credential.generation).toBe(4);
    expect(grant.requests).toHaveLength(1);
  });

  it('never takes an access token that was stored for another resource, but does share its refresh token', async () => {
    const clock = skewedClock();
    const server = new StrictServer();
    const store = memoryCredentialStore({ clock });
    await makeRefresher(server.grant(), clock, { store, resource: 'https://one.example/' }).acquire(TARGET);
    const two = makeRefresher(server.grant(), clock, { store, resource: 'https://two.example/' });
    const credential = await two.acquire(TARGET);
    expect(await bearerOf(credential)).toBe('Bearer A2');
    expect(credential.generation).toBe(2);
    expect(server.reuses).toBe(0);
  });

  it('a newly configured refresh token is tried once when the stored line has died', async () => {
    const clock = skewedClock();
    const server = new StrictServer();
    const store = memoryCredentialStore({ clock });
    await makeRefresher(server.grant(), clock, { store, refresh: { background: 'never' } }).acquire(TARGET);
    await clock.advance(700_000);
    server.current = 'R-from-the-operator';
    const renewed = makeRefresher(server.grant(), clock, {
      store,
      seed: { refreshToken: new Secret('R-from-the-operator') },
    });
    const waiting = renewed.acquire(TARGET);
    await clock.advance(200);
    expect(await bearerOf(await waiting)).toBe('Bearer A3');
    expect(JSON.parse((await store.read('test-credential'))?.data ?? '{}').refresh).toBe('R3');
  });

  it('without a refresh token anywhere: no request, and the first stored pair is taken', async () => {
    const clock = skewedClock();
    const store = memoryCredentialStore({ clock });
    const grant = new ScriptedGrant(true);
    const provider = makeRefresher(grant, clock, { store, seed: {} });
    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_REAUTHORIZATION_REQUIRED');
    const data = JSON.stringify({ v: 1, gen: 1, refresh: 'R0' });
    await store.compareAndSet('test-credential', undefined, { generation: 1, data });
    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer A1');
    expect(grant.requests).toHaveLength(1);
  });
});

describe('store down', () => {
  it('a rotating credential is served while it lives, then ERR_STORE_UNAVAILABLE, and never sent', async () => {
    const clock = skewedClock();
    const store = fragile(memoryCredentialStore({ clock }));
    const grant = new ScriptedGrant(true);
    const provider = makeRefresher(grant, clock, { store, refresh: { background: 'never' } });
    await provider.acquire(TARGET);
    store.broken = true;
    await clock.advance(500_000);
    expect((await provider.acquire(TARGET)).generation).toBe(1);
    await clock.advance(100_000);
    const error = await errorOf(provider.acquire(TARGET, { maxWaitMs: 0 }));
    expect(error).toMatchObject({ code: 'ERR_STORE_UNAVAILABLE', retryable: true, executed: false });
    expect(grant.requests).toHaveLength(1);
    store.broken = false;
    await clock.advance(30_000);
    expect((await provider.acquire(TARGET)).generation).toBe(2);
  });

  it('client credentials go on without it', async () => {
    const clock = skewedClock();
    const store = fragile(memoryCredentialStore({ clock }));
    store.broken = true;
    const grant = new ScriptedGrant(false);
    const provider = makeRefresher(grant, clock, { store, refresh: { background: 'never' } });
    expect((await provider.acquire(TARGET)).generation).toBe(1);
    await clock.advance(600_000);
    store.broken = false;
    expect((await provider.acquire(TARGET)).generation).toBe(2);
    expect(JSON.parse((await store.read('test-credential'))?.data ?? '{}')).toMatchObject({
      gen: 2,
      access: 'A2',
    });
  });

  it('a store that never answers counts as down', async () => {
    const clock = skewedClock();
    const never = () => new Promise<never>(() => {});
    const grant = new ScriptedGrant(true);
    const store = { read: never, compareAndSet: never, lease: never };
    const provider = makeRefresher(grant, clock, { store });
    const failing = errorOf(provider.acquire(TARGET, { maxWaitMs: 11_000 }));
    await clock.advance(11_000);
    expect((await failing).code).toBe('ERR_STORE_UNAVAILABLE');
    expect(grant.requests).toHaveLength(0);
  });

  it('a rotated pair that cannot be written is kept, used and written when the store is back', async () => {
    const clock = skewedClock();
    const inner = memoryCredentialStore({ clock });
    const store = fragile(inner);
    store.brokenWrites = true;
    const grant = new ScriptedGrant(true);
    const provider = makeRefresher(grant, clock, { store });
    const waiting = provider.acquire(TARGET);
    await clock.advance(1_000);
    expect(await bearerOf(await waiting)).toBe('Bearer A1');
    expect(await inner.read('test-credential')).toBeUndefined();
    store.brokenWrites = false;
    await clock.advance(5_000);
    expect(JSON.parse((await inner.read('test-credential'))?.data ?? '{}')).toMatchObject({ refresh: 'R1' });
  });

  it('a damaged record is an error and is not overwritten', async () => {
    const clock = skewedClock();
    const store = memoryCredentialStore({ clock });
    await store.compareAndSet('test-credential', undefined, { generation: 1, data: 'not ours' });
    const grant = new ScriptedGrant(true);
    const provider = makeRefresher(grant, clock, { store });
    expect((await errorOf(provider.acquire(TARGET, { maxWaitMs: 0 }))).code).toBe('ERR_STORE_UNAVAILABLE');
    expect(grant.requests).toHaveLength(0);
    expect((await store.read('test-credential'))?.data).toBe('not ours');
  });

  it('close finishes and stores a refresh that has left', async () => {
    const clock = skewedClock();
    const store = memoryCredentialStore({ clock });
    const grant = new ScriptedGrant(true);
    const held = gate();
    grant.hold = held.promise;
    const provider = makeRefresher(grant, clock, { store });
    const waiting = provider.acquire(TARGET).catch(() => {});
    await clock.settle();
    const closing = provider.close();
    held.open();
    await closing;
    await waiting;
    expect(JSON.parse((await store.read('test-credential'))?.data ?? '{}')).toMatchObject({ refresh: 'R1' });
  });

  it('a record deleted and written anew by another replica is not taken for the old one', async () => {
    let draws = 0;
    const clock = Object.assign(skewedClock(), { random: () => (++draws * 0.137) % 1 });
    const server = new StrictServer();
    const store = memoryCredentialStore({ clock });
    const a = makeRefresher(server.grant(), clock, { store, refresh: { background: 'never' } });
    await a.acquire(TARGET);
    const old = await store.read('test-credential');
    await store.compareAndSet('test-credential', old?.generation, undefined);
    server.current = 'R-new-login';
    const seed = { refreshToken: new Secret('R-new-login') };
    const b = makeRefresher(server.grant(), clock, { store, seed, refresh: { background: 'never' } });
    await b.acquire(TARGET);
    expect((await store.read('test-credential'))?.generation).not.toBe(old?.generation);
    await clock.advance(600_000);
    await b.acquire(TARGET);
    const credential = await a.acquire(TARGET);
    expect(await bearerOf(credential)).toBe('Bearer A3');
    expect(server.reuses).toBe(0);
  });

  it('forget deletes the record', async () => {
    const clock = skewedClock();
    const store = memoryCredentialStore({ clock });
    const provider = makeRefresher(new ScriptedGrant(true), clock, { store });
    await provider.acquire(TARGET);
    await provider.forget();
    expect(await store.read('test-credential')).toBeUndefined();
    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_REAUTHORIZATION_REQUIRED');
  });

  it('in doubt under a lease: the repeated request fits into what is left of it', async () => {
    const clock = skewedClock();
    const store = memoryCredentialStore({ clock });
    const grant = new ScriptedGrant(true);
    grant.script.push(unavailable({ inDoubt: true }));
    const provider = makeRefresher(grant, clock, { store });
    const waiting = provider.acquire(TARGET);
    await clock.advance(500);
    await waiting;
    expect(grant.requests.map((r) => r.refreshToken?.reveal())).toEqual(['R0', 'R0']);
    expect(grant.requests[1]?.timeoutMs).toBeLessThanOrEqual(14_000);
  });
});
