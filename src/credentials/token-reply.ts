/**
 * What a token endpoint's answer brings.
 *
 * Guarantees that a reply is taken only where its token can be used as it was asked for: it can stand in a header, is
 * of the type that was asked for, and bound to a key where that was asked for. What a useless reply brings beside (a
 * rotated refresh token) is not lost. Does no I/O, never puts a server's words into a message.
 */
import type { DpopKey } from './dpop.js';
import { MAX_LIFETIME_MS } from './options.js';
import type { Problem } from './problem.js';
import { Secret } from './secret.js';
import { isTokenValue, jwtTimes } from './token-value.js';

export interface IssuedToken {
  readonly kind: 'token';
  readonly accessToken: Secret;
  /** Undefined where the reply says nothing usable. */
  readonly expiresInMs?: number | undefined;
  readonly refreshToken?: Secret | undefined;
  readonly scope?: string | undefined;
  /** The key that the token is bound to (RFC 9449); undefined: a bearer token. */
  readonly dpop?: DpopKey | undefined;
}

export type TokenOutcome =
  | IssuedToken
  /** A structured OAuth error (RFC 6749, 5.2), or a configuration that cannot work: asking again is useless. */
  | {
      readonly kind: 'refused';
      readonly oauthError?: string | undefined;
      readonly problem: Problem;
      /** A refresh token that came with a token which is refused here. */
      readonly rotated?: Secret | undefined;
    }
  | {
      readonly kind: 'unavailable';
      readonly problem: Problem;
      readonly retryAfterMs?: number | undefined;
      /** The request may have been executed and its answer lost. */
      readonly inDoubt: boolean;
      /** A refresh token that came with an answer which is unusable otherwise. */
      readonly rotated?: Secret | undefined;
    }
  /** `mayLeave` said no: nothing was sent. */
  | { readonly kind: 'held-back' };

/** What an exchange may bring (RFC 8693, 2.2.1). */
export interface IssuedRule {
  /** The values of `issued_token_type` that will do. */
  readonly types: readonly string[];
  /** An answer without a type is refused. */
  readonly mustBeNamed: boolean;
  /** False: it is presented elsewhere, and its `token_type` says nothing. */
  readonly isAccessToken: boolean;
}

/** A request that presents another token (RFC 8693, RFC 7523). */
export interface Presentation {
  readonly grantType: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly secrets: Readonly<Record<string, Secret>>;
  readonly issued?: IssuedRule | undefined;
}

/** How the token was asked for. */
export interface AskedFor {
  readonly presented?: Presentation | undefined;
  /** It is to be bound to this key. */
  readonly dpop?: DpopKey | undefined;
  /** Who was asked, for a message. */
  readonly host: string;
  /** When the answer came, by the clock that says less: the server's own, where it tells, or ours. */
  readonly atMs: number;
  /** What comes beside the token is kept only where it will be sent. */
  readonly keepsRefreshToken: boolean;
}

