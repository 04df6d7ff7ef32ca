/**
 * What is known after one exchange, and nothing thrown away.
 */
import type { ExchangeFailure } from '../http/exchange.js';
import type { JsonRpcResponse } from '../json-rpc.js';
import type { Challenge } from './challenge.js';

/** The facts of one HTTP exchange, as `classify` and `session.isLost` read them. Carries no secret. */
export interface ExchangeFacts {
  /** JSON-RPC method of what was sent. */
  readonly method: string;
  /** Whether the message sent wants an answer. */
  readonly expectsAnswer: boolean;
  /** False only where it is proved that no byte of the request left this process. */
  readonly sent: boolean;
  /** Whether the request carried a session id. */
  readonly sessionSent: boolean;
  /** HTTP status, where a response head arrived. */
  readonly status?: number;
  /** Media type in lower case, without parameters. */
  readonly contentType?: string;
  readonly challenges?: readonly Challenge[];
  readonly retryAfterMs?: number;
  /** `DPoP-Nonce` of a refusal (RFC 9449, 8.2). */
  readonly dpopNonce?: string;
  /** The JSON-RPC answer, or the JSON-RPC error that arrived without an id. */
  readonly message?: JsonRpcResponse;
  /** Whether `message` carries the request's id, none (or null), or another one. */
  readonly relation?: 'own' | 'none' | 'foreign';
  /** The first 2,048 characters of a body that is not JSON-RPC. */
  readonly text?: string;
  /** Why there is no complete answer. */
  readonly failure?: ExchangeFailure;
  /** Where a response stream that was cut can be taken up again. */
  readonly resume?: { readonly cursor: string; readonly retryMs?: number };
  /** The body was broken: JSON that does not parse, an event over the limit. */
  readonly damage?: 'malformed' | 'too-large';
}
