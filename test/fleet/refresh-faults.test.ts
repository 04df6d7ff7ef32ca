/**
 * What becomes of a fleet with one rotating refresh token when a replica is killed, put aside or told to go in the
 * middle of a refresh, or when Redis is away. Judged at the authorization server, which is a real one.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
// @ts-expect-error: a script, without types.
import { elapse } from '../../scripts/fleet/child.mjs';
// @ts-expect-error: a script, without types.
import { killInRefresh, openRefreshScene } from '../../scripts/fleet/refresh-fleet.mjs';

/** A lease is five seconds longer. Shorter ones make a busy machine look like a token endpoint that is down. */
const TOKEN_TIMEOUT_MS = 4_000;
const LEASE_MS = TOKEN_TIMEOUT_MS + 5_000;
/** Nine scenes of three processes each have to start, too. */
const PATIENT = { timeout: 90_000 };
const DEAD = 'ERR_REAUTHORIZATION_REQUIRED invalid_grant';

interface Replica {
  readonly pid: number;
  // biome-ignore lint/suspicious/noExplicitAny: each question has an answer of its own.
  ask(name: string, given?: unknown): Promise<any>;
  signal(name: NodeJS.Signals): void;
  end(): Promise<void>;
}
interface TokenRequest {
  readonly atMs: number;
  readonly status?: number;
  readonly grantType?: string;
}

interface Scene {
  // biome-ignore lint/suspicious/noExplicitAny: scripts/fleet/oidc-server.mjs says what it has.
  readonly server: any;
  readonly redis: { freeze(): void; thaw(): void; kill(): Promise<void>; start(): Promise<void> };
  startReplica(more?: object): Promise<Replica>;
  isAlive(): Promise<boolean>;
  close(): Promise<void>;
  /** How many token requests there were, and those after the first so many. */
  requests(): number;
  since(index: number): readonly TokenRequest[];
}

async function openScene({
  tokenLifetimeMs = 2_000,
  tokenTimeoutMs = TOKEN_TIMEOUT_MS,
  graceMs = 0,
} = {}): Promise<Scene> {
  const scene = await openRefreshScene({
    tokenLifetimeMs,
    graceMs,
    refresh: { tokenTimeoutMs },
  });
  const { server } = scene;
  return {
    ...scene,
    requests: () => server.seen.tokenRequests.length,
    since: (index) => server.seen.tokenRequests.slice(index),
  };
}

/**
 * One replica is killed in the middle of its refresh. The others do not look for what is due by themselves; their
 * callers begin right after that.
 */
async function killOneOfThree(scene: Scene, when: string): Promise<Replica[]> {
  const waitful = { refresh: { tokenTimeoutMs: TOKEN_TIMEOUT_MS, background: 'never' } };
  const others = await Promise.all([scene.startReplica(waitful), scene.startReplica(waitful)]);
  const first = await scene.startReplica({ pauseable: 'requests' });
  await killInRefresh(when, first, scene.server);
  await Promise.all(others.map((replica) => replica.ask('run', { callers: 5, pauseMs: 100 })));
  return others;
}

/** The system says that it is stopped. */
async function isStopped({ pid }: Replica): Promise<void> {
  while (!/\) T /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))) await elapse(10);
}

/** How a process ended: its code, or the signal. */
function endOf(replica: Replica): Promise<string> {
  return replica.ask('forever').catch(({ message }: Error) => /ended: (\w+)/.exec(message)?.[1]);
}

/** Calls one after the other until `isOver` says so of an outcome; all the outcomes. */
async function callUntil(replica: Replica, isOver: (outcome: string) => boolean): Promise<string[]> {
  const outcomes: string[] = [];
  for (;;) {
    const outcome: string = await replica.ask('call', 3_000);
    outcomes.push(outcome);
    if (isOver(outcome)) return outcomes;
    await elapse(50);
  }
}

