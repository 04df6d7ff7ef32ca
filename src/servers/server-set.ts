/**
 * Many servers at once, by name: hosted, started here, or reached through a relay.
 *
 * Guarantees each its own client with the engine of all others, opened when it is first wanted; that a changed
 * configuration leaves alone what is unchanged in it; and that a server which is away takes no other with it. Never
 * gives one server's credentials to another: they belong in its own entry.
 */
import { HostedMcpError } from '../errors.js';
import { HostedClient } from '../hosted-client.js';
import { splitOptions } from '../hosted-client-options.js';
import { OptionReader } from '../option-reader.js';
import type { HostedOptions } from '../options.js';
import type { RelaySend } from '../relay/messages.js';
import { checkStub, isStub, type ServerStub } from '../relay/stub.js';
import { makeRelayConnection } from '../relay/transport.js';
import { type ConnectServerOptions, connectServer } from './connect-server.js';
import { ENGINE } from './engine.js';
import { checkEntry, fieldName, isRecord, originOf, type ServerEntry } from './entry.js';
import { isSame, printOf } from './entry-print.js';
import { quoted } from './placeholders.js';
import { SetMember } from './set-member.js';
import { pairOf, toolName } from './tool-names.js';

type Info = Parameters<typeof connectServer>[0];
type CallParams = Parameters<HostedClient['callTool']>[0];
type CallOptions = NonNullable<Parameters<HostedClient['listTools']>[1]>;
type CallResult = Awaited<ReturnType<HostedClient['callTool']>>;
type ListedTool = Awaited<ReturnType<HostedClient['listTools']>>['tools'][number];

/** A configuration: from `parseServersConfig`, by hand, and stubs of servers that run elsewhere. */
export type ServersConfig = Readonly<Record<string, ServerEntry | ServerStub>>;

export type ConnectServersOptions = Omit<ConnectServerOptions, 'credentials' | 'lazyConnect' | 'signal'> & {
  /** The way to a stub's server. Needed where the configuration has stubs. */
  relay?: ((stub: ServerStub) => RelaySend) | undefined;
  /** What holds for one server alone, beside or in place of the common options: its pinned contract, its headers. */
  optionsFor?:
    | ((name: string) => Omit<ConnectServerOptions, 'lazyConnect' | 'signal'> | undefined)
    | undefined;
  /** A server could not be listed, and is missing in what `listTools` gives. */
  onError?: ((failure: { server: string; error: unknown }) => void) | undefined;
};

/** A tool of the merged list. */
export interface NamedTool {
  /** Unique in the set, the same whatever other servers there are, and fit for model interfaces. */
  readonly name: string;
  readonly server: string;
  /** As its server lists it. */
  readonly tool: ListedTool;
}

export interface ServerSet {
  /** Opens on its first call. Undefined for a name the set does not have, or whose entry cannot be used now. */
  get(name: string): HostedClient | undefined;
  /** The tools of all servers. One that fails is left out, and told to `onError`; rejects where all fail. */
  listTools(options?: CallOptions): Promise<readonly NamedTool[]>;
  /** Calls a tool by its name in the merged list. */
  callTool(
    name: string,
    args?: Readonly<Record<string, unknown>>,
    options?: CallOptions & { _meta?: CallParams['_meta'] },
  ): Promise<CallResult>;
  /**
   * Takes a new configuration: what is unchanged keeps its session, what left or changed is closed, what came opens on
   * its first call. Rejects with `TypeError`, and changes nothing, for one that cannot be used.
   */
  reconcile(config: ServersConfig): Promise<{ added: string[]; removed: string[]; restarted: string[] }>;
  /** Closes all. Never rejects. */
  close(): Promise<void>;
}

/**
 * A set of servers from one configuration. Nothing is opened before it is wanted.
 *
 * Rejects with `TypeError` for a configuration or an option that cannot be used.
 *
 * @example
 * const servers = await connectServers(info, parseServersConfig(await readFile('.mcp.json', 'utf8')));
 * for (const { name, tool } of await servers.listTools()) offer(name, tool.description, tool.inputSchema);
 * await servers.callTool('github__search_issues', { query: 'label:bug' });
 */
