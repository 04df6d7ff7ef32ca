/**
 * The simulator's own limit, and the figure that limiters are judged by.
 */
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { serverPause } from '../../../src/rate-limit/server-hints.js';
import {
  type HostedServer,
  manualClock,
  type ServerRateLimit,
  startHostedServer,
} from '../../../src/testing/index.js';
import { RateLimiter } from '../../../src/testing/rate-limiter.js';
import { connect, initialize, peerOf, request, start, textOf, toolCall } from './support.js';

const PER_MINUTE = { limit: 3, intervalMs: 60_000, per: 'credential' } as const;

/** A bare request: the limit is judged before everything but the proxy's pages. */
async function knock(server: HostedServer, token: string | undefined = server.issueToken()): Promise<number> {
  const peer = peerOf(server, token === '' ? {} : { authorization: `Bearer ${token}` });
  const response = await peer.post(request('ping'));
  await response.text();
  return response.status;
}
const knocks = async (server: HostedServer, count: number, token?: string) => {
  const statuses: number[] = [];
  for (let done = 0; done < count; done += 1) statuses.push(await knock(server, token));
  return statuses;
};

async function startLimited(rateLimit: Partial<ServerRateLimit> = {}, options = {}) {
  const clock = manualClock();
  // Without sessions every request that is let through is answered 200.
  const server = await start({
    clock,
    sessions: false,
    rateLimit: { ...PER_MINUTE, ...rateLimit },
    ...options,
  });
  return { clock, server };
}

