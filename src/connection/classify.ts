/**
 * One exchange's facts, one verdict.
 *
 * Guarantees: a pure function, no I/O, no clock. `executed: false` is given only where the request never
 * left, or where HTTP or MCP says "refused before processing". Never decides what to do about it: that is
 * `connection.ts`, by the app's options.
 */
import type { Executed, HostedMcpErrorCode } from '../errors.js';
import { isErrorResponse, type JsonRpcResponse } from '../json-rpc.js';
import type { Challenge } from './challenge.js';
import type { ExchangeFacts } from './facts.js';

export interface ClassifyContext {
  readonly era: 'initialize' | 'stateless';
  /** The credential that was sent has expired or been replaced since. */
  readonly credentialStale: boolean;
  /** The credential that was sent is newer than the one the session was last accepted with. */
  readonly credentialNewer: boolean;
  /** JSON-RPC errors under an HTTP error status in a row on this session, this one not counted. */
  readonly errorsInRow: number;
}

/** For exchanges of the engine's own, where nothing is known that would speak against the credential. */
export const PLAIN_CONTEXT: ClassifyContext = Object.freeze({
  era: 'initialize',
  credentialStale: false,
  credentialNewer: false,
  errorsInRow: 0,
});

export type Verdict =
  /** The server's own answer, for the caller. */
  | { readonly kind: 'answer'; readonly message: JsonRpcResponse }
  /** A message that wants no answer was taken. */
  | { readonly kind: 'accepted' }
  /** No byte left. */
  | { readonly kind: 'not-sent'; readonly code?: string | undefined; readonly timeout: boolean }
  /** It left and the answer was cut off. */
  | { readonly kind: 'cut'; readonly code?: string | undefined; readonly timeout: boolean }
  /** 401: refresh. `challenged` says that the refusal came before processing. */
  | {
      readonly kind: 'credential';
      readonly challenged: boolean;
      readonly executed: Executed;
      readonly challenge?: Challenge | undefined;
    }
  | { readonly kind: 'scope'; readonly requiredScope?: string | undefined; readonly executed: Executed }
  | { readonly kind: 'limited'; readonly retryAfterMs?: number | undefined; readonly executed: Executed }
  /** `tentative`: give the session up only when a new one stands. */
  | {
      readonly kind: 'session-lost';
      readonly executed: Executed;
      readonly tentative: boolean;
      readonly reason: string;
    }
  /** One ping decides. `strong`: the server named the session, or refused a credential newer than it. `otherwise` stands if the session lives. */
  | {
      readonly kind: 'session-suspect';
      readonly executed: Executed;
      readonly strong: boolean;
      readonly reason: string;
      readonly otherwise: Verdict;
    }
  | {
      readonly kind: 'failed';
      readonly code: HostedMcpErrorCode;
      readonly executed: Executed;
      readonly reason: string;
      readonly retryable?: boolean;
    };

/** Statuses by which HTTP itself says that the request was not processed (RFC 9110 section 15, RFC 6585, RFC 8470). */
const REFUSED_UNREAD: ReadonlySet<number> = new Set([
  405, 406, 407, 411, 413, 414, 415, 417, 421, 425, 431, 501, 505,
]);

/** RFC 9110 section 15.4: the same request is to be made elsewhere. After the others it may have been processed here. */
const REFUSED_ELSEWHERE: ReadonlySet<number> = new Set([307, 308]);

const SESSION_WORDS = /session|not (?:yet )?initiali[sz]ed|uninitiali[sz]ed|initiali[sz]e first/i;
/** What servers built on the SDKs answer for an unknown session; -32002 means something else to `resources/read`. */
const SESSION_CODES: ReadonlySet<number> = new Set([-32001, -32002]);
/** An error code by which a server says that authorization refused the request before it was dispatched. */
const REFUSED_BEFORE_DISPATCH = -32023;
const METHOD_NOT_FOUND = -32601;
/** So many errors in a row make even an error in a language we do not read suspect. */
const ERRORS_BEFORE_SUSPECT = 3;

export function classify(facts: ExchangeFacts, context: ClassifyContext): Verdict {
  if (facts.failure !== undefined) return classifyFailure(facts);
  const status = facts.status ?? 0;
  const ok = status >= 200 && status < 300;
  if (facts.damage === 'too-large') {
    return failed(
      'ERR_MESSAGE_TOO_LARGE',
      ok ? 'unknown' : refusedBy(status),
      'the answer is larger than allowed',
    );
  }
  if (!facts.expectsAnswer && ok && !isErrorResponse(facts.message)) return { kind: 'accepted' };

  const inSession = facts.sessionSent && context.era === 'initialize';
  if (facts.relation === 'own' && facts.message !== undefined)
    return classifyOwn(facts, facts.message, context, inSession);
  if (status === 401) return classify401(facts, context, inSession);
  if (status === 429) return limited(facts, false);
  const scope = scopeChallenge(facts);
  if (status === 403 && scope !== undefined)
    return { kind: 'scope', requiredScope: scope.scope, executed: false };
  if (inSession) {
    const session = classifySession(facts, context);
    if (session !== undefined) return session;
  }
  return classifyRest(facts);
}

