/** Enterprise-managed authorization over two authorization servers on loopback: the company's and the MCP server's. */
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { HostedClient } from '../../../src/client.js';
import {
  type CredentialProvider,
  enterpriseManagedGrant,
  memoryCredentialStore,
} from '../../../src/credentials/index.js';
import { HostedMcpError } from '../../../src/errors.js';
import { startHostedServer } from '../../../src/testing/index.js';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.js';
import { bearerOf, errorOf, everythingOf, type Reply, TARGET, TokenServer } from './support.js';

const TYPE = 'urn:ietf:params:oauth:token-type:';
let company: TokenServer;
let server: TokenServer;
let clock: ManualClock;
const open: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  await Promise.all([import('undici'), import('openid-client')]);
});
beforeEach(async () => {
  company = await TokenServer.start();
  server = await TokenServer.start();
  clock = manualClock();
});
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
  await company.close();
  await server.close();
});

const assertion = (value: string, more: Record<string, unknown> = {}): Reply => ({
  body: {
    access_token: value,
    issued_token_type: `${TYPE}id-jag`,
    token_type: 'N_A',
    expires_in: 300,
    ...more,
  },
});

function managed(
  more: Record<string, unknown> = {},
  provider: Record<string, unknown> = {},
): CredentialProvider {
  const made = enterpriseManagedGrant({
    tokenEndpoint: server.tokenEndpoint,
    audience: 'https://auth.mcp.example',
    clientId: 'client',
    clientSecret: 'client-secret',
    identityProvider: {
      tokenEndpoint: company.tokenEndpoint,
      clientId: 'app',
      clientSecret: 'app-secret',
      subjectToken: 'ID-TOKEN',
      ...provider,
    },
    clock,
    ...more,
  } as Parameters<typeof enterpriseManagedGrant>[0]);
  open.push(async () => made.close?.({ drainMs: 0 }));
  return made;
}

const formOf = (of: TokenServer, at = 0) => Object.fromEntries(of.requests[at]?.form ?? []);
const clientOf = (of: TokenServer) =>
  Buffer.from(of.requests[0]?.headers.authorization?.slice(6) ?? '', 'base64').toString();

describe('what is sent', () => {
  it('the ID token to the company, its assertion to the MCP server, each with the client registered there', async () => {
    company.script.push(assertion('JAG'));
    expect(await bearerOf(await managed({ scope: 'mcp' }).acquire(TARGET))).toBe('Bearer A1');
    expect(formOf(company)).toEqual({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      requested_token_type: `${TYPE}id-jag`,
      subject_token: 'ID-TOKEN',
      subject_token_type: `${TYPE}id_token`,
      audience: 'https://auth.mcp.example',
      resource: TARGET.href,
      scope: 'mcp',
    });
    expect(formOf(server)).toEqual({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion: 'JAG',
      resource: TARGET.href,
      scope: 'mcp',
    });
    expect(clientOf(company)).toBe('app:app-secret');
    expect(clientOf(server)).toBe('client:client-secret');
  });

  it('public clients, a SAML assertion, no resource', async () => {
    company.script.push(assertion('JAG', { token_type: 'Bearer' }));
    const subjectTokenType = `${TYPE}saml2`;
    await managed(
      { clientSecret: undefined, resource: '' },
      { clientSecret: undefined, subjectTokenType },
    ).acquire(TARGET);
    expect(formOf(company)).toEqual({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      client_id: 'app',
      requested_token_type: `${TYPE}id-jag`,
      subject_token: 'ID-TOKEN',
      subject_token_type: subjectTokenType,
      audience: 'https://auth.mcp.example',
    });
    expect(formOf(server)).toEqual({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      client_id: 'client',
      assertion: 'JAG',
    });
  });

  it('as audience the issuer as it names itself, where the app named the issuer', async () => {
    for (const of of [company, server]) {
      of.pages.set('/.well-known/oauth-authorization-server', {
        body: { issuer: of.origin, token_endpoint: of.tokenEndpoint },
      });
    }
    company.script.push(assertion('JAG'));
    const own = { tokenEndpoint: undefined, audience: undefined, issuer: `${server.origin}/` };
    await managed(own, { tokenEndpoint: undefined, issuer: company.origin }).acquire(TARGET);
    expect(formOf(company).audience).toBe(server.origin);
    expect(server.count).toBe(1);
  });
});

it('50 callers cost one request at each server; a renewal asks both anew', async () => {
  let asked = 0;
  company.script.push(assertion('JAG1'), assertion('JAG2'));
  company.delayTurns = 20;
  server.expiresIn = 60;
  const provider = managed(
    { refresh: { background: 'never' } },
    { subjectToken: async () => `ID${++asked}` },
  );
  await Promise.all(Array.from({ length: 50 }, () => provider.acquire(TARGET)));
  expect([company.count, server.count, asked]).toEqual([1, 1, 1]);
  await clock.advance(60_000);
  expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer A2');
  expect(company.requests.map((r) => r.form.get('subject_token'))).toEqual(['ID1', 'ID2']);
  expect(server.requests.map((r) => r.form.get('assertion'))).toEqual(['JAG1', 'JAG2']);
});

