import { afterEach, describe, expect, it } from 'vitest';
import type { CredentialEvent } from '../../../src/credentials/provider.js';
import type { Refresher } from '../../../src/credentials/refresher.js';
import { Secret } from '../../../src/credentials/secret.js';
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

const open: Refresher[] = [];
afterEach(async () => {
  for (const provider of open.splice(0)) await provider.close({ drainMs: 0 });
});

function setUp(
  o: Parameters<typeof makeRefresher>[2] & { rotating?: boolean; lifetimeMs?: number | undefined } = {},
) {
  const clock = skewedClock();
  const grant = new ScriptedGrant(o.rotating ?? false);
  if ('lifetimeMs' in o) grant.lifetimeMs = o.lifetimeMs;
  const provider = makeRefresher(grant, clock, o);
  open.push(provider);
  const events: CredentialEvent[] = [];
  provider.onEvent((event) => events.push(event));
  return { clock, grant, provider, events };
}

describe('single flight', () => {
  it('1,000 cold callers make one token request', async () => {
    const { grant, provider } = setUp();
    const got = await Promise.all(Array.from({ length: 1000 }, () => provider.acquire(TARGET)));
    expect(grant.requests).toHaveLength(1);
    expect(new Set(got.map((c) => c.generation))).toEqual(new Set([1]));
  });

  it('1,000 callers at hard expiry make one token request', async () => {
    const { clock, grant, provider } = setUp({ refresh: { background: 'never' } });
    await provider.acquire(TARGET);
    await clock.advance(600_000);
    const got = await Promise.all(Array.from({ length: 1000 }, () => provider.acquire(TARGET)));
    expect(grant.requests).toHaveLength(2);
    expect(got.every((c) => c.generation === 2)).toBe(true);
  });

  it("an abort detaches that caller only, and the flight's token serves the others", async () => {
    const { grant, provider } = setUp();
    const held = gate();
    grant.hold = held.promise;
    const controller = new AbortController();
    const leaving = errorOf(provider.acquire(TARGET, { signal: controller.signal }));
    const staying = provider.acquire(TARGET);
    controller.abort();
    expect((await leaving).code).toBe('ERR_ABORTED');
    held.open();
    expect(await bearerOf(await staying)).toBe('Bearer A1');
    expect(grant.requests).toHaveLength(1);
  });

  it('when the only caller leaves, the token is kept for the next', async () => {
    const { clock, grant, provider } = setUp();
    const held = gate();
    grant.hold = held.promise;
    const controller = new AbortController();
    const leaving = errorOf(provider.acquire(TARGET, { signal: controller.signal }));
    await clock.settle();
    controller.abort();
    await leaving;
    held.open();
    await clock.settle();
    await provider.acquire(TARGET);
    expect(grant.requests).toHaveLength(1);
  });

  it('a caller with an aborted signal starts nothing', async () => {
    const { grant, provider } = setUp();
    expect((await errorOf(provider.acquire(TARGET, { signal: AbortSignal.abort() }))).code).toBe(
      'ERR_ABORTED',
    );
    expect(grant.requests).toHaveLength(0);
  });
});

