/**
 * Events as lines for the app's log, where it gave a `logger`.
 *
 * Guarantees that a logger which throws harms nothing. Never has more to say than the events, so no secret.
 */
import type { Emitter } from '../events.js';
import type { LogEntry } from '../options.js';
import type { ConnectionEvents } from './types.js';

const LINES = {
  state: ['info', 'The connection changed its state.'],
  'session-established': ['info', 'A session was established.'],
  'session-suspect': ['info', 'An answer leaves it open whether the session lives.'],
  'session-lost': ['warn', 'The session was lost.'],
  'session-replaced': ['info', 'A new session took the place of the old one.'],
  'credential-refreshed': ['info', 'The credential was refreshed.'],
  'credential-adopted': ['info', 'A credential refreshed elsewhere was adopted.'],
  'credential-failed': ['warn', 'The credential could not be refreshed.'],
  'credential-scope-widened': ['warn', 'The credential got a wider scope, because the server asked for it.'],
  'credential-server-changed': ['warn', 'The server names another authorization server than before.'],
  'stream-cut': ['debug', 'A stream was cut.'],
  'stream-reopened': ['debug', 'A stream was opened again.'],
  'stream-gap': ['info', 'Notifications may have been missed.'],
  'stream-unavailable': ['info', 'The server gives no listen stream.'],
  'idle-limit-learned': ['info', 'The limit of the way on silent or old streams is known.'],
  'idle-risk': ['warn', 'The agent thinks longer than the way leaves a stream alone.'],
  'rate-wait': ['debug', 'A request waits for the rate limit.'],
  'rate-paused': ['warn', 'The server asked for a pause.'],
  'rate-degraded': ['warn', 'The store of the rate limit is away.'],
  'rate-restored': ['info', 'The store of the rate limit is back.'],
  'contract-changed': ['warn', 'The server offers something else than was pinned.'],
  'contract-unreadable': ['warn', 'What the server offers could not be read.'],
  'call-chain': ['warn', 'An unusual chain of calls.'],
  call: ['debug', 'A request has ended.'],
  exchange: ['debug', 'An HTTP request has ended.'],
} as const satisfies Record<keyof ConnectionEvents, readonly [LogEntry['level'], string]>;

/** All kinds of events there are. */
export const EVENT_NAMES = Object.freeze(Object.keys(LINES)) as readonly (keyof ConnectionEvents)[];

export function logEvents(emitter: Emitter<ConnectionEvents>, logger: (entry: LogEntry) => void): void {
  for (const event of EVENT_NAMES) {
    const [level, message] = LINES[event];
    // Payloads are interfaces, which have no index signature.
    emitter.on(event, (payload) =>
      logger({ level, event, message, fields: payload as unknown as Record<string, unknown> }),
    );
  }
}
