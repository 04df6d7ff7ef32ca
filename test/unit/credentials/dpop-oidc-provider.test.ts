/** Against a real authorization server that binds tokens and asks for its own nonces, in this process. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { calculateJwkThumbprint, decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair } from 'jose';
// @ts-expect-error: its types are not installed.
import Provider from 'oidc-provider';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  clientCredentialsGrant,
  type OAuthOptions,
  refreshTokenGrant,
} from '../../../src/credentials/index.js';
import { manualClock } from '../../../src/testing/manual-clock.js';
import { errorOf, skewedClock } from './support.js';

const TARGET = new URL('https://mcp.example/mcp');

describe('oidc-provider', () => {
  let server: Server;
  let issuer: string;
  // biome-ignore lint/suspicious/noExplicitAny: its types are not installed.
  let provider: any;
  let requiresNonce = true;
  const seen: { status: number; error: string | undefined }[] = [];

  beforeAll(async () => {
    server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const keys = await generateKeyPair('RS256', { extractable: true });
    provider = new Provider(issuer, {
      jwks: {
        keys: [{ ...(await exportJWK(keys.privateKey)), kid: 'server-key', use: 'sig', alg: 'RS256' }],
      },
      cookies: { keys: ['cookie-key'] },
      clients: [
        {
          client_id: 'machine',
          client_secret: 'a-secret-of-the-machine',
          grant_types: ['client_credentials'],
          redirect_uris: [],
          response_types: [],
          dpop_bound_access_tokens: true,
        },
        {
          client_id: 'public',
          token_endpoint_auth_method: 'none',
          application_type: 'native',
          grant_types: ['authorization_code', 'refresh_token'],
          redirect_uris: ['http://127.0.0.1/callback'],
        },
      ],
      rotateRefreshToken: () => true,
      ttl: { AccessToken: 60, ClientCredentials: 60, Grant: 86_400, RefreshToken: 86_400 },
      scopes: ['openid', 'offline_access', 'mcp'],
      features: {
        devInteractions: { enabled: false },
        clientCredentials: { enabled: true },
        dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 7), requireNonce: () => requiresNonce },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: () => ({ scope: 'mcp', accessTokenFormat: 'jwt', accessTokenTTL: 60 }),
        },
      },
      findAccount: (_: unknown, accountId: string) => ({ accountId, claims: () => ({ sub: accountId }) }),
    });
    // biome-ignore lint/suspicious/noExplicitAny: its types are not installed.
    provider.use(async (ctx: any, next: () => Promise<void>) => {
      await next();
      if (ctx.path === '/token') seen.push({ status: ctx.status, error: ctx.body?.error });
    });
    const handle = provider.callback();
    server.on('request', handle);
    await Promise.all([import('undici'), import('openid-client')]);
  });

  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  const machine = (more: Partial<OAuthOptions> = {}) =>
    clientCredentialsGrant({
      issuer,
      clientId: 'machine',
      clientSecret: 'a-secret-of-the-machine',
      refresh: { background: 'never' },
      dpop: true,
      clock: manualClock(Date.now()),
      ...more,
    } as never);

  async function headersOf(given: ReturnType<typeof machine>) {
    const { authorization = '', dpop = '' } = await (await given.acquire(TARGET)).headers({
      method: 'POST',
      url: TARGET,
    });
    expect(authorization).toMatch(/^DPoP /);
    const { cnf } = decodeJwt(authorization.replace('DPoP ', '')) as { cnf?: { jkt: string } };
    return { jkt: cnf?.jkt, proofJkt: await calculateJwkThumbprint(decodeProtectedHeader(dpop).jwk ?? {}) };
  }

  it('binds the token to the key of our proofs, after one refusal for its nonce', async () => {
    seen.length = 0;
    const { jkt, proofJkt } = await headersOf(machine());
    expect(jkt).toMatch(/^[\w-]{43}$/);
    expect(jkt).toBe(proofJkt);
    expect(seen).toEqual([
      { status: 400, error: 'use_dpop_nonce' },
      { status: 200, error: undefined },
    ]);
  });

  it('gives a public client refresh tokens for that key alone, over ten rotations', async () => {
    const clock = manualClock(Date.now());
    const client = await provider.Client.find('public');
    const grant = new provider.Grant({ accountId: 'alice', clientId: 'public' });
    grant.addOIDCScope('openid offline_access');
    grant.addResourceScope(TARGET.href, 'mcp');
    const grantId = await grant.save();
    const refreshToken = await new provider.RefreshToken({
      client,
      accountId: 'alice',
      grantId,
      gty: 'authorization_code',
      scope: 'openid offline_access mcp',
      resource: TARGET.href,
      rotations: 0,
      iiat: Math.floor(Date.now() / 1000),
    }).save();
    const user = refreshTokenGrant({
      issuer,
      clientId: 'public',
      refreshToken,
      dpop: true,
      refresh: { background: 'never' },
      clock: Object.assign(Object.create(clock), { now: () => Date.now() }),
    });
    const first = await headersOf(user);
    for (let i = 0; i < 10; i++) {
      await clock.advance(61_000);
      expect(await headersOf(user)).toEqual(first);
    }
    expect(first.jkt).toBe(first.proofJkt);
  });

  it.each([-3_600_000, 3_600_000])(
    'goes by its nonces, and not by our clock, where that is %i ms off',
    async (skewMs) => {
      requiresNonce = false;
      seen.length = 0;
      const clock = skewedClock();
      const ahead = Date.now() + skewMs - clock.now();
      clock.skewMs = ahead;
      const { jkt, proofJkt } = await headersOf(machine({ clock }));
      expect(jkt).toBe(proofJkt);
      expect(seen.map(({ error }) => error)).toEqual(['use_dpop_nonce', undefined]);
      requiresNonce = true;
    },
  );

  it('refuses a client without proofs that has to have them', async () => {
    const error = await errorOf(machine({ dpop: false }).acquire(TARGET));
    expect(error.code).toBe('ERR_CREDENTIAL_REJECTED');
  });
});
