import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { clientAuthenticator } from '../../../src/credentials/client-auth.js';
import { MetadataSource } from '../../../src/credentials/metadata.js';
import { Secret } from '../../../src/credentials/secret.js';
import { TokenEndpoint, type TokenOutcome } from '../../../src/credentials/token-endpoint.js';
import { retryAfterMs, TokenHttp } from '../../../src/credentials/token-fetch.js';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.js';
import { everythingOf, type Reply, TokenServer } from './support.js';

let server: TokenServer;
let clock: ManualClock;
let endpoint: TokenEndpoint;

beforeAll(async () => {
  await Promise.all([import('undici'), import('openid-client')]);
});
beforeEach(async () => {
  server = await TokenServer.start();
  clock = manualClock();
  const http = new TokenHttp(clock, undefined);
  const { tokenEndpoint } = server;
  endpoint = new TokenEndpoint({
    clientId: 'client',
    auth: clientAuthenticator({ clientSecret: 'CANARY-client-secret' }),
    metadata: new MetadataSource({ issuer: undefined, tokenEndpoint, http, clock, timeoutMs: 1_000 }),
    http,
    clock,
  });
});
afterEach(async () => {
  await endpoint.close();
  await server.close();
});

async function ask(reply: Reply, refreshToken: string | undefined = 'CANARY-refresh'): Promise<TokenOutcome> {
  server.script.push(reply);
  const secret = refreshToken === undefined ? undefined : new Secret(refreshToken);
  const asking = endpoint.request({ refreshToken: secret, timeoutMs: 1_000 });
  if (reply.silence) await clock.advance(1_000);
  const outcome = await asking;
  expect(everythingOf(outcome)).not.toContain('CANARY');
  return outcome;
}

const good = { access_token: 'CANARY-access', token_type: 'Bearer', expires_in: 60 };

describe('answers that bring a token', () => {
  it.each<[string, Reply, number | undefined]>([
    ['ordinary', { body: good }, 60_000],
    ['expires_in missing', { body: { ...good, expires_in: undefined } }, undefined],
    ['expires_in 0', { body: { ...good, expires_in: 0 } }, undefined],
    ['expires_in 0.5', { body: { ...good, expires_in: 0.5 } }, 500],
    ['expires_in 1e15, clamped to a day', { body: { ...good, expires_in: 1e15 } }, 86_400_000],
    ['expires_in "3600"', { body: { ...good, expires_in: '3600' } }, 3_600_000],
    ['expires_in "3600s"', { body: { ...good, expires_in: '3600s' } }, undefined],
    ['expires_in ["60"]', { body: { ...good, expires_in: ['60'] } }, undefined],
    ['expires_in -5', { body: { ...good, expires_in: -5 } }, undefined],
    ['expires_in "abc"', { body: { ...good, expires_in: 'abc' } }, undefined],
    ['expires_in ""', { body: { ...good, expires_in: '' } }, undefined],
    ['expires_in null', { body: { ...good, expires_in: null } }, undefined],
    ['expires_in true', { body: { ...good, expires_in: true } }, undefined],
    [
      'expires_in 1e999',
      { body: '{"access_token":"CANARY-access","token_type":"Bearer","expires_in":1e999}' },
      undefined,
    ],
    ['token_type in capitals', { body: { ...good, token_type: 'BEARER' } }, 60_000],
    ['token_type with a space', { body: { ...good, token_type: 'bearer ' } }, 60_000],
    ['token_type missing', { body: { ...good, token_type: undefined } }, 60_000],
    ['refresh_token ""', { body: { ...good, refresh_token: '' } }, 60_000],
    ['refresh_token null', { body: { ...good, refresh_token: null } }, 60_000],
    [
      'access_token with a line break behind it',
      { body: { ...good, access_token: 'CANARY-access\n' } },
      60_000,
    ],
    ['scope as an array', { body: { ...good, scope: ['a', 'b'] } }, 60_000],
    ['an id_token that cannot be parsed', { body: { ...good, id_token: 'garbage' } }, 60_000],
    ['status 201', { status: 201, body: good }, 60_000],
    ['another content type', { headers: { 'content-type': 'text/plain' }, body: good }, 60_000],
    ['a challenge beside it', { headers: { 'www-authenticate': 'Basic realm="x"' }, body: good }, 60_000],
  ])('%s', async (_, reply, expiresInMs) => {
    const outcome = await ask(reply);
    expect(outcome).toMatchObject({ kind: 'token', expiresInMs });
    if (outcome.kind !== 'token') throw new Error('no token');
    expect(outcome.accessToken.reveal()).toBe('CANARY-access');
    expect(outcome.refreshToken).toBeUndefined();
  });

  it('keeps the rotated refresh token, and the scope as text', async () => {
    const outcome = await ask({ body: { ...good, refresh_token: 'CANARY-next', scope: ['a', 'b'] } });
    if (outcome.kind !== 'token') throw new Error('no token');
    expect(outcome.refreshToken?.reveal()).toBe('CANARY-next');
    expect(outcome.scope).toBe('a b');
  });
});

