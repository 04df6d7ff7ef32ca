import { describe, expect, it } from 'vitest';
import { type ClassifyContext, classify } from '../../../src/connection/classify.js';
import type { ExchangeFacts } from '../../../src/connection/facts.js';

type Facts = Partial<ExchangeFacts>;

const CHALLENGE = { challenges: [{ scheme: 'bearer', error: 'invalid_token' }] };
const DPOP = { challenges: [{ scheme: 'dpop' }] };
const BASIC = { challenges: [{ scheme: 'basic' }] };
const SCOPE = { challenges: [{ scheme: 'bearer', error: 'insufficient_scope', scope: 'files:write' }] };
const STALE = { credentialStale: true };
const NEWER = { credentialNewer: true };
const LATER_ERA = { era: 'stateless' as const };
const TWO_BEFORE = { errorsInRow: 2 };
const NO_SESSION = { sessionSent: false };
const HTML = { contentType: 'text/html', text: '<html>Bad Gateway</html>' };
const NOTICE = { method: 'notifications/cancelled', expectsAnswer: false };

const error = (relation: 'own' | 'none' | 'foreign', code: number, message = 'Fehler'): Facts => {
  const id = { own: 7, none: null, foreign: 99 }[relation];
  return { relation, message: { jsonrpc: '2.0', id, error: { code, message } } };
};
const own = (code: number, message?: string) => error('own', code, message);
const none = (code: number, message?: string) => error('none', code, message);
const foreign = (code: number, message?: string) => error('foreign', code, message);
const result = (relation: 'own' | 'foreign'): Facts => ({
  relation,
  message: { jsonrpc: '2.0', id: relation === 'own' ? 7 : 99, result: { content: [], isError: true } },
});
const failure = (
  sent: boolean,
  kind: NonNullable<ExchangeFacts['failure']>['kind'],
  more: object = {},
): Facts => ({ sent, failure: { sent, phase: sent ? 'head' : 'before', kind, ...more } });

const answer = { kind: 'answer' };
const credential = (challenged: boolean, executed: unknown) => ({ kind: 'credential', challenged, executed });
const scope = (executed: unknown) => ({ kind: 'scope', requiredScope: 'files:write', executed });
const limited = (executed: unknown) => ({ kind: 'limited', executed });
const lost = (executed: unknown, tentative: boolean) => ({ kind: 'session-lost', executed, tentative });
const suspect = (executed: unknown, strong: boolean, otherwise: object = {}) => ({
  kind: 'session-suspect',
  executed,
  strong,
  otherwise: expect.objectContaining(otherwise),
});
const failed = (code: string, executed: unknown) => ({ kind: 'failed', code, executed });

type Given = Partial<ClassifyContext> & { sessionSent?: boolean };
type Row = readonly [name: string, status: number, facts: Facts, context: Given, expected: object];

