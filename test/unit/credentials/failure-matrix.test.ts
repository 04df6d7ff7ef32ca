/**
 * Every answer of a token endpoint, against every grant in every state: what the caller sees, how many token requests
 * that makes, what the store holds after it, and what the next caller gets.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import {
  type Act,
  AGAIN_MS,
  BACKOFF_MS,
  GRANTS,
  type GrantName,
  HURRY_MS,
  hasStore,
  LIFETIME_MS,
  type Outcome,
  type Played,
  play,
  type Seen,
  STATES,
  type State,
  spendsRefreshToken,
  TIMEOUT_MS,
  withScene,
} from './matrix-support.js';
import { bearerOf, errorOf, TARGET } from './support.js';

const HOUR_MS = 3_600_000;
const ASSUMED_MS = 300_000;
const DAY_MS = 86_400_000;

beforeAll(async () => {
  await Promise.all([import('undici'), import('openid-client')]);
});

/** What an answer means. */
type Meaning =
  | { readonly is: 'token'; readonly lifetimeMs: number; readonly refresh: 'next' | 'kept' }
  | {
      readonly is: 'outage';
      readonly status?: number;
      readonly reason?: string;
      readonly retryAfterMs?: number;
      /** The refresh token that came with it is the one to use from now on. */
      readonly rotated?: boolean;
      /** Nothing arrived at the server. */
      readonly requests?: 0;
    }
  /** `oauthError`: as callers see it. `cure`: what makes it worth another request. */
  | {
      readonly is: 'refusal';
      readonly oauthError: string;
      readonly status: number;
      readonly cure: 'time' | 'configuration';
    }
  /** The request may have been executed: a refresh token is sent again, what spends nothing is not. */
  | { readonly is: 'lost'; readonly reason: 'network' | 'timeout'; readonly status?: number };

type Row = readonly [name: string, act: Act, meaning: Meaning, more?: Partial<Played>];

const good = { access_token: 'ODD', token_type: 'Bearer', expires_in: 3600, refresh_token: 'R-next' };
const HTML = '<html>Sign in</html>';
const next = (lifetimeMs = HOUR_MS): Meaning => ({ is: 'token', lifetimeMs, refresh: 'next' });
const kept: Meaning = { is: 'token', lifetimeMs: HOUR_MS, refresh: 'kept' };
const unusable = (rotated: boolean): Meaning => ({ is: 'outage', reason: 'unusable_reply', rotated });
const outage = (status: number, retryAfterMs?: number): Meaning => ({
  is: 'outage',
  status,
  ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
});
const refusal = (status: number, oauthError: string, cure: 'time' | 'configuration' = 'time'): Meaning => ({
  is: 'refusal',
  oauthError,
  status,
  cure,
});
const oauthError = (status: number, error: unknown, headers: Record<string, string> = {}): Act => ({
  status,
  headers,
  body: { error },
});
const without = (name: keyof typeof good) => {
  const { [name]: _, ...rest } = good;
  return { body: rest };
};
const withField = (name: string, value: unknown): Act => ({ body: { ...good, [name]: value } });

const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const jwt = (claims: object) => `${base64({ alg: 'RS256', typ: 'at+jwt' })}.${base64(claims)}.c2lnbmF0dXJl`;
/** An answer with a JWT whose times are seconds from now, and other fields. */
const jwtAct =
  (claims: { iat?: number; exp?: number }, fields: object = {}): Act['body'] =>
  (nowMs: number) => {
    const at = (seconds: number | undefined) => (seconds === undefined ? undefined : nowMs / 1000 + seconds);
    return { ...good, access_token: jwt({ iat: at(claims.iat), exp: at(claims.exp) }), ...fields };
  };
const sentAt = (seconds: number) => (nowMs: number) => ({
  date: new Date(nowMs + seconds * 1000).toUTCString(),
});

