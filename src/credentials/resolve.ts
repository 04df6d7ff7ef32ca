/**
 * The `credentials` option as a provider.
 *
 * Guarantees that the engine always has one to ask; a bare token or function runs on the engine's clock.
 */
import type { Clock } from '../clock.js';
import { HostedMcpError } from '../errors.js';
import type { AcquireOptions, Credential, CredentialProvider, TokenSource } from './provider.js';
import { insufficientScope } from './scope-step-up.js';
import { bearerToken } from './static.js';

/** No headers at all. */
const NO_CREDENTIAL: Credential = Object.freeze({ generation: 1, headers: () => ({}) });

/** Throws a `TypeError` for anything that is neither a provider, a string nor a function. */
export function resolveCredentials(
  credentials: CredentialProvider | TokenSource | undefined,
  clock: Clock,
): CredentialProvider {
  if (credentials === undefined) return { id: 'none', acquire: acquireNothing };
  if (typeof credentials === 'string' || typeof credentials === 'function') {
    return bearerToken(credentials, { clock });
  }
  if (typeof credentials !== 'object' || credentials === null || typeof credentials.acquire !== 'function') {
    throw new TypeError('credentials must be a token, a function that gives one, or a CredentialProvider');
  }
  if (typeof credentials.id !== 'string' || credentials.id === '') {
    throw new TypeError('credentials.id must be a string that is not empty');
  }
  return credentials;
}

async function acquireNothing(_target: URL, options: AcquireOptions = {}): Promise<Credential> {
  const { rejected, scope } = options;
  if (rejected === undefined) return NO_CREDENTIAL;
  if (rejected.status === 403 && scope !== undefined) throw insufficientScope(scope);
  throw new HostedMcpError(
    'ERR_CREDENTIAL_REJECTED',
    'The server asks for a credential, and none is configured',
    {
      reason: 'no_credential',
    },
  );
}
