/**
 * The JWT bearer grant (RFC 7523, 2.1): an assertion for an access token; workload identity.
 *
 * Guarantees that the assertion is asked for anew at every token request and goes to the token endpoint that the app
 * named, or to the one in the metadata of the issuer it named, and nowhere else. Never retries an assertion that was
 * refused, and never changes to another grant.
 */
import { makeProvider, type OAuthIssuer, type OAuthOptions, type OptionalClientAuth } from './oauth.js';
import { type PresentedToken, PresentedTokenSource } from './presented-token.js';
import { PresentingGrant } from './presenting-grant.js';
import type { CredentialProvider } from './provider.js';
import type { Secret } from './secret.js';
import type { Presentation } from './token-endpoint.js';

export type JwtBearerOptions = OAuthIssuer &
  OptionalClientAuth &
  OAuthOptions & {
    /** Not sent where it is not given: to many servers the assertion says who asks. Required with a secret or key. */
    clientId?: string | undefined;
    /** A JWT that the authorization server trusts: of a platform (Kubernetes, SPIFFE, a cloud), or one you sign. */
    assertion: PresentedToken;
    scope?: string | undefined;
  };

/**
 * An access token for an assertion (RFC 7523, 2.1). Renewed as `clientCredentialsGrant` is: nothing is spent by asking,
 * so that a store is optional and a store that is down is no obstacle. The provider serves one origin: the first it is
 * used for.
 *
 * Throws a `TypeError` for bad options. `acquire` throws as `clientCredentialsGrant` does, and `ERR_CREDENTIAL_SOURCE`
 * where the assertion cannot be had. An assertion that is refused (`ERR_CREDENTIAL_REJECTED`) costs one token request;
 * the next one is made a minute later, with what `assertion` gives then.
 *
 * @example
 * jwtBearerGrant({ issuer, assertion: () => readFile('/var/run/secrets/tokens/mcp', 'utf8') })
 */
export function jwtBearerGrant(options: JwtBearerOptions): CredentialProvider {
  const { clientId, clientSecret, privateKey } = options;
  if (clientId === undefined && (clientSecret !== undefined || privateKey !== undefined)) {
    throw new TypeError('clientId is required with clientSecret or privateKey');
  }
  return makeProvider(
    options,
    ({ endpoint, clock }) => {
      const assertion = new PresentedTokenSource('assertion', options.assertion, clock);
      return new PresentingGrant({
        endpoint,
        clock,
        present: async (_, asking) => assertionOf(await assertion.read(asking)),
      });
    },
    { identity: ['jwt-bearer'], mayOmitClientId: true },
  );
}

/** How an assertion is presented. */
export function assertionOf(assertion: Secret): Presentation {
  return {
    grantType: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
    parameters: {},
    secrets: { assertion },
  };
}