export async function connectServers(
  info: Info,
  config: ServersConfig,
  options: ConnectServersOptions = {},
): Promise<ServerSet> {
  const set = new ConnectedServers(info, options);
  await set.reconcile(config);
  return set;
}

class ConnectedServers implements ServerSet {
  readonly #info: Info;
  readonly #options: ConnectServersOptions;
  readonly #common: ConnectServerOptions;
  #members = new Map<string, SetMember>();
  /** Of the tools that were listed: those whose names do not say it themselves. */
  readonly #pairs = new Map<string, { server: string; tool: string }>();
  #changing: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | undefined;

  constructor(info: Info, options: ConnectServersOptions) {
    const { relay: _relay, optionsFor: _for, onError: _error, ...common } = options;
    const read = new OptionReader('', options);
    for (const name of ['relay', 'optionsFor', 'onError']) read.func(name);
    const { credentials, contract, http } = common as HostedOptions;
    for (const [name, value] of [
      ['credentials', credentials],
      ['http.headers', http?.headers],
      ['contract.pinned', contract?.pinned],
    ] as const) {
      if (value !== undefined)
        throw new TypeError(`${name} cannot be the same for all servers: give it by optionsFor`);
    }
    for (const name of ['lazyConnect', 'signal'] as const) {
      if ((common as Record<string, unknown>)[name] !== undefined)
        throw new TypeError(`${name} is not an option of a set of servers`);
    }
    this.#info = info;
    this.#options = options;
    this.#common = common;
  }

  get(name: string): HostedClient | undefined {
    return this.#members.get(name)?.client;
  }

