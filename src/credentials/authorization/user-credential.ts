/**
 * What an app sees of a user's credential.
 *
 * Guarantees nothing by itself: `AuthorizationProvider` does.
 */
import type { CredentialProvider } from '../provider.js';
import type { Callback } from './callback.js';

/** A user's credential, and the way to the user. */
export interface AuthorizationCodeProvider extends CredentialProvider {
  /**
   * Begins an authorization: the address to send the user to. State and PKCE verifier are kept in the store for ten
   * minutes. Throws `ERR_DISCOVERY`, `ERR_TOKEN_ENDPOINT`, `ERR_STORE_UNAVAILABLE`.
   */
  authorizationUrl(target: string | URL): Promise<URL>;
  /**
   * Takes the callback, once, in this process or another one with the same store and options: the whole URL that the
   * browser was sent to. Throws a `TypeError` for what is no callback, `ERR_REAUTHORIZATION_REQUIRED` (refused,
   * forged, too old or used before), and as `authorizationUrl` does. `target`: the MCP server, where the callback is
   * known to be for it.
   */
  finishAuth(callback: Callback, target?: URL | undefined): Promise<void>;
  /**
   * Drops what is stored; which authorization server is pinned (`discover: 'once'`) stays. `target`: the MCP server, where
   * this provider was not used for it yet; without either it is a `TypeError`. Throws `ERR_STORE_UNAVAILABLE`.
   */
  forget(target?: string | URL | undefined): Promise<void>;
}
