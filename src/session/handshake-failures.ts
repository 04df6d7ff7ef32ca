/**
 * How it is said that a handshake came to nothing.
 *
 * Guarantees our own words for every verdict, with the server's own beside them only; never retryable where the server
 * may have understood and refused.
 */
import type { Verdict } from '../connection/classify.js';
import type { StreamFacts } from '../connection/route.js';
import { cleanServerText, HostedMcpError } from '../errors.js';
import type { JsonRpcError } from '../json-rpc.js';

/** Method not found, unsupported protocol version (2026-07-28). */
const WITHOUT_INITIALIZE: ReadonlySet<number> = new Set([-32601, -32022]);

/** The server answered `initialize` with a JSON-RPC error: for the Client that asked, as it is. */
export class InitializeRefused extends HostedMcpError {
  readonly answer: JsonRpcError;
  constructor(answer: JsonRpcError) {
    super('ERR_PROTOCOL', 'The server refused to open a session', {
      serverText: cleanServerText(answer.error.message),
    });
    this.answer = answer;
  }
}

/** A server without `initialize` speaks a later protocol only: that is said by name, not as "method not found". */
export function refusalOf(answer: JsonRpcError): HostedMcpError {
  if (!WITHOUT_INITIALIZE.has(answer.error.code)) return new InitializeRefused(answer);
  return new HostedMcpError(
    'ERR_PROTOCOL',
    'The server does not open sessions with initialize: it speaks protocol 2026-07-28 or later only, which this client does not; a Client of SDK v2 that negotiates does, over HostedTransport',
    { method: 'initialize', serverText: cleanServerText(answer.error.message) },
  );
}

export function handshakeError(verdict: Verdict, facts: StreamFacts, triedBoth = false): HostedMcpError {
  const fields = {
    method: 'initialize',
    status: facts.status,
    serverText: facts.text === undefined ? undefined : cleanServerText(facts.text),
    retryAfterMs: facts.retryAfterMs,
  };
  const away = facts.status !== undefined && facts.status >= 500;
  switch (verdict.kind) {
    case 'not-sent':
      return new HostedMcpError('ERR_NOT_SENT', 'The server could not be reached to open a session', {
        ...fields,
        retryable: true,
        cause: { code: verdict.code },
      });
    case 'cut':
      return new HostedMcpError('ERR_NOT_SENT', 'The handshake was cut off', {
        ...fields,
        retryable: true,
        cause: { code: verdict.code },
      });
    case 'credential':
      return new HostedMcpError(
        'ERR_CREDENTIAL_REJECTED',
        'The server refused the credential at the handshake',
        fields,
      );
    case 'scope':
      return new HostedMcpError('ERR_INSUFFICIENT_SCOPE', 'The credential may not open a session', {
        ...fields,
        requiredScope: verdict.requiredScope,
      });
    case 'limited':
      return new HostedMcpError('ERR_RATE_LIMITED', 'The server limits how often sessions are opened', {
        ...fields,
        retryable: true,
        retryAfterMs: verdict.retryAfterMs ?? 1_000,
      });
    case 'session-lost':
    case 'session-suspect':
      return new HostedMcpError(
        'ERR_SESSION_LOST',
        'The server forgot the session between two messages of the handshake',
        { retryable: true },
      );
    case 'failed':
      return new HostedMcpError(
        verdict.code,
        triedBoth
          ? `No session, neither by Streamable HTTP nor by HTTP+SSE (2024-11-05): ${verdict.reason}`
          : `No session: ${verdict.reason}`,
        { ...fields, retryable: away },
      );
    default:
      return new HostedMcpError('ERR_PROTOCOL', 'The server did not complete the handshake', {
        ...fields,
        retryable: away,
      });
  }
}