describe('ahead of expiry', () => {
  it('in the soft window callers get the live token at once while one refresh runs', async () => {
    const { clock, grant, provider } = setUp({ refresh: { background: 'never' } });
    await provider.acquire(TARGET);
    await clock.advance(450_000);
    const held = gate();
    grant.hold = held.promise;
    const got = await Promise.all(Array.from({ length: 20 }, () => provider.acquire(TARGET)));
    expect(got.every((c) => c.generation === 1)).toBe(true);
    await clock.settle();
    expect(grant.requests).toHaveLength(2);
    held.open();
    await clock.settle();
    expect((await provider.acquire(TARGET)).generation).toBe(2);
    expect(grant.requests).toHaveLength(2);
  });

  it('the same flight is waited for once the token is past its hard end', async () => {
    const { clock, grant, provider } = setUp({ refresh: { background: 'never' } });
    await provider.acquire(TARGET);
    await clock.advance(450_000);
    const held = gate();
    grant.hold = held.promise;
    await provider.acquire(TARGET);
    await clock.advance(150_000);
    const waiting = provider.acquire(TARGET);
    held.open();
    expect((await waiting).generation).toBe(2);
    expect(grant.requests).toHaveLength(2);
  });

  it("background 'active' refreshes in think-time, without a caller", async () => {
    const { clock, grant, provider } = setUp({ lifetimeMs: 600_000 });
    await provider.acquire(TARGET);
    await clock.advance(449_000);
    expect(grant.requests).toHaveLength(2);
    expect((await provider.acquire(TARGET)).generation).toBe(2);
  });

  it("background 'active' stops one lifetime after the last acquire, 'always' does not, 'never' does nothing", async () => {
    const active = setUp({ lifetimeMs: 600_000 });
    const always = setUp({ lifetimeMs: 600_000, refresh: { background: 'always' } });
    const never = setUp({ lifetimeMs: 600_000, refresh: { background: 'never' } });
    for (const { clock, provider } of [active, always, never]) {
      await provider.acquire(TARGET);
      await clock.advance(6_000_000);
    }
    expect(active.grant.requests).toHaveLength(2);
    expect(always.grant.requests.length).toBeGreaterThan(10);
    expect(never.grant.requests).toHaveLength(1);
  });

  it('a frozen process does not spend a refresh token on waking up: the wall clock says nobody asked', async () => {
    const { clock, grant, provider } = setUp({ rotating: true, lifetimeMs: 600_000 });
    await provider.acquire(TARGET);
    await clock.advance(440_000);
    // Frozen for an hour: the monotonic clock stood still, timers fire late.
    clock.skewMs = 3_600_000;
    await clock.advance(60_000);
    expect(grant.requests).toHaveLength(1);
    await provider.acquire(TARGET);
    expect(grant.requests).toHaveLength(2);
  });

  it('judges on the stricter clock: set back does not prolong a token, set forward ends it', async () => {
    const back = setUp({ refresh: { background: 'never' } });
    await back.provider.acquire(TARGET);
    back.clock.skewMs = -3_600_000;
    await back.clock.advance(600_000);
    expect((await back.provider.acquire(TARGET)).generation).toBe(2);

    const forward = setUp({ refresh: { background: 'never' } });
    await forward.provider.acquire(TARGET);
    forward.clock.skewMs = 8 * 3_600_000;
    expect((await forward.provider.acquire(TARGET)).generation).toBe(2);
  });

  it('a token that is shorter-lived than its own request is served once to those who waited, without a loop', async () => {
    const { clock, grant, provider } = setUp({ lifetimeMs: 1_000, refresh: { background: 'never' } });
    const held = gate();
    grant.hold = held.promise;
    const waiting = provider.acquire(TARGET);
    await clock.advance(3_000);
    held.open();
    expect((await waiting).generation).toBe(1);
    expect(grant.requests).toHaveLength(1);
  });
});

