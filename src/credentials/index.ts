/**
 * The public names of the credentials part, and the helper that the engine uses.
 */

export { type AuthorizationCodeOptions, authorizationCodeGrant } from './authorization/authorization-code.js';
export type { Callback } from './authorization/callback.js';
export type { ClientIdentity, Registration } from './authorization/client-identity.js';
export type { AuthorizationCodeProvider } from './authorization/provider.js';
export {
  type AuthProviderLike,
  fromOAuthClientProvider,
  type OAuthClientProviderLike,
  toAuthProvider,
  toOAuthClientProvider,
} from './bridge.js';
export type { SecretEncoding } from './client-auth.js';
export {
  type EnterpriseManagedOptions,
  enterpriseManagedGrant,
  type IdentityProvider,
} from './enterprise-managed.js';
export { type JwtBearerOptions, jwtBearerGrant } from './jwt-bearer.js';
export {
  type ClientAuth,
  type ClientCredentialsOptions,
  clientCredentialsGrant,
  type KeyAuth,
  type OAuthIssuer,
  type OAuthOptions,
  type OptionalClientAuth,
  type RefreshTokenOptions,
  refreshTokenGrant,
} from './oauth.js';
export { REFRESH_DEFAULTS, type ResolvedRefreshPolicy } from './options.js';
export type { PresentedToken } from './presented-token.js';
export type {
  AccessToken,
  AcquireOptions,
  Credential,
  CredentialEvent,
  CredentialProvider,
  CredentialStore,
  Lease,
  RefreshPolicy,
  Rejection,
  StoredRecord,
  TokenSource,
} from './provider.js';
export { resolveCredentials } from './resolve.js';
export {
  bearerToken,
  headerCredential,
  type StaticOptions,
  type TokenCommandOptions,
  tokenFromCommand,
  tokenFromEnv,
  tokenFromFile,
} from './static.js';
export { encryptedCredentialStore } from './stores/encrypted.js';
export { fileCredentialStore } from './stores/file.js';
export { memoryCredentialStore } from './stores/memory.js';
export { type TokenExchangeOptions, tokenExchangeGrant } from './token-exchange.js';