describe('the window', () => {
  it('has a place again at the very moment its oldest request leaves it', async () => {
    const { clock, server } = await startLimited();
    expect(await knocks(server, 2)).toEqual([200, 200]);
    await clock.advance(20_000);
    expect(await knocks(server, 2)).toEqual([200, 429]);
    await clock.advance(39_999);
    expect(await knock(server)).toBe(429);
    await clock.advance(1);
    expect(await knocks(server, 3)).toEqual([200, 200, 429]);
    await clock.advance(19_999);
    expect(await knock(server)).toBe(429);
    await clock.advance(1);
    expect(await knocks(server, 2)).toEqual([200, 429]);
    expect(server.counts).toMatchObject({ requests: 11, rejectedByLimit: 5 });
  });

  it('no window has more admitted requests than the limit, however they come (against brute force)', () => {
    const limit = fc.integer({ min: 1, max: 5 });
    const gaps = fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 60 });
    fc.assert(
      fc.property(limit, fc.integer({ min: 1, max: 60 }), gaps, (most, intervalMs, waits) => {
        const limiter = new RateLimiter();
        const settings = { limit: most, intervalMs, per: 'tenant', headers: 'none', body: 'text' } as const;
        const admitted: number[] = [];
        let atMs = 0;
        for (const wait of waits) {
          atMs += wait;
          const inWindow = admitted.filter((past) => past > atMs - intervalMs).length;
          const standing = limiter.judge(settings, undefined, atMs);
          // Exactly those are refused for which there is no room.
          expect(standing.isAdmitted).toBe(inWindow < most);
          if (standing.isAdmitted) admitted.push(atMs);
          const left = most - admitted.filter((past) => past > atMs - intervalMs).length;
          expect(standing.remaining).toBe(left);
          // At the reset, and not before, there is more room.
          const roomAt = (moment: number) =>
            most - admitted.filter((past) => past > moment - intervalMs).length;
          expect(roomAt(atMs + standing.resetMs)).toBeGreaterThan(left);
          expect(roomAt(atMs + standing.resetMs - 1)).toBe(left);
        }
      }),
      { numRuns: 500 },
    );
  });

  it('what was refused runs nothing and takes no place', async () => {
    const { clock, server } = await startLimited({ limit: 1 });
    const peer = peerOf(server, { authorization: `Bearer ${server.issueToken()}` });
    expect(await textOf(await peer.call('echo', { text: 'a' }))).toBe('a');
    for (let done = 0; done < 5; done += 1) {
      await clock.advance(11_000);
      expect((await peer.call('echo', { text: 'b' })).status).toBe(429);
    }
    await clock.advance(5_000);
    expect(await textOf(await peer.call('echo', { text: 'c' }))).toBe('c');
    expect(server.counts).toMatchObject({ executions: { echo: 2 }, rejectedByLimit: 5, requests: 7 });
  });

  it('counts every request to the endpoint: handshake, stream, delete, refused tokens, scripted replies', async () => {
    const clock = manualClock();
    const server = await start({ clock, rateLimit: { ...PER_MINUTE, limit: 7, per: 'tenant' } });
    const peer = await connect(server);
    const stream = await peer.get();
    expect((await peerOf(server).post(initialize('2025-11-25'))).status).toBe(401);
    server.replyOnce({ tool: 'echo' }, { status: 503 });
    expect((await peer.call('echo')).status).toBe(503);
    expect((await fetch(server.url, { method: 'DELETE', headers: peer.headers })).status).toBe(200);
    expect(await knocks(server, 2)).toEqual([400, 429]);
    expect(stream.status).toBe(200);
    expect(server.counts).toMatchObject({ requests: 8, rejectedByLimit: 1 });
  });

  it('does not count the token endpoint, metadata, and pages that a proxy gave in its stead', async () => {
    const { clock, server } = await startLimited({ limit: 4 }, { sessions: true, cutShape: 'status' });
    const peer = await connect(server);
    const stream = await peer.get();
    server.cutStreams('status');
    await expect(stream.text()).rejects.toThrow();
    for (const status of [502, 503, 504]) expect((await peer.get()).status).toBe(status);
    const { id, secret } = server.client;
    for (let done = 0; done < 5; done += 1) {
      await fetch(`${server.issuer}/.well-known/oauth-protected-resource`);
      const body = new URLSearchParams({
        grant_type: 'client_credentials',
        client_id: id,
        client_secret: secret,
      });
      expect((await fetch(server.tokenEndpoint, { method: 'POST', body })).status).toBe(200);
    }
    expect((await peer.get()).status).toBe(200);
    expect((await peer.get()).status).toBe(429);
    expect(server.counts).toMatchObject({ tokenRequests: 5, rejectedByLimit: 1 });
    await clock.advance(0);
  });

  it.each(['legacy-sse', 'modern'] as const)('holds for %s, too', async (wire) => {
    const options = wire === 'modern' ? { protocolVersion: '2026-07-28' } : { transport: wire };
    const server = await start({ clock: manualClock(), ...options, rateLimit: { ...PER_MINUTE, limit: 1 } });
    const headers = { authorization: `Bearer ${server.issueToken()}`, accept: 'text/event-stream' };
    expect((await fetch(server.url, { headers })).status).not.toBe(429);
    expect((await fetch(server.url, { headers })).status).toBe(429);
    expect(server.counts.rejectedByLimit).toBe(1);
  });
});