const TOKENS: readonly Row[] = [
  ['a whole pair', { body: good }, next()],
  ['no refresh_token', without('refresh_token'), kept],
  ['refresh_token ""', withField('refresh_token', ''), kept],
  ['refresh_token null', withField('refresh_token', null), kept],
  ['a number as refresh_token', withField('refresh_token', 7), kept],
  ['no expires_in', without('expires_in'), next(ASSUMED_MS)],
  ['expires_in 0', withField('expires_in', 0), next(ASSUMED_MS)],
  ['expires_in -5', withField('expires_in', -5), next(ASSUMED_MS)],
  ['expires_in "abc"', withField('expires_in', 'abc'), next(ASSUMED_MS)],
  ['expires_in ""', withField('expires_in', ''), next(ASSUMED_MS)],
  ['expires_in null', withField('expires_in', null), next(ASSUMED_MS)],
  ['expires_in true', withField('expires_in', true), next(ASSUMED_MS)],
  ['expires_in ["60"]', withField('expires_in', ['60']), next(ASSUMED_MS)],
  ['expires_in "3600s"', withField('expires_in', '3600s'), next(ASSUMED_MS)],
  ['expires_in "-60"', withField('expires_in', '-60'), next(ASSUMED_MS)],
  ['expires_in "1e3"', withField('expires_in', '1e3'), next(ASSUMED_MS)],
  ['expires_in 1e999', { body: JSON.stringify(good).replace('3600', '1e999') }, next(ASSUMED_MS)],
  ['expires_in "3600"', withField('expires_in', '3600'), next()],
  ['expires_in " 90.5 "', withField('expires_in', ' 90.5 '), next(90_500)],
  ['expires_in 0.5', withField('expires_in', 0.5), next(500)],
  ['expires_in 1e15', withField('expires_in', 1e15), next(DAY_MS)],
  ['token_type bearer', withField('token_type', 'bearer'), next()],
  ['token_type BEARER', withField('token_type', 'BEARER'), next()],
  ['token_type "bearer "', withField('token_type', 'bearer '), next()],
  ['no token_type', without('token_type'), next()],
  ['token_type null', withField('token_type', null), next()],
  ['status 201', { status: 201, body: good }, next()],
  ['status 203 of a proxy', { status: 203, body: good }, next()],
  ['another content type', { body: JSON.stringify(good) }, next()],
  ['a challenge beside it', { headers: { 'www-authenticate': 'Basic realm="as"' }, body: good }, next()],
  ['an array as scope', withField('scope', ['a', 'b']), next()],
  ['an id_token that cannot be read', withField('id_token', 'garbage'), next()],
  ['an id_token that is over', withField('id_token', jwt({ iat: 1, exp: 2 })), next()],
  ['a line break behind the access token', withField('access_token', 'ODD\n'), next()],
  ['a JWT that ends before expires_in', { body: jwtAct({ iat: 0, exp: 600 }) }, next(600_000)],
  ['a JWT that ends after expires_in', { body: jwtAct({ iat: 0, exp: 7200 }) }, next()],
  [
    'a JWT and no expires_in, server clock 300 s ahead',
    { headers: sentAt(300), body: jwtAct({ iat: 300, exp: 900 }, { expires_in: undefined }) },
    next(600_000),
  ],
  [
    'the same, 300 s behind',
    { headers: sentAt(-300), body: jwtAct({ iat: -300, exp: 300 }, { expires_in: undefined }) },
    next(600_000),
  ],
  [
    'a JWT in the past of a clock that is ours plus two hours: the server and its token are at one',
    { headers: sentAt(-7200), body: jwtAct({ iat: -7200, exp: -3600 }) },
    next(),
  ],
  ['a JWT that says nothing of its time', { body: jwtAct({}) }, next()],
  ['a JWT that ends before it was issued', { body: jwtAct({ iat: 900, exp: 600 }) }, next()],
  ['error null beside it', withField('error', null), next()],
  ['error "" beside it', withField('error', ''), next()],
  ['a byte order mark', { body: `\ufeff${JSON.stringify(good)}` }, next()],
  ['three parts that are no JWT', withField('access_token', 'a.b.c'), next()],
];

