/**
 * What a command speaks to: `<url|config>`.
 *
 * Guarantees that an address with a secret in it is refused without being repeated, that the credential of the
 * environment goes to a bare address only, and that an entry of a configuration file is opened with what that
 * entry says and nothing else. Never opens anything before `open()`.
 */
import { access } from 'node:fs/promises';
import type { ContractSnapshot } from '../contract/index.js';
import { visible } from '../contract/visible.js';
import type { CredentialProvider } from '../credentials/provider.js';
import { HostedMcpError } from '../errors.js';
import type { HostedClient } from '../hosted-client.js';
import type { HostedClientOptions } from '../hosted-client-options.js';
import { WHERE_SECRETS_GO } from './arguments.js';
import { type CommandIo, UsageError } from './command.js';
import { type ConfigEntry, readConfigEntry } from './config-file.js';
import { credentialFromEnvironment } from './environment.js';
import { EXIT, exitCodeOf } from './exit-codes.js';
import { failureLine } from './failure-line.js';
import { pathIn } from './input-file.js';
import { OwnSecrets } from './own-secrets.js';
import { clientModule } from './sdk.js';
import { secretIn } from './secret-address.js';
import { CLIENT_INFO } from './version.js';

/** In every command's help. */
export const TARGET_HELP = `<url|config> is one of
  https://host/mcp      an address; its credential comes from the environment: HOLDFAST_TOKEN, or
                        HOLDFAST_ISSUER, HOLDFAST_CLIENT_ID and HOLDFAST_CLIENT_SECRET
  FILE                  a configuration file ("mcpServers") with one server
  FILE#NAME             the server NAME of such a file`;

/** Enough for three attempts at a host that does not answer. */
const CONNECT_MS = 40_000;

export interface Target {
  /** Fit to be shown: the address without its query, or `FILE#NAME`. */
  readonly label: string;
  /** Of a bare address. */
  readonly url?: URL | undefined;
  /** Of a configuration file. */
  readonly config?: ConfigEntry | undefined;
  /** The credential of the environment for a bare address, if one is set; `open()` uses it already. */
  readonly credentials?: CredentialProvider | undefined;
  /** What must not come back from the server. */
  readonly secrets: OwnSecrets;
  /** Opens a client; it is the caller's to close. Rejects with a `TargetFailure`, or a `UsageError` for an entry that cannot be used. */
  open(options?: Omit<HostedClientOptions, 'url'>): Promise<HostedClient>;
}

/** A failure with the target's name before it; its cause says what it is. */
export class TargetFailure extends Error {
  override readonly name = 'TargetFailure';
  readonly exitCode: number;
  constructor(label: string, cause: unknown) {
    super(failureLine(cause, label), { cause });
    this.exitCode = exitCodeOf(cause);
  }
}

export function isAddress(argument: string): boolean {
  return /^[a-z][a-z\d+.-]*:\/\//i.test(argument);
}

/** Throws a `UsageError`; no network. */
export async function findTarget(argument: string, io: CommandIo): Promise<Target> {
  if (isAddress(argument)) return addressTarget(argument, io);
  const [file, name] = await splitName(argument, io);
  const config = await readConfigEntry(file, name, io);
  const secrets = new OwnSecrets();
  secrets.addEntry(config.entry, io.env);
  return {
    label: config.label,
    config,
    secrets,
    open: (options = {}) =>
      opened(config.label, io, () => config.connect(clientOptions(io, options, config.kind))),
  };
}

/** Opens, does, and closes, whatever comes. Rejects with a `TargetFailure` for what goes wrong on the way. */
export async function withClient<T>(
  target: Target,
  io: CommandIo,
  use: (client: HostedClient) => Promise<T>,
): Promise<T> {
  const client = await target.open();
  try {
    return await use(client);
  } catch (error) {
    throw failureAt(target.label, io, error);
  } finally {
    await client.close();
  }
}

/** The contract of a target, its address without what a placeholder stood for. */
export async function takeSnapshot(
  target: Target,
  io: CommandIo,
  what: { environment?: string | undefined; resources?: boolean; prompts?: boolean },
): Promise<ContractSnapshot> {
  const snapshot = await withClient(target, io, async (client) =>
    target.secrets.without(await client.snapshot({ ...what, signal: io.signal })),
  );
  const { config } = target;
  if (config?.shownUrl === undefined || snapshot.url === undefined) return snapshot;
  return Object.freeze({ ...snapshot, url: config.shownUrl });
}

function addressTarget(argument: string, io: CommandIo): Target {
  const url = URL.canParse(argument) ? new URL(argument) : undefined;
  if (url === undefined) throw new UsageError('The address is no URL.');
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new UsageError('The address must begin with https:// or http://.');
  }
  const secret = secretIn(url);
  if (secret !== undefined) throw new UsageError(`The address carries ${secret}: ${WHERE_SECRETS_GO}.`);
  url.hash = '';
  const label = visible(`${url.origin}${url.pathname}`);
  const secrets = new OwnSecrets();
  const given = credentialFromEnvironment(io);
  const credentials = given === undefined ? undefined : secrets.watching(given);
  secrets.add(io.env.HOLDFAST_CLIENT_SECRET ?? '');
  return {
    label,
    url,
    credentials,
    secrets,
    open: (options = {}) =>
      opened(label, io, async () => {
        const { HostedClient } = await clientModule();
        const all = { credentials, ...clientOptions(io, options), url };
        const client = usable(label, () => new HostedClient(CLIENT_INFO, all));
        try {
          await client.connect({ signal: io.signal, timeout: CONNECT_MS });
          return client;
        } catch (error) {
          await client.close();
          throw error;
        }
      }),
  };
}

function clientOptions(
  io: CommandIo,
  options: Omit<HostedClientOptions, 'url'>,
  kind: ConfigEntry['kind'] = 'http',
): HostedClientOptions {
  return {
    clock: io.clock,
    retry: { maxElapsedMs: CONNECT_MS },
    ...(io.fetch !== undefined && kind === 'http' && { http: { fetch: io.fetch } }),
    ...options,
  };
}

async function opened(
  label: string,
  io: CommandIo,
  open: () => Promise<HostedClient>,
): Promise<HostedClient> {
  try {
    io.signal.throwIfAborted();
    return await open();
  } catch (error) {
    throw failureAt(label, io, error);
  }
}

function failureAt(label: string, io: CommandIo, error: unknown): unknown {
  if (io.signal.aborted) return io.signal.reason;
  if (error instanceof UsageError || error instanceof TargetFailure) return error;
  return exitCodeOf(error) === EXIT.defect ? error : new TargetFailure(label, error);
}

/** What `TypeError`s of options say names the option, never its value. */
function usable<T>(label: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (error instanceof TypeError && !HostedMcpError.isInstance(error)) {
      throw new UsageError(`${label}: ${error.message}`);
    }
    throw error;
  }
}

/** Whether the argument is `FILE#NAME`; a file whose own name has a "#" in it is that file. */
export async function namesEntry(argument: string, io: CommandIo): Promise<boolean> {
  if (!argument.includes('#')) return false;
  return access(pathIn(io, argument)).then(
    () => false,
    () => true,
  );
}

async function splitName(argument: string, io: CommandIo): Promise<[file: string, name: string | undefined]> {
  if (!(await namesEntry(argument, io))) return [argument, undefined];
  const at = argument.lastIndexOf('#');
  return [argument.slice(0, at), argument.slice(at + 1)];
}
