import { describe, expect, it } from 'vitest';
import {
  afterResume,
  type ClassifyContext,
  classify,
  PLAIN_CONTEXT,
  type Verdict,
} from '../../../src/connection/classify.js';
import type { ExchangeFacts } from '../../../src/connection/facts.js';

type Facts = Partial<ExchangeFacts>;

function verdictOn(facts: Facts, context: Partial<ClassifyContext> = {}): Verdict {
  return classify(
    { method: 'tools/call', expectsAnswer: true, sent: true, sessionSent: true, ...facts },
    { ...PLAIN_CONTEXT, ...context },
  );
}

const error = (relation: 'own' | 'none' | 'foreign', code = -32000, message = 'Fehler'): Facts => {
  const id = { own: 7, none: null, foreign: 99 }[relation];
  return { relation, message: { jsonrpc: '2.0', id, error: { code, message } } };
};
const SCOPE = { challenges: [{ scheme: 'bearer', error: 'insufficient_scope', scope: 'files:write' }] };
const NOTICE = { method: 'notifications/cancelled', expectsAnswer: false };

it('the engine’s own exchanges have nothing that speaks against the credential or the session', () => {
  expect(PLAIN_CONTEXT).toEqual({
    era: 'initialize',
    credentialStale: false,
    credentialNewer: false,
    errorsInRow: 0,
  });
});

describe('statuses', () => {
  it.each([405, 406, 407, 411, 413, 414, 415, 417, 421, 425, 431, 501, 505])(
    '%i says that the request was not processed',
    (status) => {
      expect(verdictOn({ status, text: '' })).toMatchObject({ kind: 'failed', executed: false });
    },
  );

  it('no other status above 404 does, in words of HTTP alone', () => {
    const unread = [405, 406, 407, 411, 413, 414, 415, 417, 421, 425, 431, 501, 505];
    for (let status = 405; status < 600; status += 1) {
      if (unread.includes(status) || status === 429) continue;
      expect(verdictOn({ status, text: '' }, { era: 'stateless' }), String(status)).toMatchObject({
        kind: 'failed',
        executed: 'unknown',
      });
    }
  });

  it.each([
    [199, 'failed'],
    [200, 'accepted'],
    [299, 'accepted'],
    [300, 'failed'],
  ])('%i to a notification is %s', (status, kind) => {
    expect(verdictOn({ ...NOTICE, status, text: '' })).toMatchObject({ kind });
  });

  it.each([
    [199, 'failed', 'ERR_HTTP_STATUS'],
    [200, 'session-suspect', undefined],
    [299, 'session-suspect', undefined],
    [300, 'failed', 'ERR_HTTP_STATUS'],
  ])('an error without id under %i is %s', (status, kind, code) => {
    expect(verdictOn({ status, ...error('none') })).toMatchObject({
      kind,
      ...(code !== undefined && { code }),
    });
  });

  it.each([
    [199, 'ERR_HTTP_STATUS'],
    [200, 'ERR_PROTOCOL'],
    [299, 'ERR_PROTOCOL'],
    [300, 'ERR_HTTP_STATUS'],
  ])('a page under %i is %s', (status, code) => {
    expect(verdictOn({ status, text: '' })).toMatchObject({ kind: 'failed', code });
  });
});

describe('an answer of its own that is settled by its status', () => {
  it.each([
    ['429', { status: 429 }, { kind: 'limited', executed: 'unknown' }],
    ['403 for want of scope', { status: 403, ...SCOPE }, { kind: 'scope', executed: 'unknown' }],
  ])('%s is no matter of the session, whatever the words', (_name, facts, expected) => {
    expect(verdictOn({ ...facts, ...error('own', -32001, 'Session expired') })).toMatchObject(expected);
  });

  it('nor is a 401 refused before dispatch', () => {
    const refusal = { status: 401, ...error('own', -32023, 'Session expired') };

    expect(verdictOn(refusal)).toMatchObject({ kind: 'credential', executed: false });
    expect(verdictOn({ ...refusal, ...error('own', -32000, 'Session expired') }).kind).toBe(
      'session-suspect',
    );
  });
});

describe('what never left did not run', () => {
  it.each(['too-large', 'encoding', 'invalid-request', 'unsupported'] as const)('%s', (kind) => {
    expect(verdictOn({ sent: false, failure: { sent: false, phase: 'before', kind } })).toMatchObject({
      kind: 'failed',
      executed: false,
    });
  });
});

