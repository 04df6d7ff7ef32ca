/** RFC 8693 over a token endpoint on loopback: what is sent, what is refused, and what the subject token's source may do. */
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { HostedClient } from '../../../src/client.js';
import {
  type CredentialEvent,
  type CredentialProvider,
  type CredentialStore,
  clientCredentialsGrant,
  memoryCredentialStore,
  tokenExchangeGrant,
} from '../../../src/credentials/index.js';
import { HostedMcpError } from '../../../src/errors.js';
import { startHostedServer } from '../../../src/testing/index.js';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.js';
import { bearerOf, errorOf, everythingOf, gate, type Reply, TARGET, TokenServer } from './support.js';

const TYPE = 'urn:ietf:params:oauth:token-type:';
let server: TokenServer;
let clock: ManualClock;
const open: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  await Promise.all([import('undici'), import('openid-client')]);
});
beforeEach(async () => {
  server = await TokenServer.start();
  clock = manualClock();
});
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
  await server.close();
});

function exchange(more: Record<string, unknown> = {}): CredentialProvider {
  const provider = tokenExchangeGrant({
    tokenEndpoint: server.tokenEndpoint,
    clientId: 'client',
    clientSecret: 'client-secret',
    subjectToken: 'SUBJECT',
    subjectTokenType: `${TYPE}access_token`,
    clock,
    ...more,
  } as Parameters<typeof tokenExchangeGrant>[0]);
  open.push(async () => provider.close?.({ drainMs: 0 }));
  return provider;
}

const formOf = (at: number) => Object.fromEntries(server.requests[at]?.form ?? []);

describe('what is sent', () => {
  it('the fewest parameters, each once, with the client in the header', async () => {
    expect(await bearerOf(await exchange().acquire(TARGET))).toBe('Bearer A1');
    expect([...(server.requests[0]?.form.keys() ?? [])].sort()).toEqual([
      'grant_type',
      'resource',
      'subject_token',
      'subject_token_type',
    ]);
    expect(formOf(0)).toEqual({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token: 'SUBJECT',
      subject_token_type: `${TYPE}access_token`,
      resource: TARGET.href,
    });
    const header = server.requests[0]?.headers.authorization ?? '';
    expect(Buffer.from(header.slice(6), 'base64').toString()).toBe('client:client-secret');
  });

  it('all parameters, of a public client', async () => {
    await exchange({
      clientSecret: undefined,
      subjectToken: async () => 'SUB.JE+CT/=',
      subjectTokenType: `${TYPE}id_token`,
      actorToken: () => 'ACTOR\n',
      actorTokenType: `${TYPE}jwt`,
      requestedTokenType: `${TYPE}access_token`,
      audience: 'the tools & more',
      scope: 'mcp:read mcp:write',
      resource: 'https://mcp.example/other',
    }).acquire(TARGET);
    expect(formOf(0)).toEqual({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      client_id: 'client',
      subject_token: 'SUB.JE+CT/=',
      subject_token_type: `${TYPE}id_token`,
      actor_token: 'ACTOR',
      actor_token_type: `${TYPE}jwt`,
      requested_token_type: `${TYPE}access_token`,
      audience: 'the tools & more',
      scope: 'mcp:read mcp:write',
      resource: 'https://mcp.example/other',
    });
    expect(server.requests[0]?.headers.authorization).toBeUndefined();
  });

  it('the address given to acquire as resource, without its fragment; or none', async () => {
    await exchange().acquire(new URL('https://mcp.example/mcp?tenant=1#part'));
    await exchange({ resource: '' }).acquire(TARGET);
    expect(server.requests.map((r) => r.form.get('resource'))).toEqual([
      'https://mcp.example/mcp?tenant=1',
      null,
    ]);
  });

  it('to the token endpoint of the issuer that the app named, and to no other place', async () => {
    server.pages.set('/.well-known/oauth-authorization-server', {
      body: { issuer: server.origin, token_endpoint: server.tokenEndpoint },
    });
    await exchange({ tokenEndpoint: undefined, issuer: server.origin }).acquire(TARGET);
    expect(server.paths).toEqual(['/.well-known/oauth-authorization-server', '/token']);

    server.pages.set('/.well-known/oauth-authorization-server', {
      body: { issuer: server.origin, token_endpoint: 'http://as.example/token' },
    });
    const error = await errorOf(
      exchange({ tokenEndpoint: undefined, issuer: server.origin }).acquire(TARGET),
    );
    expect(error.code).toBe('ERR_DISCOVERY');
    expect(server.count).toBe(1);
  });

  it('no redirect is followed', async () => {
    const other = await TokenServer.start();
    open.push(() => other.close());
    server.script.push({ status: 307, headers: { location: other.tokenEndpoint } });
    const error = await errorOf(exchange().acquire(TARGET, { maxWaitMs: 0 }));
    expect(error).toMatchObject({ code: 'ERR_TOKEN_ENDPOINT', status: 307 });
    expect(other.paths).toEqual([]);
  });
});

