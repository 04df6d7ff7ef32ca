import { createHash } from 'node:crypto';
import { calculateJwkThumbprint, decodeJwt } from 'jose';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { clientAuthenticator } from '../../../src/credentials/client-auth.js';
import { Dpop } from '../../../src/credentials/dpop.js';
import { Secret } from '../../../src/credentials/secret.js';
import {
  TokenEndpoint,
  type TokenOutcome,
  type TokenRequest,
} from '../../../src/credentials/token-endpoint.js';
import { TokenHttp } from '../../../src/credentials/token-fetch.js';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.js';
import { type Asked, ProvingTokenServer, rsaPem, wantsNonce, watchesDate } from './dpop-support.js';
import { everythingOf, skewedClock } from './support.js';

let server: ProvingTokenServer;
let clock: ManualClock & { skewMs: number };
let dpop: Dpop;
let endpoint: TokenEndpoint;
let issParameterSupported: boolean | undefined;

beforeAll(async () => {
  await Promise.all([import('undici'), import('openid-client'), import('jose')]);
});
beforeEach(async () => {
  // The client's clock; the server's goes right.
  clock = skewedClock();
  server = await ProvingTokenServer.start(manualClock(clock.now()));
  dpop = new Dpop(clock);
  issParameterSupported = undefined;
  endpoint = makeEndpoint({ clientSecret: 'CANARY-client-secret' }, dpop);
});
afterEach(async () => {
  await endpoint.close();
  await server.close();
});

function makeEndpoint(auth: Parameters<typeof clientAuthenticator>[0], bound: Dpop | undefined) {
  const { tokenEndpoint } = server;
  return new TokenEndpoint({
    clientId: 'client',
    auth: clientAuthenticator(auth),
    metadata: { get: async () => ({ issuer: 'https://as.example', tokenEndpoint, issParameterSupported }) },
    http: new TokenHttp(clock, undefined),
    clock,
    dpop: bound,
  });
}

async function ask(request: Partial<TokenRequest> = {}): Promise<TokenOutcome> {
  const outcome = await endpoint.request({ timeoutMs: 5_000, ...request });
  const said = everythingOf(outcome);
  expect(said).not.toContain('CANARY');
  for (const { proof } of server.asked) if (proof !== undefined) expect(said).not.toContain(proof);
  const { d } = dpop.key?.reveal() ?? {};
  if (d !== undefined) expect(said).not.toContain(d);
  return outcome;
}

const jtis = () => server.asked.map(({ claims }) => claims.jti);

describe('the proof of a token request', () => {
  it('is for the token endpoint, and the token answers to its key', async () => {
    const outcome = await ask({ refreshToken: new Secret('CANARY-refresh') });
    if (outcome.kind !== 'token') throw new Error(outcome.kind);
    expect(server.asked).toHaveLength(1);
    const { claims } = server.asked[0] as Asked;
    expect(claims).toEqual({
      jti: expect.any(String),
      htm: 'POST',
      htu: server.tokenEndpoint,
      iat: Math.floor(clock.now() / 1000),
    });
    const { d: _, ...publicJwk } = outcome.dpop?.reveal() ?? {};
    const { cnf } = decodeJwt(outcome.accessToken.reveal()) as { cnf: { jkt: string } };
    expect(cnf.jkt).toBe(await calculateJwkThumbprint(publicJwk as never));
    expect(outcome.dpop).toBe(dpop.key);
  });

  it('is another each time, with the same key', async () => {
    for (let i = 0; i < 5; i++) expect((await ask()).kind).toBe('token');
    expect(new Set(jtis()).size).toBe(5);
    expect(new Set(server.asked.map(({ jkt }) => jkt)).size).toBe(1);
  });

  it('is not there where nobody asked for bound tokens', async () => {
    endpoint = makeEndpoint({ clientSecret: 'CANARY-client-secret' }, undefined);
    server.judge = async (asked) => ({ body: await server.token(asked, { token_type: 'Bearer' }) });
    const outcome = await ask();
    expect(outcome).toMatchObject({ kind: 'token' });
    expect(outcome).not.toHaveProperty('dpop');
    expect(server.asked[0]?.proof).toBeUndefined();
  });
});

