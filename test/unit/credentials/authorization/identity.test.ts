/** As which client an authorization server is asked, and when a registration is made anew. */
import { describe, expect, it } from 'vitest';
import { type AuthorizationCodeOptions, memoryCredentialStore } from '../../../../src/credentials/index.js';
import { errorOf, everythingOf } from '../support.js';
import { grantOf, startWorld, userOf, type World, withTime } from './support.js';

const METADATA_URL = 'https://app.example/oauth/client.json';

async function consent(world: World, options: Partial<AuthorizationCodeOptions> = {}) {
  const user = userOf(world);
  const provider = grantOf(world, { onRedirect: user.onRedirect, ...options });
  await provider.acquire(world.mcp.url, world.mcp.refusal(0));
  return { provider, user, clientId: user.visits[0]?.searchParams.get('client_id') };
}

describe('which client', () => {
  it('a given one is not registered', async () => {
    const world = await startWorld();
    const { clientId } = await consent(world, { client: { clientId: 'given' } });
    expect(clientId).toBe('given');
    expect(world.as.counts.register).toBe(0);
    expect(world.as.forms[0]?.get('client_id')).toBe('given');
    expect(world.as.everything).not.toContain('secret');
  });

  it.each(['issuer', 'discover'] as const)('a secret, where the app said %s', async (which) => {
    const world = await startWorld();
    const { as } = world;
    as.clients.set('given', { redirectUris: ['http://127.0.0.1:4711/callback'], secret: 'APP SECRET+%' });
    const server = which === 'issuer' ? { issuer: as.issuer } : { discover: 'once' as const };
    await consent(world, { client: { clientId: 'given', clientSecret: 'APP SECRET+%' }, ...server });
    expect(as.requests.filter(({ path }) => path === '/token')[0]?.headers.authorization).toMatch(/^Basic /);
    expect(as.counts).toMatchObject({ token: 1, register: 0 });
  });

  it('a metadata document, where the server reads such', async () => {
    const world = await startWorld();
    world.as.metadata = { client_id_metadata_document_supported: true };
    const client = { metadataUrl: METADATA_URL, register: { name: 'app' } };
    const { clientId, provider } = await consent(world, { client });
    expect(clientId).toBe(METADATA_URL);
    expect(world.as.counts.register).toBe(0);
    // A refresh is made as the same client.
    await provider.acquire(world.mcp.url, world.mcp.refusal(1));
    expect(world.as.forms.map((form) => form.get('client_id'))).toEqual([METADATA_URL, METADATA_URL]);
  });

  it.each([undefined, false, 'true', 1])('not where it says %j: registered instead', async (said) => {
    const world = await startWorld();
    world.as.metadata = { client_id_metadata_document_supported: said };
    const { clientId } = await consent(world, {
      client: { metadataUrl: METADATA_URL, register: { name: 'app' } },
    });
    expect(clientId).toBe('first-client-1');
    expect(world.as.registrations[0]).toMatchObject({
      client_name: 'app',
      token_endpoint_auth_method: 'none',
    });
    expect(world.as.everything).not.toContain(METADATA_URL);
  });

  it.each<[string, object, object]>([
    ['a metadata document only', { metadataUrl: METADATA_URL }, {}],
    ['no registration', { register: { name: 'app' } }, { registration_endpoint: undefined }],
    [
      'neither',
      { metadataUrl: METADATA_URL, register: { name: 'app' } },
      { registration_endpoint: undefined },
    ],
  ])('%s, and the server has no use for it', async (_name, client, metadata) => {
    const world = await startWorld();
    world.as.metadata = metadata as Record<string, unknown>;
    const user = userOf(world);
    const provider = grantOf(world, { onRedirect: user.onRedirect, client: client as never });
    const error = await errorOf(provider.acquire(world.mcp.url, world.mcp.refusal(0)));
    expect(error).toMatchObject({ code: 'ERR_DISCOVERY', reason: 'no_client' });
    expect([user.visits, world.as.counts.register]).toEqual([[], 0]);
  });
});