describe('the source of the subject token', () => {
  /** Gives S1, S2, ... and keeps the signals. */
  function counting(): { source: (r: { signal: AbortSignal }) => string; signals: AbortSignal[] } {
    const signals: AbortSignal[] = [];
    return { signals, source: ({ signal }) => `S${signals.push(signal)}` };
  }

  it('is asked once for 50 callers, who cost one token request', async () => {
    const { source, signals } = counting();
    server.delayTurns = 20;
    const provider = exchange({ subjectToken: source });
    const got = await Promise.all(Array.from({ length: 50 }, () => provider.acquire(TARGET)));
    expect(server.count).toBe(1);
    expect(signals).toHaveLength(1);
    expect(signals[0]?.aborted).toBe(false);
    expect(new Set(await Promise.all(got.map(bearerOf)))).toEqual(new Set(['Bearer A1']));
    await provider.acquire(TARGET);
    expect(signals).toHaveLength(1);
  });

  it('is asked anew when the token is over', async () => {
    server.expiresIn = 60;
    const provider = exchange({ subjectToken: counting().source, refresh: { background: 'never' } });
    await provider.acquire(TARGET);
    await clock.advance(60_000);
    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer A2');
    expect(server.requests.map((r) => r.form.get('subject_token'))).toEqual(['S1', 'S2']);
  });

  it('is asked anew in the background before the token is over', async () => {
    server.expiresIn = 400;
    const events: CredentialEvent[] = [];
    const provider = exchange({ subjectToken: counting().source });
    provider.onEvent?.((event) => events.push(event));
    const first = await provider.acquire(TARGET);
    await clock.advance(250_000);
    expect(server.count).toBe(1);
    await clock.advance(60_000);
    expect(server.requests.map((r) => r.form.get('subject_token'))).toEqual(['S1', 'S2']);
    expect(events.map((event) => event.type)).toEqual(['refreshed', 'refreshed']);
    expect((await provider.acquire(TARGET)).generation).toBe(first.generation + 1);
    expect(server.count).toBe(2);
  });

  it('is asked anew after a refusal by the MCP server, once for all who were refused', async () => {
    const provider = exchange({ subjectToken: counting().source });
    const first = await provider.acquire(TARGET);
    const rejected = { generation: first.generation, status: 401 };
    await Promise.all(Array.from({ length: 5 }, () => provider.acquire(TARGET, { rejected })));
    expect(server.requests.map((r) => r.form.get('subject_token'))).toEqual(['S1', 'S2']);
  });

  it('that fails at the start: a typed error, no token request, and no word of what it threw', async () => {
    for (const subjectToken of [
      () => {
        throw new Error('CANARY of the vault');
      },
      () => Promise.reject(Object.assign(new TypeError('CANARY'), { code: 'ECONNRESET' })),
    ]) {
      const events: unknown[] = [];
      const provider = exchange({ subjectToken });
      provider.onEvent?.((event) => events.push(event));
      const error = await errorOf(provider.acquire(TARGET, { maxWaitMs: 0 }));
      expect(error).toMatchObject({ code: 'ERR_CREDENTIAL_SOURCE', executed: false });
      expect(error.message).toContain('subjectToken failed');
      expect(everythingOf([error, events, provider])).not.toContain('CANARY');
      expect(events).toHaveLength(1);
    }
    expect(server.count).toBe(0);
  });

  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['an empty text', ''],
    ['blanks', ' \n'],
    ['a number', 7],
    ['an object', { token: 'CANARY' }],
    ['two words', 'CANARY CANARY'],
    ['a line break within', 'CANARY\nCANARY'],
    ['letters beyond ASCII', 'CANARYé'],
    ['a megabyte', 'CANARY'.repeat(180_000)],
  ])('that gives %s: a typed error and no token request', async (_, value) => {
    const provider = exchange({ subjectToken: async () => value });
    const error = await errorOf(provider.acquire(TARGET, { maxWaitMs: 0 }));
    expect(error.code).toBe('ERR_CREDENTIAL_SOURCE');
    expect(everythingOf(error)).not.toContain('CANARY');
    expect(server.count).toBe(0);
  });

  it('that fails twice: the caller waits out the back-offs and gets its token', async () => {
    let asked = 0;
    const provider = exchange({
      subjectToken: () => {
        asked += 1;
        if (asked < 3) throw new Error('down');
        return 'SUBJECT';
      },
    });
    const waiting = provider.acquire(TARGET);
    await clock.advance(14_000);
    expect(await bearerOf(await waiting)).toBe('Bearer A1');
    expect(asked).toBe(3);
    expect(server.count).toBe(1);
  });

  it('that fails while the token lives: the token is used, the failure told, and asking backed off', async () => {
    let isDown = false;
    let asked = 0;
    const events: CredentialEvent[] = [];
    server.expiresIn = 400;
    const provider = exchange({
      subjectToken: async () => {
        asked += 1;
        if (isDown) throw new Error('down');
        return 'SUBJECT';
      },
    });
    provider.onEvent?.((event) => events.push(event));
    await provider.acquire(TARGET);
    isDown = true;
    await clock.advance(350_000);
    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer A1');
    const failed = events.filter((event) => event.type === 'failed');
    expect(failed.length).toBeGreaterThan(0);
    expect(failed.every((event) => 'error' in event && event.error.code === 'ERR_CREDENTIAL_SOURCE')).toBe(
      true,
    );
    expect(asked).toBeLessThan(20);
    expect(server.count).toBe(1);
    isDown = false;
    await clock.advance(31_000);
    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer A2');
  });

  it('that says in our words that it is over for good: so to every caller, asked once in a minute, or after forget()', async () => {
    let asked = 0;
    const provider = exchange({
      subjectToken: () => {
        asked += 1;
        if (asked < 3) throw new HostedMcpError('ERR_REAUTHORIZATION_REQUIRED', 'The user signed out');
        return 'SUBJECT';
      },
    });
    for (let i = 0; i < 5; i++) {
      const error = await errorOf(provider.acquire(TARGET));
      expect(error).toMatchObject({ code: 'ERR_REAUTHORIZATION_REQUIRED', retryable: false });
    }
    expect(asked).toBe(1);
    await clock.advance(60_000);
    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_REAUTHORIZATION_REQUIRED');
    expect(asked).toBe(2);
    await provider.forget?.();
    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer A1');
    expect(server.count).toBe(1);
  });

  it('that never answers is given up with the time of a token request, and its signal ends', async () => {
    const signals: AbortSignal[] = [];
    const provider = exchange({
      subjectToken: ({ signal }: { signal: AbortSignal }) => {
        signals.push(signal);
        return new Promise<string>(() => {});
      },
      refresh: { tokenTimeoutMs: 3_000 },
    });
    const failing = errorOf(provider.acquire(TARGET, { maxWaitMs: 3_100 }));
    await clock.advance(2_900);
    expect(signals[0]?.aborted).toBe(false);
    await clock.advance(200);
    expect(await failing).toMatchObject({
      code: 'ERR_CREDENTIAL_SOURCE',
      reason: 'timeout',
      retryable: true,
    });
    expect(signals[0]?.aborted).toBe(true);
    expect(server.count).toBe(0);
  });

  it('that is slow leaves the token endpoint the rest of the time', async () => {
    const ready = gate();
    server.script.push({ silence: true });
    const provider = exchange({
      subjectToken: async () => {
        await ready.promise;
        return 'SUBJECT';
      },
      refresh: { tokenTimeoutMs: 3_000 },
    });
    const failing = errorOf(provider.acquire(TARGET, { maxWaitMs: 3_100 }));
    await clock.advance(2_000);
    expect(server.count).toBe(0);
    ready.open();
    await clock.advance(900);
    expect(server.count).toBe(1);
    await clock.advance(200);
    expect(await failing).toMatchObject({ code: 'ERR_TOKEN_ENDPOINT', reason: 'timeout' });
  });

  it('that outlasts a lease does not cost the request: a lease is a saving only', async () => {
    const ready = gate();
    let asked = 0;
    const provider = exchange({
      subjectToken: async () => {
        asked += 1;
        await ready.promise;
        return 'SUBJECT';
      },
      store: memoryCredentialStore({ clock }),
      subject: 'user',
    });
    const waiting = provider.acquire(TARGET);
    await clock.advance(9_000);
    ready.open();
    expect(await bearerOf(await waiting)).toBe('Bearer A1');
    expect([asked, server.count]).toEqual([1, 1]);
  });

  it('is told when the provider is closed', async () => {
    const signals: AbortSignal[] = [];
    const provider = exchange({
      subjectToken: ({ signal }: { signal: AbortSignal }) => {
        signals.push(signal);
        return new Promise<string>(() => {});
      },
    });
    const failing = errorOf(provider.acquire(TARGET));
    await clock.settle();
    const closing = provider.close?.({ drainMs: 100 });
    await clock.advance(100);
    await closing;
    expect(signals[0]?.aborted).toBe(true);
    expect((await failing).code).toBe('ERR_CLOSED');
    expect(server.count).toBe(0);
  });

  it('a caller that leaves leaves the others their token', async () => {
    const ready = gate();
    const provider = exchange({
      subjectToken: async () => {
        await ready.promise;
        return 'SUBJECT';
      },
    });
    const leaving = new AbortController();
    const left = errorOf(provider.acquire(TARGET, { signal: leaving.signal }));
    const staying = provider.acquire(TARGET);
    await clock.settle();
    leaving.abort();
    expect((await left).code).toBe('ERR_ABORTED');
    ready.open();
    expect(await bearerOf(await staying)).toBe('Bearer A1');
    expect(server.count).toBe(1);
  });

  it('of the actor is asked as well, and its failure ends the other one', async () => {
    const signals: AbortSignal[] = [];
    const provider = exchange({
      subjectToken: ({ signal }: { signal: AbortSignal }) => {
        signals.push(signal);
        return new Promise<string>(() => {});
      },
      actorToken: async () => '',
      actorTokenType: `${TYPE}jwt`,
    });
    const error = await errorOf(provider.acquire(TARGET, { maxWaitMs: 0 }));
    expect(error.code).toBe('ERR_CREDENTIAL_SOURCE');
    expect(error.message).toContain('actorToken');
    expect(signals[0]?.aborted).toBe(true);
  });
});

