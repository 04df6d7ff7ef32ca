/** What comes back from a browser: taken once, from the server that was asked, within ten minutes, or not at all. */
import { describe, expect, it } from 'vitest';
import { type Callback, readCallback } from '../../../../src/credentials/authorization/callback.js';
import { memoryCredentialStore } from '../../../../src/credentials/index.js';
import { errorOf, everythingOf } from '../support.js';
import { eventsOf, grantOf, REDIRECT_URI, sentTo, startWorld, userOf, type World } from './support.js';

const begun = async (world: World) => {
  const provider = grantOf(world);
  const url = await provider.authorizationUrl(world.mcp.url);
  return { provider, callback: await world.as.browse(url) };
};
const changed = (callback: URL, change: (parameters: URLSearchParams) => void) => {
  const copy = new URL(callback);
  change(copy.searchParams);
  return copy;
};

describe('a good callback', () => {
  it.each<[string, (callback: URL) => Callback]>([
    ['as a URL', (callback) => callback],
    ['as text', (callback) => callback.href],
    ['its query', (callback) => callback.search],
    ['its query without the mark', (callback) => callback.search.slice(1)],
    ['its parameters', (callback) => callback.searchParams],
    ['path and query, as a request has them', (callback) => `/callback${callback.search}`],
    ['behind a proxy, under another host', (callback) => `http://10.0.0.7:8080/in${callback.search}`],
    ['with parameters of somebody else', (callback) => `${callback.href}&session_state=1&ui=a&ui=b`],
  ])('%s', async (_name, form) => {
    const world = await startWorld();
    const { provider, callback } = await begun(world);
    await provider.finishAuth(form(callback));
    expect(await sentTo(world.mcp.url, await provider.acquire(world.mcp.url))).toBe('Bearer first-token-1');
    expect(world.as.forms[0]?.get('redirect_uri')).toBe(REDIRECT_URI);
  });

  it('a scheme of the app’s own', async () => {
    const world = await startWorld();
    const redirectUri = 'com.example.app:/callback';
    const provider = grantOf(world, { redirectUri });
    const callback = await world.as.browse(await provider.authorizationUrl(world.mcp.url));
    await provider.finishAuth(callback.href);
    expect(world.as.forms[0]?.get('redirect_uri')).toBe(redirectUri);
    expect(world.as.registrations[0]).toMatchObject({ application_type: 'native' });
  });

  it.each([undefined, null, 7, {}, [], 'x'.repeat(20_000)])('is none: %s', (given) => {
    expect(() => readCallback(given as never)).toThrow(TypeError);
  });
});

