import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Clock } from '../../src/clock.js';
import {
  type CredentialEvent,
  type CredentialStore,
  fileCredentialStore,
  memoryCredentialStore,
  refreshTokenGrant,
  type StoredRecord,
} from '../../src/index.js';
import { manualClock } from '../../src/testing/index.js';
import { type Caller, connectFace, type Face } from './faces.js';
import { closeLater, failureOf, type Scene, startServer } from './support.js';

/** Longer than a token of the scene lives. */
const OVER_MS = 61_000;
const STORES = ['memory', 'file'] as const;

// Loaded with the first token request otherwise, while the clock runs on.
beforeAll(() => Promise.all([import('undici'), import('openid-client')]));

async function makeStore(kind: (typeof STORES)[number], clock: Clock): Promise<CredentialStore> {
  if (kind === 'memory') return memoryCredentialStore({ clock });
  const dir = await mkdtemp(join(tmpdir(), 'holdfast-h06-'));
  closeLater(() => rm(dir, { recursive: true, force: true }));
  return tracked(fileCredentialStore(dir, { clock }), clock);
}

/** The disk is no loopback traffic: without this the manual clock would run on while a file is read. */
function tracked(store: CredentialStore, clock: Clock): CredentialStore {
  const held = async <T>(work: () => Promise<T>): Promise<T> => {
    const traffic = clock.track?.();
    try {
      return await work();
    } finally {
      traffic?.dispose();
    }
  };
  return {
    read: (...given) => held(() => store.read(...given)),
    compareAndSet: (...given) => held(() => store.compareAndSet(...given)),
    lease: (...given) => held(() => store.lease(...given)),
  };
}

interface Replica extends Caller {
  readonly id: string;
  readonly events: CredentialEvent['type'][];
}

/** What each replica is given: the same configuration and, by way of the store, the same refresh token. */
function provider({ server, clock }: Scene, store: CredentialStore, own: Clock = clock) {
  const { id, secret, refreshToken } = server.client;
  return refreshTokenGrant({
    issuer: server.issuer,
    clientId: id,
    clientSecret: secret,
    refreshToken,
    store,
    subject: 'user',
    refresh: { background: 'never' },
    clock: own,
  });
}

async function startReplica(
  scene: Scene,
  store: CredentialStore,
  o: { face?: Face; clock?: Clock } = {},
): Promise<Replica> {
  const credentials = provider(scene, store, o.clock);
  const events: CredentialEvent['type'][] = [];
  credentials.onEvent?.(({ type }) => void events.push(type));
  closeLater(async () => credentials.close?.());
  const connecting = connectFace(o.face ?? 'HostedClient', scene, { credentials });
  const caller = await during(scene, connecting);
  return { ...caller, id: credentials.id, events };
}

/** Moves the clock until it is done: a replica that waits for the other's lease looks again by this clock. */
async function during<T>({ clock }: Scene, work: Promise<T>): Promise<T> {
  let isDone = false;
  const done = work.finally(() => {
    isDone = true;
  });
  done.catch(() => {});
  while (!isDone) await clock.advance(10);
  return await done;
}

const calls = ({ server }: Scene) =>
  server.log
    .filter(({ rpcMethod, status }) => rpcMethod === 'tools/call' && status === 200)
    .map(({ tokenLabel }) => tokenLabel);
const refusals = ({ server }: Scene) => server.log.filter(({ status }) => status === 401).length;

/** One more refresh works: the server has not seen a spent refresh token, or it would have ended the family. */
async function expectAlive(scene: Scene, replicas: readonly Replica[]): Promise<void> {
  await scene.clock.advance(OVER_MS);
  scene.server.reset();
  await during(scene, Promise.all(replicas.map((replica, index) => replica.echo(`alive-${index}`))));
  expect(scene.server.counts.tokenRequests).toBe(1);
  expect(new Set(calls(scene)).size).toBe(1);
}

async function twoReplicas(kind: (typeof STORES)[number], faces: readonly Face[] = []) {
  const scene = await startServer({ rotateRefreshTokens: true });
  const store = await makeStore(kind, scene.clock);
  const [a, b] = [
    await startReplica(scene, store, { face: faces[0] ?? 'HostedClient' }),
    await startReplica(scene, store, { face: faces[1] ?? 'HostedClient' }),
  ] as const;
  // The second one began with the first one's pair.
  expect(scene.server.counts.tokenRequests).toBe(1);
  scene.server.set({ tokenDelayMs: 40 });
  scene.server.reset();
  return { scene, store, a, b };
}

