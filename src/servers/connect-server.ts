/**
 * A client for one server of a configuration, wherever it runs.
 *
 * Guarantees that a server started here and one spoken to at its address get the same engine: gates, contract, errors
 * and events are the same. Placeholders are read at use; what they hold reaches the server it is for and nothing else.
 */
import { basename, win32 } from 'node:path';
import type { ClientOptions } from '@modelcontextprotocol/sdk/client/index.js';
import type { Implementation } from '@modelcontextprotocol/sdk/types.js';
import { HostedConnection } from '../connection/connection.js';
import type { CredentialProvider } from '../credentials/index.js';
import { HostedClient } from '../hosted-client.js';
import { splitOptions } from '../hosted-client-options.js';
import { RedirectingClient } from '../http/redirects.js';
import { OptionReader } from '../option-reader.js';
import { type HostedOptions, resolveHostedOptions } from '../options.js';
import type { CommandLine } from './child.js';
import { ENGINE } from './engine.js';
import {
  type CommandEntry,
  checkEntry,
  fieldName,
  originOf,
  type ServerEntry,
  type UrlEntry,
} from './entry.js';
import type { OwnHttp } from './own-http.js';
import { resolveText } from './placeholders.js';
import { secretsOf } from './secrets.js';
import { StdioHttpClient } from './stdio-http.js';
import { readerOf, resolveUrlEntry } from './url-entry.js';

export type ConnectServerOptions = HostedOptions &
  ClientOptions & {
    /**
     * Each line that a started server writes to its standard error, cut at 8 KiB, without the secrets of its entry;
     * else as the server wrote it. Not read where nobody asks for it.
     */
    onStderr?: ((line: string) => void) | undefined;
    /** A started server gets so long to end by itself, and so long again after SIGTERM. 2,000. */
    closeGraceMs?: number | undefined;
    /** Gives the opening up. */
    signal?: AbortSignal | undefined;
  };

/** The SDK's own transport waits as long. */
const CLOSE_GRACE_MS = 2_000;
/** They say how to reach an address; a server that is started has none. */
const OF_THE_NETWORK = ['fetch', 'dispatcher', 'headers', 'proxy', 'tls'] as const;

/** What belongs to this call alone. */
interface Local {
  readonly onStderr: ((line: string) => void) | undefined;
  readonly closeGraceMs: number;
}

/**
 * Opens the server of an entry, from `parseServersConfig` or written by hand. The client is connected; with
 * `lazyConnect` it opens on its first call. `close()` ends a process that was started.
 *
 * Rejects with `TypeError` for an entry or an option that cannot be used, with `HostedMcpError` for everything on
 * the way: `ERR_CREDENTIAL_SOURCE` for a placeholder that cannot be read, `ERR_NOT_SENT` for a command that cannot be
 * started.
 *
 * On Windows, batch files (`npx`) need the command `cmd` with `/c` before them.
 */
export async function connectServer(
  info: Implementation,
  entry: ServerEntry,
  options: ConnectServerOptions = {},
): Promise<HostedClient> {
  const { onStderr: _stderr, closeGraceMs: _grace, signal, ...others } = options;
  const read = new OptionReader('', options);
  const local: Local = {
    onStderr: read.func('onStderr'),
    closeGraceMs: read.duration('closeGraceMs') ?? CLOSE_GRACE_MS,
  };
  const origin = originOf(typeof entry === 'object' && entry !== null ? entry : {});
  const checked = checkEntry(entry, origin, (path, what) => {
    const key = path.length === 0 ? '' : `, key ${fieldName(path)}`;
    return new TypeError(
      `The server${origin.name === undefined ? '' : ` ${fieldName([origin.name])}`}${key} ${what}`,
    );
  });
  const client =
    checked.command === undefined
      ? await hostedClient(info, checked, others)
      : startedClient(info, checked, others, local);
  try {
    await client.connect(signal === undefined ? undefined : { signal });
  } catch (error) {
    await client.close();
    throw error;
  }
  return client;
}