const ROWS: readonly Row[] = [
  // ---- answers
  ['200, own result', 200, result('own'), {}, answer],
  ['200, own result, no session', 200, result('own'), NO_SESSION, answer],
  ['200, own result, later era', 200, result('own'), LATER_ERA, answer],
  ['200, own result, stale credential', 200, result('own'), STALE, answer],
  ['200, own error in plain words', 200, own(-32602, 'Unknown tool'), {}, answer],
  ['200, own error after two others under an error status', 200, own(-32602), TWO_BEFORE, answer],
  ['202 to a notification', 202, NOTICE, {}, { kind: 'accepted' }],
  ['200 null to a notification', 200, { ...NOTICE, text: 'null' }, {}, { kind: 'accepted' }],
  ['204 to a notification', 204, NOTICE, NO_SESSION, { kind: 'accepted' }],

  // ---- own errors: from behind the session, not suspect by their status
  ['400, own error', 400, own(-32602), {}, answer],
  ['404, own error', 404, own(-32600, 'unbekannt'), {}, answer],
  ['404, own -32601', 404, own(-32601, 'Method not found'), {}, answer],
  ['404, own -32601 that speaks of sessions', 404, own(-32601, 'Method session/x not found'), {}, answer],
  ['500, own error', 500, own(-32603), {}, answer],
  ['503, own error, newer credential', 503, own(-32603), NEWER, answer],
  ['404, own result', 404, result('own'), {}, answer],
  ['500, own result', 500, result('own'), {}, answer],
  ['400, own error, the third in a row', 400, own(-32602), TWO_BEFORE, suspect('unknown', false, answer)],
  ['400, own error, the second in a row', 400, own(-32602), { errorsInRow: 1 }, answer],
  ['400, the third in a row, no session', 400, own(-32602), { ...TWO_BEFORE, ...NO_SESSION }, answer],
  ['400, the third in a row, later era', 400, own(-32602), { ...TWO_BEFORE, ...LATER_ERA }, answer],
  // ---- ... but by code or words
  ['404, own -32001', 404, own(-32001), {}, suspect('unknown', true, answer)],
  ['200, own -32001', 200, own(-32001), {}, suspect('unknown', true, answer)],
  ['400, own -32002', 400, own(-32002), {}, suspect('unknown', true, answer)],
  ['200, own -32002 to resources/read', 200, { ...own(-32002), method: 'resources/read' }, {}, answer],
  ['200, own words: session', 200, own(-32000, 'Session expired'), {}, suspect('unknown', true, answer)],
  [
    '400, own words: not initialized',
    400,
    own(-32600, 'Server not initialized'),
    {},
    suspect('unknown', true),
  ],
  ['200, own -32001, no session', 200, own(-32001), NO_SESSION, answer],
  ['200, own -32001, later era', 200, own(-32001), LATER_ERA, answer],

  // ---- 401
  ['401 challenged', 401, CHALLENGE, {}, credential(true, false)],
  ['401 challenged by DPoP', 401, DPOP, {}, credential(true, false)],
  ['401 with Basic only', 401, BASIC, NO_SESSION, credential(false, 'unknown')],
  ['401 challenged, no session', 401, CHALLENGE, NO_SESSION, credential(true, false)],
  ['401 challenged, later era', 401, CHALLENGE, { ...LATER_ERA, ...NEWER }, credential(true, false)],
  ['401 challenged, foreign error', 401, { ...CHALLENGE, ...foreign(-32000) }, {}, credential(true, false)],
  ['401 bare, no session', 401, HTML, NO_SESSION, credential(false, 'unknown')],
  ['401 bare, stale', 401, HTML, STALE, credential(false, 'unknown')],
  ['401 challenged, stale and newer', 401, CHALLENGE, { ...STALE, ...NEWER }, credential(true, false)],
  [
    '401 of the session layer, stale',
    401,
    none(-32001, 'Session not found'),
    STALE,
    credential(false, 'unknown'),
  ],
  ['401 challenged, newer', 401, CHALLENGE, NEWER, suspect(false, true, credential(true, false))],
  ['401 bare, newer', 401, HTML, NEWER, suspect('unknown', true, credential(false, 'unknown'))],
  ['401 bare', 401, HTML, {}, suspect('unknown', false, credential(false, 'unknown'))],
  ['401 of the session layer', 401, none(-32001, 'Session not found'), {}, suspect(false, true)],
  ['401 page that speaks of the session', 401, { text: 'Session expired' }, {}, suspect('unknown', true)],
  ['401 for want of scope, newer', 401, SCOPE, NEWER, credential(true, false)],
  ['401 challenged, own error', 401, { ...CHALLENGE, ...own(-32000) }, {}, credential(false, 'unknown')],
  [
    '401 challenged, own error, newer',
    401,
    { ...CHALLENGE, ...own(-32000) },
    NEWER,
    credential(false, 'unknown'),
  ],
  ['401 challenged, own result', 401, { ...CHALLENGE, ...result('own') }, {}, credential(false, 'unknown')],
  [
    '401 challenged, own result, newer',
    401,
    { ...CHALLENGE, ...result('own') },
    NEWER,
    credential(false, 'unknown'),
  ],
  ['401 challenged, own -32023', 401, { ...CHALLENGE, ...own(-32023) }, {}, credential(true, false)],
  ['401 bare, own -32023', 401, own(-32023), {}, credential(false, false)],
  [
    '401, own error that speaks of the session',
    401,
    own(-32001, 'Session not found'),
    {},
    suspect('unknown', true, credential(false, 'unknown')),
  ],
  [
    '401, the same under a stale credential',
    401,
    own(-32001, 'Session not found'),
    STALE,
    credential(false, 'unknown'),
  ],

  // ---- 403
  ['403 for want of scope', 403, SCOPE, {}, scope(false)],
  ['403 for want of scope, newer', 403, SCOPE, NEWER, scope(false)],
  ['403 for want of scope, no session', 403, SCOPE, NO_SESSION, scope(false)],
  ['403 for want of scope, own error', 403, { ...SCOPE, ...own(-32000) }, {}, scope('unknown')],
  ['403 for want of scope, own result', 403, { ...SCOPE, ...result('own') }, {}, scope('unknown')],
  ['403 for want of scope, own -32023', 403, { ...SCOPE, ...own(-32023) }, {}, scope(false)],
  ['403, own error', 403, own(-32000), {}, failed('ERR_HTTP_STATUS', 'unknown')],
  ['403, own result', 403, result('own'), {}, failed('ERR_HTTP_STATUS', 'unknown')],
  [
    '403, own error that speaks of the session',
    403,
    own(-32001),
    {},
    suspect('unknown', true, failed('ERR_HTTP_STATUS', 'unknown')),
  ],
  ['403 page', 403, HTML, {}, suspect('unknown', false, failed('ERR_HTTP_STATUS', 'unknown'))],
  ['403 page, newer', 403, HTML, NEWER, suspect('unknown', true)],
  ['403 of the session layer', 403, none(-32001), {}, suspect(false, true)],
  ['403 page, no session', 403, HTML, NO_SESSION, failed('ERR_HTTP_STATUS', 'unknown')],
  ['403 page, later era, newer', 403, HTML, { ...LATER_ERA, ...NEWER }, failed('ERR_HTTP_STATUS', 'unknown')],

  // ---- 404
  ['404 of the session layer', 404, none(-32001, 'Session not found'), {}, lost(false, false)],
  ['404 of the session layer, other words', 404, none(-32600, 'Sitzung unbekannt'), {}, lost(false, false)],
  ['404 of the session layer, stale', 404, none(-32001), STALE, lost(false, false)],
  ["404 with somebody else's error", 404, foreign(-32001), {}, lost('unknown', false)],
  ['404 page', 404, HTML, {}, lost('unknown', true)],
  ['404 empty', 404, { text: '' }, {}, lost('unknown', true)],
  ['404 broken JSON', 404, { damage: 'malformed' }, {}, lost('unknown', true)],
  ['404, no id, -32601', 404, none(-32601), {}, failed('ERR_HTTP_STATUS', 'unknown')],
  ['404 of a session layer, no session', 404, none(-32001), NO_SESSION, failed('ERR_HTTP_STATUS', 'unknown')],
  ['404 page, later era', 404, HTML, LATER_ERA, failed('ERR_HTTP_STATUS', 'unknown')],
  ['404 to a notification', 404, { ...NOTICE, ...none(-32001) }, {}, lost(false, false)],

  // ---- 400, 500, 503 and errors in 200
  ['400 of the session layer', 400, none(-32000, 'No valid session ID provided'), {}, suspect(false, true)],
  ['400 without id, other words', 400, none(-32600), {}, suspect(false, false)],
  ['400 page that speaks of the session', 400, { text: 'Unknown session' }, {}, suspect('unknown', true)],
  ['400 page', 400, HTML, {}, suspect('unknown', false, failed('ERR_HTTP_STATUS', 'unknown'))],
  ["400 with somebody else's error", 400, foreign(-32600), {}, suspect('unknown', false)],
  [
    '400 of the session layer, no session',
    400,
    none(-32000, 'session'),
    NO_SESSION,
    failed('ERR_HTTP_STATUS', 'unknown'),
  ],
  [
    '400 of the session layer, later era',
    400,
    none(-32000, 'session'),
    LATER_ERA,
    failed('ERR_HTTP_STATUS', 'unknown'),
  ],
  ['500 page', 500, HTML, {}, suspect('unknown', false, failed('ERR_HTTP_STATUS', 'unknown'))],
  ['500 of the session layer', 500, none(-32603, 'Session lost'), {}, suspect(false, true)],
  ['503 page', 503, HTML, {}, suspect('unknown', false)],
  ['503 page, no session', 503, HTML, NO_SESSION, failed('ERR_HTTP_STATUS', 'unknown')],
  ['200, error without id', 200, none(-32001), {}, suspect(false, true)],
  [
    '200, error without id, other words',
    200,
    none(-32600),
    {},
    suspect(false, false, failed('ERR_PROTOCOL', 'unknown')),
  ],
  ['200, error without id, no session', 200, none(-32001), NO_SESSION, failed('ERR_PROTOCOL', 'unknown')],
  ["200, somebody else's error", 200, foreign(-32600), {}, suspect('unknown', false)],
  ['200, error without id, to a notification', 200, { ...NOTICE, ...none(-32001) }, {}, suspect(false, true)],

  // ---- 429
  [
    '429',
    429,
    { text: 'Too Many Requests', retryAfterMs: 3000 },
    {},
    { ...limited(false), retryAfterMs: 3000 },
  ],
  ['429, later era', 429, HTML, LATER_ERA, limited(false)],
  ['429, no id', 429, none(-32000), {}, limited(false)],
  ['429, own error', 429, own(-32000), {}, limited('unknown')],
  ['429, own result', 429, result('own'), {}, limited('unknown')],
  ['429, own -32023', 429, own(-32023), {}, limited(false)],

  // ---- other statuses
  ['405', 405, HTML, {}, failed('ERR_HTTP_STATUS', false)],
  ['406', 406, none(-32000), {}, failed('ERR_HTTP_STATUS', false)],
  ['413', 413, HTML, {}, failed('ERR_HTTP_STATUS', false)],
  ['415', 415, none(-32000), {}, failed('ERR_HTTP_STATUS', false)],
  ['421', 421, HTML, LATER_ERA, failed('ERR_HTTP_STATUS', false)],
  ['431', 431, HTML, {}, failed('ERR_HTTP_STATUS', false)],
  ['501', 501, HTML, {}, failed('ERR_HTTP_STATUS', false)],
  ['408', 408, HTML, {}, failed('ERR_HTTP_STATUS', 'unknown')],
  ['409', 409, HTML, {}, failed('ERR_HTTP_STATUS', 'unknown')],
  ['502', 502, HTML, {}, failed('ERR_HTTP_STATUS', 'unknown')],
  ['504', 504, HTML, NEWER, failed('ERR_HTTP_STATUS', 'unknown')],

  // ---- 2xx that are no answer
  ['200 page', 200, HTML, {}, failed('ERR_PROTOCOL', 'unknown')],
  ["200, somebody else's result", 200, result('foreign'), {}, failed('ERR_PROTOCOL', 'unknown')],
  ['200, broken JSON', 200, { damage: 'malformed' }, {}, failed('ERR_PROTOCOL', 'unknown')],
  ['200, too large', 200, { damage: 'too-large' }, {}, failed('ERR_MESSAGE_TOO_LARGE', 'unknown')],
  ['413, too large a page', 413, { damage: 'too-large' }, {}, failed('ERR_MESSAGE_TOO_LARGE', false)],
  ['202 to a request', 202, { text: '' }, {}, failed('ERR_PROTOCOL', 'unknown')],
  ['204 to a request', 204, { text: '' }, {}, failed('ERR_PROTOCOL', 'unknown')],

  // ---- no answer at all
  [
    'not sent',
    0,
    failure(false, 'network', { code: 'ECONNREFUSED' }),
    {},
    { kind: 'not-sent', code: 'ECONNREFUSED', timeout: false },
  ],
  [
    'not sent, reset while connecting',
    0,
    failure(false, 'network', { code: 'ECONNRESET' }),
    NEWER,
    { kind: 'not-sent', timeout: false },
  ],
  ['not sent in time', 0, failure(false, 'timeout'), {}, { kind: 'not-sent', timeout: true }],
  ['not sent, aborted', 0, failure(false, 'aborted'), STALE, { kind: 'not-sent', timeout: false }],
  [
    'sent, reset',
    0,
    failure(true, 'network', { code: 'ECONNRESET' }),
    {},
    { kind: 'cut', code: 'ECONNRESET', timeout: false },
  ],
  ['sent, no head in time', 0, failure(true, 'timeout'), {}, { kind: 'cut', timeout: true }],
  ['sent, cut within a 404', 404, failure(true, 'network'), {}, { kind: 'cut', timeout: false }],
  ['sent, cut, later era', 200, failure(true, 'network'), LATER_ERA, { kind: 'cut' }],
  ['unreadable coding', 200, failure(true, 'encoding'), {}, failed('ERR_PROTOCOL', 'unknown')],
  ['too large a head', 0, failure(true, 'too-large'), {}, failed('ERR_MESSAGE_TOO_LARGE', 'unknown')],
  ['unusable request', 0, failure(false, 'invalid-request'), {}, failed('ERR_PROTOCOL', false)],
  ['no way to make it', 0, failure(false, 'unsupported'), {}, failed('ERR_NOT_SENT', false)],
  // RFC 9110 section 15.4: 303 answers a request that was processed, and 302 is used so.
  ['307 elsewhere', 307, failure(true, 'redirect', { status: 307 }), {}, failed('ERR_REDIRECT', false)],
  ['308 elsewhere', 308, failure(true, 'redirect', { status: 308 }), {}, failed('ERR_REDIRECT', false)],
  ['301', 301, failure(true, 'redirect', { status: 301 }), {}, failed('ERR_REDIRECT', 'unknown')],
  ['302', 302, failure(true, 'redirect', { status: 302 }), {}, failed('ERR_REDIRECT', 'unknown')],
  ['303', 303, failure(true, 'redirect', { status: 303 }), {}, failed('ERR_REDIRECT', 'unknown')],
  [
    'a redirect that fetch hides',
    0,
    failure(true, 'redirect', { status: 0 }),
    {},
    failed('ERR_REDIRECT', 'unknown'),
  ],
];

describe('classify', () => {
  it.each(ROWS)('%s', (_name, status, facts, given, expected) => {
    const { sessionSent, ...context } = given;

    const verdict = classify(
      {
        method: 'tools/call',
        expectsAnswer: true,
        sent: true,
        sessionSent: sessionSent ?? true,
        ...(status !== 0 && { status }),
        ...facts,
      },
      { era: 'initialize', credentialStale: false, credentialNewer: false, errorsInRow: 0, ...context },
    );

    expect(verdict).toMatchObject(expected);
  });

  it('promises no resend (executed false) wherever an answer with the request’s id arrived, save -32023', () => {
    for (const [name, status, facts, , expected] of ROWS) {
      if (facts.relation !== 'own' || status < 400) continue;
      const { message } = facts;
      if (message !== undefined && 'error' in message && message.error.code === -32023) continue;
      expect((expected as { executed?: unknown }).executed, name).not.toBe(false);
    }
  });
});