/** The answer was cut off, and the server does not have it any more. */
const LOST_TO_THE_STORE: Verdict = Object.freeze({ kind: 'cut', timeout: false });

/**
 * The verdict on a GET that was to bring the answer of a call sent before. However that GET was refused, the
 * call itself had been taken: nothing of it may say that it did not run, or let it go out again.
 */
export function afterResume(verdict: Verdict): Verdict {
  switch (verdict.kind) {
    case 'answer':
    case 'accepted':
    case 'cut':
      return verdict;
    case 'not-sent':
      return { ...verdict, kind: 'cut' };
    case 'credential':
      return { ...verdict, executed: 'unknown', challenged: false };
    case 'session-suspect': {
      const otherwise = afterResume(verdict.otherwise);
      // That the server has not kept the answer says nothing about the session.
      return verdict.strong ? { ...verdict, executed: 'unknown', otherwise } : otherwise;
    }
    case 'session-lost':
      return verdict.tentative ? LOST_TO_THE_STORE : { ...verdict, executed: 'unknown' };
    case 'failed':
      return verdict.code === 'ERR_HTTP_STATUS' ? LOST_TO_THE_STORE : { ...verdict, executed: 'unknown' };
    default:
      return { ...verdict, executed: 'unknown' };
  }
}

function classifyFailure(facts: ExchangeFacts): Verdict {
  const failure = facts.failure;
  if (failure === undefined) throw new RangeError('no failure to classify');
  const executed = failure.sent ? 'unknown' : false;
  switch (failure.kind) {
    case 'redirect':
      return failed(
        'ERR_REDIRECT',
        REFUSED_ELSEWHERE.has(failure.status ?? 0) ? false : 'unknown',
        `the server answered with a redirect that is not followed (status ${failure.status ?? 'unknown'})`,
      );
    case 'too-large':
      return failed('ERR_MESSAGE_TOO_LARGE', executed, 'the answer is larger than allowed');
    case 'encoding':
      return failed('ERR_PROTOCOL', executed, 'the answer is coded in a way that cannot be read');
    case 'invalid-request':
      return failed('ERR_PROTOCOL', false, 'the request could not be written as HTTP');
    case 'unsupported':
      return failed('ERR_NOT_SENT', false, failure.reason ?? 'this runtime has no way to make the request');
    default:
      return failure.sent
        ? { kind: 'cut', code: failure.code, timeout: failure.kind === 'timeout' }
        : { kind: 'not-sent', code: failure.code, timeout: failure.kind === 'timeout' };
  }
}

/** An answer with the request's id came from behind the session layer: its status says nothing about the session. */
function classifyOwn(
  facts: ExchangeFacts,
  message: JsonRpcResponse,
  context: ClassifyContext,
  inSession: boolean,
): Verdict {
  const otherwise = ownByStatus(facts, message);
  const settled =
    otherwise.kind === 'limited' ||
    otherwise.kind === 'scope' ||
    (otherwise.kind === 'credential' && (context.credentialStale || otherwise.executed === false));
  if (!inSession || !isErrorResponse(message) || settled) return otherwise;
  const { code } = message.error;
  const named =
    (SESSION_CODES.has(code) && !(code === -32002 && facts.method === 'resources/read')) ||
    SESSION_WORDS.test(message.error.message);
  if (named && code !== METHOD_NOT_FOUND) {
    const reason = 'an error that speaks of the session';
    return { kind: 'session-suspect', executed: 'unknown', strong: true, reason, otherwise };
  }
  const isRefusal = (facts.status ?? 0) >= 400 && otherwise.kind === 'answer';
  if (isRefusal && context.errorsInRow + 1 >= ERRORS_BEFORE_SUSPECT) {
    const reason = 'several errors in a row';
    return { kind: 'session-suspect', executed: 'unknown', strong: false, reason, otherwise };
  }
  return otherwise;
}

/** A tool may have passed on somebody else's 401, 403 or 429: under these, not even our own id says that nothing ran. */
function ownByStatus(facts: ExchangeFacts, message: JsonRpcResponse): Verdict {
  const early = isErrorResponse(message) && message.error.code === REFUSED_BEFORE_DISPATCH;
  const executed: Executed = early ? false : 'unknown';
  switch (facts.status) {
    case 401: {
      const challenge = bearerChallenge(facts.challenges);
      return { kind: 'credential', challenged: early && challenge !== undefined, executed, challenge };
    }
    case 403: {
      const scope = scopeChallenge(facts);
      if (scope !== undefined) return { kind: 'scope', requiredScope: scope.scope, executed };
      return failed('ERR_HTTP_STATUS', executed, 'the server refused the request (status 403)');
    }
    case 429:
      return limited(facts, executed);
    default:
      return { kind: 'answer', message };
  }
}