const USELESS: readonly Row[] = [
  ['an empty object', { body: {} }, unusable(false)],
  ['no access_token', without('access_token'), unusable(true)],
  ['access_token ""', withField('access_token', ''), unusable(true)],
  ['access_token null', withField('access_token', null), unusable(true)],
  ['an object as access_token', withField('access_token', { value: 'ODD' }), unusable(true)],
  ['a line break inside the access token', withField('access_token', 'OD\r\nD: x'), unusable(true)],
  ['an access token beyond ASCII', withField('access_token', 'OD\u00e9'), unusable(true)],
  [
    'a JWT that is over, expires_in 3600, no Date',
    { body: jwtAct({ iat: -7200, exp: -3600 }) },
    unusable(true),
  ],
  [
    'a JWT that is over by the Date of the server as well',
    { headers: sentAt(0), body: jwtAct({ iat: -7200, exp: -3600 }) },
    unusable(true),
  ],
  [
    'a JWT that is over and says nothing else',
    { headers: sentAt(0), body: jwtAct({ exp: -1 }) },
    unusable(true),
  ],
  [
    'a JWT that is over and promises no lifetime',
    { headers: sentAt(0), body: jwtAct({ iat: -7200, exp: -3600 }, { expires_in: undefined }) },
    unusable(true),
  ],
  ['an access token of 20 KB', withField('access_token', 'x'.repeat(20_000)), unusable(true)],
  ['token_type mac', withField('token_type', 'mac'), unusable(true)],
  ['token_type DPoP, unasked', withField('token_type', 'DPoP'), unusable(true)],
  ['token_type N_A', withField('token_type', 'N_A'), unusable(true)],
  ['200 with a log-in page', { body: HTML }, outage(200)],
  ['200 with nothing', { body: '' }, outage(200)],
  ['204', { status: 204, headers: { 'content-length': '0' }, body: '' }, outage(204)],
  ['200 with an array', { body: [1] }, outage(200)],
  ['200 with null', { body: 'null' }, outage(200)],
  ['200 with a form', { body: 'access_token=ODD&token_type=bearer&expires_in=3600' }, outage(200)],
  ['200 with half a document', { body: '{"access_token":"ODD","expires_in":36' }, outage(200)],
  [
    '70 KB',
    { body: { ...without('refresh_token').body, padding: 'x'.repeat(70_000) } },
    { is: 'outage', status: 200, reason: 'too-large' },
  ],
];

const DATE = 'Mon, 30 Nov 2026 12:05:00 GMT';
const OUTAGES: readonly Row[] = [
  [
    '429 with OAuth words, Retry-After in seconds',
    oauthError(429, 'slow_down', { 'retry-after': '7' }),
    outage(429, 7_000),
  ],
  ['429 invalid_grant', oauthError(429, 'invalid_grant'), outage(429)],
  ['429 with a page', { status: 429, headers: { 'retry-after': '7' }, body: HTML }, outage(429, 7_000)],
  ['503, Retry-After in seconds', { status: 503, headers: { 'retry-after': '120' } }, outage(503, 120_000)],
  [
    '503, Retry-After as a date, server clock months ahead',
    { status: 503, headers: { date: DATE, 'retry-after': 'Mon, 30 Nov 2026 12:05:30 GMT' } },
    outage(503, 30_000),
  ],
  [
    '503, Retry-After as a date of the past',
    { status: 503, headers: { date: DATE, 'retry-after': 'Mon, 30 Nov 2026 12:04:00 GMT' } },
    outage(503),
  ],
  ['503, Retry-After 0', { status: 503, headers: { 'retry-after': '0' } }, outage(503)],
  ['503, Retry-After in words', { status: 503, headers: { 'retry-after': 'soon' } }, outage(503)],
  [
    '503, Retry-After of a year',
    { status: 503, headers: { 'retry-after': '31536000' } },
    outage(503, HOUR_MS),
  ],
  ['500 invalid_grant', oauthError(500, 'invalid_grant'), outage(500)],
  ['500 invalid_client', oauthError(500, 'invalid_client'), outage(500)],
  ['500 with a token', { status: 500, body: without('refresh_token').body }, outage(500)],
  ['502 with a page', { status: 502, body: HTML }, outage(502)],
  ['504 with nothing', { status: 504, body: '' }, outage(504)],
  ['400 with a page', { status: 400, body: HTML }, outage(400)],
  ['400 with an object as error', oauthError(400, { code: 'invalid_grant' }), outage(400)],
  ['400 with an empty error', oauthError(400, ''), outage(400)],
  ['400 temporarily_unavailable', oauthError(400, 'temporarily_unavailable'), outage(400)],
  ['400 server_error', oauthError(400, 'server_error'), outage(400)],
  [
    '401 with a challenge alone',
    { status: 401, headers: { 'www-authenticate': 'Basic' }, body: '' },
    outage(401),
  ],
  ['403 of a firewall', { status: 403, body: 'blocked' }, outage(403)],
  ['404 with a page', { status: 404, body: HTML }, outage(404)],
  ['302', { status: 302, headers: { location: '/elsewhere' }, body: '' }, outage(302)],
  ['307', { status: 307, headers: { location: '/elsewhere' }, body: '' }, outage(307)],
  [
    '308 with a token',
    { status: 308, headers: { location: '/x' }, ...without('refresh_token') },
    outage(308),
  ],
  ['nobody there', {}, { is: 'outage', reason: 'network', requests: 0 }, { away: true }],
];

