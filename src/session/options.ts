/**
 * The `session` options, resolved once. Bad values are refused by name before any I/O.
 */
import type { ExchangeFacts } from '../connection/facts.js';
import type { JsonRpcResponse } from '../json-rpc.js';
import { OptionReader } from '../option-reader.js';
import type { SessionInfo } from './session.js';

/** The way to make calls while a session is being set up: they go out before the waiting ones. */
export interface SessionSetup {
  readonly session: SessionInfo;
  readonly previous?: SessionInfo;
  readonly reason: string;
  /** Ends when the time for the set-up is up. */
  readonly signal: AbortSignal;
  callTool(
    params: {
      name: string;
      arguments?: Record<string, unknown> | undefined;
      _meta?: Record<string, unknown> | undefined;
    },
    options?: { signal?: AbortSignal | undefined },
  ): Promise<Record<string, unknown>>;
  /** The `result` of the answer; a JSON-RPC error rejects with `ERR_PROTOCOL` whose `serverText` quotes it. */
  request(
    method: string,
    params?: Record<string, unknown> | undefined,
    options?: { signal?: AbortSignal | undefined },
  ): Promise<Record<string, unknown>>;
}

export interface SessionOptions {
  /** Runs for the first and every replaced session, before waiting calls go out. Throwing twice makes the connection `unstable`. */
  onEstablished?: ((setup: SessionSetup) => void | Promise<void>) | undefined;
  /** How long `onEstablished` may take. 15,000. */
  setupTimeoutMs?: number | undefined;
  /** What asks a session whether it lives. 'ping'. */
  probe?: 'ping' | 'tools/list' | 'off' | undefined;
  /** Whether the server ties a session to the token that opened it. 'detect'. */
  boundToToken?: 'detect' | boolean | undefined;
  /** Calls not yet sent when a session is replaced. 'continue'. */
  queuedCalls?: 'continue' | 'reject' | undefined;
  /** Calls sent and unanswered when the server dropped the session may still be answered for so long. 5,000. */
  graceMs?: number | undefined;
  /** After so long without a call the session is deleted and nothing is kept open; the next call opens again. Off. */
  idleTimeoutMs?: number | undefined;
  /** The app's own rule: `true` lost, `'suspect'` ask, `false` not a session matter, `undefined` ours decides. */
  isLost?: ((facts: ExchangeFacts) => boolean | 'suspect' | undefined) | undefined;
  /** Puts log level and resource subscriptions back on a new session. true. */
  restore?: boolean | undefined;
}

export const SESSION_DEFAULTS = Object.freeze({
  /** Re-selecting a project or a database takes seconds, and callers wait behind it. */
  setupTimeoutMs: 15_000,
  probe: 'ping' as const,
  boundToToken: 'detect' as const,
  queuedCalls: 'continue' as const,
  /** An answer that arrives is better than "unknown"; most tools answer within it. */
  graceMs: 5_000,
  restore: true,
});

export interface ResolvedSessionOptions {
  readonly onEstablished: ((setup: SessionSetup) => void | Promise<void>) | undefined;
  readonly setupTimeoutMs: number;
  readonly probe: 'ping' | 'tools/list' | 'off';
  readonly boundToToken: 'detect' | boolean;
  readonly queuedCalls: 'continue' | 'reject';
  readonly graceMs: number;
  readonly idleTimeoutMs: number | undefined;
  readonly isLost: ((facts: ExchangeFacts) => boolean | 'suspect' | undefined) | undefined;
  readonly restore: boolean;
}

export function resolveSessionOptions(options: SessionOptions | undefined): ResolvedSessionOptions {
  const read = new OptionReader('session', options);
  const resolved = {
    onEstablished: read.func<(setup: SessionSetup) => void | Promise<void>>('onEstablished'),
    setupTimeoutMs: read.duration('setupTimeoutMs') ?? SESSION_DEFAULTS.setupTimeoutMs,
    probe: read.oneOf('probe', ['ping', 'tools/list', 'off'] as const) ?? SESSION_DEFAULTS.probe,
    boundToToken:
      read.oneOf('boundToToken', ['detect', true, false] as const) ?? SESSION_DEFAULTS.boundToToken,
    queuedCalls: read.oneOf('queuedCalls', ['continue', 'reject'] as const) ?? SESSION_DEFAULTS.queuedCalls,
    graceMs: read.duration('graceMs') ?? SESSION_DEFAULTS.graceMs,
    idleTimeoutMs: read.duration('idleTimeoutMs', 1),
    isLost: read.func<(facts: ExchangeFacts) => boolean | 'suspect' | undefined>('isLost'),
    restore: read.oneOf('restore', [true, false] as const) ?? SESSION_DEFAULTS.restore,
  };
  read.done();
  return Object.freeze(resolved);
}

/** The `result` of an answer, or nothing where it is an error. */
export function resultOf(answer: JsonRpcResponse): Record<string, unknown> | undefined {
  return 'result' in answer ? (answer.result as Record<string, unknown>) : undefined;
}