export function readToken(body: Record<string, unknown>, asked: AskedFor): TokenOutcome {
  const { presented, dpop, atMs, keepsRefreshToken } = asked;
  const issued = presented?.issued;
  // Who presents a token, or a secret of its own, asks with that again; another secret to keep is of no use.
  const refresh = keepsRefreshToken ? own(body, 'refresh_token') : undefined;
  const refreshToken = typeof refresh === 'string' && refresh !== '' ? new Secret(refresh) : undefined;
  const access = own(body, 'access_token');
  const accessToken = typeof access === 'string' ? access.trim() : '';
  if (accessToken === '') return unusable('no access token', refreshToken);
  if (!isTokenValue(accessToken))
    return unusable('an access token that cannot stand in a header', refreshToken);
  const endMs = jwtTimes(accessToken)?.expiresAtMs;
  if (endMs !== undefined && endMs <= atMs) return unusable('a token that is over already', refreshToken);
  const issuedType = own(body, 'issued_token_type');
  const isNamed = issuedType !== undefined && issuedType !== null && issuedType !== '';
  if (issued !== undefined && (isNamed ? !issued.types.includes(issuedType as string) : issued.mustBeNamed)) {
    return unusable('a token of another type than the one asked for', refreshToken);
  }
  const given = own(body, 'token_type');
  // A missing type is Bearer in practice; another type would need another way of sending it.
  const type = (typeof given === 'string' && given.trim().toLowerCase()) || 'bearer';
  if (issued?.isAccessToken !== false) {
    if (dpop !== undefined && type === 'bearer') return downgrade(asked.host, refreshToken);
    const wanted = dpop === undefined ? 'Bearer' : 'DPoP';
    if (type !== wanted.toLowerCase())
      return unusable(`a token of a type other than ${wanted}`, refreshToken);
  }
  const scope = own(body, 'scope');
  const scopeText = Array.isArray(scope) ? scope.filter((s) => typeof s === 'string').join(' ') : scope;
  return {
    kind: 'token',
    accessToken: new Secret(accessToken),
    expiresInMs: readExpiresIn(own(body, 'expires_in')),
    refreshToken,
    scope: typeof scopeText === 'string' && scopeText !== '' ? scopeText : undefined,
    ...(dpop !== undefined && { dpop }),
  };
}

/** Positive seconds, as a number or as digits; everything else counts as missing. */
function readExpiresIn(value: unknown): number | undefined {
  const seconds =
    typeof value === 'string' && /^\d{1,15}(\.\d+)?$/.test(value.trim()) ? Number(value) : value;
  if (typeof seconds !== 'number' || !Number.isFinite(seconds) || seconds <= 0) return undefined;
  return Math.min(seconds * 1000, MAX_LIFETIME_MS);
}

/** What openid-client gets to validate: the same token in the form the standard asks for. */
export function normalisedReply(token: IssuedToken): Response {
  const body = {
    access_token: token.accessToken.reveal(),
    // The proof was ours: to openid-client a bound token is one like any other.
    token_type: 'Bearer',
    ...(token.expiresInMs === undefined ? {} : { expires_in: token.expiresInMs / 1000 }),
    ...(token.refreshToken === undefined ? {} : { refresh_token: token.refreshToken.reveal() }),
    ...(token.scope === undefined ? {} : { scope: token.scope }),
  };
  return new Response(JSON.stringify(body), { status: 200, headers: { 'content-type': 'application/json' } });
}

export function unusable(what: string, rotated: Secret | undefined): TokenOutcome {
  return {
    kind: 'unavailable',
    inDoubt: false,
    rotated,
    problem: {
      code: 'ERR_TOKEN_ENDPOINT',
      what: `The token endpoint answered with ${what}`,
      fields: { retryable: true, reason: 'unusable_reply' },
    },
  };
}

/** RFC 9449, 5: a client that relies on bound tokens does not take one that anybody can use. */
function downgrade(host: string, rotated: Secret | undefined): TokenOutcome {
  return {
    kind: 'refused',
    rotated,
    problem: {
      code: 'ERR_CREDENTIAL_REJECTED',
      what: `The token endpoint of ${host} gave a bearer token where one bound to a key (DPoP) was asked for`,
      fields: { reason: 'dpop_downgrade' },
    },
  };
}

export function failedOutcome(failure: {
  mayHaveLeft: boolean;
  reason: 'timeout' | 'network' | 'too-large';
  status?: number | undefined;
  cause?: unknown;
}): TokenOutcome {
  const what = {
    timeout: 'The token endpoint did not answer in time',
    network: 'The token endpoint could not be reached',
    'too-large': 'The token endpoint answered with too much',
  }[failure.reason];
  return {
    kind: 'unavailable',
    inDoubt: failure.mayHaveLeft && failure.reason !== 'too-large',
    problem: {
      code: 'ERR_TOKEN_ENDPOINT',
      what,
      fields: { retryable: true, reason: failure.reason, status: failure.status, cause: failure.cause },
    },
  };
}

export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

export function own(object: Record<string, unknown>, name: string): unknown {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}