const CHALLENGE = { 'www-authenticate': 'Basic realm="as", charset="UTF-8"' };
const REFUSALS: readonly Row[] = [
  ['400 invalid_grant', oauthError(400, 'invalid_grant'), refusal(400, 'invalid_grant')],
  [
    '400 invalid_grant with a challenge',
    oauthError(400, 'invalid_grant', CHALLENGE),
    refusal(400, 'invalid_grant'),
  ],
  ['401 invalid_grant', oauthError(401, 'invalid_grant'), refusal(401, 'invalid_grant')],
  ['200 with invalid_grant', oauthError(200, 'invalid_grant'), refusal(200, 'invalid_grant')],
  ['400 invalid_client', oauthError(400, 'invalid_client'), refusal(400, 'invalid_client', 'configuration')],
  [
    '401 invalid_client with a challenge',
    oauthError(401, 'invalid_client', CHALLENGE),
    refusal(401, 'invalid_client', 'configuration'),
  ],
  [
    '400 unauthorized_client',
    oauthError(400, 'unauthorized_client'),
    refusal(400, 'unauthorized_client', 'configuration'),
  ],
  [
    '400 unsupported_grant_type',
    oauthError(400, 'unsupported_grant_type'),
    refusal(400, 'unsupported_grant_type', 'configuration'),
  ],
  ['400 invalid_scope', oauthError(400, 'invalid_scope'), refusal(400, 'invalid_scope')],
  ['400 invalid_target', oauthError(400, 'invalid_target'), refusal(400, 'invalid_target')],
  ['400 invalid_request', oauthError(400, 'invalid_request'), refusal(400, 'invalid_request')],
  ['400 with an error of its own', oauthError(400, 'account_locked'), refusal(400, 'oauth_error')],
  [
    '403 with another one and a challenge',
    oauthError(403, 'consent_required', CHALLENGE),
    refusal(403, 'oauth_error'),
  ],
];

const network = (status?: number): Meaning => ({
  is: 'lost',
  reason: 'network',
  ...(status === undefined ? {} : { status }),
});
const LOST: readonly Row[] = [
  ['a reset before the head', { cut: 'reset before the head' }, network()],
  ['a reset in the body', { cut: 'reset in the body', body: without('refresh_token').body }, network(200)],
  ['an end in the body', { cut: 'end in the body', body: without('refresh_token').body }, network(200)],
  ['a reset in the body of a 503', { cut: 'reset in the body', status: 503, body: HTML }, network(503)],
  ['silence', { cut: 'silence' }, { is: 'lost', reason: 'timeout' }],
  [
    'a head, and silence',
    { cut: 'silent body', body: without('refresh_token').body },
    { is: 'lost', reason: 'timeout' },
  ],
];

interface Expected {
  readonly outcome: Outcome;
  readonly played: Omit<Played, 'act'>;
}

const after = (pair: { access?: string; refresh?: string | undefined; gen: number }) => {
  const { refresh, ...rest } = pair;
  return refresh === undefined ? rest : { ...rest, refresh };
};

