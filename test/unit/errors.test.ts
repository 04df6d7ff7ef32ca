import { inspect } from 'node:util';
import fc from 'fast-check';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { type ClassifyContext, classify } from '../../src/connection/classify.js';
import type { ExchangeFacts } from '../../src/connection/facts.js';
import { failureOf } from '../../src/connection/failures.js';
import { Call } from '../../src/connection/ledger.js';
import {
  cleanServerText,
  codeOf,
  type Executed,
  HostedMcpError,
  type HostedMcpErrorCode,
} from '../../src/errors.js';
import { manualClock } from '../../src/testing/manual-clock.js';

const PHRASES = [
  'not connected',
  'connection closed',
  'connection refused',
  'econnrefused',
  'fetch failed',
  'terminated',
  ...['http 400', 'http 401', 'http 403', 'http 404'],
];
const CODES: readonly HostedMcpErrorCode[] = [
  'ERR_NOT_SENT',
  'ERR_SESSION_LOST',
  'ERR_SESSION_UNSTABLE',
  'ERR_OUTCOME_UNKNOWN',
  'ERR_TIMEOUT',
  'ERR_ABORTED',
  'ERR_CREDENTIAL_REJECTED',
  'ERR_CREDENTIAL_SOURCE',
  'ERR_DISCOVERY',
  'ERR_REAUTHORIZATION_REQUIRED',
  'ERR_INSUFFICIENT_SCOPE',
  'ERR_TOKEN_ENDPOINT',
  'ERR_STORE_UNAVAILABLE',
  'ERR_RATE_LIMITED',
  'ERR_RATE_WAIT_EXCEEDED',
  'ERR_CONTRACT_CHANGED',
  'ERR_TOOL_NOT_PINNED',
  'ERR_DENIED',
  'ERR_CALL_LIMIT',
  'ERR_RESULT_REFUSED',
  'ERR_MESSAGE_TOO_LARGE',
  'ERR_HTTP_STATUS',
  'ERR_PROTOCOL',
  'ERR_REDIRECT',
  'ERR_CLOSED',
];

const anyCase = (text: string) =>
  fc
    .array(fc.boolean(), { minLength: text.length, maxLength: text.length })
    .map((upper) => [...text].map((c, i) => (upper[i] ? c.toUpperCase() : c)).join(''));
const phrase = fc.constantFrom(...PHRASES).chain(anyCase);
const unicode = fc.string({ unit: 'binary', maxLength: 60 });
/** Texts in which the phrases stand, next to and within each other, with anything around them. */
const hostileText = fc
  .array(fc.oneof(phrase, unicode, fc.string({ maxLength: 20 })), { maxLength: 6 })
  .map((parts) => parts.join(''));
const code = fc.constantFrom(...CODES);
const executed = fc.constantFrom<Executed>(false, true, 'unknown');

function expectNoPhrase(text: string): void {
  for (const each of PHRASES) expect(text.toLowerCase()).not.toContain(each);
}

