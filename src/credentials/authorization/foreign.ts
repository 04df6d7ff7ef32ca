/**
 * What an app's own authorization provider throws.
 *
 * Guarantees that of a foreign error only its name and code stay: it may quote a token.
 */
import { HostedMcpError } from '../../errors.js';

export const NO_TOKEN = 'The authorization provider has no usable token';

export async function asked<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (HostedMcpError.isInstance(error)) throw error;
    const name = (error as { name?: unknown } | null)?.name;
    throw name === 'UnauthorizedError'
      ? new HostedMcpError('ERR_REAUTHORIZATION_REQUIRED', NO_TOKEN, { reason: 'no_token', cause: error })
      : new HostedMcpError('ERR_CREDENTIAL_SOURCE', 'The authorization provider failed', { cause: error });
  }
}
