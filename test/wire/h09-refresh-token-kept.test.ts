import { describe, expect, it } from 'vitest';
import { type HttpFetch, memoryCredentialStore, refreshTokenGrant } from '../../src/index.js';
import { connectFace, FACES } from './faces.js';
import { type Scene, startServer } from './support.js';

/** What a reply without a new refresh token may look like. */
const SPELLINGS: readonly (readonly [string, Record<string, unknown>])[] = [
  ['no refresh_token', {}],
  ['an empty refresh_token', { refresh_token: '' }],
  ['refresh_token null', { refresh_token: null }],
  ['refresh_token no string', { refresh_token: 0 }],
];

function grant({ server, clock }: Scene, withStore: boolean) {
  const forms: URLSearchParams[] = [];
  const fetch: HttpFetch = (url, init) => {
    if (init.method === 'POST') forms.push(new URLSearchParams(init.body));
    return globalThis.fetch(url, init as RequestInit);
  };
  const { id, secret, refreshToken } = server.client;
  const options = {
    issuer: server.issuer,
    clientId: id,
    clientSecret: secret,
    refreshToken,
    refresh: { background: 'never' as const },
    fetch,
    clock,
  };
  const credentials = withStore
    ? refreshTokenGrant({ ...options, store: memoryCredentialStore(), subject: 'u' })
    : refreshTokenGrant(options);
  return { credentials, forms };
}

describe('H09 a refresh that brings no new refresh token', () => {
  SPELLINGS.forEach(([name, more], index) => {
    const face = FACES[index % FACES.length] ?? 'v1';
    it(`${name}, ${face}: the next refresh carries the one we have`, async () => {
      const scene = await startServer();
      const { server, clock } = scene;
      const { credentials, forms } = grant(scene, index % 2 === 0);
      const token = server.issueToken({ lifetimeMs: 60_000 });
      const body = { access_token: token, token_type: 'Bearer', expires_in: 60, ...more };
      server.failTokenEndpoint({ status: 200, body }, { times: 1 });
      const caller = await connectFace(face, scene, { credentials });
      await caller.echo('first');
      await clock.advance(61_000);

      await caller.echo('second');
      await clock.advance(61_000);
      await caller.echo('third');

      expect(server.counts.tokenRequests).toBe(3);
      expect(forms.map((form) => form.get('refresh_token'))).toEqual(
        Array.from({ length: 3 }, () => server.client.refreshToken),
      );
      expect(server.counts.executionsById).toEqual({ first: 1, second: 1, third: 1 });
      expect(server.counts.initializes).toBe(1);
    });
  });

  it('a new one in between takes its place', async () => {
    const scene = await startServer({ rotateRefreshTokens: true });
    const { server, clock } = scene;
    const { credentials, forms } = grant(scene, true);
    const caller = await connectFace('HostedClient', scene, { credentials });
    server.set({ rotateRefreshTokens: false });
    for (const callId of ['a', 'b']) {
      await clock.advance(61_000);
      await caller.echo(callId);
    }
    const [first, second, third] = forms.map((form) => form.get('refresh_token'));
    expect(first).toBe(server.client.refreshToken);
    expect(second).not.toBe(first);
    expect(third).toBe(second);
    expect(server.counts.executionsById).toEqual({ a: 1, b: 1 });
  });
});