describe('buckets', () => {
  async function grant(server: HostedServer, form: Record<string, string>) {
    const { id, secret } = server.client;
    const body = new URLSearchParams({ client_id: id, client_secret: secret, ...form });
    const response = await fetch(server.tokenEndpoint, { method: 'POST', body });
    return (await response.json()) as { access_token: string; refresh_token: string };
  }

  it('a refreshed token stays in its bucket, by whichever grant it comes', async () => {
    const { server } = await startLimited({ limit: 4 }, { rotateRefreshTokens: true });
    const first = await grant(server, {
      grant_type: 'refresh_token',
      refresh_token: server.client.refreshToken,
    });
    const second = await grant(server, { grant_type: 'refresh_token', refresh_token: first.refresh_token });
    const other = await grant(server, { grant_type: 'client_credentials' });
    const again = await grant(server, { grant_type: 'client_credentials' });
    const tokens = [first, second, other, again].map((reply) => reply.access_token);
    for (const token of [...tokens, server.issueToken()]) await knock(server, token);
    expect(server.log.filter(({ path }) => path === '/mcp').map(({ status }) => status)).toEqual([
      200, 200, 200, 200, 429,
    ]);
    expect(new Set(tokens).size).toBe(4);
  });

  it('another subject has another one, and keeps it when its token is refreshed', async () => {
    const { server } = await startLimited({ limit: 2 });
    expect(await knocks(server, 3)).toEqual([200, 200, 429]);
    const refresh_token = server.issueRefreshToken({ subject: 'ada' });
    const first = await grant(server, { grant_type: 'refresh_token', refresh_token });
    const second = await grant(server, { grant_type: 'refresh_token', refresh_token });
    expect(await knock(server, first.access_token)).toBe(200);
    expect(await knock(server, second.access_token)).toBe(200);
    expect(await knock(server, server.issueToken({ subject: 'ada' }))).toBe(429);
    expect(await knock(server, server.issueToken({ subject: 'grace' }))).toBe(200);
  });

  it('a token that has expired or was revoked counts where it belongs; strangers share one bucket', async () => {
    const { server } = await startLimited({ limit: 2 });
    const token = server.issueToken();
    server.expireTokens();
    expect(await knock(server, token)).toBe(401);
    server.revokeTokens();
    expect(await knock(server, token)).toBe(401);
    expect(await knock(server)).toBe(429);
    expect([await knock(server, 'stranger'), await knock(server, ''), await knock(server, 'other')]).toEqual([
      401, 401, 429,
    ]);
  });

  it('per tenant there is one for all', async () => {
    const { server } = await startLimited({ limit: 2, per: 'tenant' });
    expect(await knock(server, server.issueToken({ subject: 'ada' }))).toBe(200);
    expect(await knock(server, 'stranger')).toBe(401);
    expect(await knock(server, server.issueToken({ subject: 'grace' }))).toBe(429);
  });

  it('without authorization there is one, too', async () => {
    const { server } = await startLimited({ limit: 1 }, { auth: false });
    expect([await knock(server, ''), await knock(server, 'x')]).toEqual([200, 429]);
  });
});

