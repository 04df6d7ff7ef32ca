/**
 * The credential that callers hold.
 *
 * Guarantees that its secret goes only into a header of a request to the origin it was acquired for. Never
 * changes after it was handed out: a renewed value is another object with another generation.
 */
import { HostedMcpError } from '../errors.js';
import type { Credential } from './provider.js';
import type { Secret } from './secret.js';

export interface CredentialParts {
  readonly generation: number;
  readonly origin: string;
  readonly header: string;
  /** Stands before the secret: `Bearer `. */
  readonly prefix: string;
  readonly secret: Secret;
  readonly expiresAtMs?: number | undefined;
  readonly scope?: string | undefined;
}

export function makeCredential(parts: CredentialParts): Credential {
  const { generation, origin, header, prefix, secret, expiresAtMs, scope } = parts;
  return {
    generation,
    ...(expiresAtMs === undefined ? {} : { expiresAtMs }),
    ...(scope === undefined ? {} : { scope }),
    headers(request) {
      if (request.url.origin !== origin) throw foreignOriginError();
      return { [header]: `${prefix}${secret.reveal()}` };
    },
  };
}

export function foreignOriginError(): HostedMcpError {
  return new HostedMcpError(
    'ERR_CREDENTIAL_REJECTED',
    'This credential is for another origin; give each server a provider of its own',
    { reason: 'origin' },
  );
}
