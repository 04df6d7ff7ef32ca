/**
 * Heads and bodies of answers, challenges, cookies.
 */
import fc from 'fast-check';
import { parseChallenges } from '../../src/connection/challenge.js';
import { afterResume, type ClassifyContext, classify, type Verdict } from '../../src/connection/classify.js';
import type { StreamFacts } from '../../src/connection/route.js';
import { Wire } from '../../src/connection/wire.js';
import { parseCodings } from '../../src/http/decode.js';
import { CookieJar, isHeaderValue } from '../../src/http/headers.js';
import { isErrorResponse } from '../../src/json-rpc.js';
import { LIMITS } from '../../src/limits.js';
import { Redactor } from '../../src/redactor.js';
import { type Exchange, FakeWire } from '../model/wire.js';
import { damaged, type Fuzz, jsonText, jsonWith, must, pieces } from './kit.js';

const CHALLENGE_PIECES = [
  'Bearer',
  'bearer ',
  'DPoP ',
  'Basic ',
  'Negotiate ',
  'dXNlcjpwYXNz==',
  'realm="x"',
  'error="invalid_token"',
  'error=insufficient_scope',
  'scope="a b"',
  'resource_metadata="https://a/b"',
  ', ',
  ',',
  '=',
  '"',
  '\\"',
  ' ',
  '\t',
  'a=b',
  'a = b',
  '=====',
];
const challengeText = fc.oneof(pieces(CHALLENGE_PIECES), fc.string({ unit: 'binary', maxLength: 60 }));
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/;

const word = fc.stringMatching(/^[a-z][a-z0-9-]{0,8}$/);
const quotedText = fc.string({ unit: 'grapheme-ascii', maxLength: 12 });

const cookieText = pieces([
  'a=b',
  'lb=1',
  '; Path=/',
  '; Path=/mcp',
  '; Max-Age=10',
  '; Max-Age=-1',
  '; Max-Age=999999999999999',
  '; Expires=Thu, 01 Jan 1970 00:00:00 GMT',
  '; Expires=nonsense',
  '; Secure',
  '; HttpOnly',
  '=',
  ';',
  ',',
]);

const value = fc.string({ unit: 'binary', maxLength: 10 }).map((text) => text.replace(/[\r\n\0]/g, ''));
const many = <T>(each: fc.Arbitrary<T>) => fc.oneof(each, fc.array(each, { minLength: 1, maxLength: 3 }));
const headers: fc.Arbitrary<Record<string, string | readonly string[]>> = fc.record(
  {
    'content-type': many(
      fc.oneof(
        fc.constantFrom(
          'application/json',
          'application/json; charset=utf-8',
          'text/event-stream',
          'TEXT/EVENT-STREAM;x',
          'text/html',
          'application/problem+json',
          '',
          ';',
        ),
        value,
      ),
    ),
    'www-authenticate': many(challengeText),
    'retry-after': many(fc.oneof(fc.constantFrom('1', '0', '-1', '1e9', '99999999999'), value)),
    date: many(fc.oneof(fc.constantFrom('Thu, 01 Jan 2026 00:00:10 GMT'), value)),
    'mcp-session-id': many(value),
    'set-cookie': many(cookieText),
    'dpop-nonce': many(value),
    ratelimit: many(value),
    __proto__: value,
  },
  { requiredKeys: [] },
);

const OWN_ID = 7;
const message = jsonWith(
  ['jsonrpc', 'id', 'result', 'error', 'code', 'message', 'data', 'method', 'params', 'holdfast', 'isError'],
  [OWN_ID, '7', null, '2.0', -32001, -32023, -32601, 'Session not found', 'ping', { code: 1, message: 'x' }],
);
const plausible = fc.oneof(
  fc.constant({ jsonrpc: '2.0', id: OWN_ID, result: {} }),
  fc.record({
    jsonrpc: fc.constant('2.0'),
    id: fc.constantFrom(OWN_ID, null, undefined, 'x'),
    error: fc.record({
      code: fc.constantFrom(-32000, -32001, -32002, -32023, -32601, 401),
      message: fc.constantFrom('Session gone', 'Not initialized', 'No', ''),
    }),
  }),
  message,
);
const bodyText = fc.oneof(
  damaged(jsonText(fc.oneof(plausible, fc.array(plausible, { maxLength: 3 })))),
  fc
    .array(
      fc.oneof(
        damaged(jsonText(plausible)).map((text) => `data: ${text}\n\n`),
        pieces(['id: 1\n', 'retry: 5\n', '\n', ': x\n']),
      ),
      { maxLength: 4 },
    )
    .map((events) => events.join('')),
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.constantFrom('<html>Session expired</html>', ''),
);

