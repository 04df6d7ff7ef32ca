/**
 * One server of a configuration file, as desktop clients and editors write them (`mcpServers`).
 *
 * Guarantees that every refusal names the file and the place in it, and that no value of the file or of the
 * environment is shown: they hold secrets. Never starts a command or opens a connection before `connect()`.
 */
import { visible } from '../contract/visible.js';
import { HostedMcpError } from '../errors.js';
import type { HostedClient } from '../hosted-client.js';
import type { HostedClientOptions } from '../hosted-client-options.js';
import type { HostedOptions } from '../options.js';
import type { ServerEntry } from '../servers/entry.js';
import { placeInJson, type TextPlace } from '../servers/place.js';
import { type ResolvedUrlEntry, resolveUrlEntry } from '../servers/url-entry.js';
import { type CommandIo, UsageError } from './command.js';
import { pathOf, readText, shownName, shownPlace } from './input-file.js';
import { nearest } from './nearest.js';
import { clientModule } from './sdk.js';
import { CLIENT_INFO } from './version.js';

/** Hundreds of servers; whatever is larger is another file. */
const CONFIG_BYTES = 1024 * 1024;

/** Lines of a started server's standard error that are shown when it fails. */
const LAST_WORDS = 5;

export interface ConfigEntry {
  readonly name: string;
  /** `FILE#NAME`, fit to be shown. */
  readonly label: string;
  readonly kind: 'stdio' | 'http';
  /** The address as the file has it, where a placeholder in it may stand for a secret; without its query. */
  readonly shownUrl?: string | undefined;
  readonly entry: ServerEntry;
  /** What an entry with an address resolves to. Rejects as `connect` does. */
  resolve?(options: Pick<HostedOptions, 'clock' | 'http'>): Promise<ResolvedUrlEntry>;
  /** Rejects with a `UsageError` for an entry that cannot be used as it is. */
  connect(options: HostedClientOptions): Promise<HostedClient>;
}

/** The server `name`, or the only one. Throws a `UsageError` naming file, line and column. */
export async function readConfigEntry(
  file: string,
  name: string | undefined,
  io: CommandIo,
): Promise<ConfigEntry> {
  const text = (await readText(file, io, CONFIG_BYTES)).replace(/^\ufeff/, '');
  const { parseServersConfig, connectServer } = await clientModule();
  let servers: Record<string, ServerEntry>;
  try {
    servers = parseServersConfig(text, io.env);
  } catch (error) {
    throw refusal(file, error, undefined);
  }
  const chosen = choose(file, Object.keys(servers), name);
  const entry = servers[chosen] as ServerEntry;
  return {
    name: chosen,
    label: `${shownName(file)}#${visible(chosen)}`,
    kind: entry.command === undefined ? 'http' : 'stdio',
    shownUrl: entry.url === undefined ? undefined : shownAddress(String(entry.url)),
    entry,
    ...(entry.command === undefined && {
      async resolve(options: Pick<HostedOptions, 'clock' | 'http'>) {
        try {
          const resolved = await resolveUrlEntry(entry, options);
          // A token is read at each use; here it is wanted now. A grant would ask for one.
          if (entry.auth?.grant === undefined) await resolved.credentials?.acquire(new URL(resolved.url));
          return resolved;
        } catch (error) {
          throw refusal(file, error, fieldPlace(text, chosen, error));
        }
      },
    }),
    async connect(options) {
      const last: string[] = [];
      const onStderr = (line: string) => {
        last.push(line);
        if (last.length > LAST_WORDS) last.shift();
      };
      try {
        return await connectServer(CLIENT_INFO, entry, { ...options, onStderr, signal: io.signal });
      } catch (error) {
        // Why a command could not be started, nobody else knows.
        for (const line of last) io.stderr.write(`${visible(chosen)}: ${visible(line.slice(0, 200))}\n`);
        throw refusal(file, error, fieldPlace(text, chosen, error));
      }
    },
  };
}

function choose(file: string, names: readonly string[], name: string | undefined): string {
  const [first] = names;
  if (first === undefined) throw new UsageError(`${shownName(file)}: It names no server.`);
  const list = names.map(visible).join(', ');
  if (name === undefined) {
    if (names.length === 1) return first;
    throw new UsageError(
      `${shownName(file)}: Which of its servers? Write ${shownName(file)}#NAME; it has ${list}.`,
    );
  }
  if (names.includes(name)) return name;
  const meant = nearest(name, names);
  const advice = meant === undefined ? `It has ${list}.` : `Did you mean ${visible(meant)}?`;
  throw new UsageError(`${shownName(file)}: There is no server ${visible(name)}. ${advice}`);
}

const PLACE = / \(line (\d+), column (\d+)\)/;

/** What of the configuration cannot be used is for the command line's author; all else is the way's. */
function refusal(file: string, error: unknown, found: TextPlace | undefined): unknown {
  const ours = HostedMcpError.isInstance(error);
  if (ours ? error.reason !== 'placeholder' : !(error instanceof TypeError)) return error;
  const { message } = error as Error;
  const [, line, column] = PLACE.exec(message) ?? [];
  const place = line === undefined ? found : { line: Number(line), column: Number(column) };
  const what = message
    .replace(PLACE, '')
    .replace(/ The call did not run\.$/, '')
    .replace(/\.?$/, '.');
  return new UsageError(`${shownPlace(file, place)}: ${what}`);
}

/** Of the field that the message names, else of the entry. */
function fieldPlace(text: string, name: string, error: unknown): TextPlace | undefined {
  const field = /"([^"]+)" cannot be read/.exec((error as Error).message)?.[1];
  const path = field === undefined ? [] : pathOf(field);
  for (const outer of [['mcpServers'], ['servers'], []]) {
    const place = placeInJson(text, [...outer, name, ...path]) ?? placeInJson(text, [...outer, name]);
    if (place !== undefined) return place;
  }
  return undefined;
}

/** Undefined where there is no placeholder: then the snapshot's own address may stand. */
function shownAddress(url: string): string | undefined {
  if (!url.includes('${')) return undefined;
  return url.replace(/[?#].*$/s, '').replace(/\/\/[^/@]*@/, '//');
}
