/**
 * The credential that callers hold.
 *
 * Guarantees that its secret goes only into a header of a request to the origin it was acquired for, and a token that
 * is bound to a key with a proof made for that request alone. Never changes after it was handed out: a renewed value is
 * another object with another generation.
 */
import { HostedMcpError } from '../errors.js';
import { accessTokenHash, type DpopKey, type ProofSite } from './dpop.js';
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
  /** It is bound to a key: what proofs need. `header` and `prefix` are then as RFC 9449 has them. */
  readonly bound?: { readonly key: DpopKey; readonly site: ProofSite } | undefined;
}

export function makeCredential(parts: CredentialParts): Credential {
  const { generation, origin, header, prefix, secret, expiresAtMs, scope, bound } = parts;
  const shown = {
    generation,
    ...(expiresAtMs === undefined ? {} : { expiresAtMs }),
    ...(scope === undefined ? {} : { scope }),
  };
  if (bound !== undefined) return { ...shown, ...provenHeaders(origin, secret, bound.key, bound.site) };
  let value: string | undefined;
  return {
    ...shown,
    headers(request) {
      if (request.url.origin !== origin) throw foreignOriginError();
      value ??= `${prefix}${secret.reveal()}`;
      return { [header]: value };
    },
  };
}

/** RFC 9449, 7.1. */
function provenHeaders(
  origin: string,
  secret: Secret,
  key: DpopKey,
  site: ProofSite,
): Pick<Credential, 'headers' | 'answered'> {
  let ath: string | undefined;
  return {
    async headers({ method, url }) {
      if (url.origin !== origin) throw foreignOriginError();
      const token = secret.reveal();
      ath ??= accessTokenHash(token);
      let proof: string;
      try {
        proof = await site.prove(key, { method, url, ath });
      } catch (error) {
        const { name } = error as { name?: unknown };
        throw new HostedMcpError('ERR_CREDENTIAL_SOURCE', 'No proof could be made for the token', {
          cause: { name: typeof name === 'string' ? name : 'Error' },
        });
      }
      return { authorization: `DPoP ${token}`, dpop: proof };
    },
    answered: (advice) => site.heard(advice),
  };
}

export function foreignOriginError(): HostedMcpError {
  return new HostedMcpError(
    'ERR_CREDENTIAL_REJECTED',
    'This credential is for another origin; give each server a provider of its own',
    { reason: 'origin' },
  );
}
