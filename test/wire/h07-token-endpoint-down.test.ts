import { describe, expect, it } from 'vitest';
import { refreshTokenGrant } from '../../src/index.js';
import type { TokenReply } from '../../src/testing/index.js';
import { connectFace } from './faces.js';
import { connect, echo, failureOf, type Scene, startServer, user } from './support.js';

const HTML = { 'content-type': 'text/html' };

/** None of them is a structured refusal: the tokens are as good as before. */
const OUTAGES: readonly (readonly [string, TokenReply])[] = [
  ['502 with a page', { status: 502, headers: HTML, body: '<html>Bad Gateway</html>' }],
  ['503 with OAuth words', { status: 503, body: { error: 'temporarily_unavailable' } }],
  ['500 with a final word', { status: 500, body: { error: 'invalid_grant' } }],
  ['429 with OAuth words', { status: 429, body: { error: 'slow_down' } }],
  ['a busy server under 400', { status: 400, body: { error: 'server_error' } }],
  ['200 with a log-in page', { status: 200, headers: HTML, body: '<html>Log in</html>' }],
  ['200 without a token', { status: 200, body: {} }],
  ['403 of a firewall', { status: 403, headers: HTML, body: 'blocked' }],
];

const posts = ({ server }: Scene) => server.log.filter(({ path }) => path === '/token');
const gaps = (scene: Scene) => {
  const at = posts(scene).map((entry) => entry.at);
  return at.slice(1).map((ms, index) => ms - (at[index] ?? 0));
};

describe('H07 a token endpoint that is away for a moment', () => {
  for (const [name, reply] of OUTAGES) {
    it(`${name}, twice: waits between the requests, keeps the refresh token, the call succeeds`, async () => {
      const scene = await startServer({ rotateRefreshTokens: true });
      const { server, clock } = scene;
      const client = await connect(scene, { credentials: user(scene) });
      server.expireTokens();
      server.failTokenEndpoint(reply, { times: 2 });
      server.reset();

      const call = echo(client, 'a');
      await clock.advance(10_000);

      await expect(call).resolves.toMatchObject({ content: [{ text: 'a' }] });
      expect(server.counts.tokenRequests).toBe(3);
      expect(Math.min(...gaps(scene))).toBeGreaterThanOrEqual(20);
      // Jittered: two equal gaps, or round ones, would mean that a fleet comes back in step.
      expect(new Set(gaps(scene)).size).toBe(2);
      expect(server.counts.executionsById).toEqual({ a: 1 });
      expect(server.counts.initializes).toBe(0);
      expect(server.log.filter(({ path }) => path.startsWith('/authorize'))).toEqual([]);
    });
  }

  it.each(['v1', 'v2'] as const)('%s: Retry-After is waited for', async (face) => {
    const scene = await startServer();
    const { server, clock } = scene;
    const caller = await connectFace(face, scene, { credentials: user(scene) });
    server.expireTokens();
    server.failTokenEndpoint({ status: 503, headers: { 'retry-after': '3' }, body: 'later' }, { times: 2 });
    server.reset();

    const call = caller.echo('a');
    await clock.advance(10_000);

    await call;
    expect(server.counts.tokenRequests).toBe(3);
    expect(Math.min(...gaps(scene))).toBeGreaterThanOrEqual(3_000);
    expect(server.counts.executionsById).toEqual({ a: 1 });
  });

  it('down while the token lives: it is served, nobody waits', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const client = await connect(scene, { credentials: user(scene) });
    server.failTokenEndpoint();
    server.reset();
    await clock.advance(50_000);

    await echo(client, 'a');

    expect(server.counts.tokenRequests).toBeGreaterThan(0);
    expect(server.counts.executionsById).toEqual({ a: 1 });
    const failed = client.connection.once('credential-refreshed');
    server.restoreTokenEndpoint();
    await clock.advance(30_000);
    await failed;
  });

  it('down for longer than the call has time: a typed error at once, no storm, then it works again', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const { id, secret, refreshToken } = server.client;
    const credentials = refreshTokenGrant({
      tokenEndpoint: server.tokenEndpoint,
      clientId: id,
      clientSecret: secret,
      refreshToken,
      clock,
    });
    const client = await connect(scene, { credentials });
    server.expireTokens();
    server.failTokenEndpoint({ status: 503, headers: { 'retry-after': '120' }, body: 'away' });
    server.reset();

    for (const callId of ['a', 'b', 'c']) {
      const failure = await failureOf(echo(client, callId));
      expect(failure).toMatchObject({ code: 'ERR_TOKEN_ENDPOINT', executed: false, retryable: true });
      expect(failure.retryAfterMs).toBeGreaterThan(100_000);
    }
    expect(server.counts.tokenRequests).toBe(1);
    expect(server.counts.executions).toEqual({});
    server.restoreTokenEndpoint();
    await clock.advance(120_000);
    await echo(client, 'after');
    expect(server.counts.executionsById).toEqual({ after: 1 });
  });
});