describe('what it says', () => {
  async function answers(rateLimit: Partial<ServerRateLimit>) {
    const { clock, server } = await startLimited({ limit: 2, ...rateLimit });
    const peer = peerOf(server, { authorization: `Bearer ${server.issueToken()}` });
    const one = await peer.post(request('ping'));
    await clock.advance(10_500);
    const two = await peer.post(request('ping'));
    const refused = await peer.post({ ...request('ping'), id: 'the third' });
    expect([one.status, two.status, refused.status]).toEqual([200, 200, 429]);
    const shown = [one, two, refused].map(({ headers }) =>
      Object.fromEntries([...headers].filter(([name]) => /retry-after|ratelimit/.test(name))),
    );
    const heads = [one, two, refused].map(({ status, headers }) => ({
      status,
      headers: Object.fromEntries(headers),
    }));
    // Ten hours wrong: instants are read against the server's own clock.
    const pauses = heads.map((head) => serverPause(head, clock.now() + 36_000_000)?.pauseMs);
    return { shown, pauses, body: await refused.text(), clock };
  }

  it('Retry-After in whole seconds, rounded up, by default', async () => {
    const { shown, pauses, body } = await answers({});
    expect(shown).toEqual([{}, {}, { 'retry-after': '50' }]);
    expect(pauses).toEqual([undefined, undefined, 50_000]);
    expect(body).toBe('Too Many Requests');
  });

  it('RateLimit and its policy on every answer', async () => {
    const { shown, pauses } = await answers({ headers: 'ratelimit' });
    const policy = { 'ratelimit-policy': '"simulator";q=2;w=60' };
    expect(shown).toEqual([
      { ...policy, ratelimit: '"simulator";r=1;t=60' },
      { ...policy, ratelimit: '"simulator";r=0;t=50' },
      { ...policy, ratelimit: '"simulator";r=0;t=50' },
    ]);
    expect(pauses).toEqual([undefined, 50_000, 50_000]);
  });

  it('X-RateLimit fields on every answer, never short of the true end', async () => {
    const { shown, pauses, clock } = await answers({ headers: 'x-ratelimit' });
    const reset = String(Math.ceil((clock.now() + 49_500) / 1_000));
    expect(shown).toEqual([
      { 'x-ratelimit-limit': '2', 'x-ratelimit-remaining': '1', 'x-ratelimit-reset': reset },
      { 'x-ratelimit-limit': '2', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': reset },
      { 'x-ratelimit-limit': '2', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': reset },
    ]);
    expect(pauses[0]).toBeUndefined();
    for (const pauseMs of pauses.slice(1)) {
      expect(pauseMs).toBeGreaterThanOrEqual(49_500);
      expect(pauseMs).toBeLessThanOrEqual(51_000);
    }
  });

  it('nothing, where it is told to', async () => {
    const { shown } = await answers({ headers: 'none' });
    expect(shown).toEqual([{}, {}, {}]);
  });

  it('a JSON-RPC error under the request’s id', async () => {
    const { body, shown } = await answers({ body: 'json-rpc', headers: 'none' });
    expect(JSON.parse(body)).toEqual({
      jsonrpc: '2.0',
      id: 'the third',
      error: {
        code: -32023,
        message: 'Rate limited',
        data: { retryAfterMs: 49_500, limit: 2, remaining: 0 },
      },
    });
    expect(shown[2]).toEqual({});
  });
});

describe('set()', () => {
  it('starts, changes and ends a limit; buckets stay', async () => {
    const { clock, server } = await startLimited({ limit: 4 });
    expect(await knocks(server, 4)).toEqual([200, 200, 200, 200]);
    await clock.advance(10_000);
    server.set({ rateLimit: { ...PER_MINUTE, limit: 6 } });
    expect(await knocks(server, 3)).toEqual([200, 200, 429]);
    // Of the six, five have to leave before there is room for one in two.
    server.set({ rateLimit: { ...PER_MINUTE, limit: 2 } });
    const peer = peerOf(server, { authorization: `Bearer ${server.issueToken()}` });
    expect((await peer.post(request('ping'))).headers.get('retry-after')).toBe('60');
    await clock.advance(50_000);
    expect(await knock(server)).toBe(429);
    await clock.advance(10_000);
    expect(await knocks(server, 3)).toEqual([200, 200, 429]);
    server.set({ rateLimit: undefined });
    expect(await knocks(server, 3)).toEqual([200, 200, 200]);
    server.reset();
    expect(server.counts.rejectedByLimit).toBe(0);
  });

  it.each<[RegExp, unknown]>([
    [/rateLimit\.limit/, 60],
    [/rateLimit\.limit/, null],
    [/rateLimit\.limit/, {}],
    [/rateLimit\.limit/, { ...PER_MINUTE, limit: 0 }],
    [/rateLimit\.limit/, { ...PER_MINUTE, limit: 1.5 }],
    [/rateLimit\.intervalMs/, { ...PER_MINUTE, intervalMs: 0 }],
    [/rateLimit\.intervalMs/, { ...PER_MINUTE, intervalMs: Number.POSITIVE_INFINITY }],
    [/rateLimit\.per/, { ...PER_MINUTE, per: 'session' }],
    [/rateLimit\.per/, { limit: 1, intervalMs: 1 }],
    [/rateLimit\.headers/, { ...PER_MINUTE, headers: 'all' }],
    [/rateLimit\.body/, { ...PER_MINUTE, body: 'html' }],
  ])('refuses %s: %j', async (message, rateLimit) => {
    const given = { rateLimit } as { rateLimit: ServerRateLimit };
    await expect(startHostedServer(given)).rejects.toThrow(message);
    await expect(startHostedServer(given)).rejects.toThrow(TypeError);
    const server = await start();
    expect(() => server.set(given)).toThrow(message);
    expect(await knock(server)).toBe(400);
  });
});

test('throttle() goes before the limit and takes no place of it', async () => {
  const { clock, server } = await startLimited({ limit: 2, headers: 'none' });
  server.throttle(5_000);
  const peer = peerOf(server, { authorization: `Bearer ${server.issueToken()}` });
  for (let done = 0; done < 3; done += 1) {
    const refused = await peer.post(toolCall('echo', { text: 'x' }));
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '5']);
  }
  await clock.advance(5_000);
  expect(await knocks(server, 3)).toEqual([200, 200, 429]);
  expect(server.counts.rejectedByLimit).toBe(4);
});