describe('the reason', () => {
  const redirect = (status?: number): Facts => ({
    failure: { sent: true, phase: 'head', kind: 'redirect', ...(status !== undefined && { status }) },
  });
  const unsupported = (reason?: string): Facts => ({
    sent: false,
    failure: { sent: false, phase: 'before', kind: 'unsupported', ...(reason !== undefined && { reason }) },
  });

  it.each<[Facts, Partial<ClassifyContext>, string]>([
    [redirect(302), {}, 'the server answered with a redirect that is not followed (status 302)'],
    [redirect(), {}, 'the server answered with a redirect that is not followed (status unknown)'],
    [unsupported('no sockets'), {}, 'no sockets'],
    [unsupported(), {}, 'this runtime has no way to make the request'],
    [{ status: 401 }, {}, 'a refusal without a challenge'],
    [{ status: 401 }, { credentialNewer: true }, 'a refusal of a credential newer than the session'],
    [{ status: 400, text: 'no session' }, {}, 'a refusal that speaks of the session'],
    [{ status: 400, text: '' }, {}, 'a refusal that does not name the request'],
    [{ status: 404, text: '' }, {}, 'the server does not know the session'],
    [{ status: 200, ...error('own', -32001) }, {}, 'an error that speaks of the session'],
    [{ status: 400, ...error('own') }, { errorsInRow: 2 }, 'several errors in a row'],
    [{ status: 502, text: '' }, {}, 'the server answered with status 502'],
    [{ status: 200, damage: 'malformed' }, {}, 'the answer is not readable JSON'],
    [{ status: 200, damage: 'too-large' }, {}, 'the answer is larger than allowed'],
    [{ status: 202, text: '' }, {}, 'the server took the request as if it wanted no answer'],
    [
      { status: 200, contentType: 'text/html', text: '' },
      {},
      'the answer is neither JSON nor an event stream',
    ],
    [
      { status: 200, contentType: 'application/json', text: '' },
      {},
      'the answer is empty or no JSON-RPC message',
    ],
    [{ status: 200, contentType: 'text/event-stream' }, {}, 'the answer is empty or no JSON-RPC message'],
    [{ status: 200, text: '' }, {}, 'the answer is empty or no JSON-RPC message'],
    [
      { status: 200, relation: 'foreign', message: { jsonrpc: '2.0', id: 99, result: {} } },
      {},
      'the answer belongs to another request',
    ],
    [
      { status: 200, sessionSent: false, ...error('none') },
      {},
      'the server answered with an error that names no request',
    ],
    [{ status: 200, sessionSent: false, ...error('foreign') }, {}, 'the answer belongs to another request'],
    [
      { status: 200, relation: 'none', message: { jsonrpc: '2.0', id: null, result: {} } as never },
      {},
      'the answer is empty or no JSON-RPC message',
    ],
  ])('%o %o', (facts, context, reason) => {
    expect(verdictOn(facts, context)).toMatchObject({ reason });
  });
});

/** The call itself had been taken: whatever became of the asking for its answer, it may have run. */
describe('after a resume', () => {
  const answer: Verdict = { kind: 'answer', message: { jsonrpc: '2.0', id: 7, result: {} } };
  const challenge = { scheme: 'bearer' };
  const failed = (
    code: 'ERR_HTTP_STATUS' | 'ERR_PROTOCOL',
    executed: false | 'unknown' = false,
  ): Verdict => ({
    kind: 'failed',
    code,
    executed,
    reason: 'why',
  });
  const suspect = (strong: boolean, otherwise: Verdict): Verdict => ({
    kind: 'session-suspect',
    executed: false,
    strong,
    reason: 'why',
    otherwise,
  });
  const lost = (tentative: boolean): Verdict => ({
    kind: 'session-lost',
    executed: false,
    tentative,
    reason: 'why',
  });
  const cut = { kind: 'cut', timeout: false };

  it.each<[string, Verdict, object]>([
    ['an answer stays', answer, answer],
    ['so does "taken"', { kind: 'accepted' }, { kind: 'accepted' }],
    ['and a cut', { kind: 'cut', code: 'X', timeout: true }, { kind: 'cut', code: 'X', timeout: true }],
    [
      'what never left is a cut: the call had',
      { kind: 'not-sent', code: 'ECONNREFUSED', timeout: true },
      { kind: 'cut', code: 'ECONNREFUSED', timeout: true },
    ],
    [
      'a refused credential allows no resend',
      { kind: 'credential', challenged: true, executed: false, challenge },
      { kind: 'credential', challenged: false, executed: 'unknown', challenge },
    ],
    [
      'want of scope says nothing of the call',
      { kind: 'scope', requiredScope: 'a', executed: false },
      { kind: 'scope', requiredScope: 'a', executed: 'unknown' },
    ],
    [
      'nor does a limit',
      { kind: 'limited', retryAfterMs: 9, executed: false },
      { kind: 'limited', retryAfterMs: 9, executed: 'unknown' },
    ],
    ['a status means that the answer is not kept', failed('ERR_HTTP_STATUS'), cut],
    [
      'another failure stays',
      failed('ERR_PROTOCOL'),
      { kind: 'failed', code: 'ERR_PROTOCOL', executed: 'unknown', reason: 'why' },
    ],
    ['a page where the session may be lost: the answer is not kept', lost(true), cut],
    [
      'a session lost for certain stays so',
      lost(false),
      { kind: 'session-lost', executed: 'unknown', tentative: false, reason: 'why' },
    ],
    ['a vague suspicion is none', suspect(false, failed('ERR_HTTP_STATUS')), cut],
    [
      'a strong one stays, and so does what else it would be',
      suspect(true, failed('ERR_HTTP_STATUS')),
      { kind: 'session-suspect', executed: 'unknown', strong: true, reason: 'why', otherwise: cut },
    ],
  ])('%s', (_name, verdict, expected) => {
    expect(afterResume(verdict)).toEqual(expected);
  });
});
