/**
 * `relayTransport`: the SDK's Transport, v1 and v2, to a server that cannot be dialed.
 *
 * Guarantees what HostedTransport guarantees, over any function that takes a message there and brings its answer
 * back. Never opens a connection of its own.
 */

import { HostedTransport } from '../hosted-transport.js';
import { HOSTED_OPTION_NAMES, type HostedOptions } from '../options.js';
import { hopName } from './hop.js';
import type { RelaySend } from './messages.js';
import { RelayConnection } from './relay-connection.js';

/** Options of the engine that mean something without a network; `contract`, `gates`, `session` and the others. */
export type RelayTransportOptions = Omit<HostedOptions, 'credentials' | 'http' | 'lazyConnect'> & {
  /** The server's name, in facts and figures. 'relay'. */
  name?: string | undefined;
};

/** A `HostedTransport` that owns its connection; `HostedClient.connect` takes it, and so does any SDK Client. */
export type RelayTransport = HostedTransport;

const NOT_HERE: readonly string[] = ['credentials', 'http', 'lazyConnect'];

/**
 * A Transport over `send`, which takes a message to a server and resolves with its answer, or with the answer and
 * notifications before it. `send` is given the milliseconds in which it has to answer, and a signal.
 *
 * A rejection of `send` with a `HostedMcpError` means what that says; with anything else, that the call may have run.
 * Questions of the server (sampling, elicitation, roots) are not carried.
 *
 * Throws `TypeError` for an option that cannot be used.
 *
 * @example
 * const transport = relayTransport((message, { deadlineMs, signal }) => post(orchestrator, { message, deadlineMs }, signal));
 * await client.connect(transport);
 */
export function relayTransport(send: RelaySend, options: RelayTransportOptions = {}): RelayTransport {
  return new OwningTransport(makeRelayConnection(send, options));
}

export function makeRelayConnection(send: RelaySend, options: RelayTransportOptions): RelayConnection {
  if (typeof send !== 'function') throw new TypeError('send must be a function');
  const { name = 'relay', ...hosted } = options;
  for (const each of Object.keys(hosted)) {
    const isKnown = (HOSTED_OPTION_NAMES as readonly string[]).includes(each) && !NOT_HERE.includes(each);
    if (!isKnown && hosted[each as keyof typeof hosted] !== undefined)
      throw new TypeError(`${each} is not an option of a relay`);
  }
  return new RelayConnection(send, hopName(name), hosted);
}

class OwningTransport extends HostedTransport {
  readonly #engine: RelayConnection;

  constructor(engine: RelayConnection) {
    super(engine);
    this.#engine = engine;
  }

  override async close(): Promise<void> {
    await this.#engine.close({ deleteSession: false });
    await super.close();
  }
}
