import { describe, expect, it } from 'vitest';
import { clientCredentialsGrant } from '../../src/index.js';
import { call, connectStock, SDKS } from './stock.js';
import { connect, echo, failureOf, machine, type Scene, startServer, user } from './support.js';

/** Between the soft point (45 s of a token of 60 s) and its end. */
const AFTER_SOFT_MS = 50_000;

/** Renews on use only, so that a call and not a timer meets the change of token. */
function onDemand({ server, clock }: Scene) {
  const { id, secret } = server.client;
  const refresh = { background: 'never' } as const;
  return clientCredentialsGrant({
    issuer: server.issuer,
    clientId: id,
    clientSecret: secret,
    clock,
    refresh,
  });
}

const sessionsOf = ({ server }: Scene, method: string) =>
  server.log
    .filter((entry) => entry.rpcMethod === method)
    .map((entry) => `${entry.sessionLabel} ${entry.tokenLabel}`);

describe('H04 a session bound to the token that opened it', () => {
  for (const status of [401, 404, 403, 400, 200] as const) {
    it(`refused with ${status} and no challenge: one token request, one initialize, the call runs once`, async () => {
      const scene = await startServer({ bindSession: 'token', challenge: 'none', sessionLostStatus: status });
      const { server, clock } = scene;
      const client = await connect(scene);
      await echo(client, 'before');

      await clock.advance(AFTER_SOFT_MS);
      await echo(client, 'after');

      expect(server.counts).toMatchObject({ tokenRequests: 2, initializes: 2 });
      expect(server.counts.executionsById).toEqual({ before: 1, after: 1 });
      expect(sessionsOf(scene, 'initialize')).toEqual(['session#1 token#1', 'session#2 token#2']);
      // No real call met the dead pair of session and token.
      expect(sessionsOf(scene, 'tools/call')).toEqual(['session#1 token#1', 'session#2 token#2']);
    });
  }

  it('the token has expired in a long think-time: still no call meets the old session', async () => {
    const scene = await startServer({ bindSession: 'token', challenge: 'none', sessionLostStatus: 401 });
    const { server, clock } = scene;
    const client = await connect(scene, { credentials: onDemand(scene) });
    await echo(client, 'before');

    await clock.advance(3_600_000);
    await echo(client, 'after');

    expect(server.counts).toMatchObject({ tokenRequests: 2, initializes: 2 });
    expect(sessionsOf(scene, 'tools/call')).toEqual(['session#1 token#1', 'session#2 token#2']);
  });

  it('after the second time nobody is asked: the connection has learned it', async () => {
    const scene = await startServer({ bindSession: 'token', challenge: 'none', sessionLostStatus: 401 });
    const { server, clock } = scene;
    const client = await connect(scene);
    await clock.advance(AFTER_SOFT_MS);
    await echo(client, 'first');
    expect(server.counts.pings).toBe(1);
    await clock.advance(AFTER_SOFT_MS);
    await echo(client, 'second');
    const { pings } = server.counts;

    await clock.advance(AFTER_SOFT_MS);
    await echo(client, 'third');

    expect(server.counts.pings).toBe(pings);
    expect(server.counts).toMatchObject({ tokenRequests: 4, initializes: 4 });
    expect(server.counts.executionsById).toEqual({ first: 1, second: 1, third: 1 });
  });

  it("with probe 'off': a typed error, no resend, no second token request, the next call works", async () => {
    const scene = await startServer({ bindSession: 'token', challenge: 'none', sessionLostStatus: 401 });
    const { server, clock } = scene;
    const client = await connect(scene, { session: { probe: 'off' } });
    await echo(client, 'before');
    await clock.advance(AFTER_SOFT_MS);

    const failure = await failureOf(echo(client, 'lost'));

    expect(failure).toMatchObject({ code: 'ERR_SESSION_LOST', executed: false, status: 401 });
    await echo(client, 'after');
    expect(server.counts).toMatchObject({ tokenRequests: 2, initializes: 2, pings: 0 });
    expect(server.counts.executionsById).toEqual({ before: 1, after: 1 });
  });

  it('a rotating refresh token is spent once for the change', async () => {
    const scene = await startServer({
      bindSession: 'token',
      challenge: 'none',
      sessionLostStatus: 401,
      rotateRefreshTokens: true,
    });
    const { server, clock } = scene;
    const client = await connect(scene, { credentials: user(scene) });
    await clock.advance(AFTER_SOFT_MS);

    await Promise.all(Array.from({ length: 10 }, (_, i) => echo(client, `c${i}`)));

    expect(server.counts).toMatchObject({ tokenRequests: 2, initializes: 2 });
    expect(Object.values(server.counts.executionsById)).toEqual(Array(10).fill(1));
  });

  for (const sdk of SDKS) {
    it(`under the stock ${sdk} Client: the call is answered on the new session`, async () => {
      const scene = await startServer({ bindSession: 'token', challenge: 'none', sessionLostStatus: 401 });
      const { server, clock } = scene;
      const { client } = await connectStock(scene, sdk, { credentials: onDemand(scene) });
      await call(client, 'before');
      await clock.advance(AFTER_SOFT_MS);
      // This one still goes out with the old token and sets the renewal off.
      await call(client, 'soft');
      await clock.settle();

      await call(client, 'after');

      expect(server.counts).toMatchObject({ tokenRequests: 2, initializes: 2 });
      expect(server.counts.executionsById).toEqual({ before: 1, soft: 1, after: 1 });
    });
  }

  it('a session lost in the think-time is not taken for one that is bound', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const client = await connect(scene);
    await echo(client, 'before');
    const replaced = client.connection.once('session-replaced');
    server.dropSessions();
    await clock.advance(AFTER_SOFT_MS);
    await echo(client, 'between');
    await replaced;
    expect(server.counts).toMatchObject({ tokenRequests: 2, initializes: 2 });

    // The new session outlives the next changes of token: nobody replaces it.
    for (let i = 0; i < 3; i += 1) {
      await clock.advance(AFTER_SOFT_MS);
      await echo(client, `after${i}`);
    }

    expect(server.counts.initializes).toBe(2);
    expect(server.counts.tokenRequests).toBe(5);
  });

  it('with boundToToken given, no ping is spent at all', async () => {
    const scene = await startServer({ bindSession: 'token', sessionLostStatus: 404 });
    const { server, clock } = scene;
    const client = await connect(scene, {
      credentials: machine(scene),
      session: { boundToToken: true },
    });
    await clock.advance(AFTER_SOFT_MS);
    await echo(client, 'after');
    expect(server.counts).toMatchObject({ initializes: 2, pings: 0, executionsById: { after: 1 } });
  });
});
