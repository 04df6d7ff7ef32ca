/**
 * What token endpoints, authorization metadata, callbacks and addresses may say.
 */
import fc from 'fast-check';
import { checkCallback, readCallback } from '../../src/credentials/authorization/callback.js';
import { clientAuthenticator } from '../../src/credentials/client-auth.js';
import { AddressClasses } from '../../src/credentials/discovery/address-class.js';
import { AddressGuard } from '../../src/credentials/discovery/address-guard.js';
import { readProtectedResource } from '../../src/credentials/discovery/resource-metadata.js';
import { MetadataSource, metadataOf } from '../../src/credentials/metadata.js';
import { MAX_LIFETIME_MS } from '../../src/credentials/options.js';
import { Secret } from '../../src/credentials/secret.js';
import { TokenEndpoint } from '../../src/credentials/token-endpoint.js';
import { TokenHttp } from '../../src/credentials/token-fetch.js';
import { type Presentation, parseObject, readToken } from '../../src/credentials/token-reply.js';
import { checkedToken, isTokenValue, jwtLifetimeMs, jwtTimes } from '../../src/credentials/token-value.js';
import { HostedMcpError } from '../../src/errors.js';
import type { HttpFetch } from '../../src/http/exchange.js';
import { manualClock } from '../../src/testing/manual-clock.js';
import { damaged, type Fuzz, jsonText, jsonWith, must, outcome, outcomeOf, pieces, shown } from './kit.js';

const isOurs = (error: unknown) => HostedMcpError.isInstance(error);
const isTypeError = (error: unknown) => error instanceof TypeError;
const NOW_MS = 1_767_225_600_000;
const TARGET = new URL('https://mcp.example/mcp');

const tokenJson = jsonWith(
  [
    'access_token',
    'token_type',
    'expires_in',
    'refresh_token',
    'scope',
    'error',
    'error_description',
    'issued_token_type',
    'id_token',
  ],
  [
    'CANARY-access',
    'CANARY-refresh',
    'Bearer',
    'bearer ',
    'DPoP',
    'N_A',
    60,
    '60',
    '1e3',
    -1,
    0.001,
    1e308,
    'invalid_grant',
    'invalid_client',
    'temporarily_unavailable',
    'urn:ietf:params:oauth:token-type:access_token',
    'a b',
    ['a', 'b'],
    'line\nbreak',
  ],
);
const sound = fc.record(
  {
    access_token: fc.constantFrom('CANARY-access', 'CANARY-access\n', ' ', '', 'é', 'x'.repeat(20_000)),
    token_type: fc.constantFrom('Bearer', 'DPoP', 'mac', '', 1),
    expires_in: fc.oneof(fc.constantFrom(60, '60', 0, -1, 1e15, null, '9'.repeat(20)), fc.double()),
    refresh_token: fc.constantFrom('CANARY-refresh', '', null, 7),
    scope: fc.constantFrom('a b', ['a', 1], '', {}),
    issued_token_type: fc.constantFrom('urn:ietf:params:oauth:token-type:access_token', 'x', ''),
  },
  { requiredKeys: [] },
);
const tokenText = fc.oneof(
  damaged(jsonText(fc.oneof(sound, tokenJson))),
  jsonText(sound),
  fc.string({ maxLength: 30 }),
);

const presented = fc.constantFrom<(Presentation | undefined)[]>(
  undefined,
  { grantType: 'x', parameters: {}, secrets: {} },
  {
    grantType: 'x',
    parameters: {},
    secrets: {},
    issued: { types: ['x'], mustBeNamed: true, isAccessToken: false },
  },
);

function answering(status: number, text: string, headers: Record<string, string>): HttpFetch {
  // The HTTP layer below refuses what is no header.
  const sent = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    try {
      sent.set(name, value);
    } catch {}
  }
  const hasBody = ![204, 205, 304].includes(status);
  return (async () => new Response(hasBody ? text : null, { status, headers: sent })) as unknown as HttpFetch;
}

