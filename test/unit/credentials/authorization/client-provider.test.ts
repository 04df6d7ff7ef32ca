/** An app's own `OAuthClientProvider`, as the SDK v1 has it: its storage and its way to the user, our flow. */
import { describe, expect, it } from 'vitest';
import { fromOAuthClientProvider } from '../../../../src/credentials/index.js';
import { errorOf, everythingOf } from '../support.js';
import { InMemoryProvider } from './in-memory-provider.js';
import { closeLater, eventsOf, REDIRECT_URI, sentTo, startWorld, type World } from './support.js';

function bridged({ clock }: World, app = new InMemoryProvider()) {
  const provider = fromOAuthClientProvider(app, { clock });
  closeLater(async () => await provider.close?.());
  return { app, provider };
}

/** After a first consent. */
async function authorized(change: (world: World) => void = () => {}, app = new InMemoryProvider()) {
  const world = await startWorld();
  change(world);
  const { provider } = bridged(world, app);
  await errorOf(provider.acquire(world.mcp.url, world.mcp.refusal(0)));
  await provider.finishAuth?.(await world.as.browse(app.sentTo[0] as URL), world.mcp.url);
  await provider.acquire(world.mcp.url);
  app.calls.length = 0;
  return { ...world, world, app, provider };
}

describe('the first consent', () => {
  it('20 callers: the user is sent away once, as a registered client', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    mcp.scopesSupported = ['read'];
    const { app, provider } = bridged(world);
    expect((await provider.acquire(mcp.url)).generation).toBe(0);

    const errors = await Promise.all(
      Array.from({ length: 20 }, () => errorOf(provider.acquire(mcp.url, mcp.refusal(0)))),
    );

    for (const error of errors) expect(error).toMatchObject({ code: 'ERR_REAUTHORIZATION_REQUIRED' });
    expect(app.calls).toEqual(['saveClientInformation', 'redirectToAuthorization']);
    expect(app.client).toMatchObject({ client_id: 'first-client-1' });
    expect(as.registrations).toMatchObject([{ client_name: 'app', redirect_uris: [REDIRECT_URI] }]);
    const [url] = app.sentTo as [URL];
    expect(url.searchParams.get('scope')).toBe('read');
    expect(url.searchParams.get('resource')).toBe(mcp.url.href);
  });

  it.each<[string, (callback: URL) => URL | URLSearchParams | string]>([
    ['the bare code', (callback) => callback.searchParams.get('code') as string],
    ['the whole URL', (callback) => callback],
    ['the whole URL as text', (callback) => callback.href],
    ['the query', (callback) => callback.search],
    ['the parameters', (callback) => callback.searchParams],
  ])('finishAuth with %s', async (_name, form) => {
    const world = await startWorld();
    const { as, mcp } = world;
    const { app, provider } = bridged(world);
    await errorOf(provider.acquire(mcp.url, mcp.refusal(0)));
    await provider.finishAuth?.(form(await as.browse(app.sentTo[0] as URL)), mcp.url);

    expect(app.saved).toEqual({
      access_token: 'first-token-1',
      refresh_token: 'first-refresh-1',
      token_type: 'Bearer',
      expires_in: 3600,
    });
    expect(await sentTo(mcp.url, await provider.acquire(mcp.url))).toBe('Bearer first-token-1');
    expect(as.counts).toMatchObject({ authorize: 1, token: 1, register: 1 });
  });

  it.each(['a==', 'a/b+c', '4/0Ab-c_d.e~f', 'a%3D&b'])(
    'a bare code such as %s arrives as it is',
    async (code) => {
      const world = await startWorld();
      const { as, mcp } = world;
      const { app, provider } = bridged(world);
      await errorOf(provider.acquire(mcp.url, mcp.refusal(0)));
      await errorOf(provider.finishAuth?.(code, mcp.url) as Promise<void>);
      expect(app.calls).not.toContain('saveTokens');
      expect(as.forms[0]?.get('code')).toBe(code);
    },
  );

  it.each<[string, string, (callback: URL) => string]>([
    ['a refusal', 'access_denied', (it) => `${it.href.replace(/code=[^&]+/, '')}&error=access_denied`],
    [
      'another iss',
      'issuer_mismatch',
      (it) => it.href.replace(/iss=[^&]+/, 'iss=https%3A%2F%2Fevil.example'),
    ],
    ['no code', 'no_code', (it) => it.href.replace(/code=[^&]+/, '')],
    ['an empty text', 'no_code', () => ''],
  ])('finishAuth with %s exchanges nothing', async (_name, reason, form) => {
    const world = await startWorld();
    const { as, mcp } = world;
    const { app, provider } = bridged(world);
    await errorOf(provider.acquire(mcp.url, mcp.refusal(0)));
    const callback = form(await as.browse(app.sentTo[0] as URL));
    expect(await errorOf(provider.finishAuth?.(callback, mcp.url) as Promise<void>)).toMatchObject({
      reason,
    });
    expect([as.counts.token, app.saved]).toEqual([0, undefined]);
  });

  it("the app's own state, scope and client document", async () => {
    const world = await startWorld();
    world.as.metadata = { client_id_metadata_document_supported: true };
    const app = Object.assign(new InMemoryProvider(), {
      clientMetadataUrl: 'https://app.example/client.json',
      state: () => 'state-of-the-app',
    });
    app.clientMetadata = { ...app.clientMetadata, scope: 'own' };
    const { provider } = bridged(world, app);
    await errorOf(provider.acquire(world.mcp.url, world.mcp.refusal(0)));
    const parameters = app.sentTo[0]?.searchParams;
    expect(parameters?.get('client_id')).toBe('https://app.example/client.json');
    expect(parameters?.get('state')).toBe('state-of-the-app');
    expect(parameters?.get('scope')).toBe('own');
    expect(world.as.counts.register).toBe(0);
  });

  it('its own errors are not shown', async () => {
    const world = await startWorld();
    const app = new InMemoryProvider();
    app.redirectToAuthorization = () => {
      throw new Error('CANARY');
    };
    const { provider } = bridged(world, app);
    const error = await errorOf(provider.acquire(world.mcp.url, world.mcp.refusal(0)));
    expect(error.code).toBe('ERR_CREDENTIAL_SOURCE');
    expect(everythingOf(error)).not.toContain('CANARY');
  });
});