/** The rules, once for all grants and states. */
function expectedOf(meaning: Meaning, grant: GrantName, state: State): Expected {
  const spends = spendsRefreshToken(grant);
  const isCold = state === 'cold';
  const isServed = state === 'in its soft window';
  const generation = isCold ? 1 : 2;
  // Of what an ordinary server gave before.
  const refresh = spends ? (isCold ? 'R0' : 'R1') : '-';
  const old: Seen = { token: 'A1', generation: 1 };
  const anew = (gen: number): Seen => ({ token: isCold ? 'A1' : 'A2', generation: gen });
  const before = isCold ? undefined : after({ access: 'A1', refresh: spends ? 'R1' : undefined, gen: 1 });
  const stored = (record: Outcome['stored']) => (hasStore(grant) ? record : 'none');
  const failing = (error: Seen, retryAfterMs: number | undefined) => ({
    seen: isServed ? old : { ...error, retryAfterMs },
    next: isServed ? old : { ...error, retryAfterMs: undefined },
    nextRequests: 0,
  });
  // Until the old token is over: then all states are one.
  const untilOver = (ms: number) => (isServed ? Math.max(ms, LIFETIME_MS * 0.1) : ms);
  const quick = { patienceMs: HURRY_MS };

  switch (meaning.is) {
    case 'token': {
      const odd = { token: 'odd', generation, lifetimeMs: meaning.lifetimeMs };
      const now = spends && meaning.refresh === 'next' ? 'R-next' : refresh;
      return {
        outcome: {
          seen: isServed ? old : odd,
          requests: 1,
          stored: stored(after({ access: 'odd', refresh: spends ? now : undefined, gen: generation })),
          next: odd,
          nextRequests: 0,
          later: anew(generation + 1),
          laterRequests: 1,
          sent: [refresh, now],
        },
        played: { ...quick, laterMs: meaning.lifetimeMs },
      };
    }
    case 'outage': {
      const { requests = 1, status, reason, retryAfterMs = BACKOFF_MS, rotated = false } = meaning;
      const error = { code: 'ERR_TOKEN_ENDPOINT', retryable: true, retryAfterMs, reason, status };
      const now = spends && rotated ? 'R-next' : refresh;
      const rotatedRecord = after({ ...(isCold ? {} : { access: 'A1' }), refresh: now, gen: isCold ? 0 : 1 });
      return {
        outcome: {
          ...failing(error, retryAfterMs),
          requests,
          stored: stored(spends && rotated ? rotatedRecord : before),
          later: anew(generation),
          laterRequests: 1,
          sent: requests === 0 ? [now] : [refresh, now],
        },
        played: { ...quick, laterMs: untilOver(retryAfterMs) },
      };
    }
    case 'refusal': {
      const { oauthError: reason, status, cure } = meaning;
      const isDead = spends && reason === 'invalid_grant';
      const code = isDead ? 'ERR_REAUTHORIZATION_REQUIRED' : 'ERR_CREDENTIAL_REJECTED';
      const error = { code, retryable: false, retryAfterMs: undefined, reason, status };
      const isForGood = isDead || cure === 'configuration';
      return {
        outcome: {
          ...failing(error, undefined),
          requests: 1,
          // What was refused is not thrown away: nobody else is told by this that it is dead.
          stored: stored(before),
          later: isForGood ? error : anew(generation),
          laterRequests: isForGood ? 0 : 1,
          sent: isForGood ? [refresh] : [refresh, refresh],
        },
        // A store is looked at once more after 100 ms, before a refresh token is given up.
        played: {
          patienceMs: isDead ? 10_000 : HURRY_MS,
          stepsMs: isDead ? [] : undefined,
          laterMs: isForGood ? DAY_MS : untilOver(60_000),
        },
      };
    }
    case 'lost': {
      const { reason, status } = meaning;
      const error = {
        code: 'ERR_TOKEN_ENDPOINT',
        retryable: true,
        retryAfterMs: BACKOFF_MS,
        reason,
        status,
      };
      const requests = spends ? 3 : 1;
      const eachMs = reason === 'timeout' ? TIMEOUT_MS : 0;
      const failedAfterMs = requests * eachMs + (requests - 1) * AGAIN_MS;
      return {
        outcome: {
          ...failing(error, BACKOFF_MS),
          requests,
          stored: stored(before),
          later: anew(generation),
          laterRequests: 1,
          sent: Array.from({ length: requests + 1 }, () => refresh),
        },
        played: {
          // More than the tries take, less than the back-off after them.
          patienceMs: failedAfterMs + BACKOFF_MS - 50,
          stepsMs:
            eachMs === 0 ? [] : [eachMs, AGAIN_MS, eachMs, AGAIN_MS, eachMs].slice(0, 2 * requests - 1),
          laterMs: untilOver(failedAfterMs + 2 * BACKOFF_MS),
        },
      };
    }
  }
}

