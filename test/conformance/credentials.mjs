/** The credentials that an app would hand to mcp-holdfast for a scenario, from the package as it is built. */
import {
  authorizationCodeGrant,
  clientCredentialsGrant,
  enterpriseManagedGrant,
  jwtBearerGrant,
} from 'mcp-holdfast';
import { CLIENT_DOCUMENT, followRedirect, REDIRECT_URI } from './scenarios.mjs';

const SOURCES = {
  code: ({ entry, context }) =>
    authorizationCodeGrant({
      redirectUri: REDIRECT_URI,
      onRedirect: followRedirect,
      ...identityOf(entry, context),
      ...(entry.dpop === true && { dpop: true }),
    }),
  'machine-key': ({ context }) =>
    clientCredentialsGrant({
      discover: 'once',
      clientId: context.client_id,
      privateKey: context.private_key_pem,
      algorithm: context.signing_algorithm,
    }),
  'machine-secret': ({ context }) =>
    clientCredentialsGrant({
      discover: 'once',
      clientId: context.client_id,
      clientSecret: context.client_secret,
    }),
  assertion: ({ context }) =>
    jwtBearerGrant({ discover: 'once', clientId: context.client_id, assertion: context.valid_jwt }),
  enterprise: ({ context }) =>
    enterpriseManagedGrant({
      discover: 'once',
      clientId: context.client_id,
      clientSecret: context.client_secret,
      identityProvider: {
        tokenEndpoint: context.idp_token_endpoint,
        clientId: context.idp_client_id,
        subjectToken: context.idp_id_token,
      },
    }),
};

/** Undefined where the server asks for none. */
export function credentialsFor(told) {
  return told.entry.access === undefined ? undefined : SOURCES[told.entry.access](told);
}

function identityOf({ identity }, context) {
  if (identity === 'registered') {
    // Where its secret may go is the app's word: to the authorization server that is found first.
    return {
      discover: 'once',
      client: { clientId: context.client_id, clientSecret: context.client_secret },
    };
  }
  const register = { name: 'mcp-holdfast-conformance' };
  return { client: identity === 'document' ? { metadataUrl: CLIENT_DOCUMENT, register } : { register } };
}
