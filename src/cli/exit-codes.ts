/**
 * How a command ends: the exit statuses, and which of them a failure is.
 *
 * Guarantees one status for one kind of trouble in every command, so that a script can tell them apart. Judges by
 * codes, never by the words of a message.
 */
import { SnapshotError } from '../contract/index.js';
import { codeOf, HostedMcpError, type HostedMcpErrorCode } from '../errors.js';
import { UsageError } from './command.js';

export const EXIT = Object.freeze({
  ok: 0,
  /** Something was found: a breaking difference, a missing tool, a server that does not keep its promises. */
  finding: 1,
  /** The command line, a file or the environment cannot be used as given. */
  usage: 2,
  /** `diff`: nothing fails, but a model acts differently. */
  behaviour: 3,
  /** The server cannot be reached, does not answer, or is away for now. */
  unreachable: 10,
  tls: 11,
  /** Something answers, and it is no MCP server that this client can speak to. */
  notMcp: 12,
  /** The credential is refused, or cannot be had. */
  credential: 13,
  /** A fault of this program (EX_SOFTWARE of sysexits). */
  defect: 70,
  /** Ctrl-C: 128 and the number of SIGINT. */
  interrupted: 130,
});

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

const BY_CODE: Readonly<Record<HostedMcpErrorCode, ExitCode>> = Object.freeze({
  ERR_NOT_SENT: EXIT.unreachable,
  ERR_SESSION_LOST: EXIT.unreachable,
  ERR_SESSION_UNSTABLE: EXIT.unreachable,
  ERR_OUTCOME_UNKNOWN: EXIT.unreachable,
  ERR_TIMEOUT: EXIT.unreachable,
  ERR_RATE_LIMITED: EXIT.unreachable,
  ERR_RATE_WAIT_EXCEEDED: EXIT.unreachable,
  ERR_CREDENTIAL_REJECTED: EXIT.credential,
  ERR_CREDENTIAL_SOURCE: EXIT.credential,
  ERR_DISCOVERY: EXIT.credential,
  ERR_REAUTHORIZATION_REQUIRED: EXIT.credential,
  ERR_INSUFFICIENT_SCOPE: EXIT.credential,
  ERR_TOKEN_ENDPOINT: EXIT.credential,
  ERR_STORE_UNAVAILABLE: EXIT.credential,
  ERR_HTTP_STATUS: EXIT.notMcp,
  ERR_PROTOCOL: EXIT.notMcp,
  ERR_REDIRECT: EXIT.notMcp,
  ERR_MESSAGE_TOO_LARGE: EXIT.notMcp,
  ERR_RESULT_REFUSED: EXIT.notMcp,
  ERR_CONTRACT_CHANGED: EXIT.finding,
  ERR_TOOL_NOT_PINNED: EXIT.finding,
  ERR_DENIED: EXIT.finding,
  ERR_CALL_LIMIT: EXIT.finding,
  ERR_ABORTED: EXIT.interrupted,
  ERR_CLOSED: EXIT.interrupted,
});

/** Node's names for what can be wrong with TLS: certificates (X.509) and the protocol (OpenSSL). */
const TLS_CODES =
  /^(?:ERR_SSL_|ERR_TLS_|ERR_OSSL_|CERT_|CRL_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|INVALID_CA$|INVALID_PURPOSE$|PATH_LENGTH_|HOSTNAME_MISMATCH$|ERROR_IN_CERT_|EPROTO$)/;

/** The status a command ends with when `error` ended it. */
export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof UsageError) return EXIT.usage;
  // What a server sent; one of a file is a UsageError.
  if (SnapshotError.isInstance(error)) return EXIT.finding;
  const failure = HostedMcpError.from(error);
  if (failure === undefined) return isServerRefusal(error) ? EXIT.notMcp : EXIT.defect;
  const byCode = BY_CODE[failure.code] ?? EXIT.defect;
  if (byCode === EXIT.unreachable && tlsCodeOf(failure) !== undefined) return EXIT.tls;
  if (failure.code !== 'ERR_HTTP_STATUS') return byCode;
  const status = failure.status ?? 0;
  if (status === 403) return EXIT.credential;
  return status >= 500 && status !== 501 ? EXIT.unreachable : EXIT.notMcp;
}

/** The code of the TLS fault that a failure comes from. */
export function tlsCodeOf(error: unknown): string | undefined {
  return causeCodes(error).find((code) => TLS_CODES.test(code));
}

/** The codes of an error's causes, the nearest first; its own is not among them. */
export function causeCodes(error: unknown): string[] {
  const codes: string[] = [];
  let at: unknown = error;
  for (let depth = 0; depth < 8; depth++) {
    at = typeof at === 'object' && at !== null ? (at as { cause?: unknown }).cause : undefined;
    const code = codeOf(at);
    if (code !== undefined) codes.push(code);
  }
  return codes;
}

/** A JSON-RPC error of the server, as the SDK's Client passes it on. */
export function isServerRefusal(error: unknown): error is { readonly code: number } {
  return (
    typeof error === 'object' &&
    error !== null &&
    (error as { name?: unknown }).name === 'McpError' &&
    typeof (error as { code?: unknown }).code === 'number'
  );
}