describe('a registration', () => {
  it.each([
    [['none', 'client_secret_basic'], 'none', false],
    [['client_secret_basic', 'client_secret_post'], 'client_secret_basic', true],
    [['client_secret_post', 'private_key_jwt'], 'client_secret_post', true],
    [['private_key_jwt'], 'none', false],
    [undefined, 'none', false],
  ])('the methods %j: %s', async (listed, method, hasSecret) => {
    const world = await startWorld();
    const { as, mcp } = world;
    as.metadata = { token_endpoint_auth_methods_supported: listed };
    const { provider } = await consent(world);
    await provider.acquire(mcp.url, mcp.refusal(1));

    expect(as.registrations).toMatchObject([
      { token_endpoint_auth_method: method, grant_types: ['authorization_code', 'refresh_token'] },
    ]);
    const tokens = as.requests.filter(({ path }) => path === '/token');
    expect(tokens).toHaveLength(2);
    for (const { headers, text } of tokens) {
      const form = new URLSearchParams(text);
      expect(headers.authorization !== undefined).toBe(method === 'client_secret_basic');
      expect(form.get('client_secret')).toBe(method === 'client_secret_post' ? 'first-secret-1' : null);
    }
    expect(as.everything.includes('first-secret-1')).toBe(hasSecret);
  });

  it('what the server made of the method counts', async () => {
    const world = await startWorld();
    const { as } = world;
    as.metadata = { token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'] };
    as.registration = { token_endpoint_auth_method: 'client_secret_post' };
    await consent(world);
    expect(as.forms[0]?.get('client_secret')).toBe('first-secret-1');
  });

  it.each([
    ['http://127.0.0.1:4711/callback', 'native'],
    ['http://localhost:4711/callback', 'native'],
    ['http://[::1]:4711/callback', 'native'],
    ['com.example.app:/callback', 'native'],
    ['https://app.example/callback', 'web'],
  ])('%s is of a %s application', async (redirectUri, type) => {
    const world = await startWorld();
    await grantOf(world, { redirectUri }).authorizationUrl(world.mcp.url);
    expect(world.as.registrations).toMatchObject([{ application_type: type, redirect_uris: [redirectUri] }]);
  });

  it('is kept over a restart, and made anew where another redirect URI is used', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const shared = { store: memoryCredentialStore(world), subject: 'user-7' };
    await grantOf(world, shared).authorizationUrl(mcp.url);
    await grantOf(world, shared).authorizationUrl(mcp.url);
    expect(as.counts.register).toBe(1);
    const moved = { ...shared, redirectUri: 'http://127.0.0.1:4712/callback' };
    const url = await grantOf(world, moved).authorizationUrl(mcp.url);
    expect(as.counts.register).toBe(2);
    expect(url.searchParams.get('client_id')).toBe('first-client-2');
  });

  it.each([
    [3_600, 1],
    [0, 1],
    [undefined, 1],
    [-1, 2],
  ])(
    'a secret that ends in %s s: %i registration(s) for the next consent',
    async (seconds, registrations) => {
      const world = await startWorld();
      const { as, mcp, clock } = world;
      as.metadata = { token_endpoint_auth_methods_supported: ['client_secret_basic'] };
      const end =
        seconds === 0 || seconds === undefined ? seconds : Math.floor(clock.now() / 1_000) + 1_861 + seconds;
      as.registration = { client_secret_expires_at: end };
      const { provider, user } = await consent(world);
      await clock.advance(1_800_000);
      // A refresh is made as the client of before: the server has the last word on that.
      await provider.acquire(mcp.url, mcp.refusal(1));
      expect(as.counts).toMatchObject({ register: 1, token: 2 });
      as.revokeRefreshTokens();
      await clock.advance(61_000);
      const { generation } = await provider.acquire(mcp.url);
      // The store is looked at a second time before the refresh token counts as dead.
      await withTime(world, provider.acquire(mcp.url, mcp.refusal(generation)));
      expect(user.visits).toHaveLength(2);
      expect(as.counts.register).toBe(registrations);
    },
  );

  it.each<[string, object, string]>([
    ['400', { status: 400, body: { error: 'invalid_redirect_uri' } }, 'ERR_DISCOVERY'],
    ['403 with a page', { status: 403, body: '<h1>no</h1>' }, 'ERR_DISCOVERY'],
    ['201 without a client id', { status: 201, body: { client_secret: 'CANARY' } }, 'ERR_DISCOVERY'],
    ['201 with text', { status: 201, body: 'CANARY' }, 'ERR_DISCOVERY'],
    ['503', { status: 503, body: 'busy' }, 'ERR_TOKEN_ENDPOINT'],
    ['429', { status: 429, headers: { 'retry-after': '7' }, body: {} }, 'ERR_TOKEN_ENDPOINT'],
  ])('that is answered with %s', async (_name, reply, code) => {
    const world = await startWorld();
    const { as, mcp } = world;
    const plain = as as unknown as { reply(seen: { path: string }): unknown };
    const ordinary = plain.reply.bind(as);
    plain.reply = (seen) => (seen.path === '/register' ? reply : ordinary(seen));
    const user = userOf(world);
    const provider = grantOf(world, { onRedirect: user.onRedirect });
    const error = await errorOf(provider.acquire(mcp.url, mcp.refusal(0)));
    expect(error).toMatchObject({ code, retryable: code === 'ERR_TOKEN_ENDPOINT' });
    expect(everythingOf(error)).not.toContain('CANARY');
    expect([user.visits, as.counts.register]).toEqual([[], 1]);
  });
});