  async listTools(options?: CallOptions): Promise<readonly NamedTool[]> {
    this.#checkOpen();
    const failures: unknown[] = [];
    const lists = await Promise.all(
      [...this.#members.values()].map(async (member) => {
        try {
          const { tools } = await (await member.ready()).listTools(undefined, options);
          return named(member.name, tools);
        } catch (error) {
          failures.push(error);
          this.#tell(member.name, error);
          return [];
        }
      }),
    );
    if (failures.length > 0 && failures.length === lists.length) throw failures[0];
    const all = lists.flat();
    for (const { name, server, tool } of all) {
      if (pairOf(name) === undefined) this.#pairs.set(name, { server, tool: tool.name });
    }
    return all;
  }

  async callTool(
    name: string,
    args: Readonly<Record<string, unknown>> = {},
    options: CallOptions & { _meta?: CallParams['_meta'] } = {},
  ): Promise<CallResult> {
    this.#checkOpen();
    const { _meta, ...others } = options;
    const pair = pairOf(name) ?? this.#pairs.get(name) ?? (await this.#look(name, others));
    const member = pair === undefined ? undefined : this.#members.get(pair.server);
    if (pair === undefined || member === undefined)
      throw new HostedMcpError(
        'ERR_NOT_SENT',
        `No server of the set has a tool of the name ${quoted(name)}`,
        {
          reason: 'unknown-tool',
          method: 'tools/call',
        },
      );
    const params = { name: pair.tool, arguments: { ...args }, ...(_meta !== undefined && { _meta }) };
    return (await member.ready()).callTool(params, undefined, others);
  }

  reconcile(config: ServersConfig): Promise<{ added: string[]; removed: string[]; restarted: string[] }> {
    const changed = this.#changing.then(() => this.#reconcile(config));
    this.#changing = changed.catch(() => {});
    return changed;
  }

  close(): Promise<void> {
    this.#closing ??= (async () => {
      await this.#changing;
      const members = [...this.#members.values()];
      this.#members = new Map();
      this.#pairs.clear();
      await Promise.all(members.map((member) => member.close()));
    })();
    return this.#closing;
  }

  async #reconcile(
    config: ServersConfig,
  ): Promise<{ added: string[]; removed: string[]; restarted: string[] }> {
    this.#checkOpen();
    const entries = checkConfig(config, this.#options.relay !== undefined);
    const before = this.#members;
    const next = new Map<string, SetMember>();
    const added: string[] = [];
    const restarted: string[] = [];
    for (const [name, entry] of entries) {
      const print = printOf(entry);
      const known = before.get(name);
      if (known !== undefined && isSame(known.print, print)) {
        next.set(name, known);
        if (known.print.variables === print.variables) known.print = print;
        continue;
      }
      (known === undefined ? added : restarted).push(name);
      next.set(name, new SetMember(name, entry, print, () => this.#make(name, entry)));
    }
    const made = [...next.values()].filter((member) => before.get(member.name) !== member);
    try {
      await Promise.all(made.map((member) => this.#prepare(member)));
    } catch (error) {
      await Promise.all(made.map((member) => member.close()));
      throw error;
    }
    this.#members = next;
    const left = [...before.values()].filter((member) => next.get(member.name) !== member);
    await Promise.all(left.map((member) => member.close()));
    const removed = [...before.keys()].filter((name) => !next.has(name));
    return { added, removed, restarted };
  }

  /** What cannot be read now may be there when it is wanted; what is wrong is wrong. */
  async #prepare(member: SetMember): Promise<void> {
    await member.ready().catch((error: unknown) => {
      if (!HostedMcpError.isInstance(error)) throw error;
      this.#tell(member.name, error);
    });
  }

  async #make(name: string, entry: ServerEntry | ServerStub): Promise<HostedClient> {
    const own = this.#options.optionsFor?.(name);
    const options: ConnectServerOptions = {
      ...this.#common,
      ...own,
      ...(own?.http !== undefined && { http: { ...this.#common.http, ...own.http } }),
      ...(own?.contract !== undefined && { contract: { ...this.#common.contract, ...own.contract } }),
      lazyConnect: true,
    };
    if (!isStub(entry)) return connectServer(this.#info, entry, options);
    const { relay } = this.#options;
    if (relay === undefined) throw new TypeError('relay is missing: the configuration has stubs');
    const { onStderr: _stderr, closeGraceMs: _grace, ...others } = options;
    const { hosted, client } = splitOptions(others);
    const { http: _http, lazyConnect, ...ofRelay } = hosted;
    const engine = makeRelayConnection(relay(entry), { ...ofRelay, name: entry.name });
    const made = new HostedClient(this.#info, {
      ...client,
      ...(ofRelay.clock !== undefined && { clock: ofRelay.clock }),
      lazyConnect,
      [ENGINE]: engine,
    } as typeof others);
    await made.connect();
    return made;
  }

  /** A name with a digest is known once its server was listed. */
  async #look(name: string, options: CallOptions): Promise<{ server: string; tool: string } | undefined> {
    const { timeout, signal } = options;
    await this.listTools({
      ...(timeout !== undefined && { timeout }),
      ...(signal !== undefined && { signal }),
    });
    return this.#pairs.get(name);
  }

  #tell(server: string, error: unknown): void {
    try {
      this.#options.onError?.({ server, error });
    } catch {
      // Whoever is told of errors must not make new ones.
    }
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw new HostedMcpError('ERR_CLOSED', 'The set of servers was closed');
  }
}

function checkConfig(config: ServersConfig, hasRelay: boolean): Map<string, ServerEntry | ServerStub> {
  if (!isRecord(config)) throw new TypeError('The configuration must be an object of servers');
  const entries = new Map<string, ServerEntry | ServerStub>();
  for (const [name, entry] of Object.entries(config as Record<string, ServerEntry | ServerStub>)) {
    const refuse = (what: string) => new TypeError(`The server ${quoted(name)} ${what}`);
    if (name === '') throw refuse('needs a name');
    if (isStub(entry)) {
      if (!hasRelay) throw refuse('is reached through a relay: the option relay is missing');
      entries.set(name, checkStub(entry));
      continue;
    }
    const origin = originOf(isRecord(entry) ? entry : {});
    const checked = checkEntry(entry, origin, (path, what) =>
      refuse(path.length === 0 ? what : `, key ${fieldName(path)}, ${what}`),
    );
    entries.set(name, checked);
  }
  return entries;
}

/** A tool that is listed twice is one. */
function named(server: string, tools: readonly ListedTool[]): NamedTool[] {
  const all = new Map<string, NamedTool>();
  for (const tool of tools) {
    const name = toolName(server, tool.name);
    if (!all.has(name)) all.set(name, { name, server, tool });
  }
  return [...all.values()];
}