describe('a nonce', () => {
  it('that is asked for costs one more request, once', async () => {
    server.judge = wantsNonce(() => 'n-1');
    for (let i = 0; i < 3; i++)
      expect((await ask({ refreshToken: new Secret(`CANARY-R${i}`) })).kind).toBe('token');
    expect(server.asked.map(({ claims }) => claims.nonce)).toEqual([undefined, 'n-1', 'n-1', 'n-1']);
    expect(server.asked.map(({ form }) => form.get('refresh_token'))).toEqual([
      'CANARY-R0',
      'CANARY-R0',
      'CANARY-R1',
      'CANARY-R2',
    ]);
    expect(new Set(jtis()).size).toBe(4);
  });

  it('that is renewed in good time by each answer costs none', async () => {
    let round = 0;
    server.judge = async (asked) => {
      const refusal = await wantsNonce(() => `n-${round}`)(asked);
      if (refusal !== undefined) return refusal;
      round += 1;
      return { headers: { 'dpop-nonce': `n-${round}` }, body: await server.token(asked) };
    };
    for (let i = 0; i < 4; i++) expect((await ask()).kind).toBe('token');
    expect(server.asked).toHaveLength(5);
  });

  it.each<[string, Record<string, string>, number]>([
    ['another one each time', { 'dpop-nonce': 'x' }, 2],
    ['none at all', {}, 1],
  ])('that is asked for ever and ever (%s): a bounded number of requests', async (_, headers, requests) => {
    let count = 0;
    server.judge = () => {
      count += 1;
      const nonce = headers['dpop-nonce'];
      return {
        status: 400,
        headers: nonce === undefined ? {} : { 'dpop-nonce': `${nonce}-${count}` },
        body: { error: 'use_dpop_nonce' },
      };
    };
    expect(await ask()).toMatchObject({ kind: 'refused', oauthError: 'use_dpop_nonce' });
    expect(server.asked).toHaveLength(requests);
  });

  it.each([401, 403])('is taken from a refusal with status %i, too', async (status) => {
    server.judge = ({ claims }) =>
      claims.nonce === 'n'
        ? undefined
        : { status, headers: { 'dpop-nonce': 'n' }, body: { error: 'use_dpop_nonce' } };
    expect((await ask()).kind).toBe('token');
    expect(server.asked).toHaveLength(2);
  });

  it('does not make an outage, or another refusal, into something to repeat', async () => {
    for (const reply of [
      { status: 503, headers: { 'dpop-nonce': 'n' }, body: { error: 'use_dpop_nonce' } },
      { status: 400, headers: { 'dpop-nonce': 'n' }, body: { error: 'invalid_grant' } },
    ]) {
      server.asked.length = 0;
      server.judge = () => reply;
      expect((await ask()).kind).not.toBe('token');
      expect(server.asked).toHaveLength(1);
    }
  });

  it('that is asked for where tokens are not bound is a refusal', async () => {
    endpoint = makeEndpoint({ clientSecret: 'CANARY-client-secret' }, undefined);
    server.judge = wantsNonce(() => 'n');
    expect((await ask()).kind).toBe('refused');
    expect(server.asked).toHaveLength(1);
  });

  it('has the client prove itself anew: an assertion is good once', async () => {
    endpoint = makeEndpoint({ privateKey: rsaPem() }, dpop);
    server.judge = wantsNonce(() => 'n');
    expect((await ask()).kind).toBe('token');
    const assertions = server.asked.map(({ form }) => decodeJwt(form.get('client_assertion') ?? '').jti);
    expect(new Set(assertions).size).toBe(2);
  });

  it('does not let the second request leave where the lease does not cover it', async () => {
    server.judge = wantsNonce(() => 'n');
    let looks = 0;
    const outcome = await ask({ mayLeave: () => ++looks === 1 });
    expect(outcome).toEqual({ kind: 'held-back' });
    expect([looks, server.asked.length]).toEqual([2, 1]);
  });

  it('does not give both requests the time of one each', async () => {
    server.judge = async (asked) => {
      await clock.advance(3_000);
      return wantsNonce(() => 'n')(asked);
    };
    const outcome = await ask({ timeoutMs: 5_000 });
    expect(outcome).toMatchObject({ kind: 'unavailable', inDoubt: true });
    expect(clock.monotonic()).toBeLessThan(7_000);
    expect(server.asked).toHaveLength(2);
  });
});

describe('the date of a proof', () => {
  it.each([-600_000, 600_000])('is corrected by the server where ours is %i ms off', async (skewMs) => {
    clock.skewMs = skewMs;
    server.judge = watchesDate(manualClock(clock.now() - skewMs), 5_000);
    expect((await ask()).kind).toBe('token');
    expect((await ask()).kind).toBe('token');
    expect(server.asked).toHaveLength(3);
  });

  it('is not tried again where the clocks agree', async () => {
    server.judge = () => ({ status: 400, body: { error: 'invalid_dpop_proof' } });
    expect(await ask()).toMatchObject({ kind: 'refused', oauthError: 'invalid_dpop_proof' });
    expect(server.asked).toHaveLength(1);
  });

  it('and a nonce may both be wanting', async () => {
    clock.skewMs = 600_000;
    const inTime = watchesDate(manualClock(clock.now() - 600_000), 5_000);
    server.judge = async (asked) => (await wantsNonce(() => 'n')(asked)) ?? (await inTime(asked));
    expect((await ask()).kind).toBe('token');
    expect(server.asked).toHaveLength(3);
  });

  it('that is refused for ever costs two requests', async () => {
    clock.skewMs = 600_000;
    server.judge = () => ({ status: 400, body: { error: 'invalid_dpop_proof' } });
    expect((await ask()).kind).toBe('refused');
    expect(server.asked).toHaveLength(2);
  });
});