describe.concurrent('a replica is killed in the middle of a refresh', PATIENT, () => {
  it('before its request has left: another one refreshes when the lease is over, and no call fails', async () => {
    const scene = await openScene();
    try {
      const others = await killOneOfThree(scene, 'before the request');
      const before = scene.requests();
      await scene.server.decided(2);

      for (const replica of others) expect(await replica.ask('stop')).toMatchObject({ failed: {} });
      const [last, next] = scene.since(before - 1) as [TokenRequest, TokenRequest];
      expect(next.atMs - last.atMs).toBeGreaterThan(LEASE_MS);
      expect(scene.server.reuses()).toBe(0);
      expect(scene.requests()).toBe(scene.server.generations().length);
      expect(await scene.isAlive()).toBe(true);
    } finally {
      await scene.close();
    }
  });

  it('after its request has left, strict server: the fleet says so, once each, and does not hammer', async () => {
    const scene = await openScene();
    try {
      const others = await killOneOfThree(scene, 'after the request');
      const before = scene.requests();
      await scene.server.decided(others.length);
      for (const replica of others) {
        expect(await replica.ask('call')).toBe(DEAD);
        const { failed, events } = await replica.ask('stop');
        expect(Object.keys(failed)).toEqual([DEAD]);
        expect(events).toMatchObject({ 'failed ERR_REAUTHORIZATION_REQUIRED': 1 });
        for (let call = 0; call < 50; call += 1) expect(await replica.ask('call')).toBe(DEAD);
        // There is nothing to add.
        expect((await replica.ask('report')).events).toEqual(events);
      }
      // The first one finds the token spent, each of the others that the grant is gone.
      expect(scene.since(before).map(({ status }) => status)).toEqual(others.map(() => 400));
      expect(scene.server.seen.revoked).toHaveLength(1);
      expect(await scene.isAlive()).toBe(false);
    } finally {
      await scene.close();
    }
  });

  it('after its request has left, server with a grace: the fleet goes on, and no call fails', async () => {
    const scene = await openScene({ graceMs: 30_000 });
    try {
      const others = await killOneOfThree(scene, 'after the request');
      await scene.server.decided(2);

      for (const replica of others) expect(await replica.ask('stop')).toMatchObject({ failed: {} });
      // The one whose answer was lost, and that one only, came again.
      expect(scene.server.reuses()).toBe(1);
      expect(scene.server.seen.revoked).toEqual([]);
      expect(await scene.isAlive()).toBe(true);
    } finally {
      await scene.close();
    }
  });
});

describe.concurrent('a replica is put aside (SIGSTOP) for longer than its lease', PATIENT, () => {
  for (const point of ['leased', 'checked'] as const) {
    it(`${point === 'leased' ? 'with the lease just taken' : 'after it has looked at its lease'}: it does not send the old refresh token`, async () => {
      const scene = await openScene();
      try {
        const { server } = scene;
        const aside = await scene.startReplica({ pauseable: true });
        await aside.ask('restAt', point);
        // Its token is due in a second, and it is the only one.
        await isStopped(aside);
        expect(scene.requests()).toBe(1);
        await Promise.all([server.decided(1), scene.startReplica()]);

        aside.signal('SIGCONT');

        expect(await aside.ask('call')).toBe('answered');
        await server.decided(2);
        expect(await aside.ask('call')).toBe('answered');
        expect(server.reuses()).toBe(0);
        expect(server.generations()).toHaveLength(scene.requests());
        expect(await scene.isAlive()).toBe(true);
      } finally {
        await scene.close();
      }
    });
  }
});