describe('generations', () => {
  it('a straggler refused with an old generation costs no token request', async () => {
    const { clock, grant, provider } = setUp({ refresh: { background: 'never' } });
    await provider.acquire(TARGET);
    await clock.advance(600_000);
    await provider.acquire(TARGET);
    const late = await Promise.all(
      Array.from({ length: 1000 }, () =>
        provider.acquire(TARGET, { rejected: { generation: 1, status: 401 } }),
      ),
    );
    expect(grant.requests).toHaveLength(2);
    expect(late.every((c) => c.generation === 2)).toBe(true);
  });

  it('1,000 refusals of the current generation share one forced refresh', async () => {
    const { grant, provider } = setUp();
    await provider.acquire(TARGET);
    const got = await Promise.all(
      Array.from({ length: 1000 }, () =>
        provider.acquire(TARGET, { rejected: { generation: 1, status: 401 } }),
      ),
    );
    expect(grant.requests).toHaveLength(2);
    expect(got.every((c) => c.generation === 2)).toBe(true);
  });

  it('a server that always refuses costs one forced refresh in total, and the latch opens after a minute', async () => {
    const { clock, grant, provider, events } = setUp();
    const call = async () => {
      const first = await provider.acquire(TARGET);
      const again = await provider.acquire(TARGET, {
        rejected: { generation: first.generation, status: 401 },
      });
      return await provider.acquire(TARGET, { rejected: { generation: again.generation, status: 401 } });
    };
    const errors = await Promise.all(Array.from({ length: 50 }, () => errorOf(call())));
    expect(errors.every((e) => e.code === 'ERR_CREDENTIAL_REJECTED')).toBe(true);
    expect(grant.requests).toHaveLength(2);
    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_CREDENTIAL_REJECTED');
    await clock.advance(59_000);
    expect((await errorOf(provider.acquire(TARGET))).retryAfterMs).toBeLessThanOrEqual(1_000);
    await clock.advance(1_001);
    expect((await provider.acquire(TARGET)).generation).toBe(2);
    expect(grant.requests).toHaveLength(2);
    expect(events.filter((e) => e.type === 'failed')).toHaveLength(1);
  });

  it('a short-lived answer that ends on the server before it ends here is renewed, not latched', async () => {
    const { clock, grant, provider } = setUp({ lifetimeMs: 30_000, refresh: { background: 'never' } });
    await provider.acquire(TARGET);
    await provider.acquire(TARGET, { rejected: { generation: 1, status: 401 } });
    await clock.advance(20_000);
    const credential = await provider.acquire(TARGET, { rejected: { generation: 2, status: 401 } });
    expect(credential.generation).toBe(3);
    expect(grant.requests).toHaveLength(3);
  });

  it('the same value again does not move the generation, and after a refusal is no answer', async () => {
    const { clock, grant, provider } = setUp({ refresh: { background: 'never' } });
    grant.script.push(token('SAME'), token('SAME'), token('SAME'));
    expect((await provider.acquire(TARGET)).generation).toBe(1);
    await clock.advance(600_000);
    expect((await provider.acquire(TARGET)).generation).toBe(1);
    const error = await errorOf(provider.acquire(TARGET, { rejected: { generation: 1, status: 401 } }));
    expect(error.code).toBe('ERR_CREDENTIAL_REJECTED');
    expect(grant.requests).toHaveLength(3);
  });

  it('refuses a second origin, in acquire and in headers', async () => {
    const { provider } = setUp();
    const credential = await provider.acquire(TARGET);
    const other = new URL('https://other.example/mcp');
    expect((await errorOf(provider.acquire(other))).code).toBe('ERR_CREDENTIAL_REJECTED');
    expect(() => credential.headers({ method: 'POST', url: other })).toThrow(/another origin/);
  });
});

describe('token endpoint down', () => {
  it('serves the live token, backs off and tells', async () => {
    const { clock, grant, provider, events } = setUp({ refresh: { background: 'never' } });
    await provider.acquire(TARGET);
    await clock.advance(450_000);
    grant.script.push(...Array.from({ length: 100 }, () => unavailable()));
    for (let i = 0; i < 1000; i++) {
      expect((await provider.acquire(TARGET)).generation).toBe(1);
      await clock.advance(100);
    }
    const posts = grant.requests.length - 1;
    expect(posts).toBeGreaterThan(4);
    expect(posts).toBeLessThan(20);
    expect(events.filter((e) => e.type === 'failed')).toHaveLength(posts);
  });

  it('past expiry waits through the back-off where it fits, else fails at once with the wait', async () => {
    const { clock, grant, provider } = setUp({ refresh: { background: 'never' } });
    grant.script.push(unavailable({ retryAfterMs: 5_000 }));
    const patient = provider.acquire(TARGET, { maxWaitMs: 6_000 });
    await clock.settle();
    const hasty = await errorOf(provider.acquire(TARGET, { maxWaitMs: 4_000 }));
    expect(hasty.code).toBe('ERR_TOKEN_ENDPOINT');
    expect(hasty.retryable).toBe(true);
    expect(hasty.retryAfterMs).toBe(5_000);
    expect(grant.requests).toHaveLength(1);
    await clock.advance(4_999);
    expect(grant.requests).toHaveLength(1);
    await clock.advance(1);
    expect(await bearerOf(await patient)).toBe('Bearer A1');
    expect(grant.requests).toHaveLength(2);
  });

  it('a caller whose time ends during a token request leaves with ERR_TOKEN_ENDPOINT', async () => {
    const { clock, grant, provider } = setUp();
    const held = gate();
    grant.hold = held.promise;
    const failing = errorOf(provider.acquire(TARGET, { maxWaitMs: 1_000 }));
    await clock.advance(1_000);
    expect((await failing).code).toBe('ERR_TOKEN_ENDPOINT');
    held.open();
  });

  it('serveExpired goes on with the old token while the endpoint is down', async () => {
    const { clock, grant, provider } = setUp({ refresh: { background: 'never', serveExpired: true } });
    await provider.acquire(TARGET);
    await clock.advance(700_000);
    grant.script.push(unavailable({ retryAfterMs: 60_000 }));
    expect((await provider.acquire(TARGET)).generation).toBe(1);
  });

  it('900 s of outage for a 600 s token cost few requests', async () => {
    const { clock, grant, provider } = setUp({ refresh: { background: 'never' } });
    await provider.acquire(TARGET);
    grant.script.push(...Array.from({ length: 4000 }, () => unavailable()));
    for (let i = 0; i < 900; i++) {
      await provider.acquire(TARGET, { maxWaitMs: 0 }).catch(() => {});
      await clock.advance(1_000);
    }
    expect(grant.requests.length).toBeLessThan(60);
  });
});

