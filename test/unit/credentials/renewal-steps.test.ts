/** One renewal by itself: what each step makes of what the store, the lease and the token endpoint say. */
import { describe, expect, it } from 'vitest';
import type { Clock } from '../../../src/clock.js';
import { Holding } from '../../../src/credentials/held-token.js';
import { resolveRefreshPolicy, tokenTimes } from '../../../src/credentials/options.js';
import type { Lease, StoredRecord } from '../../../src/credentials/provider.js';
import { type Demand, Renewal } from '../../../src/credentials/renewal.js';
import { Secret } from '../../../src/credentials/secret.js';
import type { SharedRecord } from '../../../src/credentials/shared-record.js';
import type { TokenOutcome } from '../../../src/credentials/token-endpoint.js';
import { HostedMcpError } from '../../../src/errors.js';
import { refused, ScriptedGrant, skewedClock, unavailable } from './support.js';

const LIFE_MS = 600_000;
const POLICY = resolveRefreshPolicy(undefined);
const TOKEN_TIMEOUT_MS = 10_000;
const LEASE_MS = TOKEN_TIMEOUT_MS + 5_000;
const MARGIN_MS = 1_000;

function scene(o: { rotating?: boolean; withStore?: boolean; clock?: Clock; seed?: string } = {}) {
  const manual = skewedClock();
  const clock = o.clock ?? manual;
  const grant = new ScriptedGrant(o.rotating ?? true);
  const holding = new Holding({ clock, policy: POLICY });
  holding.resource = 'https://mcp.example/mcp';
  if (o.rotating !== false) holding.refresh = new Secret('R0');
  const closing = new AbortController();
  const store = {
    stored: undefined as StoredRecord | undefined,
    /** Looks at the store, each after what the test wants done before it. */
    beforeRead: [] as (() => void)[],
    writes: [] as [number | undefined, StoredRecord | undefined][],
    /** What writes answer; then they go well. */
    answers: [] as boolean[],
    leasesAt: [] as number[],
    lease: undefined as (() => Lease | undefined) | undefined,
    releases: 0,
    reads: 0,
  };
  const record = {
    async read() {
      store.reads += 1;
      store.beforeRead.shift()?.();
      return store.stored;
    },
    async compareAndSet(expected: number | undefined, next: StoredRecord | undefined) {
      store.writes.push([expected, next]);
      if (store.answers.shift() === false) return false;
      store.stored = next;
      return true;
    },
    async lease(ms: number) {
      store.leasesAt.push(clock.monotonic());
      if (store.lease !== undefined) return store.lease();
      const untilMs = clock.monotonic() + ms;
      return { remainingMs: () => untilMs - clock.monotonic(), release: async () => {} };
    },
    async release() {
      store.releases += 1;
    },
  } as unknown as SharedRecord;
  let seed = o.seed === undefined ? undefined : new Secret(o.seed);
  const renewal = new Renewal({
    grant,
    holding,
    record: o.withStore === false ? undefined : record,
    policy: POLICY,
    clock,
    closing: closing.signal,
    untriedSeed: () => {
      const given = seed;
      seed = undefined;
      return given;
    },
  });
  /** A record of another replica. */
  const put = (generation: number, more: object = {}) => {
    store.stored = {
      generation,
      data: JSON.stringify({
        v: 1,
        gen: 7,
        access: 'other',
        refresh: 'R-other',
        atMs: clock.now(),
        lifeMs: LIFE_MS,
        resource: holding.resource,
        ...more,
      }),
    };
  };
  const heldFor = (value: string, ageMs = 0) =>
    holding.take({ accessToken: new Secret(value), expiresInMs: LIFE_MS } as never, {
      atMs: clock.now() - ageMs,
      monotonicMs: clock.monotonic() - ageMs,
    });
  return { clock: manual, grant, holding, store, record, renewal, closing, put, heldFor };
}

/** Takes so long, then gives that. */
const slowly = (clock: Clock, ms: number, outcome: TokenOutcome) => async () => {
  await new Promise<void>((resolve) => void clock.setTimeout(resolve, ms));
  return outcome;
};

const lease = (remainingMs: () => number): Lease => ({ remainingMs, release: async () => {} });