describe('a refusal', () => {
  it.each([
    ['rotates', 'first-refresh-2'],
    ['keeps', 'first-refresh-1'],
  ])('20 at once, and a server that %s the refresh token: one refresh, saved once', async (how, kept) => {
    const { as, mcp, app, provider } = await authorized();
    if (how === 'keeps')
      as.script.push({ body: { access_token: 'first-token-2', token_type: 'Bearer', expires_in: 60 } });

    const got = await Promise.all(
      Array.from({ length: 20 }, () => provider.acquire(mcp.url, mcp.refusal(1))),
    );
    got.push(await provider.acquire(mcp.url, mcp.refusal(1)));

    for (const each of got) expect(await sentTo(mcp.url, each)).toBe('Bearer first-token-2');
    expect(as.counts.token).toBe(2);
    expect(app.calls).toEqual(['saveTokens']);
    expect(app.saved).toMatchObject({ access_token: 'first-token-2', refresh_token: kept });
    expect(as.forms[1]?.get('resource')).toBe(mcp.url.href);
  });

  it('a refresh token that is dead: its tokens are invalidated, and the user is sent away once', async () => {
    const { as, mcp, app, provider } = await authorized();
    as.revokeRefreshTokens();
    const errors = await Promise.all(
      Array.from({ length: 20 }, () => errorOf(provider.acquire(mcp.url, mcp.refusal(1)))),
    );
    for (const error of errors) expect(error.code).toBe('ERR_REAUTHORIZATION_REQUIRED');
    expect(app.calls).toEqual(['invalidateCredentials tokens', 'redirectToAuthorization']);
    expect(as.counts.token).toBe(2);

    await provider.finishAuth?.(await as.browse(app.sentTo.at(-1) as URL), mcp.url);
    const got = await provider.acquire(mcp.url, mcp.refusal(1));
    expect(await sentTo(mcp.url, got)).toBe('Bearer first-token-2');
    expect(got.generation).toBe(2);
  });

  it('a token endpoint that is down: said so, nobody is sent away, nothing is invalidated', async () => {
    const { as, mcp, app, provider } = await authorized();
    as.script.push({ status: 503, body: 'busy' });
    expect(await errorOf(provider.acquire(mcp.url, mcp.refusal(1)))).toMatchObject({
      code: 'ERR_TOKEN_ENDPOINT',
      retryable: true,
    });
    expect(app.calls).toEqual([]);
    expect((await provider.acquire(mcp.url, mcp.refusal(1))).generation).toBe(2);
  });

  it('the app has put another token there: that one is used, without a refresh', async () => {
    const { as, mcp, app, provider } = await authorized();
    app.saved = { access_token: 'of-the-app-itself', token_type: 'Bearer' };
    const got = await Promise.all(Array.from({ length: 5 }, () => provider.acquire(mcp.url, mcp.refusal(1))));
    for (const each of got) expect(await sentTo(mcp.url, each)).toBe('Bearer of-the-app-itself');
    app.saved = { access_token: 'another', token_type: 'Bearer' };
    expect(await sentTo(mcp.url, await provider.acquire(mcp.url))).toBe('Bearer another');
    expect([as.counts.token, app.calls]).toEqual([1, []]);
  });
});

