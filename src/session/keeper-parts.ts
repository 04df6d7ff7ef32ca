/**
 * What the keeper of the session is given, and whom it tells.
 */
import type { Clock } from '../clock.js';
import type { Verdict } from '../connection/classify.js';
import type { Wire } from '../connection/wire.js';
import type { CredentialProvider } from '../credentials/provider.js';
import type { HostedMcpError } from '../errors.js';
import type { JsonRpcMessage } from '../json-rpc.js';
import type { ResolvedSessionOptions } from './options.js';
import type { Session } from './session.js';
import type { ConnectionState } from './state.js';

/** What `classify` says of an answer that may mean the end of a session. */
export type Suspicion = Pick<
  Extract<Verdict, { kind: 'session-suspect' }>,
  'strong' | 'reason' | 'otherwise'
>;

/** Why a session was replaced or lost: by our own change of credential, or by the server. */
export type LossCause = 'server' | 'credential';

export interface KeeperParts {
  readonly clock: Clock;
  readonly wire: Wire;
  readonly credentials: CredentialProvider;
  readonly target: URL;
  readonly options: ResolvedSessionOptions;
  readonly maxAttempts: number;
  readonly maxElapsedMs: number;
  onState(state: ConnectionState, previous: ConnectionState, error?: HostedMcpError): void;
  onMessage(message: JsonRpcMessage, session: Session | undefined): void;
  /** Before waiting calls go out: puts back what the old session had, then the app's own set-up. */
  setUp(session: Session, previous: Session | undefined, reason: string, signal: AbortSignal): Promise<void>;
  onEstablished(session: Session, previous: Session | undefined, reason: string): void;
  onSuspect(session: Session, reason: string): void;
  onLost(session: Session, reason: string, cause: LossCause): void;
}