/** In every state with every grant; all other rows with every grant in one state each, so that each state has its turn. */
const EVERYWHERE: ReadonlySet<string> = new Set([
  'a whole pair',
  'no refresh_token',
  'no access_token',
  '200 with a form',
  '503, Retry-After in seconds',
  'nobody there',
  '400 invalid_grant',
  '400 invalid_client',
  '400 invalid_scope',
  'a reset in the body',
]);

describe.each([
  ['answers that bring a token', TOKENS],
  ['answers that bring none', USELESS],
  ['a token endpoint that is away', OUTAGES],
  ['structured refusals', REFUSALS],
  ['answers that are lost', LOST],
] as const)('%s', (_, rows) => {
  const cells = rows.flatMap(([name, act, meaning, more], row) =>
    STATES.map((state, turn) => ({
      name,
      state,
      act,
      meaning,
      more,
      grants: GRANTS.filter(
        (_grant, index) => EVERYWHERE.has(name) || (row + index) % STATES.length === turn,
      ),
    })),
  );
  it.each(cells)('$name, $state', async ({ state, act, meaning, more, grants }) => {
    expect(grants.length).toBeGreaterThan(0);
    for (const grant of grants) {
      const { outcome, played } = expectedOf(meaning, grant, state);
      const seen = await play(grant, state, { act, ...played, ...more });
      expect({ grant, ...seen }).toEqual({ grant, ...outcome });
    }
  });
});

/** Two of the same kind, at which the rows above stop: what comes after an answer was lost once. */
const LOST_ONCE: readonly (readonly [
  name: string,
  act: Act,
  more: Partial<Played>,
  ending: 'token' | 'dead',
])[] = [
  ['not executed, reset', { cut: 'reset before the head' }, {}, 'token'],
  [
    'executed, a server with a grace',
    { cut: 'reset before the head', spends: true },
    { grace: true },
    'token',
  ],
  [
    'executed, cut in the body, with a grace',
    { cut: 'end in the body', body: good },
    { grace: true },
    'token',
  ],
  ['executed, silence, with a grace', { cut: 'silence', spends: true }, { grace: true }, 'token'],
  ['executed, a strict server', { cut: 'reset before the head', spends: true }, {}, 'dead'],
  ['executed, cut in the body, a strict server', { cut: 'reset in the body', body: good }, {}, 'dead'],
];

describe('an answer to a refresh that was lost once', () => {
  const cells = LOST_ONCE.flatMap(([name, act, more, ending], row) =>
    STATES.map((state, turn) => ({
      name,
      act,
      more,
      ending,
      state,
      grant: GRANTS[(row + turn) % 2] ?? GRANTS[0],
    })),
  );
  it.each(cells)('$name, $state, $grant', async ({ act, more, ending, state, grant }) => {
    const isCold = state === 'cold';
    const isServed = state === 'in its soft window';
    const refresh = isCold ? 'R0' : 'R1';
    const played = { act, once: true, patienceMs: 10_000, ...more };
    const { seen, requests, stored, later, laterRequests, sent } = await play(grant, state, {
      ...played,
      stepsMs: act.cut === 'silence' ? [TIMEOUT_MS] : [],
      laterMs: LIFETIME_MS / 2,
    });
    const old = { token: 'A1', generation: 1 };
    const anew = isCold ? { token: 'A1', generation: 1 } : { token: 'A2', generation: 2 };
    const dead = {
      code: 'ERR_REAUTHORIZATION_REQUIRED',
      reason: 'invalid_grant',
      retryable: false,
      status: 400,
    };
    expect(requests).toBe(2);
    expect(sent).toEqual([refresh, refresh]);
    expect(laterRequests).toBe(0);
    if (ending === 'token') {
      expect(seen).toEqual(isServed ? old : anew);
      expect(stored).toEqual({ access: anew.token, refresh: isCold ? 'R1' : 'R2', gen: anew.generation });
      expect(later).toEqual(anew);
    } else {
      expect(seen).toMatchObject(isServed ? old : dead);
      expect(stored).toEqual(isCold ? undefined : { access: 'A1', refresh, gen: 1 });
      expect(later).toMatchObject(dead);
    }
  });
});