describe('the message', () => {
  it('holds no phrase by which frameworks replay a call, whatever anybody puts in', () => {
    fc.assert(
      fc.property(code, hostileText, executed, (which, what, ran) => {
        const error = new HostedMcpError(which, what, { executed: ran, retryAfterMs: 1_500 });
        expectNoPhrase(error.message);
        expectNoPhrase(error.stack ?? '');
        expectNoPhrase(error.toToolResult().content[0].text);
        expectNoPhrase(String(error));
      }),
      { numRuns: 500 },
    );
  });

  it('nor, where the call ran or may have run, the word by which Mastra 0.14 does', () => {
    const text = fc.constantFrom('session', 'Sessions', 'SESSIOn', 'sessionsession').chain(anyCase);
    fc.assert(
      fc.property(code, fc.array(fc.oneof(text, hostileText)), executed, (which, parts, ran) => {
        const error = new HostedMcpError(which, parts.join(' '), { executed: ran });
        for (const said of [error.message, String(error), error.toToolResult().content[0].text]) {
          expectNoPhrase(said);
          if (ran !== false) expect(said.toLowerCase()).not.toContain('session');
        }
      }),
      { numRuns: 500 },
    );
    // The field's own word stays where a repetition does no harm.
    expect(new HostedMcpError('ERR_SESSION_LOST', 'The session is gone').message).toContain('session');
  });

  const facts = fc.record<ExchangeFacts>(
    {
      method: fc.constant('tools/call'),
      expectsAnswer: fc.constant(true),
      sent: fc.constant(true),
      sessionSent: fc.boolean(),
      status: fc.constantFrom(200, 202, 301, 400, 401, 403, 404, 405, 429, 500, 502, 503),
      contentType: fc.constantFrom('application/json', 'text/html', 'text/event-stream'),
      challenges: fc.array(
        fc.record({ scheme: fc.constantFrom('bearer', 'basic'), error: hostileText, scope: hostileText }),
        { maxLength: 2 },
      ),
      message: hostileText.map((message) => ({
        jsonrpc: '2.0' as const,
        id: null,
        error: { code: -32000, message },
      })),
      relation: fc.constantFrom('own', 'none', 'foreign'),
      text: hostileText,
      damage: fc.constantFrom('malformed', 'too-large'),
    },
    { requiredKeys: ['method', 'expectsAnswer', 'sent', 'sessionSent'] },
  );
  const context = fc.record<ClassifyContext>({
    era: fc.constantFrom('initialize', 'stateless'),
    credentialStale: fc.boolean(),
    credentialNewer: fc.boolean(),
    errorsInRow: fc.nat(3),
  });

  it('holds nothing of what a server wrote, for any answer', () => {
    const marked = (text: string) => `~upstream~ ${text}`;
    fc.assert(
      fc.property(facts, context, (plain, how) => {
        const answer: ExchangeFacts = {
          ...plain,
          ...(plain.text !== undefined && { text: marked(plain.text) }),
          ...(plain.message !== undefined && {
            message: { jsonrpc: '2.0', error: { code: -32000, message: marked(String(plain.text)) } },
          }),
        };
        const message = { jsonrpc: '2.0' as const, id: 1, method: 'tools/call' };
        const call = new Call(message, {}, manualClock(), 1_000, () => {});
        const verdict = classify(answer, how);
        const error = failureOf(verdict, call, answer);
        expectNoPhrase(error.message);
        expectNoPhrase(error.toToolResult().content[0].text);
        expect(error.message).not.toContain('~upstream~');
        expect(JSON.stringify(error)).not.toContain('~upstream~');
        if (error.retryable) expect(error.executed).toBe(false);
      }),
      { numRuns: 500 },
    );
  });

  it('says in words what happened to the call', () => {
    const said = (ran: Executed) =>
      new HostedMcpError('ERR_PROTOCOL', 'It failed', { executed: ran }).message;
    expect(said(false)).toBe('It failed. The call did not run.');
    expect(said('unknown')).toBe('It failed. The call may have run: check before repeating it.');
    expect(said(true)).toBe('It failed. The call ran.');
  });

  it('retryable means that it did not run', () => {
    for (const ran of [false, 'unknown', true] as const) {
      const error = new HostedMcpError('ERR_NOT_SENT', 'x', { executed: ran, retryable: true });
      expect(error.retryable).toBe(ran === false);
    }
    expect(new HostedMcpError('ERR_NOT_SENT', 'x').retryable).toBe(false);
  });
});

describe('toToolResult', () => {
  it.each(CODES)('%s: our words, what to do, how long to wait', (which) => {
    const error = new HostedMcpError(which, 'It failed', { serverText: 'server words', retryAfterMs: 1_500 });
    const { isError, content } = error.toToolResult();
    expect(isError).toBe(true);
    expect(content).toHaveLength(1);
    expect(content[0].text).toMatch(/^It failed\. The call did not run\. .+\. Wait at least 2 s\.$/);
    expect(content[0].text).not.toContain('server words');
    expect(new HostedMcpError(which, 'x').toToolResult().content[0].text).not.toContain('Wait at least');
  });
});