describe('structured refusals', () => {
  it('invalid_client is final: one request, then none', async () => {
    const { clock, grant, provider } = setUp();
    grant.script.push(refused('invalid_client'));
    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_CREDENTIAL_REJECTED');
    await clock.advance(3_600_000);
    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_CREDENTIAL_REJECTED');
    expect(grant.requests).toHaveLength(1);
  });

  it('invalid_grant without a store latches: later acquires make no request', async () => {
    const { grant, provider } = setUp({ rotating: true });
    grant.script.push(refused('invalid_grant'));
    const errors = await Promise.all(Array.from({ length: 5 }, () => errorOf(provider.acquire(TARGET))));
    expect(errors.every((e) => e.code === 'ERR_REAUTHORIZATION_REQUIRED' && e.executed === false)).toBe(true);
    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_REAUTHORIZATION_REQUIRED');
    expect(grant.requests).toHaveLength(1);
  });

  it('a dead refresh token does not end an access token that lives', async () => {
    const { clock, grant, provider } = setUp({ rotating: true, refresh: { background: 'never' } });
    await provider.acquire(TARGET);
    grant.script.push(refused('invalid_grant'));
    await clock.advance(450_000);
    await provider.acquire(TARGET);
    await clock.settle();
    expect((await provider.acquire(TARGET)).generation).toBe(1);
    expect(grant.requests).toHaveLength(2);
    await clock.advance(150_000);
    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_REAUTHORIZATION_REQUIRED');
    expect(grant.requests).toHaveLength(2);
  });
});

describe('a rotating refresh in doubt', () => {
  it('sends the same refresh token again promptly, at most twice', async () => {
    const { clock, grant, provider } = setUp({ rotating: true });
    grant.script.push(unavailable({ inDoubt: true }), unavailable({ inDoubt: true }));
    const waiting = provider.acquire(TARGET);
    await clock.advance(2_000);
    await waiting;
    expect(grant.requests.map((r) => r.refreshToken?.reveal())).toEqual(['R0', 'R0', 'R0']);

    const second = setUp({ rotating: true });
    second.grant.script.push(...Array.from({ length: 9 }, () => unavailable({ inDoubt: true })));
    const failing = errorOf(second.provider.acquire(TARGET, { maxWaitMs: 500 }));
    await second.clock.advance(500);
    await failing;
    expect(second.grant.requests).toHaveLength(3);
  });

  it('keeps a refresh token that came with a useless answer', async () => {
    const { clock, grant, provider } = setUp({ rotating: true });
    const useless = unavailable();
    grant.script.push({ ...useless, rotated: new Secret('R-rescued') } as typeof useless);
    const waiting = provider.acquire(TARGET);
    await clock.advance(2_000);
    await waiting;
    expect(grant.requests[1]?.refreshToken?.reveal()).toBe('R-rescued');
  });
});