const statuses = fc.constantFrom(200, 200, 200, 201, 204, 301, 400, 401, 403, 404, 408, 429, 500, 503);
const retryHeaders = fc.record(
  {
    'retry-after': fc.constantFrom('5', '-5', 'soon', '99999999999999'),
    'content-type': fc.constantFrom('application/json', 'text/html', 'x'),
    'www-authenticate': fc.constantFrom('Basic realm="x"', 'Bearer error="', '"'),
    'dpop-nonce': fc.constantFrom('n', ' ', 'é'),
  },
  { requiredKeys: [] },
);

const addressValues = [
  'https://auth.example',
  'https://auth.example/',
  'https://auth.example/tenant',
  'http://auth.example',
  'http://127.0.0.1:1/',
  'https://10.0.0.1/',
  'https://[::1]/',
  'https://user:pass@auth.example',
  'https://auth.example/?q',
  'https://auth.example/#f',
  'https://mcp.example/mcp',
  'https://mcp.example',
  'data:text/plain,x',
  'javascript:0',
  'https://',
  'mcp.example',
  true,
  ['code'],
  ['S256'],
];
const metadataText = fc.oneof(
  damaged(
    jsonText(
      fc.record(
        {
          issuer: fc.constantFrom(...addressValues),
          token_endpoint: fc.constantFrom(...addressValues),
          authorization_endpoint: fc.constantFrom(...addressValues),
          registration_endpoint: fc.constantFrom(...addressValues),
          revocation_endpoint: fc.constantFrom(...addressValues),
          token_endpoint_auth_methods_supported: fc.constantFrom(['client_secret_post', 1], 'x', null),
          authorization_response_iss_parameter_supported: fc.constantFrom(true, 'true', 1),
        },
        { requiredKeys: ['issuer', 'token_endpoint'] },
      ),
    ),
  ),
  damaged(
    jsonText(
      fc.record(
        {
          resource: fc.constantFrom(...addressValues),
          authorization_servers: fc.oneof(
            fc.array(fc.constantFrom(...addressValues), { maxLength: 3 }),
            fc.constantFrom('x', null, 1, {}),
          ),
          scopes_supported: fc.constantFrom(['a', 1], 'a', null),
        },
        { requiredKeys: [] },
      ),
    ),
  ),
  jsonText(jsonWith(['issuer', 'token_endpoint', 'resource', 'authorization_servers'], addressValues)),
  fc.constantFrom('', '<html></html>', '[]', '"x"', 'null'),
);

const octet = fc.oneof(
  fc.nat({ max: 255 }),
  fc.constantFrom(0, 10, 100, 127, 169, 172, 192, 224, 255, 256, -1),
);
const addressText = fc.oneof(
  fc.ipV4(),
  fc.ipV6(),
  fc.tuple(octet, octet, octet, octet).map((list) => list.join('.')),
  pieces([
    '::',
    ':',
    'ffff',
    'fe80',
    '64:ff9b::',
    '127.0.0.1',
    '169.254.169.254',
    '%eth0',
    '.',
    '0x7f',
    '1',
    ']',
    '[',
  ]),
);
const urlText = fc.oneof(
  addressText.map((address) => `https://${address.includes(':') ? `[${address}]` : address}/`),
  pieces([
    'https://',
    'http://',
    'localhost',
    '127.1',
    '[::1]',
    '@',
    ':',
    '/',
    '.',
    'a',
    '%2e',
    '?',
    '#',
    '0',
    'xn--',
  ]),
);

const callbackText = fc.oneof(
  fc
    .array(
      fc.constantFrom('code=CANARY-1', 'code=CANARY-2', 'state=s', 'iss=https://auth.example', 'error=x'),
      {
        maxLength: 4,
      },
    )
    .map((list) => `https://app.example/cb?${list.join('&')}`),
  pieces([
    'https://app.example/cb?',
    'code=CANARY-code',
    'state=s',
    'iss=https://auth.example',
    'iss=x',
    'error=access_denied',
    'error=',
    '&',
    '?',
    '#',
    '%',
    '%00',
    'code=',
    '=',
  ]),
  fc.string({ unit: 'binary', maxLength: 40 }),
);