describe('answers', () => {
  const body = { access_token: 'A', token_type: 'Bearer', expires_in: 60 };

  it.each<[string, Record<string, unknown>, Record<string, unknown>]>([
    ['an access token', { issued_token_type: `${TYPE}access_token` }, {}],
    ['an access token that is called a JWT', { issued_token_type: `${TYPE}jwt` }, {}],
    ['no type', {}, {}],
    ['no type, empty', { issued_token_type: '' }, {}],
    ['no type at all', { token_type: undefined }, {}],
    ['the type asked for', { issued_token_type: 'urn:x:kind' }, { requestedTokenType: 'urn:x:kind' }],
    [
      'a JWT where an access token was asked for',
      { issued_token_type: `${TYPE}jwt` },
      { requestedTokenType: `${TYPE}access_token` },
    ],
  ])('%s is used', async (_, more, options) => {
    server.script.push({ body: { ...body, ...more } });
    expect(await bearerOf(await exchange(options).acquire(TARGET))).toBe('Bearer A');
  });

  it.each<[string, Record<string, unknown>, Record<string, unknown>]>([
    ['a refresh token', { issued_token_type: `${TYPE}refresh_token` }, {}],
    ['an ID token', { issued_token_type: `${TYPE}id_token` }, {}],
    ['an assertion for another server', { issued_token_type: `${TYPE}id-jag`, token_type: 'N_A' }, {}],
    ['a token that is none by its token_type', { token_type: 'N_A' }, {}],
    ['a type that is no text', { issued_token_type: 7 }, {}],
    [
      'another type than the one asked for',
      { issued_token_type: `${TYPE}access_token` },
      { requestedTokenType: 'urn:x:kind' },
    ],
  ])('%s is not used', async (_, more, options) => {
    server.script.push({ body: { ...body, ...more } });
    const error = await errorOf(exchange(options).acquire(TARGET, { maxWaitMs: 0 }));
    expect(error).toMatchObject({ code: 'ERR_TOKEN_ENDPOINT', reason: 'unusable_reply', retryable: true });
    expect(server.count).toBe(1);
  });

  it.each<[string, Reply, Record<string, unknown>]>([
    [
      'invalid_grant',
      { status: 400, body: { error: 'invalid_grant' } },
      { code: 'ERR_CREDENTIAL_REJECTED', reason: 'invalid_grant', status: 400, retryable: false },
    ],
    [
      'invalid_target',
      { status: 400, body: { error: 'invalid_target' } },
      { code: 'ERR_CREDENTIAL_REJECTED', reason: 'invalid_target' },
    ],
    [
      'invalid_client',
      { status: 401, body: { error: 'invalid_client' } },
      { code: 'ERR_CREDENTIAL_REJECTED', reason: 'invalid_client' },
    ],
    [
      'unsupported_grant_type',
      { status: 400, body: { error: 'unsupported_grant_type' } },
      { code: 'ERR_CREDENTIAL_REJECTED', reason: 'unsupported_grant_type' },
    ],
    [
      'an error in a 200',
      { body: { error: 'invalid_request' } },
      { code: 'ERR_CREDENTIAL_REJECTED', reason: 'invalid_request' },
    ],
    [
      'a 503 page',
      { status: 503, body: '<html>' },
      { code: 'ERR_TOKEN_ENDPOINT', status: 503, retryable: true },
    ],
    [
      'a 429',
      { status: 429, headers: { 'retry-after': '7' }, body: { error: 'slow_down' } },
      { code: 'ERR_TOKEN_ENDPOINT', status: 429, retryAfterMs: 7_000 },
    ],
    ['a page', { body: '<html>' }, { code: 'ERR_TOKEN_ENDPOINT', retryable: true }],
    ['a body without end', { body: 'x'.repeat(70_000) }, { code: 'ERR_TOKEN_ENDPOINT', reason: 'too-large' }],
    ['a cut', { cut: true }, { code: 'ERR_TOKEN_ENDPOINT', reason: 'network', retryable: true }],
  ])('%s costs one token request', async (_, reply, expected) => {
    server.script.push(reply);
    let asked = 0;
    const provider = exchange({
      subjectToken: () => {
        asked += 1;
        return 'SUBJECT';
      },
    });
    for (let i = 0; i < 3; i++) {
      expect(await errorOf(provider.acquire(TARGET, { maxWaitMs: 0 }))).toMatchObject(expected);
    }
    expect(server.count).toBe(1);
    expect(asked).toBe(1);
  });

  it('a refused subject token is followed by another one a minute later', async () => {
    let asked = 0;
    server.script.push({ status: 400, body: { error: 'invalid_grant' } });
    const provider = exchange({ subjectToken: () => `S${++asked}` });
    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_CREDENTIAL_REJECTED');
    await clock.advance(59_000);
    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_CREDENTIAL_REJECTED');
    await clock.advance(1_000);
    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer A1');
    expect(server.requests.map((r) => r.form.get('subject_token'))).toEqual(['S1', 'S2']);
  });
});