describe('used once', () => {
  it('twice one after the other, at once, and in another process: one code request', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const shared = { store: memoryCredentialStore(world), subject: 'user-7' };
    const [one, two] = [grantOf(world, shared), grantOf(world, shared)];
    const callback = await as.browse(await one.authorizationUrl(mcp.url));

    const outcomes = await Promise.allSettled([one, two, one, two].map((each) => each.finishAuth(callback)));
    outcomes.push(...(await Promise.allSettled([one.finishAuth(callback), two.finishAuth(callback)])));

    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected')
        expect(outcome.reason).toMatchObject({
          code: 'ERR_REAUTHORIZATION_REQUIRED',
          reason: 'unknown_state',
        });
    expect(as.counts.token).toBe(1);
    expect((await two.acquire(mcp.url)).generation).toBe(1);
  });

  it.each<[string, object, string]>([
    ['400 invalid_grant', { status: 400, body: { error: 'invalid_grant' } }, 'ERR_REAUTHORIZATION_REQUIRED'],
    ['503', { status: 503, headers: { 'retry-after': '1' }, body: 'busy' }, 'ERR_TOKEN_ENDPOINT'],
    ['no token in the answer', { body: { token_type: 'Bearer' } }, 'ERR_TOKEN_ENDPOINT'],
    ['401 invalid_client', { status: 401, body: { error: 'invalid_client' } }, 'ERR_CREDENTIAL_REJECTED'],
  ])('a code that met %s is not sent again', async (_name, reply, code) => {
    const world = await startWorld();
    const { as, clock } = world;
    const { provider, callback } = await begun(world);
    as.script.push(reply);
    const error = await errorOf(provider.finishAuth(callback));
    expect(error).toMatchObject({ code, retryable: false });
    expect(everythingOf(error)).not.toMatch(/first-code|verifier/);
    await clock.advance(60_000);
    await errorOf(provider.finishAuth(callback));
    expect(as.counts.token).toBe(1);
    // What was begun afterwards is another matter.
    const again = await as.browse(await provider.authorizationUrl(world.mcp.url));
    await provider.finishAuth(again);
    expect((await provider.acquire(world.mcp.url)).generation).toBe(1);
  });

  it('after ten minutes no more, and until then it is', async () => {
    const world = await startWorld();
    const { as, mcp, clock } = world;
    const provider = grantOf(world);
    const [first, second] = [
      await provider.authorizationUrl(mcp.url),
      await provider.authorizationUrl(mcp.url),
    ];
    await clock.advance(10 * 60_000 - 1_000);
    await provider.finishAuth(await as.browse(first));
    await clock.advance(2_000);
    expect(await errorOf(provider.finishAuth(await as.browse(second)))).toMatchObject({
      reason: 'unknown_state',
    });
    expect(as.counts.token).toBe(1);
  });

  it('what lies in the store while the user is away: no state in a key, and gone afterwards', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const memory = memoryCredentialStore(world);
    const written = new Map<string, string | undefined>();
    const store = {
      ...memory,
      compareAndSet: (...given: Parameters<typeof memory.compareAndSet>) => {
        written.set(given[0], given[2]?.data);
        return memory.compareAndSet(...given);
      },
    };
    const provider = grantOf(world, { store, subject: 'user-7' });
    const url = await provider.authorizationUrl(mcp.url);
    const pending = [...written].filter(([id]) => id.includes('pending'));
    expect(pending).toHaveLength(1);
    expect(JSON.stringify([...written])).not.toContain(url.searchParams.get('state'));
    await provider.finishAuth(await as.browse(url));
    expect(written.get(pending[0]?.[0] as string)).toBeUndefined();
  });
});

describe('not taken', () => {
  const REFUSED: [string, string, (callback: URL) => Callback][] = [
    ['a forged state', 'unknown_state', (it) => changed(it, (p) => p.set('state', 'forged'))],
    ['no state', 'unknown_state', (it) => changed(it, (p) => p.delete('state'))],
    ['an empty state', 'unknown_state', (it) => changed(it, (p) => p.set('state', ''))],
    ['two states', 'unknown_state', (it) => changed(it, (p) => p.append('state', 'b'))],
    [
      'the same state twice',
      'unknown_state',
      (it) => changed(it, (p) => p.append('state', `${p.get('state')}`)),
    ],
    ['another iss', 'issuer_mismatch', (it) => changed(it, (p) => p.set('iss', 'https://evil.example'))],
    ['iss with a slash', 'issuer_mismatch', (it) => changed(it, (p) => p.set('iss', `${p.get('iss')}/`))],
    ['two iss', 'issuer_mismatch', (it) => changed(it, (p) => p.append('iss', 'https://evil.example'))],
    ['an empty iss', 'issuer_mismatch', (it) => changed(it, (p) => p.set('iss', ''))],
    ['no iss where one is announced', 'issuer_mismatch', (it) => changed(it, (p) => p.delete('iss'))],
    ['no code', 'no_code', (it) => changed(it, (p) => p.delete('code'))],
    ['an empty code', 'no_code', (it) => changed(it, (p) => p.set('code', ''))],
    ['two codes', 'no_code', (it) => changed(it, (p) => p.append('code', 'b'))],
    ['access_denied', 'access_denied', (it) => changed(it, (p) => p.set('error', 'access_denied'))],
    [
      'access_denied twice',
      'access_denied',
      (it) =>
        changed(it, (p) => {
          p.append('error', 'access_denied');
          p.append('error', 'access_denied');
        }),
    ],
    ['an error of its own', 'authorization_refused', (it) => changed(it, (p) => p.set('error', 'CANARY'))],
    ['any text', 'unknown_state', () => 'hello'],
    ['another site', 'unknown_state', () => 'https://elsewhere.example/?code=CANARY&state=CANARY'],
  ];

  it.each(REFUSED)('%s', async (_name, reason, form) => {
    const world = await startWorld();
    const { provider, callback } = await begun(world);
    const error = await errorOf(provider.finishAuth(form(callback)));
    expect(error).toMatchObject({ code: 'ERR_REAUTHORIZATION_REQUIRED', reason, executed: false });
    expect(everythingOf(error)).not.toMatch(/CANARY|evil|first-code/);
    expect(world.as.counts.token).toBe(0);
    expect((await provider.acquire(world.mcp.url)).generation).toBe(0);
  });

  it.each(REFUSED)('by onRedirect: %s', async (_name, reason, form) => {
    const world = await startWorld();
    const user = userOf(world, (callback) => form(callback) as URL | string);
    const provider = grantOf(world, { onRedirect: user.onRedirect });
    const events = eventsOf(provider);
    const error = await errorOf(provider.acquire(world.mcp.url, world.mcp.refusal(0)));
    expect(error).toMatchObject({ code: 'ERR_REAUTHORIZATION_REQUIRED', reason });
    expect(events).toMatchObject([{ type: 'failed' }]);
    expect([user.visits.length, world.as.counts.token]).toEqual([1, 0]);
  });

  it('a server that does not announce iss may leave it out, but not name another one', async () => {
    for (const [iss, isGood] of [
      ['none', true],
      ['own', true],
      ['https://evil.example', false],
    ] as const) {
      const world = await startWorld();
      world.as.metadata = { authorization_response_iss_parameter_supported: undefined };
      world.as.iss = iss;
      const { provider, callback } = await begun(world);
      const finished = provider.finishAuth(callback);
      if (isGood) await finished;
      else expect(await errorOf(finished)).toMatchObject({ reason: 'issuer_mismatch' });
      expect(world.as.counts.token).toBe(isGood ? 1 : 0);
    }
  });
});

