/** Against a real authorization server with rotation and reuse detection, in this process. */

import { generateKeyPairSync } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair } from 'jose';
// @ts-expect-error: its types are not installed.
import Provider from 'oidc-provider';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type CredentialProvider,
  clientCredentialsGrant,
  memoryCredentialStore,
  refreshTokenGrant,
} from '../../src/credentials/index.js';
import { manualClock } from '../../src/testing/manual-clock.js';

const TARGET = new URL('https://mcp.example/mcp');
const ACCESS_TTL_S = 60;

describe('oidc-provider', () => {
  let server: Server;
  let issuer: string;
  // biome-ignore lint/suspicious/noExplicitAny: its types are not installed.
  let provider: any;
  const counts = { token: 0, metadata: 0, failed: 0 };
  const signing = generateKeyPairSync('rsa', { modulusLength: 2048 });

  beforeAll(async () => {
    server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const keys = await generateKeyPair('RS256', { extractable: true });
    const publicJwk = {
      ...signing.publicKey.export({ format: 'jwk' }),
      kid: 'client-key',
      use: 'sig',
      alg: 'RS256',
    };
    const grant_types = ['client_credentials'];
    const machine = { grant_types, redirect_uris: [], response_types: [] };
    provider = new Provider(issuer, {
      jwks: {
        keys: [{ ...(await exportJWK(keys.privateKey)), kid: 'server-key', use: 'sig', alg: 'RS256' }],
      },
      cookies: { keys: ['cookie-key'] },
      clients: [
        {
          client_id: 'app',
          client_secret: 'app: secret/1+%',
          grant_types: ['authorization_code', 'refresh_token'],
          redirect_uris: ['https://app.example/callback'],
          token_endpoint_auth_method: 'client_secret_basic',
        },
        {
          ...machine,
          client_id: 'm-basic',
          client_secret: 'a:b/c+d% -_',
          token_endpoint_auth_method: 'client_secret_basic',
        },
        {
          ...machine,
          client_id: 'm-post',
          client_secret: 'a:b/c+d% -_',
          token_endpoint_auth_method: 'client_secret_post',
        },
        {
          ...machine,
          client_id: 'm-key',
          token_endpoint_auth_method: 'private_key_jwt',
          jwks: { keys: [publicJwk] },
        },
      ],
      rotateRefreshToken: () => true,
      ttl: {
        AccessToken: ACCESS_TTL_S,
        ClientCredentials: ACCESS_TTL_S,
        Grant: 86_400,
        RefreshToken: 86_400,
      },
      scopes: ['openid', 'offline_access', 'mcp'],
      features: {
        devInteractions: { enabled: false },
        clientCredentials: { enabled: true },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: () => ({
            scope: 'mcp',
            accessTokenFormat: 'jwt',
            accessTokenTTL: ACCESS_TTL_S,
          }),
        },
      },
      findAccount: (_: unknown, accountId: string) => ({ accountId, claims: () => ({ sub: accountId }) }),
    });
    const handle = provider.callback();
    server.on('request', (request, response) => {
      if (request.url?.startsWith('/token')) {
        counts.token += 1;
        response.on('finish', () => {
          if (response.statusCode !== 200) counts.failed += 1;
        });
      }
      if (request.url?.includes('.well-known')) counts.metadata += 1;
      handle(request, response);
    });
    await Promise.all([import('undici'), import('openid-client')]);
  });

  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  async function mintRefreshToken(): Promise<{ refreshToken: string; grantId: string }> {
    const client = await provider.Client.find('app');
    const grant = new provider.Grant({ accountId: 'alice', clientId: 'app' });
    grant.addOIDCScope('openid offline_access');
    grant.addResourceScope(TARGET.href, 'mcp');
    const grantId = await grant.save();
    const token = new provider.RefreshToken({
      client,
      accountId: 'alice',
      grantId,
      gty: 'authorization_code',
      scope: 'openid offline_access mcp',
      resource: TARGET.href,
      rotations: 0,
      iiat: Math.floor(Date.now() / 1000),
    });
    return { refreshToken: await token.save(), grantId };
  }

  it('20 expiries under 50 concurrent callers of two replicas: 20 token requests, the family lives on', async () => {
    const clock = manualClock(Date.now());
    const store = memoryCredentialStore({ clock });
    const { refreshToken, grantId } = await mintRefreshToken();
    const replica = () =>
      refreshTokenGrant({
        issuer,
        clientId: 'app',
        clientSecret: 'app: secret/1+%',
        refreshToken,
        store,
        subject: 'alice',
        refresh: { background: 'never' },
        clock,
      });
    const replicas: CredentialProvider[] = [replica(), replica()];
    counts.token = counts.failed = counts.metadata = 0;
    const seen = new Set<string>();
    for (let expiry = 1; expiry <= 20; expiry++) {
      let waiting = true;
      const acquiring = Promise.all(
        Array.from({ length: 50 }, (_, i) => (replicas[i % 2] as CredentialProvider).acquire(TARGET)),
      ).finally(() => {
        waiting = false;
      });
      // The second replica polls for the lease on our clock while the first one's request is under way.
      while (waiting) await clock.advance(20);
      for (const credential of await acquiring) {
        expect(credential.generation).toBe(expiry);
        const headers = await credential.headers({ method: 'POST', url: TARGET });
        seen.add(headers.authorization as string);
      }
      expect(counts.token).toBe(expiry);
      await clock.advance(ACCESS_TTL_S * 1000);
    }
    expect(seen.size).toBe(20);
    expect(counts.failed).toBe(0);
    // Once per replica, at the first location.
    expect(counts.metadata).toBe(2);
    expect(await provider.Grant.find(grantId)).toBeDefined();
    const stored = JSON.parse((await store.read((replicas[0] as CredentialProvider).id))?.data ?? '{}');
    expect((await provider.RefreshToken.find(stored.refresh)).consumed).toBeUndefined();

    // The proof that this server would have noticed: the first token again ends the family.
    const reuse = refreshTokenGrant({
      issuer,
      clientId: 'app',
      clientSecret: 'app: secret/1+%',
      refreshToken,
    });
    await expect(reuse.acquire(TARGET)).rejects.toMatchObject({ code: 'ERR_REAUTHORIZATION_REQUIRED' });
    expect(await provider.Grant.find(grantId)).toBeUndefined();
    for (const each of [...replicas, reuse]) await each.close?.();
  });

  it('50 refusals of one generation: one forced refresh', async () => {
    const clock = manualClock(Date.now());
    const { refreshToken } = await mintRefreshToken();
    const user = refreshTokenGrant({
      issuer,
      clientId: 'app',
      clientSecret: 'app: secret/1+%',
      refreshToken,
      clock,
    });
    await user.acquire(TARGET);
    counts.token = 0;
    const rejected = { generation: 1, status: 401 };
    const got = await Promise.all(Array.from({ length: 50 }, () => user.acquire(TARGET, { rejected })));
    expect(got.every((credential) => credential.generation === 2)).toBe(true);
    expect(counts.token).toBe(1);
    await user.close?.();
  });

  it('a clock 700 s fast loses nothing: no id_token stands in the way', async () => {
    const clock = manualClock(Date.now() + 700_000);
    const { refreshToken } = await mintRefreshToken();
    const user = refreshTokenGrant({
      issuer,
      clientId: 'app',
      clientSecret: 'app: secret/1+%',
      refreshToken,
      clock,
    });
    expect((await user.acquire(TARGET)).expiresAtMs).toBeGreaterThan(clock.now() + 50_000);
    await user.close?.();
  });

  const privateKey = signing.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
  it.each([
    ['client_secret_basic', { clientId: 'm-basic', clientSecret: 'a:b/c+d% -_' }],
    ['private_key_jwt', { clientId: 'm-key', privateKey, keyId: 'client-key' }],
  ])('client credentials by %s', async (_, client) => {
    const machine = clientCredentialsGrant({ issuer, scope: 'mcp', ...client });
    const credential = await machine.acquire(TARGET);
    const token = ((await credential.headers({ method: 'POST', url: TARGET })).authorization ?? '').slice(7);
    const claims = JSON.parse(Buffer.from(token.split('.')[1] as string, 'base64url').toString());
    expect(claims).toMatchObject({ aud: TARGET.href, client_id: client.clientId, scope: 'mcp' });
    expect(credential.scope).toBe('mcp');
    await machine.close?.();
  });

  it('client credentials by client_secret_post, where the metadata list only that', async () => {
    const undici = await import('undici');
    const machine = clientCredentialsGrant({
      issuer,
      clientId: 'm-post',
      clientSecret: 'a:b/c+d% -_',
      fetch: async (url, init) => {
        const response = await undici.fetch(url, init);
        if (!url.includes('.well-known')) return response;
        const metadata = (await response.json()) as Record<string, unknown>;
        return Response.json({ ...metadata, token_endpoint_auth_methods_supported: ['client_secret_post'] });
      },
    });
    expect((await machine.acquire(TARGET)).generation).toBe(1);
    await machine.close?.();
  });

  it('a wrong secret is final', async () => {
    const machine = clientCredentialsGrant({ issuer, clientId: 'm-basic', clientSecret: 'wrong' });
    counts.token = 0;
    for (let i = 0; i < 3; i++) {
      await expect(machine.acquire(TARGET)).rejects.toMatchObject({
        code: 'ERR_CREDENTIAL_REJECTED',
        reason: 'invalid_client',
      });
    }
    expect(counts.token).toBe(1);
    await machine.close?.();
  });
});