function classify401(facts: ExchangeFacts, context: ClassifyContext, inSession: boolean): Verdict {
  const challenge = bearerChallenge(facts.challenges);
  const credential: Verdict = {
    kind: 'credential',
    challenged: challenge !== undefined,
    executed: challenge ? false : 'unknown',
    challenge,
  };
  // The proof is at fault, not the session (RFC 9449, 9).
  const wantsNonce = facts.challenges?.some(({ error }) => error === 'use_dpop_nonce') === true;
  if (context.credentialStale || !inSession || wantsNonce || scopeChallenge(facts) !== undefined) {
    return credential;
  }
  const named = speaksOfSession(facts);
  if (!context.credentialNewer && !named && challenge !== undefined) return credential;
  return {
    kind: 'session-suspect',
    executed: layerRefusal(facts) || challenge !== undefined ? false : 'unknown',
    strong: context.credentialNewer || named,
    reason: context.credentialNewer
      ? 'a refusal of a credential newer than the session'
      : 'a refusal without a challenge',
    otherwise: credential,
  };
}

function classifySession(facts: ExchangeFacts, context: ClassifyContext): Verdict | undefined {
  const status = facts.status ?? 0;
  const code = isErrorResponse(facts.message) ? facts.message.error.code : undefined;
  const executed: Executed = layerRefusal(facts) ? false : 'unknown';
  if (status === 404 && code !== METHOD_NOT_FOUND) {
    return {
      kind: 'session-lost',
      executed,
      tentative: code === undefined,
      reason: 'the server does not know the session',
    };
  }
  const named = speaksOfSession(facts);
  const newer = status === 403 && context.credentialNewer;
  const errorIn200 = status >= 200 && status < 300 && isErrorResponse(facts.message);
  if (status === 400 || status === 403 || status === 500 || status === 503 || errorIn200) {
    return {
      kind: 'session-suspect',
      executed,
      strong: named || newer,
      reason: named ? 'a refusal that speaks of the session' : 'a refusal that does not name the request',
      otherwise: classifyRest(facts),
    };
  }
  return undefined;
}

function classifyRest(facts: ExchangeFacts): Verdict {
  const status = facts.status ?? 0;
  if (status >= 200 && status < 300) {
    if (isErrorResponse(facts.message) && facts.relation === 'none') {
      return failed('ERR_PROTOCOL', 'unknown', 'the server answered with an error that names no request');
    }
    return failed('ERR_PROTOCOL', 'unknown', protocolReason(facts));
  }
  return failed('ERR_HTTP_STATUS', refusedBy(status), `the server answered with status ${status}`);
}

function protocolReason(facts: ExchangeFacts): string {
  if (facts.damage === 'malformed') return 'the answer is not readable JSON';
  if (facts.relation === 'foreign') return 'the answer belongs to another request';
  if (facts.status === 202) return 'the server took the request as if it wanted no answer';
  if (
    facts.contentType !== undefined &&
    facts.contentType !== 'application/json' &&
    facts.contentType !== 'text/event-stream'
  ) {
    return 'the answer is neither JSON nor an event stream';
  }
  return 'the answer is empty or no JSON-RPC message';
}

function refusedBy(status: number): Executed {
  return REFUSED_UNREAD.has(status) ? false : 'unknown';
}

/** A JSON-RPC error with id null or none is written by a session layer, before anything is dispatched. */
function layerRefusal(facts: ExchangeFacts): boolean {
  return isErrorResponse(facts.message) && facts.relation === 'none';
}

function speaksOfSession(facts: ExchangeFacts): boolean {
  if (isErrorResponse(facts.message)) {
    return SESSION_CODES.has(facts.message.error.code) || SESSION_WORDS.test(facts.message.error.message);
  }
  return facts.text !== undefined && SESSION_WORDS.test(facts.text);
}

function bearerChallenge(challenges: readonly Challenge[] | undefined): Challenge | undefined {
  return challenges?.find(({ scheme }) => scheme === 'bearer' || scheme === 'dpop');
}

function scopeChallenge(facts: ExchangeFacts): Challenge | undefined {
  return facts.challenges?.find((challenge) => challenge.error === 'insufficient_scope');
}

function limited(facts: ExchangeFacts, executed: Executed): Verdict {
  return { kind: 'limited', retryAfterMs: facts.retryAfterMs, executed };
}

function failed(code: HostedMcpErrorCode, executed: Executed, reason: string): Verdict {
  return { kind: 'failed', code, executed, reason };
}