for (const kind of STORES) {
  describe(`H06 two replicas, one rotating refresh token, ${kind} store`, () => {
    for (const faces of [
      ['HostedClient', 'HostedClient'],
      ['v1', 'v2'],
    ] as const) {
      it(`${faces.join(' and ')}: both see the token over within 10 ms: one token request`, async () => {
        const { scene, store, a, b } = await twoReplicas(kind, faces);
        const { server, clock } = scene;
        const before = await store.read(a.id);
        await clock.advance(OVER_MS);
        server.reset();

        const first = a.echo('a');
        await clock.advance(10);
        await during(scene, Promise.all([first, b.echo('b')]));

        expect(server.counts.tokenRequests).toBe(1);
        expect(server.counts.executionsById).toEqual({ a: 1, b: 1 });
        expect(calls(scene)).toEqual(['token#2', 'token#2']);
        expect(refusals(scene)).toBe(0);
        const after = await store.read(a.id);
        expect(after?.generation).toBe((before?.generation ?? Number.NaN) + 1);
        await expectAlive(scene, [a, b]);
      });
    }

    it('both are refused with a 401: one token request, each call runs once', async () => {
      const { scene, a, b } = await twoReplicas(kind);
      const { server } = scene;
      server.expireTokens();

      await during(scene, Promise.all([a.echo('a1'), b.echo('b1'), a.echo('a2'), b.echo('b2')]));

      expect(server.counts.tokenRequests).toBe(1);
      expect(server.counts.executionsById).toEqual({ a1: 1, a2: 1, b1: 1, b2: 1 });
      expect(new Set(calls(scene))).toEqual(new Set(['token#2']));
      await expectAlive(scene, [a, b]);
    });

    it('the second is refused after the first has the next pair: it adopts that', async () => {
      const { scene, a, b } = await twoReplicas(kind);
      const { server } = scene;
      server.expireTokens();
      await during(scene, a.echo('a'));
      const heard = b.events.length;

      await during(scene, b.echo('b'));

      expect(server.counts.tokenRequests).toBe(1);
      expect(b.events.slice(heard)).toEqual(['adopted']);
      expect(calls(scene)).toEqual(['token#2', 'token#2']);
      await expectAlive(scene, [a, b]);
    });

    it('one by its lifetime, the other, whose clock is slow, by a 401: one token request', async () => {
      const scene = await startServer({ rotateRefreshTokens: true, tokenDelayMs: 40 });
      const { server, clock } = scene;
      const store = await makeStore(kind, clock);
      const a = await startReplica(scene, store);
      await clock.advance(30_000);
      const slow: Clock = Object.assign(Object.create(clock) as Clock, { now: () => clock.now() - 30_000 });
      const b = await startReplica(scene, store, { clock: slow });
      await clock.advance(31_000);
      server.reset();

      await during(scene, Promise.all([a.echo('a'), b.echo('b')]));

      expect(server.counts.tokenRequests).toBe(1);
      expect(refusals(scene)).toBe(1);
      expect(calls(scene)).toEqual(['token#2', 'token#2']);
      await expectAlive(scene, [a, b]);
    });

    it('one starts while the other refreshes: it sends nothing of its own', async () => {
      const scene = await startServer({ rotateRefreshTokens: true, tokenDelayMs: 40 });
      const { server, clock } = scene;
      const store = await makeStore(kind, clock);
      const a = await startReplica(scene, store);
      await clock.advance(OVER_MS);
      server.reset();

      const first = a.echo('a');
      first.catch(() => {});
      while (server.counts.tokenRequests === 0) await clock.advance(1);
      const b = await startReplica(scene, store);
      await during(scene, Promise.all([first, b.echo('b')]));

      expect(server.counts.tokenRequests).toBe(1);
      expect(b.events).toEqual(['adopted']);
      expect(calls(scene)).toEqual(['token#2', 'token#2']);
      await expectAlive(scene, [a, b]);
    });

    it('both start at once with nothing stored: one token request', async () => {
      const scene = await startServer({ rotateRefreshTokens: true, tokenDelayMs: 40 });
      const store = await makeStore(kind, scene.clock);
      const [a, b] = await during(
        scene,
        Promise.all([startReplica(scene, store), startReplica(scene, store)]),
      );
      expect(scene.server.counts.tokenRequests).toBe(1);
      expect([a.events, b.events].sort()).toEqual([['adopted'], ['refreshed']]);
      await expectAlive(scene, [a, b]);
    });

    it('refused with invalid_grant: the newer pair in the store is taken, the spent token not sent again', async () => {
      const scene = await startServer({ rotateRefreshTokens: true });
      const { server, clock } = scene;
      const shared = await makeStore(kind, clock);
      const lagging = lag(shared);
      const a = await startReplica(scene, shared);
      const b = await startReplica(scene, lagging.store);
      await clock.advance(OVER_MS);
      await lagging.hold();
      await during(scene, a.echo('a'));
      // A server that refuses, and forgives: the spent token is not the end of the family.
      server.failTokenEndpoint({ status: 400, body: { error: 'invalid_grant' } }, { times: 1 });
      server.reset();
      lagging.until(() => server.counts.tokenRequests > 0);
      const heard = b.events.length;

      await during(scene, b.echo('b'));

      expect(server.counts.tokenRequests).toBe(1);
      expect(calls(scene)).toEqual(['token#2']);
      expect(b.events.slice(heard)).toEqual(['adopted']);
      await expectAlive(scene, [a, b]);
    });

    it('the store lost its last write: neither goes back to the pair before it', async () => {
      const { scene, store, a, b } = await twoReplicas(kind);
      const { server, clock } = scene;
      const old = (await store.read(a.id)) as StoredRecord;
      await clock.advance(OVER_MS);
      await during(scene, Promise.all([a.echo('a'), b.echo('b')]));
      const lost = (await store.read(a.id)) as StoredRecord;
      await store.compareAndSet(a.id, lost.generation, undefined);
      await store.compareAndSet(a.id, undefined, old);
      await clock.advance(OVER_MS);
      server.reset();

      await during(scene, Promise.all([a.echo('a'), b.echo('b')]));

      expect(server.counts.tokenRequests).toBe(1);
      expect(calls(scene)).toEqual(['token#3', 'token#3']);
      await expectAlive(scene, [a, b]);
    });

    it('refused with invalid_grant and nothing newer to be had: said once, then no request', async () => {
      const { scene, a, b } = await twoReplicas(kind);
      const { server, clock } = scene;
      await clock.advance(OVER_MS);
      server.failTokenEndpoint({ status: 400, body: { error: 'invalid_grant' } });
      server.reset();

      for (const [index, replica] of [a, b, a, b, a, b].entries()) {
        const failure = await during(scene, failureOf(replica.echo(`dead-${index}`)));
        expect(failure).toMatchObject({ code: 'ERR_REAUTHORIZATION_REQUIRED', executed: false });
      }
      // One of each: a replica cannot know that the other one's refusal was its own.
      expect(server.counts.tokenRequests).toBe(2);
      for (const { events } of [a, b]) expect(events.filter((type) => type === 'failed')).toHaveLength(1);
      expect(server.counts.executions).toEqual({});
    });

    it('the lease of the first lapses before its request has left: it holds it back and adopts', async () => {
      const scene = await startServer({ rotateRefreshTokens: true });
      const { server, clock } = scene;
      const store = await makeStore(kind, clock);
      // A process that is put aside: its own clock stands, the lease's and everybody else's goes on.
      const own = manualClock(clock.now());
      const stall = stalling(store);
      const a = await startReplica(scene, stall.store, { clock: own });
      const b = await startReplica(scene, store);
      await clock.advance(OVER_MS);
      await own.advance(OVER_MS);
      server.reset();

      stall.begin();
      const first = a.echo('a');
      first.catch(() => {});
      await during(scene, stall.isHeld);
      await during(scene, b.echo('b'));
      expect(server.counts.tokenRequests).toBe(1);
      stall.end();
      await during(scene, first);

      expect(server.counts.tokenRequests).toBe(1);
      expect(stall.leases()).toBe(1);
      expect(calls(scene)).toEqual(['token#2', 'token#2']);
      // One after the other: nobody moves the first one's clock while it would wait for the second one's lease.
      await own.advance(OVER_MS);
      await expectAlive(scene, [b]);
      await during(scene, a.echo('a-alive'));
      expect(server.counts.tokenRequests).toBe(1);
    });
  });
}