describe('a look at the store', () => {
  it('that finds nothing forgets the version it knew', async () => {
    const { renewal, record, holding } = scene();
    holding.version = 5;

    expect([await renewal.adoptChanged(record), holding.version]).toEqual([false, undefined]);
  });

  it('that finds what ours replaced puts ours back', async () => {
    const { renewal, record, holding, put, store, heldFor } = scene();
    heldFor('mine');
    holding.version = 10;
    put(3, { atMs: holding.token?.startedAtMs === undefined ? 0 : holding.token.startedAtMs - 1 });

    expect([await renewal.adoptChanged(record), holding.token?.access.reveal()]).toEqual([false, 'mine']);
    await renewal.saveUnsaved();

    expect(store.writes.map(([expected]) => expected)).toEqual([3]);
    expect(store.stored?.data).toContain('"mine"');
  });

  it.each<[string, Demand, object, string]>([
    ['a token that is young enough', {}, {}, 'adopted'],
    ['one that is due', {}, { atMs: 'due' }, 'minted'],
    ['one that is due in a moment', {}, { atMs: 'nearly' }, 'adopted'],
    ['no token, where none is held', {}, { access: undefined }, 'minted'],
    ['the value that was refused', { refused: 1 }, { access: 'mine' }, 'minted'],
    ['another than was refused', { refused: 1 }, {}, 'adopted'],
    ['a young one where another is wanted', { anew: true }, {}, 'minted'],
  ])('that finds %s', async (_name, demand, more, kind) => {
    const { renewal, put, heldFor, holding, clock } = scene();
    if (!('access' in more) || more.access !== undefined) heldFor('mine');
    const softMs = tokenTimes(LIFE_MS, POLICY, 0.5).softAfterMs;
    const atMs = { due: clock.now() - softMs, nearly: clock.now() - softMs + 1 }[
      (more as { atMs?: string }).atMs ?? ''
    ];
    put(9, { ...more, ...(atMs !== undefined ? { atMs } : {}) });

    expect(await renewal.run(demand)).toMatchObject({ kind });
    expect(holding.token?.access.reveal()).toBe(kind === 'minted' ? 'A1' : 'other');
  });

  it('that finds nothing new is no reason to keep the young token that is held', async () => {
    const { renewal, heldFor, grant } = scene();
    heldFor('mine');

    expect(await renewal.run({})).toEqual({ kind: 'minted' });
    expect(grant.requests).toHaveLength(1);
  });
});

describe('a lease that somebody else has', () => {
  it('is asked for again every 50 ms here, and adopted from', async () => {
    const { renewal, store, clock, put } = scene();
    store.lease = () => undefined;
    const running = renewal.run({});
    await clock.advance(149);
    expect(store.leasesAt).toEqual([0, 50, 100]);
    put(9);
    await clock.advance(1);

    expect(await running).toEqual({ kind: 'adopted' });
    expect(store.leasesAt).toEqual([0, 50, 100]);
  });

  it.each([
    [true, LEASE_MS + MARGIN_MS],
    [false, 2_000],
  ])('beyond what is bearable (rotating %s: %i ms) is waited for no longer', async (rotating, ms) => {
    const { renewal, store, clock, grant } = scene({ rotating });
    await clock.advance(5_000);
    store.lease = () => undefined;
    let result: unknown;
    void renewal.run({}).then((given) => {
      result = given;
    });
    await clock.advance(ms);
    await clock.settle();
    expect(result).toBeUndefined();
    await clock.advance(50);

    if (rotating)
      expect(result).toMatchObject({ kind: 'unavailable', problem: { code: 'ERR_STORE_UNAVAILABLE' } });
    else expect(result).toEqual({ kind: 'minted' });
    expect(grant.requests).toHaveLength(rotating ? 0 : 1);
  });

  it('is not waited for after the end', async () => {
    const { renewal, store, clock, closing, grant } = scene();
    store.lease = () => undefined;
    const running = renewal.run({});
    await clock.advance(10);
    closing.abort();

    expect(await running).toMatchObject({ kind: 'unavailable', problem: { code: 'ERR_CLOSED' } });
    expect(grant.requests).toHaveLength(0);
  });
});

