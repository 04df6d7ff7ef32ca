import { describe, expect, it } from 'vitest';
import { memoryCredentialStore, refreshTokenGrant } from '../../src/index.js';
import type { TokenReply } from '../../src/testing/index.js';
import { connectFace } from './faces.js';
import { connect, echo, failureOf, machine, type Scene, startServer, user } from './support.js';

const PLAIN = { 'content-type': 'text/plain' };
const DEAD: readonly (readonly [string, TokenReply])[] = [
  ['400', { status: 400, body: { error: 'invalid_grant' } }],
  ['401', { status: 401, body: { error: 'invalid_grant', error_description: 'token revoked' } }],
  ['403 with a wrong type', { status: 403, headers: PLAIN, body: '{"error":"invalid_grant"}' }],
  ['200 with an error', { status: 200, body: { error: 'invalid_grant' } }],
];

describe('H08 a refresh token that is dead', () => {
  for (const [name, reply] of DEAD) {
    it(`${name}: one token request, then none until the store has another credential`, async () => {
      const scene = await startServer();
      const { server, clock } = scene;
      const { id, secret, refreshToken } = server.client;
      const store = memoryCredentialStore();
      const grant = { issuer: server.issuer, clientId: id, clientSecret: secret, store, subject: 'u', clock };
      const client = await connect(scene, { credentials: refreshTokenGrant({ ...grant, refreshToken }) });
      server.expireTokens();
      server.failTokenEndpoint(reply, { times: 1 });
      server.reset();

      const first = failureOf(echo(client, 'a'));
      await clock.advance(1_000);

      const typed = { code: 'ERR_REAUTHORIZATION_REQUIRED', executed: false, retryable: false };
      expect(await first).toMatchObject({ ...typed, status: reply.status });
      for (const callId of ['b', 'c', 'd'])
        expect(await failureOf(echo(client, callId))).toMatchObject(typed);
      expect(server.counts.tokenRequests).toBe(1);
      expect(server.counts.executions).toEqual({});
      expect(server.log.filter(({ path }) => path.startsWith('/authorize'))).toEqual([]);

      // A person authorizes again, in another process: the store has a new pair.
      const other = refreshTokenGrant({ ...grant, refreshToken: server.issueRefreshToken() });
      const stored = await store.read(other.id);
      await store.compareAndSet(other.id, stored?.generation, undefined);
      await other.acquire(new URL(server.url));
      server.reset();
      await echo(client, 'after');
      expect(server.counts.tokenRequests).toBe(0);
      expect(server.counts.executionsById).toEqual({ after: 1 });
    });
  }

  it.each(['v1', 'v2'] as const)('%s, eight calls at once: one token request for all', async (face) => {
    const scene = await startServer();
    const { server } = scene;
    const caller = await connectFace(face, scene, { credentials: user(scene) });
    server.revokeTokens();
    server.reset();

    const calls = await Promise.allSettled(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map(caller.echo));

    for (const outcome of calls)
      expect(outcome).toMatchObject({ reason: { code: 'ERR_REAUTHORIZATION_REQUIRED', executed: false } });
    expect(server.counts.tokenRequests).toBe(1);
    expect(server.counts.executions).toEqual({});
  });

  it.each(['invalid_client', 'unauthorized_client'])(
    '%s: final as well, under its own name',
    async (error) => {
      const scene: Scene = await startServer();
      const { server, clock } = scene;
      const client = await connect(scene, { credentials: machine(scene) });
      server.expireTokens();
      server.failTokenEndpoint({ status: 401, body: { error } });
      server.reset();

      for (const callId of ['a', 'b']) {
        const failure = await failureOf(echo(client, callId));
        expect(failure).toMatchObject({ code: 'ERR_CREDENTIAL_REJECTED', executed: false, reason: error });
      }
      await clock.advance(300_000);
      await failureOf(echo(client, 'c'));
      expect(server.counts.tokenRequests).toBe(1);
      expect(server.counts.executions).toEqual({});
    },
  );
});