describe('isInstance and from', () => {
  let Other: typeof HostedMcpError;
  beforeAll(async () => {
    vi.resetModules();
    ({ HostedMcpError: Other } = await import('../../src/errors.js'));
  });

  it('know the errors of another copy of this library, both ways', () => {
    expect(Other).not.toBe(HostedMcpError);
    const ours = new HostedMcpError('ERR_CLOSED', 'x');
    const theirs = new Other('ERR_CLOSED', 'x');
    expect(theirs instanceof HostedMcpError).toBe(false);
    for (const Class of [HostedMcpError, Other]) {
      for (const error of [ours, theirs]) {
        expect(Class.isInstance(error)).toBe(true);
        expect(Class.isInstance(error, 'ERR_CLOSED', 'ERR_TIMEOUT')).toBe(true);
        expect(Class.isInstance(error, 'ERR_TIMEOUT')).toBe(false);
        expect(Class.from(error)).toBe(error);
      }
    }
  });

  it('know nothing else', () => {
    const others = [
      undefined,
      null,
      5,
      'ERR_CLOSED',
      {},
      [],
      new Error('x'),
      { code: 'ERR_CLOSED', executed: false },
    ];
    for (const other of others) {
      expect(HostedMcpError.isInstance(other)).toBe(false);
      expect(HostedMcpError.from(other)).toBe(undefined);
    }
    fc.assert(fc.property(fc.anything(), (value) => HostedMcpError.isInstance(value) === false));
    fc.assert(fc.property(fc.anything(), (value) => HostedMcpError.from(value) === undefined));
  });

  it('from finds it behind causes, and in the data of an SDK error', () => {
    const ours = new HostedMcpError('ERR_RATE_LIMITED', 'x');
    expect(HostedMcpError.from(new Error('a', { cause: new Error('b', { cause: ours }) }))).toBe(ours);
    const carried = { code: 'ERR_RATE_LIMITED', executed: false, retryAfterMs: 500 };
    const found = HostedMcpError.from(Object.assign(new Error('x'), { data: { holdfast: carried } }));
    expect(found).toMatchObject({ ...carried, retryable: true });
    const unknown = { holdfast: { code: 'ERR_TIMEOUT', executed: 'unknown', message: 'fetch failed' } };
    expect(HostedMcpError.from({ cause: { data: unknown } })).toMatchObject({
      code: 'ERR_TIMEOUT',
      executed: 'unknown',
      retryable: false,
      message: expect.not.stringContaining('fetch failed'),
    });
  });

  it.each([
    { code: 'ERR_NOSUCH', executed: false },
    { code: 'toString', executed: false },
    { code: '__proto__', executed: false },
    { code: 'ERR_TIMEOUT', executed: 'no' },
    { code: 'ERR_TIMEOUT' },
    'ERR_TIMEOUT',
    null,
  ])('from believes no such data: %j', (holdfast) => {
    expect(HostedMcpError.from({ data: { holdfast } })).toBe(undefined);
  });

  it('from ends on a circle of causes', () => {
    const error = new Error('x');
    error.cause = error;
    expect(HostedMcpError.from(error)).toBe(undefined);
  });

  it('from takes no wait from a server that is no wait', () => {
    for (const retryAfterMs of ['fetch failed', Number.NaN, Number.POSITIVE_INFINITY, -1, {}]) {
      const data = { holdfast: { code: 'ERR_TIMEOUT', executed: false, retryAfterMs } };
      expect(HostedMcpError.from({ data })).toMatchObject({ code: 'ERR_TIMEOUT' });
      expect(HostedMcpError.from({ data })?.retryAfterMs).toBe(undefined);
      expect(HostedMcpError.from({ data })?.retryable).toBe(false);
    }
  });
});