describe('under a lease', () => {
  it.each([
    [TOKEN_TIMEOUT_MS + MARGIN_MS, 1],
    [TOKEN_TIMEOUT_MS + MARGIN_MS - 1, 0],
  ])('of %i ms %i requests leave', async (remainingMs, requests) => {
    const { renewal, store, grant } = scene();
    store.lease = () => lease(() => remainingMs);
    const result = await renewal.run({});

    expect(grant.requests).toHaveLength(requests);
    if (requests === 0)
      expect(result).toMatchObject({ kind: 'unavailable', problem: { code: 'ERR_STORE_UNAVAILABLE' } });
    expect(store.releases).toBe(requests === 0 ? 3 : 1);
  });

  it('a request may leave while more than its time is left', async () => {
    const { renewal, store, grant } = scene();
    let remainingMs = LEASE_MS;
    store.lease = () => lease(() => remainingMs);
    const seen: (boolean | undefined)[] = [];
    const request = grant.request.bind(grant);
    grant.request = (given) => {
      for (remainingMs of [TOKEN_TIMEOUT_MS + 1, TOKEN_TIMEOUT_MS]) seen.push(given.mayLeave?.());
      remainingMs = LEASE_MS;
      return request(given);
    };
    await renewal.run({});

    expect(seen).toEqual([true, false]);
  });

  it('one that is held back at the last moment is made under another lease', async () => {
    const { renewal, store, grant } = scene();
    grant.script.push({ kind: 'held-back' });

    expect(await renewal.run({})).toEqual({ kind: 'minted' });
    expect([store.leasesAt.length, store.releases, grant.requests.length]).toEqual([2, 2, 2]);
  });

  it('after the end none is made', async () => {
    const { renewal, closing, grant } = scene({ withStore: false });
    closing.abort();

    expect(await renewal.run({})).toMatchObject({ kind: 'unavailable', problem: { code: 'ERR_CLOSED' } });
    expect(grant.requests).toHaveLength(0);
  });
});

describe('a request in doubt', () => {
  const doubt = unavailable({ inDoubt: true });

  it('is made again, whatever the hour, and the token counts from then', async () => {
    const { renewal, clock, grant, holding } = scene();
    await clock.advance(5_000);
    const beganMs = clock.now();
    grant.script.push(doubt, doubt);
    const running = renewal.run({});
    await clock.advance(1_000);

    expect(await running).toEqual({ kind: 'minted' });
    expect(grant.requests).toHaveLength(3);
    expect(holding.token?.startedAtMs).toBe(beganMs + 2 * 175);
  });

  it('has the time that the lease has left, less the margin', async () => {
    const { renewal, clock, grant } = scene();
    grant.script.push(slowly(clock, 4_500, doubt));
    const running = renewal.run({});
    await clock.advance(6_000);

    expect(await running).toEqual({ kind: 'minted' });
    expect(grant.requests.map(({ timeoutMs }) => timeoutMs)).toEqual([10_000, 9_500]);
  });

  it('never has more than any request', async () => {
    const { renewal, clock, grant } = scene();
    grant.script.push(doubt);
    const running = renewal.run({});
    await clock.advance(1_000);
    await running;

    expect(grant.requests.map(({ timeoutMs }) => timeoutMs)).toEqual([10_000, 10_000]);
  });

  it.each([
    [LEASE_MS - 2 * MARGIN_MS, 2],
    [LEASE_MS - 2 * MARGIN_MS + 1, 1],
  ])('that failed after %i ms of the lease: %i requests in all', async (ms, requests) => {
    const { renewal, clock, grant } = scene();
    grant.script.push(slowly(clock, ms, doubt), doubt);
    const running = renewal.run({});
    await clock.advance(20_000);
    await running;

    expect(grant.requests).toHaveLength(requests);
  });

  it('and then held back is what it was before: the endpoint is down', async () => {
    const { renewal, clock, grant } = scene();
    grant.script.push(doubt, { kind: 'held-back' });
    const running = renewal.run({});
    await clock.advance(1_000);

    expect(await running).toMatchObject({ kind: 'unavailable', problem: { code: 'ERR_TOKEN_ENDPOINT' } });
    expect(grant.requests).toHaveLength(2);
  });

  it('on a clock without chance of its own: between 50 and 300 ms later', async () => {
    const manual = skewedClock();
    const bare: Clock = {
      now: () => manual.now(),
      monotonic: () => manual.monotonic(),
      setTimeout: manual.setTimeout,
    };
    const { renewal, grant } = scene({ clock: bare, withStore: false });
    grant.script.push(doubt);
    const running = renewal.run({});
    await manual.advance(49);
    expect(grant.requests).toHaveLength(1);
    await manual.advance(251);
    expect(grant.requests).toHaveLength(2);

    expect(await running).toEqual({ kind: 'minted' });
  });
});