describe('the type of the token', () => {
  it.each(['DPoP', 'dpop', 'DPOP '])('%j is taken', async (token_type) => {
    server.judge = async (asked) => ({ body: await server.token(asked, { token_type }) });
    expect((await ask()).kind).toBe('token');
  });

  it.each(['Bearer', 'bearer', '', null, undefined])(
    '%j is a downgrade, and names the server',
    async (token_type) => {
      server.judge = async (asked) => ({
        body: await server.token(asked, { token_type, refresh_token: 'CANARY-next' }),
      });
      const outcome = await ask({ refreshToken: new Secret('CANARY-R0') });
      if (outcome.kind !== 'refused') throw new Error(outcome.kind);
      expect(outcome.problem.fields?.reason).toBe('dpop_downgrade');
      expect(outcome.problem.what).toContain(new URL(server.tokenEndpoint).host);
      expect(outcome.rotated?.reveal()).toBe('CANARY-next');
      expect(server.asked).toHaveLength(1);
    },
  );

  it('of another kind is of no use', async () => {
    server.judge = async (asked) => ({ body: await server.token(asked, { token_type: 'mac' }) });
    expect((await ask()).kind).toBe('unavailable');
  });
});

describe('a code', () => {
  const verifier = 'CANARY-verifier-of-43-characters-or-more-than-that';
  const callback = (query: string) => new URL(`http://127.0.0.1:4711/callback${query}`);
  const exchange = (query: string, more: Partial<TokenRequest> = {}) =>
    ask({
      code: { callback: callback(query), verifier: new Secret(verifier), state: 'CANARY-state' },
      scope: 'mcp',
      resource: 'https://mcp.example/mcp',
      ...more,
    });

  it('is exchanged with its verifier, for the address it was sent to', async () => {
    server.judge = async (asked) => ({
      body: await server.token(asked, { refresh_token: 'CANARY-R1', id_token: 'CANARY-garbage' }),
    });
    const outcome = await exchange('?code=CANARY-code&state=CANARY-state');
    if (outcome.kind !== 'token') throw new Error(outcome.kind);
    expect(outcome.refreshToken?.reveal()).toBe('CANARY-R1');
    const { form, claims } = server.asked[0] as Asked;
    expect(Object.fromEntries(form)).toEqual({
      grant_type: 'authorization_code',
      code: 'CANARY-code',
      code_verifier: verifier,
      redirect_uri: 'http://127.0.0.1:4711/callback',
      resource: 'https://mcp.example/mcp',
    });
    expect(claims.htu).toBe(server.tokenEndpoint);
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    expect(challenge).toHaveLength(43);
  });

  it('that is refused is not sent again, and stands in no error', async () => {
    for (const reply of [
      {
        status: 400,
        body: { error: 'invalid_grant', error_description: `code CANARY-code verifier ${verifier}` },
      },
      { status: 503, body: `code=CANARY-code&code_verifier=${verifier}` },
    ]) {
      server.asked.length = 0;
      server.judge = () => reply;
      const outcome = await exchange('?code=CANARY-code&state=CANARY-state');
      expect(outcome.kind).not.toBe('token');
      if (!('problem' in outcome)) throw new Error(outcome.kind);
      expect(outcome.problem.fields?.serverText).toContain('[redacted]');
      expect(server.asked).toHaveLength(1);
    }
  });

  it('is sent once more for a nonce alone: it was refused unread', async () => {
    server.judge = wantsNonce(() => 'n');
    expect((await exchange('?code=CANARY-code&state=CANARY-state')).kind).toBe('token');
    expect(server.asked.map(({ form }) => form.get('code'))).toEqual(['CANARY-code', 'CANARY-code']);
  });

  it.each<[string, string, string]>([
    ['of another request', '?code=CANARY-code&state=CANARY-other', 'authorization_response'],
    ['without a state', '?code=CANARY-code', 'authorization_response'],
    ['that is none', '?state=CANARY-state', 'authorization_response'],
    [
      'of another issuer',
      '?code=CANARY-code&state=CANARY-state&iss=https%3A%2F%2Fevil.example',
      'authorization_response',
    ],
    ['that was denied', '?error=access_denied&state=CANARY-state', 'access_denied'],
    [
      'that an error of no standard took the place of',
      '?error=CANARY&state=CANARY-state',
      'authorization_response',
    ],
  ])('%s never leaves', async (_, query, reason) => {
    expect(await exchange(query)).toMatchObject({
      kind: 'refused',
      problem: { code: 'ERR_CREDENTIAL_REJECTED', fields: { reason } },
    });
    expect(server.asked).toHaveLength(0);
  });

  it('without an issuer never leaves where the server says that it names itself (RFC 9207)', async () => {
    issParameterSupported = true;
    const query = '?code=CANARY-code&state=CANARY-state';
    expect((await exchange(query)).kind).toBe('refused');
    expect(server.asked).toHaveLength(0);
    expect((await exchange(`${query}&iss=https%3A%2F%2Fas.example`)).kind).toBe('token');
  });
});