describe('a store', () => {
  it('is shared: one replica asks, the other takes its token; nothing but the token stands in it', async () => {
    const store = memoryCredentialStore({ clock });
    server.script.push({
      body: { access_token: 'A', token_type: 'Bearer', expires_in: 600, refresh_token: 'CANARY-R' },
    });
    const options = { store, subject: 'user', subjectToken: () => 'CANARY-S' };
    const first = exchange(options);
    expect(await bearerOf(await first.acquire(TARGET))).toBe('Bearer A');
    expect(await bearerOf(await exchange(options).acquire(TARGET))).toBe('Bearer A');
    expect(server.count).toBe(1);
    const record = await store.read(first.id);
    expect(JSON.parse(record?.data ?? '')).toMatchObject({ access: 'A' });
    expect(record?.data).not.toContain('CANARY');
    expect(record?.expiresAtMs).toBe(clock.now() + 600_000);
  });

  it('that is down is no obstacle', async () => {
    const down = () => Promise.reject(new Error('down'));
    const store: CredentialStore = { read: down, compareAndSet: down, lease: down };
    expect(await bearerOf(await exchange({ store, subject: 'user' }).acquire(TARGET))).toBe('Bearer A1');
  });

  it('keeps apart what is asked for with other words', () => {
    const idOf = (more: object) => exchange({ subject: 'user', ...more }).id;
    const ids = [
      idOf({}),
      idOf({ audience: 'a' }),
      idOf({ audience: 'b' }),
      idOf({ requestedTokenType: `${TYPE}jwt` }),
      idOf({ subjectTokenType: `${TYPE}jwt` }),
      idOf({ actorToken: 'a', actorTokenType: `${TYPE}jwt` }),
      idOf({ subject: 'other' }),
      clientCredentialsGrant({
        tokenEndpoint: server.tokenEndpoint,
        clientId: 'client',
        clientSecret: 's',
        subject: 'user',
      }).id,
    ];
    expect(new Set(ids).size).toBe(ids.length);
    expect(idOf({ subjectToken: 'another' })).toBe(ids[0]);
    expect(ids.every((id) => /^[0-9a-f]{32}$/.test(id))).toBe(true);
  });
});

