/**
 * One server of a set: its entry, and the client that is made of it when it is wanted.
 *
 * Guarantees one client at a time, closed with the member even where it was still being made. A client that could not
 * be made is tried again by the next one who wants it. Never opens anything by itself.
 */
import { HostedMcpError } from '../errors.js';
import type { HostedClient } from '../hosted-client.js';
import type { ServerStub } from '../relay/stub.js';
import type { ServerEntry } from './entry.js';
import type { EntryPrint } from './entry-print.js';

export class SetMember {
  readonly name: string;
  readonly entry: ServerEntry | ServerStub;
  /** As of the last look: what is read at each use may have changed since. */
  print: EntryPrint;
  readonly #make: () => Promise<HostedClient>;
  #making: Promise<HostedClient> | undefined;
  #closed = false;
  client: HostedClient | undefined;

  constructor(
    name: string,
    entry: ServerEntry | ServerStub,
    print: EntryPrint,
    make: () => Promise<HostedClient>,
  ) {
    this.name = name;
    this.entry = entry;
    this.print = print;
    this.#make = make;
  }

  /** Rejects with `ERR_CREDENTIAL_SOURCE` where a value of the entry cannot be read, with `TypeError` for an option. */
  async ready(): Promise<HostedClient> {
    if (this.#closed) throw leftError();
    if (this.client !== undefined) return this.client;
    this.#making ??= this.#make().finally(() => {
      this.#making = undefined;
    });
    const client = await this.#making;
    if (this.#closed) {
      await client.close();
      throw leftError();
    }
    this.client = client;
    return client;
  }

  /** Never rejects. */
  async close(): Promise<void> {
    this.#closed = true;
    const client = this.client ?? (await this.#making?.catch(() => undefined));
    this.client = undefined;
    await client?.close();
  }
}

function leftError(): HostedMcpError {
  return new HostedMcpError('ERR_CLOSED', 'The server is no longer one of the set');
}
