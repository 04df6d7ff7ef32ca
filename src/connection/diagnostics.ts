/**
 * A connection's events for whoever is outside of the app's own code: the channels of
 * `node:diagnostics_channel`, the `logger`, the telemetry.
 *
 * Guarantees that an event nobody listens to costs a look-up, that a channel names the server without user, query
 * and fragment, and that a runtime without that module lacks the channels and nothing else. Never has more to
 * say than the events, so no secret.
 */
import type { Channel } from 'node:diagnostics_channel';
import { Emitter } from '../events.js';
import type { ResolvedHostedOptions } from '../options.js';
import type { Redactor } from '../redactor.js';
import type { Ledger } from './ledger.js';
import { EVENT_NAMES, logEvents } from './log.js';
import { TelemetryUse } from './telemetry-use.js';
import type { Connection, ConnectionEvents } from './types.js';

type Channels = ReadonlyMap<keyof ConnectionEvents, Channel>;

/** `mcp-holdfast:<event>` for each kind of event; the same for all connections of the process. */
const CHANNELS = openChannels();
/** What providers of credentials tell, who do not know the connection's secrets. */
const FROM_PROVIDERS: ReadonlySet<string> = new Set(
  EVENT_NAMES.filter((name) => name.startsWith('credential-')),
);

/** The emitter of a connection, heard on the channels as well: each message is the event, and `server` beside it. */
export class PublishedEvents extends Emitter<ConnectionEvents> {
  readonly #channels: Channels | undefined;
  #redactor: Redactor | undefined;
  #server = '';
  #over = false;

  /** `channels` is a seam for tests of runtimes that have none. */
  constructor(channels: Channels | undefined = CHANNELS) {
    super();
    this.#channels = channels;
  }

  /** Which server the messages are about: its origin and path are told. `redactor`: of our secrets, for the words of others. */
  comeFrom(url: URL, redactor?: Redactor): void {
    this.#redactor = redactor;
    // The origin of an address that is no web address is "null".
    const origin = url.origin === 'null' ? url.protocol : url.origin;
    this.#server = `${origin}${url.pathname}`;
  }

  override wants(event: keyof ConnectionEvents): boolean {
    return super.wants(event) || this.#published(event) !== undefined;
  }

  override emit<E extends keyof ConnectionEvents>(event: E, payload: ConnectionEvents[E]): void {
    if (!this.wants(event)) return;
    // Of a changed server or a wider scope, the words are the server's, which has seen our token.
    const told =
      this.#redactor !== undefined && FROM_PROVIDERS.has(event) ? this.#redactor.value(payload) : payload;
    this.#published(event)?.publish({ ...(told as ConnectionEvents[E]), server: this.#server });
    super.emit(event, told as ConnectionEvents[E]);
  }

  override close(): void {
    this.#over = true;
    super.close();
  }

  #published(event: keyof ConnectionEvents): Channel | undefined {
    const channel = this.#channels?.get(event);
    return channel?.hasSubscribers === true && !this.#over ? channel : undefined;
  }
}

export interface ObservedParts {
  readonly options: ResolvedHostedOptions;
  readonly emitter: PublishedEvents;
  readonly ledger: Ledger;
  readonly redactor: Redactor;
}

/** Lets those hear of a connection whom its options name. */
export function observe(connection: Pick<Connection, 'session'>, parts: ObservedParts): void {
  const { options, emitter } = parts;
  emitter.comeFrom(options.url, parts.redactor);
  if (options.logger !== undefined) logEvents(emitter, options.logger);
  if (options.telemetry !== undefined) new TelemetryUse(options.telemetry, connection, parts).start();
}

/** Not imported: a bundle for a browser could not have it. */
function openChannels(): Channels | undefined {
  const { process } = globalThis as { process?: { getBuiltinModule?: (id: string) => unknown } };
  const module = process?.getBuiltinModule?.('node:diagnostics_channel');
  const { channel } = (module ?? {}) as Partial<typeof import('node:diagnostics_channel')>;
  if (typeof channel !== 'function') return undefined;
  return new Map(EVENT_NAMES.map((event) => [event, channel(`mcp-holdfast:${event}`)] as const));
}