/** A store whose reads show what was there when `hold()` was called, as a lagging copy would, until `isOver` says so. */
function lag(inner: CredentialStore) {
  let held: StoredRecord | undefined;
  let id = '';
  let isLagging = false;
  let isOver = () => false;
  const store: CredentialStore = {
    async read(of) {
      id = of;
      isLagging = isLagging && !isOver();
      return isLagging ? held : await inner.read(of);
    },
    compareAndSet: (...given) => inner.compareAndSet(...given),
    lease: (...given) => inner.lease(...given),
  };
  return {
    store,
    async hold() {
      held = await inner.read(id);
      isLagging = true;
    },
    until(given: () => boolean) {
      isOver = given;
    },
  };
}

/** A store whose next lease reaches its holder only when the stall is over. */
function stalling(inner: CredentialStore) {
  let isStalling = false;
  let given = 0;
  let end = () => {};
  let held = () => {};
  const over = new Promise<void>((resolve) => {
    end = resolve;
  });
  const isHeld = new Promise<void>((resolve) => {
    held = resolve;
  });
  const store: CredentialStore = {
    read: (...of) => inner.read(...of),
    compareAndSet: (...of) => inner.compareAndSet(...of),
    async lease(...of) {
      const lease = await inner.lease(...of);
      if (!isStalling || lease === undefined) return lease;
      isStalling = false;
      given += 1;
      held();
      await over;
      return lease;
    },
  };
  const begin = () => {
    isStalling = true;
  };
  return { store, begin, isHeld, end: () => end(), leases: () => given };
}
