/**
 * The callback of an authorization (RFC 6749, 4.1.2; RFC 9207).
 *
 * Guarantees that `state` and `iss` are compared as they are written, and that a refusal is told by the standard's own
 * words. Never shows what a callback carries.
 */
import { HostedMcpError } from '../../errors.js';
import type { ServerMetadata } from '../metadata.js';

/** The whole URL the browser was sent to, its query, or that as text. */
export type Callback = URL | URLSearchParams | string;

/** Names that may stand in an error: the standards' words (RFC 6749, 4.1.2.1; OpenID Connect Core, 3.1.2.6). */
const KNOWN_ERRORS = new Set([
  'access_denied',
  'invalid_request',
  'invalid_scope',
  'invalid_target',
  'server_error',
  'temporarily_unavailable',
  'unauthorized_client',
  'unsupported_response_type',
  'login_required',
  'consent_required',
  'interaction_required',
]);
/** A callback comes from a network: a code longer than this is none. */
const MAX_LENGTH = 16 * 1024;

/** Its parameters. Throws a `TypeError` where it is none. */
export function readCallback(callback: Callback): URLSearchParams {
  const isLong = typeof callback === 'string' && callback.length > MAX_LENGTH;
  if (!isLong && typeof callback === 'string') {
    if (URL.canParse(callback)) return new URL(callback).searchParams;
    return new URLSearchParams(callback.slice(callback.indexOf('?') + 1));
  }
  const given = callback as Partial<URL & URLSearchParams> | undefined;
  if (!isLong && typeof given === 'object' && given !== null) {
    // By shape: of another realm under some test runners.
    if (typeof given.get === 'function') return new URLSearchParams(String(callback));
    if (typeof given.search === 'string') return new URLSearchParams(given.search);
  }
  throw new TypeError('the callback must be the URL the browser was sent to, or its query');
}

/** The only value of `name`; a parameter that is there twice is an attack or a mistake (RFC 6749, 3.1). */
export function only(parameters: URLSearchParams, name: string): string | undefined {
  const values = parameters.getAll(name);
  return values.length === 1 && values[0] !== '' ? values[0] : undefined;
}

/** Throws `ERR_REAUTHORIZATION_REQUIRED` for a refusal, for another server's callback and for one without a code. */
export function checkCallback(parameters: URLSearchParams, metadata: ServerMetadata): void {
  const { issuer, issParameterSupported } = metadata;
  const named = parameters.has('iss');
  if (named ? only(parameters, 'iss') !== issuer : issParameterSupported === true) {
    throw refused(
      named
        ? 'The callback names another authorization server than the one that was asked'
        : 'The callback does not name its authorization server, which says that it does',
      'issuer_mismatch',
    );
  }
  const error = parameters.get('error');
  if (error !== null) {
    const known = KNOWN_ERRORS.has(error) ? error : undefined;
    throw refused(
      `The authorization server did not authorize${known === undefined ? '' : `: ${known}`}`,
      known ?? 'authorization_refused',
    );
  }
  if (only(parameters, 'code') === undefined) throw refused('The callback carries no code', 'no_code');
}

export function refused(what: string, reason: string): HostedMcpError {
  return new HostedMcpError('ERR_REAUTHORIZATION_REQUIRED', what, { reason });
}