describe('scope', () => {
  it('client credentials are asked for again with the union, once per set', async () => {
    const { grant, provider } = setUp({ scope: 'a' });
    await provider.acquire(TARGET);
    const need = { scope: 'b', rejected: { generation: 1, status: 403 } };
    const got = await Promise.all(Array.from({ length: 20 }, () => provider.acquire(TARGET, need)));
    expect(grant.requests.map((r) => r.scope)).toEqual(['a', 'a b']);
    expect(got.every((c) => c.generation === 2 && c.scope === 'a b')).toBe(true);
    // Refused again although granted: the server wants something else.
    const error = await errorOf(
      provider.acquire(TARGET, { scope: 'b', rejected: { generation: 2, status: 403 } }),
    );
    expect(error.code).toBe('ERR_INSUFFICIENT_SCOPE');
    expect(error.requiredScope).toBe('b');
  });

  it('what the server does not grant is ERR_INSUFFICIENT_SCOPE, and is not asked for twice', async () => {
    const { grant, provider } = setUp({ scope: 'a' });
    grant.script.push(token('A', 600_000, { scope: 'a' }), refused('invalid_scope'));
    await provider.acquire(TARGET);
    for (let i = 0; i < 3; i++) {
      const error = await errorOf(provider.acquire(TARGET, { scope: 'b' }));
      expect(error.code).toBe('ERR_INSUFFICIENT_SCOPE');
    }
    expect(grant.requests).toHaveLength(2);
    expect((await provider.acquire(TARGET)).generation).toBe(1);
  });

  it('a refresh token cannot get more', async () => {
    const { grant, provider } = setUp({ rotating: true, scope: 'a' });
    await provider.acquire(TARGET);
    const error = await errorOf(
      provider.acquire(TARGET, { scope: 'b', rejected: { generation: 1, status: 403 } }),
    );
    expect(error).toMatchObject({ code: 'ERR_INSUFFICIENT_SCOPE', requiredScope: 'b' });
    expect(grant.requests).toHaveLength(1);
  });
});

describe('close and forget', () => {
  it('waits for a request that has left', async () => {
    const { clock, grant, provider } = setUp({ rotating: true });
    const held = gate();
    grant.hold = held.promise;
    const waiting = provider.acquire(TARGET);
    await clock.settle();
    let closed = false;
    const closing = provider.close({ drainMs: 1_000 }).then(() => {
      closed = true;
    });
    await clock.settle();
    expect(closed).toBe(false);
    held.open();
    await closing;
    await waiting.catch(() => {});
    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_CLOSED');
  });

  it('does not wait for ever, and leaves no timer', async () => {
    const { clock, grant, provider } = setUp();
    await provider.acquire(TARGET);
    grant.hold = new Promise(() => {});
    const waiting = provider
      .acquire(TARGET, { rejected: { generation: 1, status: 401 }, maxWaitMs: 100 })
      .catch(() => {});
    await clock.settle();
    const closing = provider.close({ drainMs: 1_000 });
    await clock.advance(1_000);
    await closing;
    await waiting;
    expect(clock.pendingTimers).toBe(0);
  });

  it('a caller that waits out a back-off is released', async () => {
    const { clock, grant, provider } = setUp();
    grant.script.push(unavailable({ retryAfterMs: 5_000 }));
    const waiting = errorOf(provider.acquire(TARGET));
    await clock.settle();
    await provider.close();
    expect((await waiting).code).toBe('ERR_CLOSED');
  });

  it('a forgotten user credential asks for authorization, a forgotten machine credential is asked for anew', async () => {
    const user = setUp({ rotating: true });
    await user.provider.acquire(TARGET);
    await user.provider.forget();
    expect((await errorOf(user.provider.acquire(TARGET))).code).toBe('ERR_REAUTHORIZATION_REQUIRED');
    expect(user.grant.requests).toHaveLength(1);

    const machine = setUp();
    await machine.provider.acquire(TARGET);
    await machine.provider.forget();
    expect((await machine.provider.acquire(TARGET)).generation).toBe(2);
  });
});
