/**
 * Which authorization URL may be given to a browser.
 *
 * Guarantees that it is https, or http to this very machine, without a user name or password: a server names the
 * authorization endpoint, and the system would start a program for `file:`, `ms-msdt:` and their like. Never repeats
 * the URL in an error.
 */
import { HostedMcpError } from '../errors.js';
import { isLoopbackHost } from '../http/address.js';

export interface AuthorizationUrl {
  /** A copy: what the app does to its own is of no consequence. */
  readonly url: URL;
  /** What the callback has to carry (RFC 6749 section 4.1.2). */
  readonly state: string;
}

/**
 * Throws `ERR_DISCOVERY` where the authorization server named an address that must not be opened, and `TypeError`
 * where the authorization could never be recognised when it comes back.
 */
export function checkAuthorizationUrl(given: URL, redirectUri: string): AuthorizationUrl {
  const text = String(given);
  if (!URL.canParse(text)) throw new TypeError('onRedirect needs an absolute URL');
  const url = new URL(text);
  const isSafe = url.protocol === 'https:' || (url.protocol === 'http:' && isLoopbackHost(url.hostname));
  if (!isSafe || url.username !== '' || url.password !== '') {
    throw new HostedMcpError(
      'ERR_DISCOVERY',
      'The authorization URL was not opened: it must be https, or http on loopback, without a user name or password',
    );
  }
  const [state, ...more] = url.searchParams.getAll('state');
  if (state === undefined || state === '' || more.length > 0) {
    throw new TypeError('The authorization URL must carry one state: the callback is known by it');
  }
  if (url.searchParams.getAll('redirect_uri').some((uri) => uri !== redirectUri)) {
    throw new TypeError('The authorization URL must carry the redirectUri of this helper');
  }
  return { url, state };
}