describe('an answer that is no token', () => {
  it.each([
    ['a refusal', refused('invalid_scope'), { kind: 'refused', oauthError: 'invalid_scope' }],
    ['an outage', unavailable(), { kind: 'unavailable', problem: { code: 'ERR_TOKEN_ENDPOINT' } }],
  ])('%s: what it brought of a refresh token is kept and stored', async (_name, outcome, expected) => {
    const { renewal, grant, holding, store } = scene();
    grant.script.push({ ...outcome, rotated: new Secret('R-rescued') } as TokenOutcome);

    expect(await renewal.run({})).toMatchObject(expected);
    expect(holding.refresh?.reveal()).toBe('R-rescued');
    expect(store.stored?.data).toContain('R-rescued');
    expect(store.writes).toHaveLength(1);
  });

  it('without one nothing is written', async () => {
    const { renewal, grant, store } = scene();
    grant.script.push(unavailable());
    await renewal.run({});

    expect(store.writes).toEqual([]);
  });
});

describe('a refresh token that is called invalid', () => {
  it.each([1, 2])('is replaced by the one that stands in the store at look %i', async (look) => {
    const { renewal, grant, store, put, clock, holding } = scene();
    grant.script.push(refused('invalid_grant'));
    // Two looks come before the request.
    for (let looks = 1; looks < 2 + look; looks += 1) store.beforeRead.push(() => {});
    store.beforeRead.push(() => put(9));
    const running = renewal.run({});
    await clock.advance(look === 1 ? 0 : 99);
    expect(holding.refresh?.reveal()).toBe(look === 1 ? 'R-other' : 'R0');
    await clock.advance(1);

    expect(await running).toEqual({ kind: 'adopted' });
    expect([holding.refresh?.reveal(), grant.requests.length]).toEqual(['R-other', 1]);
  });

  it.each<[string, TokenOutcome | undefined, object]>([
    ['brings a token', undefined, { kind: 'minted' }],
    ['meets an outage', unavailable(), { kind: 'unavailable' }],
    [
      'is refused as well',
      refused('invalid_grant'),
      { kind: 'dead', problem: { fields: { reason: 'invalid_grant' } } },
    ],
  ])('where another was configured, that is tried: it %s', async (_name, outcome, expected) => {
    const { renewal, grant, clock } = scene({ seed: 'R-configured' });
    grant.script.push(refused('invalid_grant'), ...(outcome === undefined ? [] : [outcome]));
    const running = renewal.run({});
    await clock.advance(100);

    expect(await running).toMatchObject(expected);
    expect(grant.requests.map(({ refreshToken }) => refreshToken?.reveal())).toEqual(['R0', 'R-configured']);
  });
});

describe('a write that met another', () => {
  it('is looked into; one that went well is not', async () => {
    const { renewal, store } = scene();
    await renewal.run({});

    // Before the lease, and under it.
    expect([store.reads, store.writes.length]).toEqual([2, 1]);
  });

  it('a rotating pair gives way at once', async () => {
    const { renewal, store, put, holding } = scene();
    store.answers.push(false);
    for (let looks = 1; looks <= 2; looks += 1) store.beforeRead.push(() => {});
    store.beforeRead.push(() => put(9));
    await renewal.run({});

    expect([store.writes.length, holding.refresh?.reveal(), holding.version]).toEqual([1, 'R-other', 9]);
    await renewal.saveUnsaved();
    expect(store.writes).toHaveLength(1);
  });

  it('a machine’s token is tried twice', async () => {
    const { renewal, store } = scene({ rotating: false });
    store.answers.push(false, false, false, false);

    expect(await renewal.run({})).toEqual({ kind: 'minted' });
    expect(store.writes).toHaveLength(2);
  });
});

describe('what stands in the way before the request', () => {
  it('of a foreign kind is an outage', async () => {
    const { renewal, grant } = scene();
    grant.prepare = () => Promise.reject(new Error('foreign'));

    expect(await renewal.run({})).toMatchObject({
      kind: 'unavailable',
      problem: { code: 'ERR_TOKEN_ENDPOINT', fields: { retryable: true } },
    });
  });

  it.each([
    [new HostedMcpError('ERR_DISCOVERY', 'No'), 'refused'],
    [new HostedMcpError('ERR_CREDENTIAL_SOURCE', 'No', { reason: 'runtime' }), 'refused'],
    [new HostedMcpError('ERR_TOKEN_ENDPOINT', 'No', { retryAfterMs: 7 }), 'unavailable'],
  ])('%s is %s', async (error, kind) => {
    const { renewal, grant } = scene();
    grant.prepare = () => Promise.reject(error);

    expect(await renewal.run({})).toMatchObject({ kind, problem: { code: error.code } });
  });
});
