/**
 * `mcp-holdfast/loopback`: a user's consent in a command-line app, by way of the system browser (RFC 8252).
 *
 * The address of the helper goes into the authorization request, `onRedirect` opens the browser and resolves with the
 * address at which the authorization ended:
 * ```ts
 * const { redirectUri, onRedirect } = await loopbackRedirect();
 * authorizationCodeGrant({ clientId, redirectUri, onRedirect });
 * ```
 * A helper serves one authorization; make a new one for the next, and close one that was not needed: its port is open
 * from the start (RFC 8252 section 8.3 wants that to be short). Where there is no browser (a container, a remote
 * shell), give `open`: it may print the address. The callback has to reach this machine's loopback interface.
 */
export { LOOPBACK_DEFAULTS, type LoopbackOptions } from './options.js';
export { type LoopbackRedirect, loopbackRedirect } from './redirect.js';
