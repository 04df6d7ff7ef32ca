/**
 * What the parts of one simulator share.
 *
 * Guarantees nothing by itself: each part keeps the promises of its own field. Never shared between two
 * servers.
 */
import type { Clock } from '../clock.js';
import type { Intermediary } from './intermediary.js';
import type { ServerOptions } from './options.js';
import type { ProofCheck } from './proof-check.js';
import type { RateLimiter } from './rate-limiter.js';
import type { Labels, RequestLog } from './request-log.js';
import type { ScriptedReplies } from './scripted-replies.js';
import type { Nodes, Session } from './sessions.js';
import type { SseChannel } from './sse.js';
import type { TokenIssuer } from './token-issuer.js';

export interface ServerState {
  /** Replaced as a whole by `set()`. */
  options: ServerOptions;
  serverInfo: { name: string; version: string; [field: string]: unknown };
  capabilities: Record<string, unknown>;
  /** On the monotonic clock. */
  throttledUntilMs: number;
  /** Scheme, host and port; known once the server listens. */
  origin: string;
  readonly clock: Clock;
  readonly labels: Labels;
  readonly log: RequestLog;
  readonly issuer: TokenIssuer;
  /** Of the MCP endpoint; the issuer has its own. */
  readonly proofs: ProofCheck;
  readonly nodes: Nodes;
  /** Stands for every session where there are none. */
  readonly stateless: Session;
  readonly scripts: ScriptedReplies;
  /** Channels that have a connection. */
  readonly connected: Set<SseChannel>;
  /** Streams of `subscriptions/listen`. */
  readonly subscriptions: Set<{ deliver(notification: object): void }>;
  readonly limiter: RateLimiter;
  readonly intermediary: Intermediary;
  /** Handlers under way, of forgotten sessions too. */
  readonly running: Set<AbortController>;
  /** Ends with the server. */
  readonly closing: AbortSignal;
}
