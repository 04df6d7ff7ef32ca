/**
 * Errors of the way as JSON-RPC answers, for hops that are apart, and back.
 *
 * Guarantees that code, outcome, the hop and the time to wait survive the way, and nothing else: words are made anew
 * on arrival, so that no hop can speak to a model through them. Never takes a code that a hop has no business to say.
 */
import { type Executed, HostedMcpError, type HostedMcpErrorCode } from '../errors.js';
import {
  isErrorResponse,
  isRequest,
  type JsonRpcError,
  type JsonRpcMessage,
  type JsonRpcResponse,
} from '../json-rpc.js';
import { askedBy } from './messages.js';

/** Outside the range that the specification reserves from -32020 on. */
const CARRIED_CODE = -32010;
/** The process of the server has ended, and with it its session. */
export const CHILD_ENDED = 'child-ended';
const HOP = /^[\w.@+-]{1,60}$/;

const WORDS: Readonly<Partial<Record<HostedMcpErrorCode, string>>> = Object.freeze({
  ERR_NOT_SENT: 'The server behind the relay could not be reached',
  ERR_SESSION_LOST: 'The process of the server has been replaced',
  ERR_OUTCOME_UNKNOWN: 'The answer was lost on its way through the relay',
  ERR_TIMEOUT: 'No answer came in time through the relay',
  ERR_ABORTED: 'The call was given up',
  ERR_CREDENTIAL_SOURCE: 'The server behind the relay lacks a value that its configuration names',
  ERR_DENIED: 'The relay does not allow this call',
  ERR_CALL_LIMIT: 'The relay allows no more calls in this turn',
  ERR_RATE_LIMITED: 'The relay takes no more calls for now',
  ERR_MESSAGE_TOO_LARGE: 'The answer is larger than the relay allows',
  ERR_PROTOCOL: 'The server behind the relay, or the relay, could not be understood',
  ERR_CLOSED: 'The server behind the relay was ended there',
});

interface Carried {
  readonly code: HostedMcpErrorCode;
  readonly executed: Executed;
  readonly reason?: string;
  readonly hop?: string;
  readonly retryAfterMs?: number;
  readonly retryable: boolean;
}

/** A failure, as the answer to the message that met it. What is no error of ours says nothing of the outcome. */
export function errorAnswer(message: JsonRpcMessage, failure: unknown, hop?: string): JsonRpcError {
  const error = HostedMcpError.isInstance(failure) ? failure : undefined;
  const known = error !== undefined && WORDS[error.code] !== undefined;
  const carried: Carried = {
    code: known ? error.code : 'ERR_OUTCOME_UNKNOWN',
    executed: error?.executed ?? 'unknown',
    retryable: error?.retryable ?? false,
    ...(error?.reason !== undefined && { reason: error.reason }),
    ...(error?.retryAfterMs !== undefined && { retryAfterMs: error.retryAfterMs }),
    ...hopOf(hopNamed(error) ?? hop),
  };
  const id = isRequest(message) ? message.id : null;
  const words = `${WORDS[carried.code]}.`;
  return { jsonrpc: '2.0', id, error: { code: CARRIED_CODE, message: words, data: { holdfast: carried } } };
}

/** The failure that an answer carries; nothing where it is the server's own answer. */
export function carriedError(asked: JsonRpcMessage, answer: JsonRpcMessage): HostedMcpError | undefined {
  const carried = isErrorResponse(answer) ? holdfastOf(answer) : undefined;
  if (carried === undefined) return undefined;
  const { code, executed, reason, hop, retryAfterMs, retryable } = carried as Record<keyof Carried, unknown>;
  const isKnown = typeof code === 'string' && Object.hasOwn(WORDS, code);
  const isOutcome = executed === false || executed === true || executed === 'unknown';
  return toldError(
    asked,
    isKnown && isOutcome ? (code as HostedMcpErrorCode) : 'ERR_OUTCOME_UNKNOWN',
    isKnown && isOutcome ? (executed as Executed) : 'unknown',
    {
      retryable: retryable === true,
      ...(reason === CHILD_ENDED && { reason }),
      ...hopOf(hop),
      ...(typeof retryAfterMs === 'number' && retryAfterMs >= 0 && retryAfterMs <= 3_600_000
        ? { retryAfterMs }
        : {}),
    },
  );
}

/** In our words, naming the hop that said so. */
export function toldError(
  asked: JsonRpcMessage,
  code: HostedMcpErrorCode,
  executed: Executed,
  { hop, reason, ...fields }: Partial<Omit<Carried, 'code' | 'executed'>> = {},
): HostedMcpError {
  const at = hop === undefined ? '' : ` (${hop})`;
  return new HostedMcpError(code, `${WORDS[code] ?? 'The relay failed'}${at}`, {
    executed,
    ...fields,
    ...askedBy(asked),
    reason: reason ?? (hop === undefined ? undefined : `hop:${hop}`),
  });
}

/** Answers of a server must not look like a word of ours. */
export function withoutCarried(answer: JsonRpcResponse): JsonRpcResponse {
  if (!isErrorResponse(answer) || holdfastOf(answer) === undefined) return answer;
  const { data: _, ...error } = answer.error;
  return { ...answer, error };
}

function holdfastOf({ error }: JsonRpcError): object | undefined {
  const { data } = error;
  if (typeof data !== 'object' || data === null || !Object.hasOwn(data, 'holdfast')) return undefined;
  const { holdfast } = data as { holdfast: unknown };
  return typeof holdfast === 'object' && holdfast !== null ? holdfast : {};
}

function hopNamed(error: HostedMcpError | undefined): string | undefined {
  return error?.reason?.startsWith('hop:') === true ? error.reason.slice('hop:'.length) : undefined;
}

function hopOf(hop: unknown): { hop?: string } {
  return typeof hop === 'string' && HOP.test(hop) ? { hop } : {};
}