describe('serverText', () => {
  it.each([
    ['a terminal escape', '\u001b[31mred\u001b[0m text', 'red text'],
    ['a CSI of one character', '\u009b2Jgone', 'gone'],
    ['a title', '\u001b]0;pwned\u0007rest', 'rest'],
    ['a link', '\u001b]8;;https://x.test\u001b\\click\u001b]8;;\u001b\\', 'click'],
    ['a charset', 'a\u001b(0b', 'ab'],
    ['an escape that never ends', 'a\u001b]0;pwned', 'a0;pwned'],
    ['controls', 'a\u0000b\u0007c\u0085d\u007fe', 'a b c d e'],
    ['line ends', 'a\r\n\r\nb\u2028c\u2029d', 'a b c d'],
    ['bidi', 'a\u202eb\u2066c\u2069d\u200fe', 'a b c d e'],
    ['zero width', 'a\u200bb\u200dc\ufeffd\u2060e', 'a b c d e'],
    ['tags', 'a\u{e0041}\u{e0042}\u{e007f}b', 'a b'],
    ['variation selectors', 'a\ufe01\u{e0100}\u{e01ef}b', 'a b'],
    ['fillers', 'a\u115f\u3164\uffa0b', 'a b'],
    ['half a character', 'a\ud800b\udc00c', 'a b c'],
    ['nothing', ' \t\n ', ''],
    ['what is harmless', 'Grüße, 東京 🎈: 100 %', 'Grüße, 東京 🎈: 100 %'],
  ])('%s', (_name, text, cleaned) => {
    expect(cleanServerText(text)).toBe(cleaned);
  });

  it('is short, one line and free of what is not seen, for any text', () => {
    const dirt = fc.constantFrom(
      '\u001b[',
      '\u001b]',
      '\u001b',
      '\u009b',
      'm',
      ';',
      '\u0007',
      '\u202e',
      '\u{e0020}',
    );
    const text = fc.array(fc.oneof(dirt, unicode), { maxLength: 40 }).map((parts) => parts.join(''));
    fc.assert(
      fc.property(text, (dirty) => {
        const cleaned = cleanServerText(dirty);
        expect(cleaned).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u);
        expect(cleaned).not.toMatch(/\s\s|^\s|\s$/);
        expect(Array.from(cleaned).length).toBeLessThanOrEqual(200);
        expect(cleanServerText(cleaned)).toBe(cleaned);
      }),
      { numRuns: 500 },
    );
  });

  it('cuts between characters, not within', () => {
    expect(cleanServerText('🎈'.repeat(300))).toBe('🎈'.repeat(200));
    expect(cleanServerText('x'.repeat(100_000))).toHaveLength(200);
  });

  it('takes no longer for texts made to take long', () => {
    const started = performance.now();
    for (const part of ['\u001b]', '\u001b[', ' ', '\u001b[0;', '\u202e'])
      cleanServerText(part.repeat(500_000));
    expect(performance.now() - started).toBeLessThan(1_000);
  });

  it('is a field that is not enumerated', () => {
    const error = new HostedMcpError('ERR_HTTP_STATUS', 'x', { serverText: 'their words', status: 502 });
    expect(error.serverText).toBe('their words');
    expect(Object.keys(error)).toEqual(['name', 'code', 'executed', 'retryable', 'status']);
    expect(JSON.stringify(error)).not.toContain('their words');
    expect(inspect(error)).not.toContain('their words');
  });
});

describe('cause', () => {
  const SECRET = 'canary connection refused';
  const inner = Object.assign(new TypeError(SECRET), {
    code: 'ECONNREFUSED',
    address: SECRET,
    config: { SECRET },
  });

  it('keeps of a foreign error its name and code, never its message', () => {
    const error = new HostedMcpError('ERR_NOT_SENT', 'x', { cause: inner });
    expect(error.cause).toMatchObject({ name: 'TypeError', code: 'ECONNREFUSED' });
    expect(error.cause).not.toBe(inner);
    const shown = inspect(error, { depth: Number.POSITIVE_INFINITY, showHidden: true });
    expect(shown + JSON.stringify(error) + String((error.cause as Error).message)).not.toContain('canary');
    expect((error.cause as Error).stack).toBe(undefined);
  });

  it('never carries a foreign message, for any thrown value', () => {
    const thrown = fc.oneof(
      fc.string().map((text) => `canary ${text}`),
      fc.record({
        name: fc.oneof(fc.constant('canary name!'), fc.constant('Error'), fc.anything()),
        code: fc.oneof(fc.constant('canary code'), fc.constant('ECONNRESET'), fc.anything()),
        message: fc.constant('canary'),
        cause: fc.constant({ message: 'canary' }),
      }),
      fc.string().map((text) => new Error(`canary ${text}`, { cause: 'canary' })),
      fc.string().map((text) => new AggregateError([new Error(text)], 'canary')),
    );
    fc.assert(
      fc.property(thrown, (cause) => {
        const error = new HostedMcpError('ERR_NOT_SENT', 'x', { cause });
        const shown = inspect(error, { depth: Number.POSITIVE_INFINITY, showHidden: true });
        expect(shown).not.toContain('canary');
        expect(JSON.stringify(error)).not.toContain('canary');
      }),
    );
  });

  it('keeps one of ours as it is', () => {
    const ours = new HostedMcpError('ERR_TIMEOUT', 'x');
    expect(new HostedMcpError('ERR_PROTOCOL', 'y', { cause: ours }).cause).toBe(ours);
  });

  it('codeOf takes plain identifiers only', () => {
    expect(codeOf({ code: 'UND_ERR_SOCKET' })).toBe('UND_ERR_SOCKET');
    for (const value of ['lower', 'A B', '', 'A'.repeat(61), 5, null, {}])
      expect(codeOf({ code: value })).toBe(undefined);
    for (const value of [undefined, null, 'X', 5]) expect(codeOf(value)).toBe(undefined);
  });
});
