/**
 * The token exchange grant (RFC 8693): one's token for another that is good for the MCP server.
 *
 * Guarantees that subject and actor token are asked for anew at every token request, go to the token endpoint that the
 * app named, or to the one in the metadata of the issuer it named, and nowhere else, and that an answer which says it is
 * no access token is not used as one. Never stores what it presents, nor a refresh token that comes with the answer.
 */
import type { Clock } from '../clock.js';
import { makeProvider, type OAuthIssuer, type OAuthOptions, type OptionalClientAuth } from './oauth.js';
import { type PresentedToken, PresentedTokenSource } from './presented-token.js';
import { PresentingGrant, type PresentingGrantOptions } from './presenting-grant.js';
import type { CredentialProvider } from './provider.js';
import type { IssuedRule } from './token-endpoint.js';

/** Token type identifiers (RFC 8693, 3). */
export const ACCESS_TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:access_token';
export const JWT_TYPE = 'urn:ietf:params:oauth:token-type:jwt';
export const ID_TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:id_token';
export const ID_JAG_TYPE = 'urn:ietf:params:oauth:token-type:id-jag';
const REFRESH_TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:refresh_token';

export type TokenExchangeOptions = OAuthIssuer &
  OptionalClientAuth &
  OAuthOptions & {
    clientId: string;
    /** On whose behalf: a user's or a workload's token. */
    subjectToken: PresentedToken;
    /** `urn:ietf:params:oauth:token-type:access_token`, `...:id_token`, `...:jwt`, ... (RFC 8693, 3). */
    subjectTokenType: string;
    /** Default: the server's choice, which is an access token. */
    requestedTokenType?: string | undefined;
    /** The logical name of the server the token is for, where the authorization server wants one beside `resource`. */
    audience?: string | undefined;
    scope?: string | undefined;
  } & (
    | {
        /** Who acts for the subject, where that is another party than the client. */
        actorToken: PresentedToken;
        actorTokenType: string;
      }
    | { actorToken?: undefined; actorTokenType?: undefined }
  );

/**
 * A token of one's own exchanged for one that is good for the MCP server (RFC 8693). Renewed as `clientCredentialsGrant`
 * is: nothing is spent by asking, so that a store is optional and a store that is down is no obstacle. The provider
 * serves one origin: the first it is used for. A provider is one subject's: with a `store` name it in `subject`.
 *
 * Throws a `TypeError` for bad options. `acquire` throws as `clientCredentialsGrant` does, and `ERR_CREDENTIAL_SOURCE`
 * where a token to present cannot be had. A subject token that is refused (`ERR_CREDENTIAL_REJECTED`) costs one token
 * request; the next one is made a minute later, with what `subjectToken` gives then.
 *
 * @example
 * tokenExchangeGrant({ issuer, clientId, clientSecret,
 *   subjectToken: ({ signal }) => session.accessToken({ signal }),
 *   subjectTokenType: 'urn:ietf:params:oauth:token-type:access_token' })
 */
export function tokenExchangeGrant(options: TokenExchangeOptions): CredentialProvider {
  const { subjectTokenType, actorToken, actorTokenType, requestedTokenType, audience } = options;
  if (requestedTokenType === ID_JAG_TYPE || requestedTokenType === REFRESH_TOKEN_TYPE) {
    const hint = requestedTokenType === ID_JAG_TYPE ? '; see enterpriseManagedGrant' : '';
    throw new TypeError(`requestedTokenType must be a token that an MCP server takes${hint}`);
  }
  checkTokenType('requestedTokenType', requestedTokenType);
  checkAudience(audience);
  if ((actorToken === undefined) !== (actorTokenType === undefined)) {
    throw new TypeError('actorToken and actorTokenType belong together');
  }
  return makeProvider(
    options,
    ({ endpoint, clock }) =>
      new PresentingGrant({
        endpoint,
        clock,
        present: exchangeOf({ ...options, clock, issued: issuedRule(requestedTokenType) }),
      }),
    {
      identity: [
        'token-exchange',
        subjectTokenType,
        actorTokenType ?? '',
        requestedTokenType ?? '',
        audience ?? '',
      ],
    },
  );
}

export interface ExchangeOptions {
  readonly clock: Clock;
  readonly subjectToken: PresentedToken;
  readonly subjectTokenType: string;
  readonly actorToken?: PresentedToken | undefined;
  readonly actorTokenType?: string | undefined;
  readonly requestedTokenType?: string | undefined;
  readonly audience?: string | (() => Promise<string>) | undefined;
  readonly issued: IssuedRule;
}

/** How an exchange is asked for. Throws a `TypeError` that names the option. */
export function exchangeOf(options: ExchangeOptions): PresentingGrantOptions['present'] {
  const { clock, audience, requestedTokenType, subjectTokenType, actorToken, actorTokenType } = options;
  checkTokenType('subjectTokenType', subjectTokenType ?? '');
  checkTokenType('actorTokenType', actorTokenType);
  const subject = new PresentedTokenSource('subjectToken', options.subjectToken, clock);
  const actor =
    actorToken === undefined ? undefined : new PresentedTokenSource('actorToken', actorToken, clock);
  return async (_, asking) => {
    const [subjectSecret, actorSecret, audienceName] = await Promise.all([
      subject.read(asking),
      actor?.read(asking),
      typeof audience === 'function' ? audience() : audience,
    ]);
    return {
      grantType: 'urn:ietf:params:oauth:grant-type:token-exchange',
      parameters: {
        subject_token_type: subjectTokenType,
        ...(actorTokenType === undefined ? {} : { actor_token_type: actorTokenType }),
        ...(requestedTokenType === undefined ? {} : { requested_token_type: requestedTokenType }),
        ...(audienceName === undefined ? {} : { audience: audienceName }),
      },
      secrets: {
        subject_token: subjectSecret,
        ...(actorSecret === undefined ? {} : { actor_token: actorSecret }),
      },
      issued: options.issued,
    };
  };
}

/** Servers that leave the type out are taken at their `token_type`; an access token in the form of a JWT goes by either name. */
function issuedRule(requested: string | undefined): IssuedRule {
  const isAccessToken = requested === undefined || requested === ACCESS_TOKEN_TYPE || requested === JWT_TYPE;
  return {
    types: isAccessToken ? [ACCESS_TOKEN_TYPE, JWT_TYPE] : [requested],
    mustBeNamed: false,
    isAccessToken: true,
  };
}

export function checkAudience(audience: string | undefined): void {
  if (audience !== undefined && (typeof audience !== 'string' || audience === '')) {
    throw new TypeError('audience must be a string that is not empty');
  }
}

function checkTokenType(name: string, type: string | undefined): void {
  if (type !== undefined && !(typeof type === 'string' && URL.canParse(type))) {
    throw new TypeError(`${name} must be a token type identifier, such as ${ACCESS_TOKEN_TYPE}`);
  }
}
