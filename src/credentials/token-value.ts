/**
 * What may stand in a credential header, and what a token tells about its own lifetime.
 *
 * Guarantees that a value with a line break or a character outside visible ASCII is refused before any HTTP
 * layer sees it, with an error that does not quote it. Never verifies a token: to a client it is opaque.
 */
import { HostedMcpError, type HostedMcpErrorCode } from '../errors.js';
import { textOfBase64url } from '../runtime/bytes.js';

/** Far above any sane token; a proxy would refuse the header long before. */
const MAX_TOKEN_LENGTH = 16 * 1024;

export function isTokenValue(value: string): boolean {
  return value.length <= MAX_TOKEN_LENGTH && /^[\x21-\x7e]+$/.test(value);
}

/** Header values may have inner spaces (`Basic dXNlcg==`), tokens may not. */
export function isHeaderValue(value: string): boolean {
  return value.length <= MAX_TOKEN_LENGTH && /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value);
}

export function isHeaderName(name: string): boolean {
  return /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}$/.test(name);
}

/** The value, trimmed, or an error of ours that names the source and not the value. */
export function checkedToken(
  value: unknown,
  source: string,
  isValid: (value: string) => boolean = isTokenValue,
  code: HostedMcpErrorCode = 'ERR_CREDENTIAL_SOURCE',
): string {
  const trimmed = typeof value === 'string' ? value.trim() : undefined;
  if (trimmed === undefined || trimmed === '') throw new HostedMcpError(code, `${source} gave no token`);
  if (!isValid(trimmed)) {
    throw new HostedMcpError(code, `${source} gave a value that cannot stand in a header`);
  }
  return trimmed;
}

export interface JwtTimes {
  readonly issuedAtMs?: number | undefined;
  readonly expiresAtMs?: number | undefined;
}

/** `iat` and `exp` of a JWT (RFC 7519), in epoch milliseconds of the issuer's clock; undefined for anything else. */
export function jwtTimes(token: string): JwtTimes | undefined {
  const parts = token.split('.');
  if (parts.length !== 3 || parts[1] === undefined) return undefined;
  try {
    const claims: unknown = JSON.parse(textOfBase64url(parts[1]));
    if (typeof claims !== 'object' || claims === null || Array.isArray(claims)) return undefined;
    return {
      issuedAtMs: secondsClaim(claims, 'iat'),
      expiresAtMs: secondsClaim(claims, 'exp'),
    };
  } catch {
    return undefined;
  }
}

/** `exp - iat`: free of any difference between the issuer's clock and ours. */
export function jwtLifetimeMs(token: string): number | undefined {
  const times = jwtTimes(token);
  if (times?.expiresAtMs === undefined || times.issuedAtMs === undefined) return undefined;
  const lifetimeMs = times.expiresAtMs - times.issuedAtMs;
  return lifetimeMs > 0 ? lifetimeMs : undefined;
}

function secondsClaim(claims: object, name: string): number | undefined {
  const value: unknown = Object.hasOwn(claims, name) ? (claims as Record<string, unknown>)[name] : undefined;
  return typeof value === 'number' && Number.isFinite(value) ? value * 1000 : undefined;
}