describe('ahead of the end of a token', () => {
  const SOON_MS = 3_400_000;

  it('one refresh for all; what the app stored is what is served', async () => {
    const { as, mcp, clock, app, provider } = await authorized();
    await clock.advance(SOON_MS);
    const got = await Promise.all(Array.from({ length: 20 }, () => provider.acquire(mcp.url)));
    expect(new Set(got.map(({ generation }) => generation))).toEqual(new Set([2]));
    expect(app.saved).toMatchObject({ access_token: 'first-token-2', refresh_token: 'first-refresh-2' });
    expect([as.counts.token, app.calls]).toEqual([2, ['saveTokens']]);
  });

  it.each(['token endpoint', 'MCP server’s metadata', 'authorization metadata'])(
    'an outage of the %s: the token goes on, and it is not tried at every call',
    async (which) => {
      const { as, mcp, clock, app, world } = await authorized();
      // Another process of the app, which has read nothing yet, and one that has.
      const { provider } = bridged(world, app);
      await provider.acquire(mcp.url);
      const refreshed = await provider.acquire(mcp.url, mcp.refusal(1));
      expect(refreshed.generation).toBe(2);
      app.calls.length = 0;
      const broken = which === 'token endpoint' ? as : which === 'authorization metadata' ? as : mcp;
      const plain = broken as unknown as { reply(seen: { path: string }): unknown };
      const ordinary = plain.reply.bind(broken);
      const isDown = (path: string) =>
        which === 'token endpoint'
          ? path === '/token'
          : path.startsWith('/.well-known/') || path === '/token';
      plain.reply = (seen) => (isDown(seen.path) ? { status: 503, body: 'busy' } : ordinary(seen));
      await clock.advance(SOON_MS);
      const before = { as: as.requests.length, mcp: mcp.requests.length };

      for (let times = 0; times < 10; times++)
        expect(await sentTo(mcp.url, await provider.acquire(mcp.url))).toBe('Bearer first-token-2');
      expect(as.requests.length - before.as + mcp.requests.length - before.mcp).toBeLessThanOrEqual(2);
      expect(app.calls).toEqual([]);

      await clock.advance(31_000);
      plain.reply = ordinary;
      expect(await sentTo(mcp.url, await provider.acquire(mcp.url))).toBe('Bearer first-token-3');
      expect(app.calls).toEqual(['saveTokens']);
    },
  );

  it('a dead refresh token: asked once, and the token serves until it is refused', async () => {
    const { as, mcp, clock, app, provider } = await authorized();
    as.revokeRefreshTokens();
    await clock.advance(SOON_MS);
    for (let times = 0; times < 5; times++) {
      expect(await sentTo(mcp.url, await provider.acquire(mcp.url))).toBe('Bearer first-token-1');
      await clock.advance(31_000);
    }
    expect([as.counts.token, app.calls]).toEqual([2, []]);
    expect((await errorOf(provider.acquire(mcp.url, mcp.refusal(1)))).code).toBe(
      'ERR_REAUTHORIZATION_REQUIRED',
    );
    expect(app.calls).toEqual(['invalidateCredentials tokens', 'redirectToAuthorization']);
    expect(as.counts.token).toBe(2);
  });
});

describe('another authorization server', () => {
  it.each([
    ['a refusal', 1],
    ['a lost token', 0],
  ])('after %s: an event, an error, and nothing of the client there', async (_name, generation) => {
    const app = new InMemoryProvider();
    app.client = { client_id: 'app-id', client_secret: 'APP-SECRET' };
    const { as, other, mcp, provider } = await authorized((world) => {
      world.as.clients.set('app-id', { redirectUris: [REDIRECT_URI], secret: 'APP-SECRET' });
    }, app);
    const events = eventsOf(provider);
    expect(as.everything).toContain('APP-SECRET');
    mcp.servers = [other];
    if (generation === 0) app.saved = undefined;

    for (let times = 0; times < 3; times++)
      expect(await errorOf(provider.acquire(mcp.url, mcp.refusal(generation)))).toMatchObject({
        code: 'ERR_DISCOVERY',
        reason: 'authorization_server_changed',
      });
    expect(await errorOf(provider.finishAuth?.('code', mcp.url) as Promise<void>)).toMatchObject({
      code: 'ERR_DISCOVERY',
    });

    expect(events.find(({ type }) => type === 'server-changed')).toEqual({
      type: 'server-changed',
      id: provider.id,
      previous: as.issuer,
      current: other.issuer,
    });
    expect(other.requests).toEqual([]);
    expect(app.calls).toEqual([]);
    expect(as.counts.token).toBe(1);
  });
});