describe('a server that no user is sent to', () => {
  it.each<[string, string, Record<string, unknown>]>([
    ['PKCE is not listed', 'no_pkce', { code_challenge_methods_supported: undefined }],
    ['PKCE is plain only', 'no_pkce', { code_challenge_methods_supported: ['plain'] }],
    [
      'there is no authorization endpoint',
      'no_authorization_endpoint',
      { authorization_endpoint: undefined },
    ],
    ['the metadata name another issuer', 'issuer_mismatch', { issuer: 'https://evil.example' }],
    [
      'the authorization endpoint is plain http',
      'address',
      { authorization_endpoint: 'http://as.example/a' },
    ],
    ['the token endpoint is link-local', 'address', { token_endpoint: 'https://169.254.169.254/token' }],
    ['the registration is link-local', 'address', { registration_endpoint: 'https://169.254.169.254/reg' }],
    ['the authorization endpoint is a script', 'address', { authorization_endpoint: 'javascript:alert(1)' }],
  ])('%s', async (_name, reason, metadata) => {
    const world = await startWorld();
    world.as.metadata = metadata;
    const user = userOf(world);
    const provider = grantOf(world, { onRedirect: user.onRedirect });
    const error = await errorOf(provider.acquire(world.mcp.url, world.mcp.refusal(0)));
    expect(error).toMatchObject({ code: 'ERR_DISCOVERY', reason });
    expect(user.visits).toEqual([]);
    expect(world.as.counts).toMatchObject({ authorize: 0, token: 0, register: 0 });
  });

  it('a server of 2025-03-26: its own authorization server, found without any document', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    mcp.prm = false;
    // One process is both.
    const provider = grantOf(world, { onRedirect: async (url) => await as.browse(url) });
    as.isSilent = true;
    const got = await provider.acquire(new URL(`${as.origin}/mcp`), {
      rejected: { generation: 0, status: 401 },
    });
    expect(await sentTo(new URL(`${as.origin}/mcp`), got)).toBe('Bearer first-token-1');
    expect(as.counts).toMatchObject({ authorize: 1, token: 1, register: 1 });
  });
});