describe("the company's server at fault", () => {
  it.each<[string, Reply, Record<string, unknown>]>([
    [
      'an access token',
      { body: { access_token: 'T', issued_token_type: `${TYPE}access_token`, token_type: 'Bearer' } },
      { code: 'ERR_TOKEN_ENDPOINT', reason: 'unusable_reply' },
    ],
    [
      'a token without a type',
      { body: { access_token: 'T', token_type: 'Bearer' } },
      { code: 'ERR_TOKEN_ENDPOINT', reason: 'unusable_reply' },
    ],
    [
      'no token',
      { body: { issued_token_type: `${TYPE}id-jag`, token_type: 'N_A' } },
      { code: 'ERR_TOKEN_ENDPOINT' },
    ],
    [
      'invalid_grant',
      { status: 400, body: { error: 'invalid_grant' } },
      { code: 'ERR_CREDENTIAL_REJECTED', reason: 'invalid_grant' },
    ],
    [
      'access denied by policy',
      { status: 403, body: { error: 'access_denied' } },
      { code: 'ERR_CREDENTIAL_REJECTED', status: 403 },
    ],
    ['503', { status: 503 }, { code: 'ERR_TOKEN_ENDPOINT', status: 503, retryable: true }],
    [
      '429',
      { status: 429, headers: { 'retry-after': '9' } },
      { code: 'ERR_TOKEN_ENDPOINT', retryAfterMs: 9_000 },
    ],
    ['a cut', { cut: true }, { code: 'ERR_TOKEN_ENDPOINT', reason: 'network' }],
  ])('%s: said so, and nothing reaches the other server', async (_, reply, expected) => {
    company.script.push(reply);
    const provider = managed();
    for (let i = 0; i < 3; i++) {
      const error = await errorOf(provider.acquire(TARGET, { maxWaitMs: 0 }));
      expect(error).toMatchObject({ ...expected, executed: false });
      expect(error.message).toMatch(/^Identity provider: the token endpoint /);
    }
    expect([company.count, server.count]).toEqual([1, 0]);
  });

  it('no metadata', async () => {
    const error = await errorOf(
      managed({}, { tokenEndpoint: undefined, issuer: company.origin }).acquire(TARGET),
    );
    expect(error.code).toBe('ERR_DISCOVERY');
    expect(error.message).toMatch(/^Identity provider: the issuer publishes/);
    expect([company.count, server.count]).toEqual([0, 0]);
  });

  it('silence: both steps share the time of one token request', async () => {
    company.script.push({ silence: true });
    const provider = managed({ refresh: { tokenTimeoutMs: 3_000 } });
    const failing = errorOf(provider.acquire(TARGET, { maxWaitMs: 3_100 }));
    await clock.advance(3_100);
    const error = await failing;
    expect(error).toMatchObject({ code: 'ERR_TOKEN_ENDPOINT', reason: 'timeout' });
    expect(error.message).toMatch(/^Identity provider: /);
    expect(server.count).toBe(0);
  });
});

describe("the MCP server's authorization server at fault", () => {
  it.each<[string, Reply, string]>([
    ['invalid_grant', { status: 400, body: { error: 'invalid_grant' } }, 'ERR_CREDENTIAL_REJECTED'],
    ['502', { status: 502, body: '<html>' }, 'ERR_TOKEN_ENDPOINT'],
    [
      'another assertion instead of a token',
      { body: { access_token: 'T', token_type: 'N_A' } },
      'ERR_TOKEN_ENDPOINT',
    ],
  ])('%s: one request at each', async (_, reply, code) => {
    company.script.push(assertion('JAG'));
    server.script.push(reply);
    const provider = managed();
    for (let i = 0; i < 3; i++) {
      const error = await errorOf(provider.acquire(TARGET, { maxWaitMs: 0 }));
      expect(error.code).toBe(code);
      expect(error.message).toMatch(/^The token endpoint /);
    }
    expect([company.count, server.count]).toEqual([1, 1]);
  });
});

it('a user who has to sign in again is told so, and forget() takes the next ID token at once', async () => {
  let isSignedIn = false;
  company.script.push(assertion('JAG'));
  const provider = managed(
    {},
    {
      subjectToken: () => {
        if (!isSignedIn) throw new HostedMcpError('ERR_REAUTHORIZATION_REQUIRED', 'The user has to sign in');
        return 'ID-TOKEN';
      },
    },
  );
  const error = await errorOf(provider.acquire(TARGET));
  expect(error.code).toBe('ERR_REAUTHORIZATION_REQUIRED');
  expect(error.message).toMatch(/^The user has to sign in\./);
  isSignedIn = true;
  await provider.forget?.();
  expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer A1');
});