interface Given {
  readonly status: number;
  readonly headers: Record<string, string | readonly string[]>;
  readonly text: string;
  readonly cuts: readonly number[];
  readonly end: 'end' | 'cut' | 'before-head' | 'not-sent' | 'hangs';
  readonly wants: boolean;
}

const given: fc.Arbitrary<Given> = fc.record({
  status: fc.oneof(
    fc.constantFrom(200, 200, 200, 202, 204, 400, 401, 403, 404, 405, 413, 429, 500, 502, 503, 307),
    fc.integer({ min: 200, max: 599 }),
  ),
  headers,
  text: bodyText,
  cuts: fc.array(fc.nat({ max: 400 }), { maxLength: 6 }),
  end: fc.constantFrom('end', 'end', 'end', 'cut', 'before-head', 'not-sent', 'hangs'),
  wants: fc.constantFrom(true, true, true, false),
});

const MAX_BYTES = 256;
const CLOCK = {
  now: () => 1_767_225_600_000,
  monotonic: () => 0,
  setTimeout: () => ({ clear: () => {} }),
};

/** One exchange of the real wire with a made-up answer. */
async function factsOf(
  answer: Given,
): Promise<{ facts: StreamFacts; left: number; cookie: string | undefined }> {
  const http = new FakeWire();
  const cookies = new CookieJar(CLOCK);
  const url = new URL('https://example.com/mcp');
  const wire = new Wire({
    url,
    http,
    clock: CLOCK,
    redactor: new Redactor(),
    headers: {},
    maxMessageBytes: MAX_BYTES,
    affinityCookies: true,
    toll: { pay: () => undefined } as never,
    onHead: () => {},
    onExchange: () => {},
    onCut: () => {},
  });
  http.network = 'slow';
  http.onBegin = (exchange) => queueMicrotask(() => play(exchange, answer));
  const request = { jsonrpc: '2.0' as const, method: 'tools/call', params: { name: 'x' } };
  const facts = await wire.send(answer.wants ? { ...request, id: OWN_ID } : request, {
    credential: { generation: 1, headers: () => ({ authorization: 'Bearer CANARY-token' }) },
    cookies,
    onMessage: () => {},
  });
  wire.dropLingering();
  return { facts, left: http.underWay.size, cookie: cookies.header(url) };
}

function play(exchange: Exchange, { status, headers: head, text, cuts, end }: Given): void {
  if (end === 'not-sent') {
    exchange.fail('network', 'ECONNREFUSED');
    return;
  }
  exchange.leave();
  if (end === 'before-head') {
    exchange.fail('network', 'ECONNRESET');
    return;
  }
  exchange.head(status, head);
  const at = [
    0,
    ...cuts.map((cut) => cut % (text.length + 1)).sort((one, other) => one - other),
    text.length,
  ];
  for (let index = 1; index < at.length; index += 1) exchange.data(text.slice(at[index - 1], at[index]));
  if (end === 'end') exchange.end();
  else if (end === 'cut') exchange.fail('network', 'ECONNRESET');
  // One that hangs is ended from this side, as a caller's own time does it.
  else exchange.abort();
}

const contexts: fc.Arbitrary<ClassifyContext> = fc.record({
  era: fc.constantFrom('initialize', 'stateless'),
  credentialStale: fc.boolean(),
  credentialNewer: fc.boolean(),
  errorsInRow: fc.nat({ max: 4 }),
});

function checkVerdict(verdict: Verdict, facts: StreamFacts): void {
  if (verdict.kind === 'answer') {
    must(facts.relation === 'own' && verdict.message.id === OWN_ID, 'only its own answer is one');
    return;
  }
  if (verdict.kind === 'not-sent') must(!facts.sent, 'what was sent is not called unsent');
  if (verdict.kind === 'accepted') must(!facts.expectsAnswer, 'only what wants no answer is accepted');
  if (!('executed' in verdict) || verdict.executed !== false || !facts.sent) return;
  const status = facts.status ?? 0;
  must(
    facts.failure === undefined || facts.failure.kind === 'redirect',
    'a cut does not prove that it did not run',
  );
  const code = isErrorResponse(facts.message) ? facts.message.error.code : undefined;
  if (facts.relation === 'own') must(code === -32023, 'an answer of its own does not prove it either');
  const isLayer = facts.relation === 'none' && code !== undefined;
  const isChallenged = facts.challenges?.some(({ scheme, error }) =>
    status === 401 ? scheme === 'bearer' || scheme === 'dpop' : error === 'insufficient_scope',
  );
  const isByStatus = [405, 406, 407, 411, 413, 414, 415, 417, 421, 425, 429, 431, 501, 505].includes(status);
  must(
    isLayer || isByStatus || (isChallenged === true && (status === 401 || status === 403)) || code === -32023,
    `status ${status} proves that it did not run`,
  );
}

