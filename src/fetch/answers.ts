/**
 * The HTTP answers of `hostedFetch`, and its own errors as JSON-RPC errors.
 *
 * Guarantees that a failure of the way reaches the framework in-band, under HTTP 200 and the id of its request,
 * for by other statuses frameworks repeat calls by themselves; and that `data.holdfast` says what happened to
 * the call. Never puts server text or a secret into an answer of its own.
 */
import { HostedMcpError, type HostedMcpErrorCode } from '../errors.js';
import type { JsonRpcError, JsonRpcMessage, RequestId } from '../json-rpc.js';

/** To v2's Client the sign to go on with `initialize`; no error of ours has it. */
export const DISCOVERY_REFUSED = -32019;
const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;
/** A code that is not in the table, from another version of this library. */
const OTHER = -32010;

/** -32010 to -32019: implementation-defined, outside the range that the specification reserves from -32020 on. */
const JSON_RPC_CODES: Readonly<Record<HostedMcpErrorCode, number>> = Object.freeze({
  // The way to the server and back.
  ERR_NOT_SENT: -32011,
  ERR_HTTP_STATUS: -32011,
  ERR_PROTOCOL: -32011,
  ERR_REDIRECT: -32011,
  // The session.
  ERR_SESSION_LOST: -32012,
  ERR_SESSION_UNSTABLE: -32012,
  // Nobody knows.
  ERR_OUTCOME_UNKNOWN: -32013,
  // The end of the caller's time, of its interest, or of the connection.
  ERR_TIMEOUT: -32014,
  ERR_ABORTED: -32014,
  ERR_CLOSED: -32014,
  // The credential.
  ERR_CREDENTIAL_REJECTED: -32015,
  ERR_CREDENTIAL_SOURCE: -32015,
  ERR_DISCOVERY: -32015,
  ERR_REAUTHORIZATION_REQUIRED: -32015,
  ERR_INSUFFICIENT_SCOPE: -32015,
  ERR_TOKEN_ENDPOINT: -32015,
  ERR_STORE_UNAVAILABLE: -32015,
  // A limit.
  ERR_RATE_LIMITED: -32016,
  ERR_RATE_WAIT_EXCEEDED: -32016,
  // The contract and the gates.
  ERR_CONTRACT_CHANGED: -32017,
  ERR_TOOL_NOT_PINNED: -32017,
  ERR_DENIED: -32017,
  ERR_CALL_LIMIT: -32017,
  // The result.
  ERR_RESULT_REFUSED: -32018,
  ERR_MESSAGE_TOO_LARGE: -32018,
});

/** The engine's error as the answer to the framework's request. */
export function errorAnswer(id: RequestId, error: unknown): JsonRpcError {
  const own = HostedMcpError.isInstance(error)
    ? error
    : new HostedMcpError('ERR_PROTOCOL', 'The call failed here', { executed: 'unknown', cause: error });
  const { code, executed, retryable } = own;
  // What may be repeated at once says so by 0: `HostedMcpError.from` reads it.
  const retryAfterMs = own.retryAfterMs ?? (retryable ? 0 : undefined);
  const holdfast = { code, executed, ...(retryAfterMs !== undefined && { retryAfterMs }) };
  return {
    jsonrpc: '2.0',
    id,
    error: { code: JSON_RPC_CODES[code] ?? OTHER, message: own.message, data: { holdfast } },
  };
}

export function jsonResponse(message: JsonRpcMessage, headers: Readonly<Record<string, string>>): Response {
  const body = JSON.stringify(message);
  return new Response(body, { status: 200, headers: { ...headers, 'content-type': 'application/json' } });
}

export function streamResponse(
  body: ReadableStream<Uint8Array>,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return new Response(body, {
    status: 200,
    headers: { ...headers, 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
  });
}

export function emptyResponse(
  status: 200 | 202 | 405 | 406,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return new Response(null, { status, headers });
}

/** A body that is no single JSON-RPC message, or a request that cannot be served: nothing was sent anywhere. */
export function badRequest(kind: 'parse' | 'invalid', what: string): Response {
  const { code, message, executed } = new HostedMcpError('ERR_PROTOCOL', what);
  const error = {
    code: kind === 'parse' ? PARSE_ERROR : INVALID_REQUEST,
    message,
    data: { holdfast: { code, executed } },
  };
  return new Response(JSON.stringify({ jsonrpc: '2.0', id: null, error }), {
    status: 400,
    headers: { 'content-type': 'application/json' },
  });
}
