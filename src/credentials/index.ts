/**
 * The public names of the credentials part, and the helper that the engine uses.
 */
export {
  type AuthProviderLike,
  fromOAuthClientProvider,
  type OAuthClientProviderLike,
  toAuthProvider,
  toOAuthClientProvider,
} from './bridge.js';
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
export { REFRESH_DEFAULTS } from './options.js';
export type {
  AccessToken,
  AcquireOptions,
  Credential,
  CredentialEvent,
  CredentialProvider,
  CredentialStore,
  Lease,
  RefreshPolicy,
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
