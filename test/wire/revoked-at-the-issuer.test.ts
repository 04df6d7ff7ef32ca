/** `revoke()` with the grants of this library: the issuer itself refuses the token afterwards. */
import { describe, expect, it } from 'vitest';
import {
  type CredentialProvider,
  clientCredentialsGrant,
  memoryCredentialStore,
  refreshTokenGrant,
} from '../../src/credentials/index.js';
import { connect, type Scene, startServer } from './support.js';

const GRANTS: [string, (scene: Scene) => CredentialProvider][] = [
  [
    'client credentials',
    ({ server, clock }) =>
      clientCredentialsGrant({
        issuer: server.issuer,
        clientId: server.client.id,
        clientSecret: server.client.secret,
        clock,
      }),
  ],
  [
    'a refresh token in a store',
    ({ server, clock }) =>
      refreshTokenGrant({
        issuer: server.issuer,
        clientId: server.client.id,
        clientSecret: server.client.secret,
        refreshToken: server.client.refreshToken,
        store: memoryCredentialStore({ clock }),
        subject: 'user-7',
        clock,
      }),
  ],
  [
    'an authorization server found once',
    ({ server, clock }) =>
      clientCredentialsGrant({
        discover: 'once',
        clientId: server.client.id,
        clientSecret: server.client.secret,
        clock,
      }),
  ],
];

describe('revoke()', () => {
  it.each(GRANTS)('%s: the issuer does not know the token any more', async (_name, grant) => {
    const scene = await startServer();
    const { server } = scene;
    const credentials = grant(scene);
    const client = await connect(scene, { credentials });
    await client.callTool({ name: 'echo', arguments: { text: 'a' } });
    const url = new URL(server.url);
    const { authorization } = await (await credentials.acquire(url)).headers({ method: 'POST', url });

    expect(await client.connection.revoke('a test')).toEqual({ token: 'revoked', session: 'deleted' });

    const asked = await fetch(url, {
      method: 'POST',
      headers: {
        authorization: authorization as string,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    });
    expect(asked.status).toBe(401);
    const { tokenRequests } = server.counts;
    await expect(client.callTool({ name: 'echo', arguments: { text: 'b' } })).rejects.toMatchObject({
      code: 'ERR_CLOSED',
      executed: false,
    });
    expect(server.counts).toMatchObject({ tokenRequests, executions: { echo: 1 } });
  });

  it('says so where the issuer has no such endpoint, and where it does not answer', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const { id: clientId, secret: clientSecret } = server.client;
    const { tokenEndpoint } = server;
    const named = clientCredentialsGrant({ tokenEndpoint, clientId, clientSecret, clock });
    const client = await connect(scene, { credentials: named });
    expect(await client.connection.revoke()).toEqual({ token: 'unsupported', session: 'deleted' });
  });
});
