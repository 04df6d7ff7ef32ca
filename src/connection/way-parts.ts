/**
 * What the way of a message goes past.
 */
import type { ContractWatch } from '../contract/watch.js';
import type { Emitter } from '../events.js';
import type { JsonRpcMessage } from '../json-rpc.js';
import type { ResolvedHostedOptions } from '../options.js';
import type { Limiter } from '../rate-limit/limiter.js';
import type { ServerLimits } from '../rate-limit/server-limits.js';
import type { SessionKeeper } from '../session/keeper.js';
import type { Session } from '../session/session.js';
import type { SetUp } from '../session/set-up.js';
import type { CredentialUse } from './credential-use.js';
import type { Discovery } from './discovery.js';
import type { GateUse } from './gate-use.js';
import type { Call } from './ledger.js';
import type { Stats } from './stats.js';
import type { ConnectionEvents } from './types.js';
import type { Wire } from './wire.js';

export interface MessageWayParts {
  readonly options: ResolvedHostedOptions;
  readonly credential: CredentialUse;
  readonly discovery: Discovery;
  readonly keeper: SessionKeeper;
  readonly wire: Wire;
  readonly limiter: Limiter;
  readonly serverLimits: ServerLimits;
  readonly setUp: SetUp;
  readonly contract: ContractWatch | undefined;
  readonly gates: GateUse;
  readonly stats: Stats;
  readonly emitter: Emitter<ConnectionEvents>;
  deliver(message: JsonRpcMessage, session: Session, about?: Call): void;
  /** Pending while the session's listen stream is being opened for the first time. */
  opening(): Promise<void> | undefined;
}