it('close() ends the wait for the ID token', async () => {
  const signals: AbortSignal[] = [];
  const provider = managed(
    {},
    {
      subjectToken: ({ signal }: { signal: AbortSignal }) => {
        signals.push(signal);
        return new Promise<string>(() => {});
      },
    },
  );
  const failing = errorOf(provider.acquire(TARGET));
  await clock.settle();
  const closing = provider.close?.({ drainMs: 100 });
  await clock.advance(100);
  await closing;
  expect(signals.map((signal) => signal.aborted)).toEqual([true]);
  expect((await failing).code).toBe('ERR_CLOSED');
});

it('neither ID token nor assertion nor secret is stored, or stands in anything that can be printed', async () => {
  const store = memoryCredentialStore({ clock });
  const replies: [Reply, Reply | undefined][] = [
    [assertion('CANARY-JAG', { refresh_token: 'CANARY-R' }), undefined],
    [assertion('CANARY-JAG', { issued_token_type: 'CANARY' }), undefined],
    [{ status: 400, body: { error: 'invalid_grant', error_description: 'CANARY-ID CANARY-app' } }, undefined],
    [assertion('CANARY-JAG'), { status: 400, body: { error: 'CANARY-JAG CANARY-secret' } }],
    [assertion('CANARY-JAG'), { status: 503, body: 'assertion=CANARY-JAG' }],
  ];
  const seen: unknown[] = [];
  for (const [at, [first, second]] of replies.entries()) {
    company.script.push(first);
    server.script.push(second);
    const provider = managed(
      { clientSecret: 'CANARY-secret', store, subject: `user-${at}` },
      { clientSecret: 'CANARY-app', subjectToken: () => 'CANARY-ID' },
    );
    provider.onEvent?.((event) => seen.push(event));
    await provider.acquire(TARGET, { maxWaitMs: 0 }).then(
      (credential) => seen.push(credential),
      (error) => seen.push(error, HostedMcpError.from(error)?.serverText),
    );
    seen.push(provider, (await store.read(provider.id))?.data);
    server.script.length = 0;
  }
  expect(seen.length).toBeGreaterThan(15);
  for (const thing of seen) expect(everythingOf(thing)).not.toContain('CANARY');
});

describe('options', () => {
  const identityProvider = { issuer: 'https://login.example', clientId: 'app', subjectToken: 's' };
  const base = { issuer: 'https://as.example', clientId: 'c', identityProvider };
  const there = (more: object) => ({ identityProvider: { ...identityProvider, ...more } });
  it.each<[Record<string, unknown>, RegExp]>([
    [{ identityProvider: undefined }, /^identityProvider is required/],
    [there({ issuer: undefined }), /^identityProvider: exactly one of/],
    [there({ issuer: 'http://login.example' }), /^identityProvider: issuer must be an https/],
    [there({ clientId: undefined }), /^identityProvider: clientId is required/],
    [there({ clientSecret: '' }), /^identityProvider: clientSecret/],
    [there({ subjectToken: undefined }), /^identityProvider: subjectToken must be/],
    [there({ subjectTokenType: 'id_token' }), /^identityProvider: subjectTokenType must be/],
    [
      { issuer: undefined, tokenEndpoint: 'https://as.example/token' },
      /^audience is required with tokenEndpoint/,
    ],
    [{ audience: '' }, /^audience must be/],
    [{ clientId: undefined }, /^clientId is required/],
    [{ scope: 7 }, /^scope/],
  ])('refuses %j', (more, message) => {
    let error: unknown;
    try {
      enterpriseManagedGrant({ ...base, ...more } as never);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(TypeError);
    expect((error as TypeError).message).toMatch(message);
  });

  it('the id tells companies and apps apart, and no secret', () => {
    const idOf = (more: object) => enterpriseManagedGrant({ ...base, ...more } as never).id;
    const ids = [
      idOf({}),
      idOf(there({ issuer: 'https://other.example' })),
      idOf(there({ clientId: 'b' })),
      idOf({ subject: 'u' }),
    ];
    expect(new Set(ids).size).toBe(4);
    expect(idOf(there({ subjectToken: 'other', clientSecret: 'x' }))).toBe(ids[0]);
  });
});

it('a client reaches a hosted server through both', async () => {
  const hosted = await startHostedServer({ clock });
  open.push(() => hosted.close());
  company.script.push(assertion('JAG'));
  server.script.push({ body: { access_token: hosted.issueToken(), token_type: 'Bearer', expires_in: 3600 } });
  const client = new HostedClient(
    { name: 'test', version: '1.0.0' },
    { url: hosted.url, credentials: managed(), clock },
  );
  open.push(() => client.close());
  await client.connect();
  await client.callTool({ name: 'echo', arguments: { text: 'one' } });
  expect(hosted.counts.executions.echo).toBe(1);
  expect(formOf(company).resource).toBe(hosted.url);
});