describe('secrets', () => {
  const echo = 'CANARY-S CANARY-actor CANARY-secret access_token=CANARY-A subject_token=CANARY-S';
  it.each<[string, Reply]>([
    ['a token', { body: { access_token: 'CANARY-A', refresh_token: 'CANARY-R', token_type: 'Bearer' } }],
    ['a token of another type', { body: { access_token: 'CANARY-A', issued_token_type: 'CANARY-type' } }],
    [
      'invalid_grant with an echo',
      { status: 400, body: { error: 'invalid_grant', error_description: echo } },
    ],
    ['an echo as error', { status: 400, body: { error: echo } }],
    ['503 with an echo', { status: 503, body: echo }],
    ['a page with an echo', { body: echo }],
  ])('%s: in no error, event, provider or credential', async (_, reply) => {
    const seen: unknown[] = [];
    for (const subjectToken of ['CANARY-S', async () => 'CANARY-S']) {
      server.script.push(reply);
      const provider = exchange({
        subjectToken,
        actorToken: () => 'CANARY-actor',
        actorTokenType: `${TYPE}jwt`,
        clientSecret: 'CANARY-secret',
      });
      provider.onEvent?.((event) => seen.push(event));
      seen.push(provider);
      await provider.acquire(TARGET, { maxWaitMs: 0 }).then(
        (credential) => seen.push(credential),
        (error) => seen.push(error, HostedMcpError.from(error)?.serverText),
      );
    }
    expect(seen.length).toBeGreaterThan(5);
    for (const thing of seen) expect(everythingOf(thing)).not.toContain('CANARY');
  });
});