const jwtText = fc.oneof(
  jsonWith(['iat', 'exp', 'nbf'], [1, 2, '1', 1e308, -1, 0.5]).map(
    (claims) => `x.${Buffer.from(JSON.stringify(claims) ?? '').toString('base64url')}.y`,
  ),
  pieces(['.', 'e30', 'eyJleHAiOjF9', '=', 'CANARY-jwt', '\n', ' ']),
);

export const CREDENTIALS: readonly Fuzz[] = [
  {
    name: 'token replies: any text ends as a token that can be sent, or as an outcome',
    share: 16,
    property: () =>
      fc.property(tokenText, presented, fc.boolean(), (text, given, keepsRefreshToken) => {
        const body = parseObject(text);
        if (body === undefined) return;
        const result = readToken(body, {
          presented: given,
          host: 'auth.example',
          atMs: NOW_MS,
          keepsRefreshToken,
        });
        must(['token', 'refused', 'unavailable'].includes(result.kind), 'it is one of the outcomes');
        must(!shown(result).includes('CANARY'), 'no secret is shown');
        const refresh = Object.hasOwn(body, 'refresh_token') ? body.refresh_token : undefined;
        const kept =
          result.kind === 'token' ? result.refreshToken : 'rotated' in result ? result.rotated : undefined;
        if (keepsRefreshToken && typeof refresh === 'string' && refresh !== '')
          must(kept?.reveal() === refresh, 'a rotated refresh token is kept, whatever else is wrong');
        if (result.kind !== 'token') return;
        must(isTokenValue(result.accessToken.reveal()), 'it can stand in a header');
        const { expiresInMs: life } = result;
        must(life === undefined || (life > 0 && life <= MAX_LIFETIME_MS), `a life is a time: ${life}`);
      }),
  },
  {
    name: 'token endpoint: any answer ends as an outcome, without a secret in it',
    share: 1,
    property: () =>
      fc.asyncProperty(
        statuses,
        fc.oneof(fc.tuple(jsonText(sound), fc.constant(true)), fc.tuple(tokenText, fc.constant(false))),
        retryHeaders,
        fc.boolean(),
        async (status, [text, isWhole], headers, refreshes) => {
          const clock = manualClock();
          const http = new TokenHttp(clock, answering(status, text, headers));
          const endpoint = new TokenEndpoint({
            clientId: 'client',
            auth: clientAuthenticator({ clientSecret: 'CANARY-secret' }),
            metadata: new MetadataSource({
              issuer: undefined,
              tokenEndpoint: 'https://auth.example/token',
              http,
              clock,
              timeoutMs: 1_000,
            }),
            http,
            clock,
          });
          const result = await endpoint.request({
            refreshToken: refreshes ? new Secret('CANARY-refresh') : undefined,
            timeoutMs: 1_000,
          });
          must(['token', 'refused', 'unavailable'].includes(result.kind), 'it is one of the outcomes');
          const said = shown(result);
          must(!said.includes('CANARY-secret'), 'no secret of ours is shown');
          must(!refreshes || !said.includes('CANARY-refresh'), 'nor one that was sent');
          // In a text that is torn anywhere, nobody can tell what was to be a token.
          must(!isWhole || !said.includes('CANARY'), 'nor one that came');
          must(clock.pendingTimers === 0, 'no timer is left');
          await endpoint.close();
        },
      ),
  },
  {
    name: 'discovery documents: any answer is metadata that may be used, or a typed error',
    share: 3,
    property: () =>
      fc.asyncProperty(
        statuses,
        metadataText,
        retryHeaders,
        fc.boolean(),
        async (status, text, headers, exact) => {
          const clock = manualClock();
          const http = new TokenHttp(clock, answering(status, text, headers), new AddressGuard(TARGET));
          const common = { http, clock, timeoutMs: 1_000 };
          const found = await outcomeOf(readProtectedResource({ target: TARGET, ...common }), isOurs);
          if ('value' in found) {
            for (const server of found.value?.authorizationServers ?? []) http.check(new URL(server));
          }
          const metadata = await outcomeOf(
            metadataOf({ issuer: 'https://auth.example', tokenEndpoint: undefined, exact, ...common }),
            isOurs,
          );
          if ('value' in metadata) http.check(new URL(metadata.value.tokenEndpoint));
          must(clock.pendingTimers === 0, 'no timer is left');
        },
      ),
  },
  {
    name: 'addresses a challenge names: any text is refused or at an origin that was allowed',
    share: 4,
    property: () =>
      fc.asyncProperty(fc.oneof(urlText, callbackText), async (named) => {
        const asked: string[] = [];
        const fetch = (async (url: string) => {
          asked.push(url);
          return new Response('{}', { status: 404 });
        }) as unknown as HttpFetch;
        const clock = manualClock();
        const http = new TokenHttp(clock, fetch, new AddressGuard(TARGET));
        const options = { target: TARGET, resourceMetadata: named, http, clock, timeoutMs: 1_000 };
        await outcomeOf(readProtectedResource(options), isOurs);
        for (const url of asked) must(new URL(url).origin === TARGET.origin, 'nobody else is asked');
      }),
  },
  {
    name: 'network addresses: any text has a class, and an IPv4 address has it inside of IPv6 too',
    share: 6,
    property: () => {
      const classes = new AddressClasses();
      return fc.property(addressText, (address) => {
        const found = classes.of(address);
        if (!/^\d+(?:\.\d+){3}$/.test(address) || found === 'reserved') return;
        for (const prefix of ['::ffff:', '64:ff9b::'])
          must(classes.of(`${prefix}${address}`) === found, `${prefix}${address} is ${found}`);
      });
    },
  },
  {
    name: 'address guard: any URL passes or is refused with ERR_DISCOVERY',
    share: 6,
    property: () =>
      fc.property(urlText, (text) => {
        if (!URL.canParse(text)) return;
        const url = new URL(text);
        const result = outcome(() => new AddressGuard(TARGET).check(url), isOurs);
        if ('error' in result) {
          must((result.error as HostedMcpError).code === 'ERR_DISCOVERY', 'the code says so');
          return;
        }
        must(
          url.protocol === 'https:' && url.username === '' && url.password === '',
          'what passes is plain https',
        );
      }),
  },
  {
    name: 'callbacks: any text is one or a TypeError, and a refusal shows nothing of it',
    share: 12,
    property: () =>
      fc.property(callbackText, fc.boolean(), (text, isNamed) => {
        const read = outcome(() => readCallback(text), isTypeError);
        if ('error' in read) return;
        const metadata = {
          issuer: 'https://auth.example',
          tokenEndpoint: 'https://auth.example/token',
          issParameterSupported: isNamed,
        };
        const checked = outcome(() => checkCallback(read.value, metadata), isOurs);
        if ('error' in checked) must(!shown(checked.error).includes('CANARY'), 'it shows nothing');
        else must(read.value.getAll('code').length === 1, 'there is one code');
      }),
  },
  {
    name: 'tokens: any text has times or none, and may stand in a header or not',
    share: 12,
    property: () =>
      fc.property(jwtText, (text) => {
        const times = jwtTimes(text);
        for (const ms of [times?.issuedAtMs, times?.expiresAtMs])
          must(ms === undefined || !Number.isNaN(ms), 'a time is a number');
        const life = jwtLifetimeMs(text);
        must(life === undefined || life > 0, 'a life is positive');
        const checked = outcome(() => checkedToken(text, 'The source'), isOurs);
        if ('error' in checked) must(!shown(checked.error).includes('CANARY'), 'it shows nothing');
        else must(/^[\x21-\x7e]+$/.test(checked.value), 'it is visible');
      }),
  },
];
