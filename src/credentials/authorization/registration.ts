/**
 * Dynamic registration of a client (RFC 7591).
 *
 * Guarantees a bounded answer, and that a refusal is told apart from a server that is away. Never sends a credential,
 * and never shows what a successful answer brought: it may be a secret.
 */
import type { Clock } from '../../clock.js';
import { cleanServerText, HostedMcpError } from '../../errors.js';
import { isLoopbackHost } from '../../http/address.js';
import { LIMITS } from '../../limits.js';
import { MAX_RETRY_AFTER_MS } from '../options.js';
import { retryAfterMs, type TokenHttp } from '../token-fetch.js';
import { objectOf, textIn } from './record.js';

export interface RegisterOptions {
  readonly endpoint: string;
  /** RFC 7591, 2. */
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly http: TokenHttp;
  readonly clock: Clock;
  readonly timeoutMs: number;
}

/** The answer. Throws `ERR_DISCOVERY` (refused) or `ERR_TOKEN_ENDPOINT` (away). */
export async function registerClient(
  options: RegisterOptions,
): Promise<Record<string, unknown> & { client_id: string }> {
  const { endpoint, metadata, http, clock, timeoutMs } = options;
  const result = await http.send({
    method: 'POST',
    url: endpoint,
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify(metadata),
    timeoutMs,
    maxBytes: LIMITS.tokenResponseBytes,
  });
  if (result.kind !== 'reply') {
    const fields =
      result.kind === 'failed' ? { reason: result.reason, cause: result.cause, status: result.status } : {};
    throw new HostedMcpError('ERR_TOKEN_ENDPOINT', 'The registration of the client could not be asked for', {
      ...fields,
      retryable: true,
    });
  }
  const { reply } = result;
  if (reply.status === 429 || reply.status >= 500) {
    throw new HostedMcpError('ERR_TOKEN_ENDPOINT', 'The registration of clients is away', {
      status: reply.status,
      retryable: true,
      retryAfterMs: retryAfterMs(reply, clock.now(), MAX_RETRY_AFTER_MS),
      serverText: cleanServerText(reply.text),
    });
  }
  const body = objectOf(reply.text);
  const clientId = body === undefined ? undefined : textIn(body, 'client_id');
  if (body === undefined || clientId === undefined || reply.status >= 300) {
    throw new HostedMcpError('ERR_DISCOVERY', 'The authorization server did not register the client', {
      status: reply.status,
      reason: 'registration_refused',
      // A success may bring a secret in a form that was not understood.
      serverText: reply.status >= 400 ? cleanServerText(reply.text) : undefined,
    });
  }
  return { ...body, client_id: clientId };
}

/** RFC 8252: a command-line or desktop app is known by its loopback address or its own scheme. */
export function applicationType(redirectUri: string): 'native' | 'web' {
  const { protocol, hostname } = new URL(redirectUri);
  return !protocol.startsWith('http') || isLoopbackHost(hostname) ? 'native' : 'web';
}
