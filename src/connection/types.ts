/**
 * What an app sees of a connection: its state, its session, its events, its figures.
 */
import type { SnapshotOptions } from '../contract/read.js';
import type { ContractSnapshot } from '../contract/types.js';
import type { ContractEvents } from '../contract/watch.js';
import type { Disposer } from '../disposer.js';
import type { Executed, HostedMcpError, HostedMcpErrorCode } from '../errors.js';
import type { CallChain } from '../gates/gate.js';
import type { RequestId } from '../json-rpc.js';
import type { LossCause } from '../session/keeper-parts.js';
import type { SessionInfo } from '../session/session.js';
import type { ConnectionState } from '../session/state.js';
import type { Histogram } from './histogram.js';
import type { Revocation } from './revocation.js';
import type { ExchangeDone } from './route.js';

export type { SnapshotOptions } from '../contract/read.js';
export type { ContractSnapshot } from '../contract/types.js';
export type { ConnectionState } from '../session/state.js';

/** One JSON-RPC request, from hand-in to end. */
export interface CallDone {
  readonly requestId: RequestId;
  readonly method: string;
  readonly tool?: string;
  /** The session's number. */
  readonly session?: number;
  /** Epoch milliseconds. */
  readonly startedAtMs: number;
  readonly durationMs: number;
  readonly waits: {
    readonly gatesMs: number;
    readonly sessionMs: number;
    readonly credentialMs: number;
    readonly rateMs: number;
  };
  readonly executed: Executed;
  /** Of the error it ended with. */
  readonly code?: HostedMcpErrorCode;
}

export interface ConnectionEvents extends ContractEvents {
  state: {
    readonly previous: ConnectionState;
    readonly current: ConnectionState;
    readonly code?: HostedMcpErrorCode;
  };
  'session-established': { readonly session: SessionInfo };
  'session-suspect': { readonly session: SessionInfo; readonly reason: string };
  'session-lost': { readonly session: SessionInfo; readonly reason: string };
  'session-replaced': {
    readonly previous: SessionInfo;
    readonly current: SessionInfo;
    readonly reason: string;
  };
  'credential-refreshed': { readonly id: string; readonly generation: number; readonly expiresAtMs?: number };
  'credential-adopted': { readonly id: string; readonly generation: number; readonly expiresAtMs?: number };
  'credential-failed': { readonly id: string; readonly error: HostedMcpError };
  /** A machine's credential got a wider scope, because the server asked for it. */
  'credential-scope-widened': { readonly id: string; readonly scope: string };
  /** The server names another authorization server than before; both as issuers. */
  'credential-server-changed': { readonly id: string; readonly previous: string; readonly current: string };
  'stream-cut': {
    readonly session: number;
    readonly ageMs: number;
    readonly idleMs?: number;
    readonly method?: string;
  };
  'stream-reopened': { readonly session: number; readonly gapMs: number; readonly resumed: boolean };
  /** Notifications may have been missed. */
  'stream-gap': { readonly session: number; readonly gapMs: number };
  'stream-unavailable': { readonly session: number; readonly reason: string; readonly final: boolean };
  /** Three cuts agreed: streams are left alone for so long here, or reach this age. */
  'idle-limit-learned': { readonly kind: 'idle' | 'age'; readonly limitMs: number };
  /** The agent's own gap between calls is longer than the way leaves a stream alone. */
  'idle-risk': { readonly longestIdleGapMs: number; readonly idleLimitMs: number };
  /** A request waits for the rate limit. */
  'rate-wait': { readonly key: string; readonly forMs: number };
  /** The server wants no request for so long; with a shared store, from no replica. */
  'rate-paused': { readonly key: string; readonly forMs: number };
  /** The shared store is away: what `onStoreDown` says holds. */
  'rate-degraded': { readonly key: string; readonly reason: string };
  'rate-restored': { readonly key: string };
  /** An unusual chain of calls, as `chainAlarm()` of `mcp-holdfast/gates` finds it. */
  'call-chain': CallChain;
  call: CallDone;
  exchange: ExchangeDone;
}

export interface ConnectionStats {
  readonly calls: {
    readonly answered: number;
    readonly failed: Readonly<Partial<Record<HostedMcpErrorCode, number>>>;
  };
  /** Hand-in to answer, of answered requests. */
  readonly latency: Histogram;
  readonly latencyByTool: Readonly<Record<string, Histogram>>;
  readonly waits: {
    readonly rate: Histogram;
    readonly credential: Histogram;
    readonly session: Histogram;
    readonly gates: Readonly<Record<string, Histogram>>;
  };
  /** The agent's longest think-time between two calls. */
  readonly longestIdleGapMs: number;
  /** How long this way leaves a silent stream alone, once three cuts have agreed. */
  readonly idleLimitMs?: number;
  /** Whether the agent's longest gap exceeds it: then notifications depend on the streams' coming back. */
  readonly idleRisk: boolean;
}

export interface ConnectionHealth {
  readonly ok: boolean;
  readonly state: ConnectionState;
  readonly code?: HostedMcpErrorCode;
  readonly reason?: string;
  /** How long it has been so. */
  readonly sinceMs: number;
  readonly retryAfterMs?: number;
}

/** The engine behind every face. */
export interface Connection {
  readonly state: ConnectionState;
  /** The session that takes new calls, if one stands. */
  readonly session: SessionInfo | undefined;
  readonly stats: ConnectionStats;
  /** For readiness probes. Not ok: `unstable`, `blocked`, `closed`. */
  health(): ConnectionHealth;
  on<E extends keyof ConnectionEvents>(event: E, listener: (payload: ConnectionEvents[E]) => void): Disposer;
  /** The next such event (that passes `filter`). Rejects with the signal's reason, or `ERR_CLOSED`. */
  once<E extends keyof ConnectionEvents>(
    event: E,
    options?: {
      signal?: AbortSignal | undefined;
      filter?: ((payload: ConnectionEvents[E]) => boolean) | undefined;
    },
  ): Promise<ConnectionEvents[E]>;
  /** Reads what the server offers, now: all pages, whole tools. Rejects as a call does; never with a part of it. */
  snapshot(options?: SnapshotOptions): Promise<ContractSnapshot>;
  /**
   * The server's contract was reviewed: `snapshot`, or what was read last, is the pin from here on. Throws a
   * `TypeError` where no contract is watched (`contract` option).
   */
  acceptContract(snapshot?: ContractSnapshot): void;
  /**
   * The kill switch: no call goes out any more, calls under way are cancelled, the session is deleted, the token is
   * revoked at its issuer (RFC 7009) where its source can, and the connection is closed. Done within a second, whatever
   * hangs; what could not be done by then is `failed`. Never rejects.
   */
  revoke(reason?: string): Promise<Revocation>;
  /** Deletes the session and ends everything. Never rejects. */
  close(): Promise<void>;
}

export type { LossCause };
