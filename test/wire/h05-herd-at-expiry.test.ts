import { describe, expect, it } from 'vitest';
import { HostedMcpError, memoryCredentialStore, refreshTokenGrant } from '../../src/index.js';
import type { HostedServerOptions } from '../../src/testing/index.js';
import { type Caller, connectFace, FACES } from './faces.js';
import { type Scene, startServer } from './support.js';

const IDS = ['a', 'b', 'c', 'd', 'e'];

/** A rotating refresh token in a store, as replicas share it. */
function shared({ server, clock }: Scene, refresh: { background?: 'never' } = {}) {
  const { id, secret, refreshToken } = server.client;
  const store = memoryCredentialStore();
  const grant = { issuer: server.issuer, clientId: id, clientSecret: secret, clock, refresh };
  const credentials = refreshTokenGrant({ ...grant, refreshToken, store, subject: 'user' });
  return { store, credentials };
}

async function herd(caller: Caller, scene: Scene): Promise<PromiseSettledResult<unknown>[]> {
  const calls = Promise.allSettled(IDS.map((id) => caller.echo(id)));
  await scene.clock.advance(200);
  return calls;
}

function rotating(options: HostedServerOptions = {}): Promise<Scene> {
  return startServer({ rotateRefreshTokens: true, ...options });
}

describe('H05 a herd of calls when the token is over', () => {
  for (const face of FACES) {
    it(`${face}: refused with a challenge, one token request, every call answered once`, async () => {
      const scene = await rotating();
      const { server } = scene;
      const { store, credentials } = shared(scene, { background: 'never' });
      const caller = await connectFace(face, scene, { credentials });
      const [{ id }, before] = [credentials, await store.read(credentials.id)];
      server.set({ tokenDelayMs: 40 });
      server.expireTokens();
      server.reset();

      const outcomes = await herd(caller, scene);

      expect(server.counts.tokenRequests).toBe(1);
      expect(outcomes.map(({ status }) => status)).toEqual(IDS.map(() => 'fulfilled'));
      expect(server.counts.executionsById).toEqual({ a: 1, b: 1, c: 1, d: 1, e: 1 });
      expect(server.counts.initializes).toBe(0);
      expect(server.log.filter(({ path }) => path.startsWith('/authorize'))).toEqual([]);
      const after = await store.read(id);
      expect(after?.generation).toBeGreaterThan(before?.generation ?? Number.NaN);

      // The pair that was stored is the live one: the next refresh does not touch the spent token.
      await scene.clock.advance(61_000);
      await Promise.all([caller.echo('later'), scene.clock.advance(200)]);
      expect(server.counts.tokenRequests).toBe(2);
      expect(server.counts.executionsById.later).toBe(1);
    });
  }

  it('refused without a challenge: one token request, nothing sent again, every call typed', async () => {
    const scene = await rotating({ challenge: 'none' });
    const { server } = scene;
    const caller = await connectFace('HostedClient', scene, { credentials: shared(scene).credentials });
    server.set({ tokenDelayMs: 40 });
    server.expireTokens();
    server.reset();

    const outcomes = await herd(caller, scene);

    expect(server.counts.tokenRequests).toBe(1);
    for (const outcome of outcomes) {
      if (outcome.status === 'fulfilled') continue;
      // Without a challenge it may as well be the session that is refused.
      expect(HostedMcpError.isInstance(outcome.reason, 'ERR_CREDENTIAL_REJECTED', 'ERR_SESSION_LOST')).toBe(
        true,
      );
      expect(outcome.reason).toMatchObject({ executed: 'unknown', retryable: false, status: 401 });
    }
    const sent = server.log.filter(({ rpcMethod }) => rpcMethod === 'tools/call');
    expect(new Set(sent.map(({ rpcId }) => rpcId)).size).toBe(sent.length);
    for (const id of IDS) expect(server.counts.executionsById[id] ?? 0).toBeLessThanOrEqual(1);
    await caller.echo('after');
    expect(server.counts.executionsById.after).toBe(1);
  });

  it('known to be over by its lifetime: one token request, and no call is refused on the way', async () => {
    const scene = await rotating();
    const { server, clock } = scene;
    const { credentials } = shared(scene, { background: 'never' });
    const caller = await connectFace('v1', scene, { credentials });
    server.set({ tokenDelayMs: 40 });
    await clock.advance(61_000);
    server.reset();

    const outcomes = await herd(caller, scene);

    expect(server.counts.tokenRequests).toBe(1);
    expect(outcomes.map(({ status }) => status)).toEqual(IDS.map(() => 'fulfilled'));
    expect(server.counts.executionsById).toEqual({ a: 1, b: 1, c: 1, d: 1, e: 1 });
    expect(server.log.filter(({ status }) => status === 401)).toEqual([]);
  });

  it('all tokens revoked: one token request for all, every call says so, nothing ran', async () => {
    const scene = await rotating();
    const { server } = scene;
    const caller = await connectFace('v2', scene, { credentials: shared(scene).credentials });
    server.set({ tokenDelayMs: 40 });
    server.revokeTokens();
    server.reset();

    const calls = Promise.allSettled(IDS.map((id) => caller.echo(id)));
    await scene.clock.advance(1_000);

    for (const outcome of await calls) {
      expect(outcome).toMatchObject({
        status: 'rejected',
        reason: { code: 'ERR_REAUTHORIZATION_REQUIRED', executed: false, retryable: false },
      });
    }
    expect(server.counts.tokenRequests).toBe(1);
    expect(server.counts.executions).toEqual({});
  });
});