async function hostedClient(
  info: Implementation,
  entry: UrlEntry,
  options: HostedOptions & ClientOptions,
): Promise<HostedClient> {
  const { url, credentials, http } = await resolveUrlEntry(entry, options);
  if (credentials !== undefined && options.credentials !== undefined)
    throw new TypeError('credentials cannot stand beside an entry that has its own authorization');
  const client = new HostedClient(info, {
    ...options,
    url,
    http,
    ...(credentials !== undefined && { credentials }),
  });
  // It was made here: nobody else ends its timers.
  client.connection.on('state', ({ current }) => {
    if (current === 'closed') credentials?.close?.().catch(() => {});
  });
  return client;
}

function startedClient(
  info: Implementation,
  entry: CommandEntry,
  options: HostedOptions & ClientOptions,
  local: Local,
): HostedClient {
  if (options.credentials !== undefined)
    throw new TypeError(
      'credentials are of no use to a server with a "command": it gets what its "env" says',
    );
  for (const name of OF_THE_NETWORK) {
    if (options.http?.[name] !== undefined)
      throw new TypeError(`http.${name} has no effect on a server with a "command"`);
  }
  const commandName = nameOf(entry.command);
  let stdio: StdioHttpClient | undefined;
  const { name = commandName } = originOf(entry);
  const provider: CredentialProvider = {
    id: `stdio:${name}`,
    acquire: async () => {
      await stdio?.ready();
      return NO_CREDENTIAL;
    },
  };
  const { hosted } = splitOptions({
    ...options,
    credentials: provider,
    // There is no request to be saved: the stream is there with the process.
    streams: { ...options.streams, listen: options.streams?.listen !== false },
  });
  const resolved = resolveHostedOptions(
    `stdio:${encodeURIComponent(commandName)}`,
    hosted,
    (url) => new URL(url),
  );
  const makeHttp: OwnHttp = (redactor, gone) => {
    const secrets = new Set<string>();
    const { clock, http, session, logger } = resolved;
    const learn = (value: string) => {
      secrets.add(value);
      redactor.add(value);
    };
    const { onStderr } = local;
    stdio = new StdioHttpClient({
      clock,
      server: originOf(entry).name,
      commandName,
      maxMessageBytes: http.maxMessageBytes,
      graceMs: local.closeGraceMs,
      drainMs: session.graceMs,
      prepare: () => commandLine(entry, learn),
      onExchange: () => {
        for (const secret of secrets) redactor.add(secret);
      },
      onStderr: onStderr && ((line) => onStderr(redactor.text(line))),
      logger,
      gone,
    });
    return new RedirectingClient(stdio, clock, http.headersTimeoutMs);
  };
  const engine = new HostedConnection(resolved, { http: makeHttp });
  const { credentials: _, ...others } = options;
  return new HostedClient(info, {
    ...others,
    clock: resolved.clock,
    [ENGINE]: engine,
  } as typeof others);
}

const NO_CREDENTIAL = Object.freeze({ generation: 1, headers: () => ({}) });

async function commandLine(entry: CommandEntry, learn: (value: string) => void): Promise<CommandLine> {
  const reader = readerOf(entry, learn);
  const command = await resolveText(entry.command, 'command', reader);
  const args: string[] = [];
  for (const [index, arg] of (entry.args ?? []).entries())
    args.push(await resolveText(arg, `args[${index}]`, reader));
  const own: Record<string, string> = Object.create(null);
  for (const [name, value] of Object.entries(entry.env ?? {}))
    own[name] = await resolveText(value, `env.${name}`, reader);
  const cwd = entry.cwd === undefined ? undefined : await resolveText(entry.cwd, 'cwd', reader);
  for (const secret of secretsOf(args, own)) learn(secret);
  const { getDefaultEnvironment } = await import('@modelcontextprotocol/sdk/client/stdio.js');
  return { command, args, env: Object.assign(Object.create(null), getDefaultEnvironment(), own), cwd };
}

/** Of the command as it is written: the folder is nobody's matter, and a placeholder may stand for a secret. */
function nameOf(command: string): string {
  const name = win32.basename(basename(command));
  return name === '' || /[{}]/.test(name) ? 'command' : name.replace(/[^\w.@+-]/g, '_').slice(0, 100);
}