describe('options', () => {
  const base = {
    tokenEndpoint: 'https://as.example/token',
    clientId: 'c',
    subjectToken: 's',
    subjectTokenType: `${TYPE}jwt`,
  };
  it.each<[Record<string, unknown>, RegExp]>([
    [{ subjectToken: undefined }, /^subjectToken must be/],
    [{ subjectToken: '' }, /^subjectToken must be/],
    [{ subjectToken: 'a b' }, /^subjectToken must be/],
    [{ subjectToken: 7 }, /^subjectToken must be/],
    [{ subjectToken: { token: 's' } }, /^subjectToken must be/],
    [{ subjectTokenType: undefined }, /^subjectTokenType must be/],
    [{ subjectTokenType: 'jwt' }, /^subjectTokenType must be/],
    [{ actorToken: 'a' }, /actorToken and actorTokenType belong together/],
    [{ actorTokenType: `${TYPE}jwt` }, /actorToken and actorTokenType belong together/],
    [{ actorToken: 'a', actorTokenType: 'jwt' }, /^actorTokenType must be/],
    [{ actorToken: '', actorTokenType: `${TYPE}jwt` }, /^actorToken must be/],
    [{ requestedTokenType: 'jwt' }, /^requestedTokenType must be/],
    [{ requestedTokenType: `${TYPE}id-jag` }, /enterpriseManagedGrant/],
    [{ requestedTokenType: `${TYPE}refresh_token` }, /^requestedTokenType must be/],
    [{ audience: '' }, /^audience must be/],
    [{ audience: ['a'] }, /^audience must be/],
    [{ clientId: undefined }, /^clientId is required/],
    [{ clientId: '' }, /^clientId is required/],
    [{ issuer: 'https://as.example' }, /exactly one of issuer, tokenEndpoint and discover/],
    [{ tokenEndpoint: 'http://as.example/token' }, /^tokenEndpoint must be an https/],
    [{ clientSecret: 's', privateKey: 'k' }, /exclude each other/],
    [{ scope: 'a"b' }, /^scope/],
    [{ resource: 'x#y' }, /^resource/],
    [{ store: memoryCredentialStore() }, /^subject is required/],
    [{ refresh: { tokenTimeoutMs: 0 } }, /^refresh\.tokenTimeoutMs/],
  ])('refuses %j', (more, message) => {
    let error: unknown;
    try {
      tokenExchangeGrant({ ...base, ...more } as never);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(TypeError);
    expect((error as TypeError).message).toMatch(message);
  });

  it('asks nobody before the first acquire', async () => {
    let asked = 0;
    exchange({ subjectToken: () => `S${++asked}` });
    await clock.advance(1_000_000);
    expect(asked).toBe(0);
    expect(server.paths).toEqual([]);
  });
});

it('a client of a hosted server lives on exchanged tokens: two lives of a token, two exchanges, each call run once', async () => {
  const hosted = await startHostedServer({ clock, tokenLifetimeMs: 60_000 });
  open.push(() => hosted.close());
  const grant = (lifetimeMs: number) => ({
    body: {
      access_token: hosted.issueToken({ lifetimeMs }),
      issued_token_type: `${TYPE}access_token`,
      token_type: 'Bearer',
      expires_in: 60,
    },
  });
  server.script.push(grant(60_000), grant(600_000));
  let asked = 0;
  const credentials = exchange({ subjectToken: async () => `S${++asked}`, refresh: { background: 'never' } });
  const client = new HostedClient(
    { name: 'test', version: '1.0.0' },
    { url: hosted.url, credentials, clock },
  );
  open.push(() => client.close());
  await client.connect();
  await client.callTool({ name: 'echo', arguments: { text: 'one' } });
  await clock.advance(61_000);
  await Promise.all(
    ['two', 'three', 'four'].map((text) => client.callTool({ name: 'echo', arguments: { text } })),
  );
  expect(hosted.counts.executions.echo).toBe(4);
  expect(server.requests.map((r) => [r.form.get('subject_token'), r.form.get('resource')])).toEqual([
    ['S1', hosted.url],
    ['S2', hosted.url],
  ]);
});