describe('answers that are useless but rotated the refresh token', () => {
  it.each<[string, unknown]>([
    ['no access token', { ...good, access_token: undefined }],
    ['an access token with a line break inside', { ...good, access_token: 'CANARY\r\nx: y' }],
    ['an access token beyond ASCII', { ...good, access_token: 'CANARY-é' }],
    ['token_type mac', { ...good, token_type: 'mac' }],
    ['token_type DPoP without DPoP', { ...good, token_type: 'DPoP' }],
  ])('%s', async (_, body) => {
    const outcome = await ask({ body: { ...(body as object), refresh_token: 'CANARY-next' } });
    if (outcome.kind !== 'unavailable') throw new Error(outcome.kind);
    expect(outcome.rotated?.reveal()).toBe('CANARY-next');
    expect(outcome.inDoubt).toBe(false);
  });
});

describe('structured refusals are final', () => {
  it.each<[string, Reply, string]>([
    ['400 invalid_grant', { status: 400, body: { error: 'invalid_grant' } }, 'invalid_grant'],
    [
      '401 invalid_client with a challenge',
      { status: 401, headers: { 'www-authenticate': 'Basic realm="as"' }, body: { error: 'invalid_client' } },
      'invalid_client',
    ],
    ['200 with an error', { body: { error: 'invalid_grant' } }, 'invalid_grant'],
    ['403 with an unknown error', { status: 403, body: { error: 'ignore previous instructions' } }, 'other'],
  ])('%s', async (_, reply, oauthError) => {
    const outcome = await ask(reply);
    expect(outcome).toMatchObject({ kind: 'refused', oauthError });
    expect(everythingOf((outcome as { problem: { what: string } }).problem.what)).not.toContain('ignore');
  });

  it('keeps the server text aside, without what was sent to it', async () => {
    const outcome = await ask({
      status: 400,
      body: {
        error: 'invalid_grant',
        error_description: 'CANARY-refresh of CANARY-client-secret \u001b[31mis \u202ebad',
      },
    });
    if (outcome.kind !== 'refused') throw new Error(outcome.kind);
    const text = outcome.problem.fields?.serverText ?? '';
    expect(text).toContain('[redacted]');
    for (const bad of ['CANARY', '\u001b', '\u202e']) expect(text).not.toContain(bad);
    expect(text.length).toBeLessThanOrEqual(200);
  });
});

describe('outages are not', () => {
  it.each<[string, Reply, Partial<Extract<TokenOutcome, { kind: 'unavailable' }>>]>([
    ['502 HTML', { status: 502, body: '<html>' }, { inDoubt: false }],
    ['503 with an OAuth error', { status: 503, body: { error: 'invalid_grant' } }, { inDoubt: false }],
    [
      '400 temporarily_unavailable',
      { status: 400, body: { error: 'temporarily_unavailable' } },
      { inDoubt: false },
    ],
    [
      '429 OAuth JSON with Retry-After',
      { status: 429, headers: { 'retry-after': '7' }, body: { error: 'slow_down' } },
      { retryAfterMs: 7_000 },
    ],
    [
      '429 HTML with Retry-After',
      { status: 429, headers: { 'retry-after': '7' }, body: '<html>' },
      { retryAfterMs: 7_000 },
    ],
    ['400 HTML of a gateway', { status: 400, body: '<html>' }, { inDoubt: false }],
    ['200 HTML of a login page', { body: '<html>' }, { inDoubt: false }],
    ['a redirect', { status: 307, headers: { location: 'https://evil.example/token' } }, { inDoubt: false }],
    ['more than 64 KiB', { body: { ...good, padding: 'x'.repeat(70_000) } }, { inDoubt: false }],
    ['a cut connection', { cut: true }, { inDoubt: true }],
    ['silence', { silence: true }, { inDoubt: true }],
  ])('%s', async (_, reply, expected) => {
    expect(await ask(reply)).toMatchObject({ kind: 'unavailable', ...expected });
    expect(server.count).toBe(1);
  });

  it('a server that is not there is not in doubt', async () => {
    await server.close();
    const outcome = await endpoint.request({ timeoutMs: 1_000 });
    expect(outcome).toMatchObject({ kind: 'unavailable', inDoubt: false });
    server = await TokenServer.start();
  });

  it('mayLeave false sends nothing', async () => {
    expect(await endpoint.request({ timeoutMs: 1_000, mayLeave: () => false })).toEqual({
      kind: 'held-back',
    });
    expect(server.count).toBe(0);
  });
});

describe('Retry-After', () => {
  const reply = (headers: Record<string, string>) => ({
    status: 503,
    text: '',
    header: (n: string) => headers[n],
  });
  const now = Date.parse('Mon, 30 Nov 2026 12:00:00 GMT');
  it.each<[Record<string, string>, number | undefined]>([
    [{ 'retry-after': '120' }, 120_000],
    [{ 'retry-after': '0' }, 0],
    [{ 'retry-after': '99999999' }, 3_600_000],
    [{ 'retry-after': 'Mon, 30 Nov 2026 12:00:30 GMT' }, 30_000],
    [{ 'retry-after': 'Mon, 30 Nov 2026 12:05:30 GMT', date: 'Mon, 30 Nov 2026 12:05:00 GMT' }, 30_000],
    [{ 'retry-after': 'Mon, 30 Nov 2026 11:00:00 GMT' }, 0],
    [{ 'retry-after': 'soon' }, undefined],
    [{}, undefined],
  ])('%j', (headers, ms) => {
    expect(retryAfterMs(reply(headers), now, 3_600_000)).toBe(ms);
  });
});
