/** What a lease, a clock and a store are believed, where the one who looks at them was away for a while. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { Clock } from '../../../src/clock.js';
import { memoryCredentialStore } from '../../../src/credentials/index.js';
import type { CredentialStore, StoredRecord } from '../../../src/credentials/provider.js';
import { TokenHttp } from '../../../src/credentials/token-fetch.js';
import { manualClock } from '../../../src/testing/manual-clock.js';
import {
  bearerOf,
  errorOf,
  gate,
  makeRefresher,
  ScriptedGrant,
  skewedClock,
  TARGET,
  unavailable,
} from './support.js';

const ID = 'test-credential';
const NEVER = { background: 'never' } as const;
const LIFE_MS = 600_000;

describe('a lease that ran out', () => {
  it('while the machine slept and its monotonic clock stood still: the request is held back', async () => {
    const clock = skewedClock();
    const inner = memoryCredentialStore({ clock });
    let sleepMs = 20_000;
    let leases = 0;
    const store: CredentialStore = {
      ...inner,
      async lease(...given) {
        const lease = await inner.lease(...given);
        leases += 1;
        clock.skewMs += sleepMs;
        sleepMs = 0;
        return lease;
      },
    };
    const grant = new ScriptedGrant(true);
    const provider = makeRefresher(grant, clock, { store });
    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer A1');
    // The request left under the second one, which has all of its time.
    expect(leases).toBe(2);
    expect(grant.requests).toHaveLength(1);
  });

  it('again and again: an error of the store, and nothing is sent', async () => {
    const clock = skewedClock();
    const inner = memoryCredentialStore({ clock });
    const store: CredentialStore = {
      ...inner,
      async lease(...given) {
        const lease = await inner.lease(...given);
        clock.skewMs += 20_000;
        return lease;
      },
    };
    const grant = new ScriptedGrant(true);
    const provider = makeRefresher(grant, clock, { store });
    const error = await errorOf(provider.acquire(TARGET, { maxWaitMs: 0 }));
    expect(error.code).toBe('ERR_STORE_UNAVAILABLE');
    expect(grant.requests).toHaveLength(0);
  });
});

describe('a request whose time ran out while it was being connected', () => {
  let server: Server;
  let requests = 0;
  let connections = 0;
  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  /** Stands still while a connection is made, then all of the stop has passed at once, and no timer has run yet. */
  async function sendThroughStop(stoppedMs: number, by: 'monotonic' | 'wall') {
    [requests, connections] = [0, 0];
    let offMs = 0;
    const real = manualClock();
    const clock: Clock = {
      ...real,
      now: () => real.now() + (by === 'wall' ? offMs : 0),
      monotonic: () => real.monotonic() + (by === 'monotonic' ? offMs : 0),
    };
    server = createServer((_, response) => {
      requests += 1;
      response.end('{}');
    });
    server.on('connection', () => {
      connections += 1;
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const http = new TokenHttp(clock, undefined);
    await http.prepare();
    const sending = http.send({
      method: 'POST',
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/token`,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: 'refresh_token=R0',
      timeoutMs: 10_000,
      maxBytes: 1_000,
      mayLeave: () => {
        // After this last look, before the connection stands.
        queueMicrotask(() => {
          offMs = stoppedMs;
        });
        return true;
      },
    });
    const result = await sending;
    await http.close();
    return result;
  }

  it.each(['monotonic', 'wall'] as const)('by the %s clock: it does not leave', async (by) => {
    const result = await sendThroughStop(15_000, by);
    expect(result).toEqual({ kind: 'failed', mayHaveLeft: false, reason: 'timeout' });
    expect({ requests, connections }).toEqual({ requests: 0, connections: 1 });
  });

  it('a stop that its time covers: it leaves as ever', async () => {
    expect(await sendThroughStop(9_000, 'monotonic')).toMatchObject({ kind: 'reply' });
    expect({ requests, connections }).toEqual({ requests: 1, connections: 1 });
  });
});

describe('a store that lost its last writes', () => {
  /** Two replicas of one holding; the store then has the record of before their last refresh. */
  async function fallBack() {
    const clock = skewedClock();
    const store = memoryCredentialStore({ clock });
    const grant = new ScriptedGrant(true);
    const [a, b] = [
      makeRefresher(grant, clock, { store, refresh: NEVER }),
      makeRefresher(grant, clock, { store, refresh: NEVER }),
    ];
    await a.acquire(TARGET);
    const old = (await store.read(ID)) as StoredRecord;
    await clock.advance(LIFE_MS);
    await a.acquire(TARGET);
    await b.acquire(TARGET);
    const newest = (await store.read(ID)) as StoredRecord;
    await store.compareAndSet(ID, newest.generation, undefined);
    await store.compareAndSet(ID, undefined, old);
    const sent = () => grant.requests.map(({ refreshToken }) => refreshToken?.reveal());
    return { clock, store, a, b, old, newest, sent };
  }

  it('the pair in hand is used and stored, not the one before it, whose refresh token is spent', async () => {
    const { clock, store, a, b, newest, sent } = await fallBack();
    await clock.advance(LIFE_MS);
    expect(await bearerOf(await a.acquire(TARGET))).toBe('Bearer A3');
    expect(await bearerOf(await b.acquire(TARGET))).toBe('Bearer A3');
    expect(sent()).toEqual(['R0', 'R1', 'R2']);
    const stored = (await store.read(ID)) as StoredRecord;
    expect(JSON.parse(stored.data)).toMatchObject({ refresh: 'R3' });
    // A number that a lost record had stands for no other one.
    expect(stored.generation).toBeGreaterThan(newest.generation);
  });

  it('found out by a refusal: the same', async () => {
    const { clock, a, b, sent } = await fallBack();
    await clock.advance(1_000);
    const rejected = { generation: 2, status: 401 };
    expect(await bearerOf(await b.acquire(TARGET, { rejected }))).toBe('Bearer A3');
    expect(await bearerOf(await a.acquire(TARGET, { rejected }))).toBe('Bearer A3');
    expect(sent()).toEqual(['R0', 'R1', 'R2']);
  });

  it('a record that somebody wrote anew after a log-out is taken, whatever its number', async () => {
    const { clock, store, a, old, sent } = await fallBack();
    await clock.advance(LIFE_MS);
    const data = JSON.stringify({
      ...JSON.parse(old.data),
      refresh: 'R-new',
      access: 'A-new',
      atMs: clock.now(),
    });
    const anew = { generation: old.generation - 1, data };
    await store.compareAndSet(ID, old.generation, undefined);
    await store.compareAndSet(ID, undefined, anew);
    expect(await bearerOf(await a.acquire(TARGET))).toBe('Bearer A-new');
    expect(sent()).toEqual(['R0', 'R1']);
  });
});

describe('a caller whose time is up', () => {
  it.each([3_000, 40, 1])(
    'of %i ms is told what stood in the way before its own timer says so',
    async (waitMs) => {
      const clock = skewedClock();
      const grant = new ScriptedGrant(true);
      const held = gate();
      grant.hold = held.promise;
      const provider = makeRefresher(grant, clock);
      const order: string[] = [];
      clock.setTimeout(() => order.push('timer'), waitMs);
      const telling = errorOf(provider.acquire(TARGET, { maxWaitMs: waitMs })).then((error) => {
        order.push(error.code);
      });
      await clock.advance(waitMs);
      await telling;
      expect(order).toEqual(['ERR_TOKEN_ENDPOINT', 'timer']);
      held.open();
    },
  );
});

describe('a store that was down for a while', () => {
  it('does not keep callers waiting for more than 2 s when it is back', async () => {
    const clock = Object.assign(skewedClock(), { random: () => 0.999 });
    const inner = memoryCredentialStore({ clock });
    let isDown = true;
    const store: CredentialStore = {
      ...inner,
      read: (...given) => (isDown ? Promise.reject(new Error('down')) : inner.read(...given)),
    };
    const provider = makeRefresher(new ScriptedGrant(true), clock, { store });
    for (let second = 0; second < 40; second++) {
      expect((await errorOf(provider.acquire(TARGET, { maxWaitMs: 0 }))).code).toBe('ERR_STORE_UNAVAILABLE');
      await clock.advance(1_000);
    }
    isDown = false;
    const acquiring = provider.acquire(TARGET, { maxWaitMs: 2_500 });
    await clock.advance(2_000);
    expect(await bearerOf(await acquiring)).toBe('Bearer A1');
  });

  it('a token endpoint that was down for as long is left alone for longer', async () => {
    const clock = Object.assign(skewedClock(), { random: () => 0.999 });
    const grant = new ScriptedGrant(true);
    grant.script.push(...Array.from({ length: 60 }, () => unavailable()));
    const provider = makeRefresher(grant, clock);
    for (let second = 0; second < 60; second++) {
      expect((await errorOf(provider.acquire(TARGET, { maxWaitMs: 0 }))).code).toBe('ERR_TOKEN_ENDPOINT');
      await clock.advance(1_000);
    }
    expect(grant.requests.length).toBeLessThan(10);
  });
});