describe.concurrent('a replica is told to go (SIGTERM)', PATIENT, () => {
  it('while its request is under way: it stores the answer first, and its successor asks for nothing', async () => {
    const scene = await openScene({ tokenLifetimeMs: 60_000 });
    try {
      const { server } = scene;
      const going = await scene.startReplica({ connect: false });
      const ended = endOf(going);
      const closing = going.ask('closing');
      const atServer = new Promise<void>((arrived) => {
        server.intercept(async (_: unknown, decide: () => Promise<void>) => {
          await decide();
          arrived();
          await closing;
        });
      });
      const connecting = going.ask('connect').catch(() => {});
      await atServer;
      going.signal('SIGTERM');
      expect(await ended).toBe('0');
      await connecting;
      server.intercept(undefined);

      const successor = await scene.startReplica();
      expect(await successor.ask('call')).toBe('answered');
      expect(scene.requests()).toBe(1);
      // What it took over is the live pair: the next refresh is accepted.
      server.expireTokens();
      expect(await successor.ask('call')).toBe('answered');
      expect(scene.since(1).map(({ status }) => status)).toEqual([200]);
      expect(server.reuses()).toBe(0);
      expect(await scene.isAlive()).toBe(true);
    } finally {
      await scene.close();
    }
  });

  it('while it waits for the refresh of another: it goes at once, and sends nothing', async () => {
    const scene = await openScene({ tokenLifetimeMs: 60_000, tokenTimeoutMs: 30_000 });
    try {
      const { server } = scene;
      const [refreshing, going] = await Promise.all([
        scene.startReplica({ connect: false, pauseable: 'requests' }),
        scene.startReplica({ connect: false }),
      ]);
      const ended = endOf(going);
      const posting = refreshing.ask('restAt', 'posting');
      const dropped = refreshing.ask('connect').catch(() => {});
      await posting;
      const waiting = going.ask('connect').catch(() => {});
      const closing = going.ask('closing');
      going.signal('SIGTERM');
      await closing;
      expect(await ended).toBe('0');
      await waiting;
      expect(scene.requests()).toBe(0);
      await refreshing.end();
      await dropped;
      expect(server.reuses()).toBe(0);
    } finally {
      await scene.close();
    }
  });
});

describe.concurrent('Redis is away', PATIENT, () => {
  for (const way of ['frozen', 'killed, back empty'] as const) {
    it(`${way}: client credentials go on, a refresh waits, says why, and heals by itself`, async () => {
      const scene = await openScene({ tokenLifetimeMs: 6_000, tokenTimeoutMs: 10_000 });
      try {
        const { server, redis } = scene;
        const machine = { grant: 'client-credentials', identity: server.machine };
        const [a, b, m] = (await Promise.all([
          scene.startReplica(),
          scene.startReplica(),
          scene.startReplica(machine),
        ])) as [Replica, Replica, Replica];
        // Both hold the newest pair.
        const generations = () =>
          Promise.all([a, b].map((replica) => replica.ask('generation', server.mcpUrl)));
        for (let held = await generations(); new Set(held).size > 1; held = await generations())
          await elapse(10);
        if (way === 'frozen') redis.freeze();
        else await redis.kill();
        const before = scene.requests();

        // The token lives on for a while, then every call says what is missing.
        expect(await Promise.all([a.ask('call'), b.ask('call')])).toEqual(['answered', 'answered']);
        for (const outcomes of await Promise.all([callUntil(a, hasFailed), callUntil(b, hasFailed)]))
          expect(outcomes.at(-1)).toBe('ERR_STORE_UNAVAILABLE');
        let isRenewed = false;
        void server.decided(1, isMachine).then(() => {
          isRenewed = true;
        });
        expect(new Set(await callUntil(m, () => isRenewed))).toEqual(new Set(['answered']));
        const meanwhile = scene.since(before);
        expect(meanwhile.filter(isRefresh)).toEqual([]);
        expect(meanwhile.filter(isMachine).every(({ status }) => status === 200)).toBe(true);

        if (way === 'frozen') redis.thaw();
        else await redis.start();
        expect(await Promise.all([a.ask('call'), b.ask('call')])).toEqual(['answered', 'answered']);
        expect(
          scene
            .since(before)
            .filter(isRefresh)
            .every(({ status }) => status === 200),
        ).toBe(true);
        expect(server.reuses()).toBe(0);
        expect(await scene.isAlive()).toBe(true);
      } finally {
        await scene.close();
      }
    });
  }
});

const hasFailed = (outcome: string) => outcome !== 'answered';
const isRefresh = ({ grantType }: TokenRequest) => grantType === 'refresh_token';
const isMachine = ({ grantType }: TokenRequest) => grantType === 'client_credentials';