export const HTTP: readonly Fuzz[] = [
  {
    name: 'answers: any head and body end as facts, and no verdict says more than they do',
    share: 16,
    property: () =>
      fc.asyncProperty(given, contexts, fc.boolean(), async (answer, context, sessionSent) => {
        const { facts, left, cookie } = await factsOf(answer);
        must(left === 0, 'no exchange is left open');
        must((facts.text?.length ?? 0) <= LIMITS.classifyTextLength, 'the text kept is bounded');
        must(cookie === undefined || isHeaderValue(cookie), 'cookies can be sent back');
        must(!JSON.stringify(facts).includes('CANARY'), 'no secret is in the facts');
        if (facts.retryAfterMs !== undefined)
          must(Number.isFinite(facts.retryAfterMs) && facts.retryAfterMs >= 0, 'a pause is a time');
        const inSession = { ...facts, sessionSent };
        const verdict = classify(inSession, context);
        checkVerdict(verdict, inSession);
        const resumed = afterResume(verdict);
        must(
          !('executed' in resumed) || resumed.executed !== false || resumed.kind === 'session-suspect',
          'a resumed answer never says that the call did not run',
        );
      }),
  },
  {
    name: 'challenges: any text is read, and only whole ones count',
    share: 16,
    property: () =>
      fc.property(fc.array(challengeText, { maxLength: 3 }), (values) => {
        for (const challenge of parseChallenges(values)) {
          must(TOKEN.test(challenge.scheme), 'a scheme is a token in lower case');
          for (const each of Object.values(challenge)) must(typeof each === 'string', 'parameters are text');
        }
      }),
  },
  {
    name: 'challenges: what is well formed is read as it was written',
    share: 4,
    property: () =>
      fc.property(
        fc.array(
          fc.record({
            scheme: word,
            error: fc.option(quotedText, { nil: undefined }),
            scope: fc.option(quotedText, { nil: undefined }),
            resourceMetadata: fc.option(quotedText, { nil: undefined }),
          }),
          { maxLength: 4 },
        ),
        fc.constantFrom(', ', ',', ' ,\t'),
        (challenges, comma) => {
          const names = { error: 'error', scope: 'scope', resourceMetadata: 'resource_metadata' } as const;
          const written = challenges.map(({ scheme, ...parameters }) => {
            const list = Object.entries(parameters)
              .filter(([, text]) => text !== undefined)
              .map(([name, text]) => `${names[name as 'error']}="${String(text).replace(/["\\]/g, '\\$&')}"`);
            return list.length === 0 ? scheme : `${scheme} ${list.join(comma)}`;
          });
          const wanted = challenges.map((each) =>
            Object.fromEntries(Object.entries(each).filter(([, text]) => text !== undefined)),
          );
          const order = (list: readonly object[]) =>
            JSON.stringify(
              list.map((each) => Object.entries(each).sort(([one], [other]) => (one < other ? -1 : 1))),
            );
          must(order(parseChallenges([written.join(comma)])) === order(wanted), 'they come back');
          must(order(parseChallenges(written)) === order(wanted), 'so do they one by one');
        },
      ),
  },
  {
    name: 'cookies: whatever is set, what goes back is a header',
    share: 8,
    property: () =>
      fc.property(fc.array(cookieText, { maxLength: 30 }), (lines) => {
        const jar = new CookieJar(CLOCK);
        jar.store({ status: 200, headers: { 'set-cookie': lines } });
        const line = jar.header(new URL('https://example.com/mcp'));
        must(line === undefined || isHeaderValue(line), 'it can be sent');
        must((line?.split('; ').length ?? 0) <= 20, 'there are not many');
      }),
  },
  {
    name: 'content codings: any text names known ones or none',
    share: 4,
    property: () =>
      fc.property(pieces(['gzip', 'br', 'deflate', 'identity', ',', ' ', 'x-gzip', 'zstd']), (text) => {
        const codings = parseCodings(text);
        must(codings === undefined || codings.length <= 3, 'no chain is long');
      }),
  },
];