describe('mostIn()', () => {
  it('counts every request in any window, its end left out, refused ones too', async () => {
    const { clock, server } = await startLimited({ limit: 2 });
    await knocks(server, 1);
    await clock.advance(600);
    await knocks(server, 2);
    await clock.advance(400);
    await knocks(server, 2);
    await fetch(`${server.issuer}/.well-known/oauth-protected-resource`);
    expect(server.counts.rejectedByLimit).toBe(3);
    // At 0, 600, 600, 1000, 1000.
    expect([1, 400, 401, 600, 1_000, 1_001, 60_000].map((ms) => server.mostIn(ms))).toEqual([
      2, 2, 4, 4, 4, 5, 5,
    ]);
    expect(server.mostIn(60_000, ({ status }) => status === 200)).toBe(2);
    expect(
      server.log.filter(({ path }) => path === '/mcp').map(({ atMs }) => atMs - server.log[0]!.atMs),
    ).toEqual([0, 600, 600, 1_000, 1_000]);
    server.reset();
    expect(server.mostIn(1)).toBe(0);
    for (const windowMs of [0, -1, Number.NaN]) expect(() => server.mostIn(windowMs)).toThrow(TypeError);
    expect(server.mostIn(Number.POSITIVE_INFINITY)).toBe(0);
  });

  it('agrees with brute force', async () => {
    const clock = manualClock();
    const server = await start({ clock, auth: false, sessions: false });
    const gaps = fc.sample(fc.integer({ min: 0, max: 30 }), { numRuns: 60, seed: 7 });
    for (const gap of gaps) {
      await clock.advance(gap);
      await knock(server, '');
    }
    const stamps = server.log.map(({ atMs }) => atMs);
    const total = gaps.slice(1).reduce((sum, gap) => sum + gap, 0);
    expect(stamps.at(-1)! - stamps[0]!).toBe(total);
    for (let windowMs = 1; windowMs <= total + 2; windowMs += windowMs < 40 ? 1 : 37) {
      let most = 0;
      for (let from = stamps[0]! - 1; from <= stamps.at(-1)!; from += 1) {
        most = Math.max(most, stamps.filter((at) => at >= from && at < from + windowMs).length);
      }
      expect([windowMs, server.mostIn(windowMs)]).toEqual([windowMs, most]);
    }
  });

  it('on the real clock, with callers side by side, a limit is never exceeded by what was let through', async () => {
    const rateLimit = { limit: 10, intervalMs: 200, per: 'tenant', headers: 'none' } as const;
    const server = await start({ auth: false, sessions: false, rateLimit });
    const caller = async () => {
      for (let done = 0; done < 25; done += 1) await knock(server, '');
    };
    await Promise.all(Array.from({ length: 6 }, caller));
    const admitted = server.log.filter(({ status }) => status === 200);
    expect(admitted.length + server.counts.rejectedByLimit).toBe(150);
    expect(server.mostIn(200, ({ status }) => status === 200)).toBeLessThanOrEqual(10);
    expect(server.mostIn(Number.POSITIVE_INFINITY)).toBe(150);
    // However fast or slow the machine is just now.
    expect(server.counts.rejectedByLimit > 0).toBe(server.mostIn(200) > 10);
  });
});
