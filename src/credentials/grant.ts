/**
 * What a way to get a token is to those who decide when one is got. Does nothing by itself.
 */
import type { TokenOutcome, TokenRequest } from './token-endpoint.js';
import type { RevokedToken } from './token-revocation.js';

/** A way to get a token. */
export interface Grant {
  /** A request spends a refresh token: two at once, or one lost, may end the authorization. */
  readonly spendsRefreshToken: boolean;
  prepare(): Promise<void>;
  /** Never rejects. */
  request(request: TokenRequest): Promise<TokenOutcome>;
  /** RFC 7009. */
  revoke?(tokens: readonly RevokedToken[], timeoutMs: number): Promise<'revoked' | 'unsupported'>;
  close(): Promise<void>;
}
