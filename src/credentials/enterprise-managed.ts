/**
 * Enterprise-managed authorization (MCP's extension; OAuth's Identity Assertion Authorization Grant): the user is signed
 * in at the company's identity provider, which says for which MCP servers that is enough.
 *
 * Guarantees that the user's token goes to the identity provider alone and its assertion to the MCP server's
 * authorization server alone, each named by the app; that both are had anew at every renewal; and that a failure says at
 * which of the two it was. Never sends to the second what the first did not call an assertion for it.
 */
import type { Clock } from '../clock.js';
import { HostedMcpError } from '../errors.js';
import type { Grant } from './grant.js';
import { assertionOf } from './jwt-bearer.js';
import {
  authorizationServer,
  checkServer,
  makeProvider,
  type OAuthIssuer,
  type OAuthOptions,
  type OptionalClientAuth,
} from './oauth.js';
import { resolveRefreshPolicy } from './options.js';
import type { PresentedToken } from './presented-token.js';
import { PresentingGrant } from './presenting-grant.js';
import { type Problem, problemError, problemOf } from './problem.js';
import type { CredentialProvider } from './provider.js';
import { checkAudience, exchangeOf, ID_JAG_TYPE, ID_TOKEN_TYPE } from './token-exchange.js';

/** Where the user is signed in, and what proves it there. */
export type IdentityProvider = Exclude<OAuthIssuer, { discover: 'once' }> &
  OptionalClientAuth & {
    /** The app's own registration at the identity provider; another one than at the MCP server's authorization server. */
    clientId: string;
    /** The user's ID token. */
    subjectToken: PresentedToken;
    /** Default: an ID token. A SAML assertion or a refresh token has a type of its own. */
    subjectTokenType?: string | undefined;
  };

export type EnterpriseManagedOptions = OAuthIssuer &
  OptionalClientAuth &
  OAuthOptions & {
    /** At the MCP server's authorization server, as are the issuer and the secret or key beside it. */
    clientId: string;
    identityProvider: IdentityProvider;
    /** The issuer of the MCP server's authorization server: required where only its `tokenEndpoint` is given. */
    audience?: string | undefined;
    scope?: string | undefined;
  };

/**
 * An access token by way of the company's identity provider: the user's ID token is exchanged there for an assertion
 * (ID-JAG; RFC 8693), with which the MCP server's authorization server is asked for the access token (RFC 7523). No
 * browser is opened. Scope and resource are sent to both.
 *
 * Renewed as `clientCredentialsGrant` is; both steps together take no longer than `refresh.tokenTimeoutMs`.
 *
 * Throws a `TypeError` for bad options. `acquire` throws as `tokenExchangeGrant` does; where the identity provider is at
 * fault the message begins with its name. A user who has to sign in again: throw a `HostedMcpError` with
 * `ERR_REAUTHORIZATION_REQUIRED` from `subjectToken`, and call `forget()` once that is done.
 *
 * @example
 * enterpriseManagedGrant({
 *   issuer: 'https://auth.mcp-server.example', clientId, clientSecret,
 *   identityProvider: { issuer: 'https://login.company.example', clientId: appId, clientSecret: appSecret,
 *     subjectToken: ({ signal }) => session.idToken({ signal }) },
 * })
 */
export function enterpriseManagedGrant(options: EnterpriseManagedOptions): CredentialProvider {
  const { identityProvider, audience, tokenEndpoint } = options;
  checkAudience(audience);
  if (audience === undefined && tokenEndpoint !== undefined) {
    throw new TypeError('audience is required with tokenEndpoint: the issuer of that authorization server');
  }
  if (typeof identityProvider !== 'object' || identityProvider === null) {
    throw new TypeError('identityProvider is required');
  }
  const { issuer, tokenEndpoint: endpointThere, clientId } = identityProvider;
  const subjectTokenType = identityProvider.subjectTokenType ?? ID_TOKEN_TYPE;
  return makeProvider(
    options,
    ({ endpoint, metadata, clock }) => {
      // As the server itself spells it: identity providers compare it with what they were told.
      const audienceName = async () => audience ?? (await metadata.get()).issuer;
      const before = namingParty(() => assertionGrant(options, subjectTokenType, audienceName, clock));
      return new PresentingGrant({
        endpoint,
        clock,
        before,
        async present({ scope, resource }, asking) {
          const outcome = await before.request({ scope, resource, timeoutMs: asking.leftMs() });
          return outcome.kind === 'token' ? assertionOf(outcome.accessToken) : outcome;
        },
      });
    },
    {
      identity: [
        'enterprise-managed',
        issuer ?? endpointThere ?? '',
        clientId,
        subjectTokenType,
        audience ?? '',
      ],
    },
  );
}

/** The first step: the user's token for an assertion. */
function assertionGrant(
  { identityProvider, refresh, fetch }: EnterpriseManagedOptions,
  subjectTokenType: string,
  audience: () => Promise<string>,
  clock: Clock,
): Grant {
  // No MCP server says where a company's users are signed in.
  if (identityProvider.discover !== undefined) throw new TypeError('discover is not for this server');
  checkServer(identityProvider);
  const server = authorizationServer(identityProvider, resolveRefreshPolicy(refresh), clock, fetch);
  const present = exchangeOf({
    clock,
    subjectToken: identityProvider.subjectToken,
    subjectTokenType,
    requestedTokenType: ID_JAG_TYPE,
    audience,
    // Another token of this user must not be handed to a server it is not meant for.
    issued: { types: [ID_JAG_TYPE], mustBeNamed: true, isAccessToken: false },
  });
  return new PresentingGrant({ endpoint: server.endpoint, clock, present });
}

/** Two servers have the same options and the same ways to fail: what is said of the first one says so. */
function namingParty(make: () => Grant): Grant {
  let grant: Grant;
  try {
    grant = make();
  } catch (error) {
    if (error instanceof TypeError) throw new TypeError(`identityProvider: ${error.message}`);
    throw error;
  }
  return {
    spendsRefreshToken: false,
    async prepare() {
      try {
        await grant.prepare();
      } catch (error) {
        if (!HostedMcpError.isInstance(error)) throw error;
        throw problemError(named(problemOf(error, UNNAMED)));
      }
    },
    async request(request) {
      const outcome = await grant.request(request);
      return 'problem' in outcome ? { ...outcome, problem: named(outcome.problem) } : outcome;
    },
    close: () => grant.close(),
  };
}

const UNNAMED: Problem = { code: 'ERR_TOKEN_ENDPOINT', what: 'it could not be asked' };

/** The app's own function, which has another code, is no part of the identity provider. */
function named(problem: Problem): Problem {
  if (!OF_THE_PROVIDER.has(problem.code)) return problem;
  const what = `Identity provider: ${problem.what.charAt(0).toLowerCase()}${problem.what.slice(1)}`;
  return { ...problem, what };
}

const OF_THE_PROVIDER: ReadonlySet<string> = new Set([
  'ERR_TOKEN_ENDPOINT',
  'ERR_CREDENTIAL_REJECTED',
  'ERR_DISCOVERY',
]);