describe.each(GRANTS)('refusals by the MCP server: %s', (grant) => {
  const refusedAt = (generation: number) => ({ rejected: { generation, status: 401 } });

  it('a thousand of one generation make one token request, a thousand stragglers after it none', () =>
    withScene(grant, async ({ provider, server }) => {
      const { generation } = await provider.acquire(TARGET);
      for (const requests of [2, 2]) {
        const all = Array.from({ length: 1_000 }, () => provider.acquire(TARGET, refusedAt(generation)));
        const got = await Promise.all(all);
        expect(new Set(got.map((credential) => credential.generation))).toEqual(new Set([2]));
        expect(server.sent).toHaveLength(requests);
      }
    }));

  it('of the token made for a refusal: typed at once, for a minute, and no token request', () =>
    withScene(grant, async ({ provider, server, clock, store }) => {
      await provider.acquire(TARGET);
      await provider.acquire(TARGET, refusedAt(1));
      for (const leftMs of [60_000, 59_000, 58_000]) {
        const error = await errorOf(provider.acquire(TARGET, refusedAt(2)));
        expect(error).toMatchObject({
          code: 'ERR_CREDENTIAL_REJECTED',
          reason: 'rejected',
          retryable: false,
          retryAfterMs: leftMs,
        });
        await clock.advance(1_000);
      }
      expect(server.sent).toHaveLength(2);
      if (hasStore(grant)) {
        const { data = '{}' } = (await store.read(provider.id)) ?? {};
        expect(JSON.parse(data)).toMatchObject({ access: 'A2', gen: 2 });
      }
      // Servers mend: the value is tried again, and if it is refused once more, one token request is made.
      await clock.advance(57_000);
      expect((await provider.acquire(TARGET)).generation).toBe(2);
      expect((await provider.acquire(TARGET, refusedAt(2))).generation).toBe(3);
      expect(server.sent).toHaveLength(3);
    }));

  it('answered by the same token again: typed, for a minute', () =>
    withScene(grant, async ({ provider, server }) => {
      await provider.acquire(TARGET);
      server.act = { body: { access_token: 'A1', token_type: 'Bearer', expires_in: 3600 } };
      for (let refusals = 0; refusals < 3; refusals++) {
        const error = await errorOf(provider.acquire(TARGET, refusedAt(1)));
        expect(error).toMatchObject({
          code: 'ERR_CREDENTIAL_REJECTED',
          reason: 'rejected',
          retryable: false,
        });
      }
      expect(server.sent).toHaveLength(2);
    }));
});

describe.each(GRANTS)('clocks: %s', (grant) => {
  const atLast = spendsRefreshToken(grant) ? 'R1' : '-';

  it('the machine slept for eight hours and its monotonic clock stood still: the next caller gets a new token', () =>
    withScene(grant, async ({ provider, server, clock }) => {
      await provider.acquire(TARGET);
      clock.skewMs += 8 * HOUR_MS;
      expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer A2');
      expect(server.sent.slice(1)).toEqual([atLast]);
    }));

  it('the wall clock was set back by an hour: the token ends with its own ten minutes', () =>
    withScene(grant, async ({ provider, server, clock }) => {
      await provider.acquire(TARGET);
      clock.skewMs -= HOUR_MS;
      await clock.advance(LIFETIME_MS / 2);
      expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer A1');
      expect(server.sent).toHaveLength(1);
      await clock.advance(LIFETIME_MS / 2);
      expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer A2');
      expect(server.sent.slice(1)).toEqual([atLast]);
    }));

  it('the wall clock moved by an hour, either way, during a back-off: the back-off is as long as before', () =>
    withScene(grant, async ({ provider, server, clock }) => {
      server.act = { status: 503, headers: { 'retry-after': '30' } };
      const outage = { code: 'ERR_TOKEN_ENDPOINT', retryable: true, status: 503 };
      const hurry = { maxWaitMs: HURRY_MS };
      expect(await errorOf(provider.acquire(TARGET, hurry))).toMatchObject({
        ...outage,
        retryAfterMs: 30_000,
      });
      server.act = undefined;
      for (const [skewMs, leftMs] of [
        [HOUR_MS, 20_000],
        [-2 * HOUR_MS, 10_000],
      ] as const) {
        clock.skewMs += skewMs;
        await clock.advance(10_000);
        expect(await errorOf(provider.acquire(TARGET, hurry))).toMatchObject({
          ...outage,
          retryAfterMs: leftMs,
        });
      }
      expect(server.sent).toHaveLength(1);
      await clock.advance(10_000);
      expect(await bearerOf(await provider.acquire(TARGET, hurry))).toBe('Bearer A1');
    }));
});
