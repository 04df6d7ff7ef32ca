/**
 * What the command line, the environment and a configuration say of a bridge.
 *
 * Guarantees that a credential has one source, that no secret is an argument, and that what cannot be used is refused
 * before any I/O with the server. Never shows a value.
 */
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import type { ClientIdentity } from '../../credentials/index.js';
import type { CredentialProvider } from '../../credentials/provider.js';
import { tokenFromFile } from '../../credentials/static.js';
import { isHeaderName } from '../../http/headers.js';
import type { HttpOptions } from '../../http/options.js';
import type { ReadWords } from '../arguments.js';
import { type CommandIo, UsageError } from '../command.js';
import { pathIn } from '../input-file.js';
import type { OwnSecrets } from '../own-secrets.js';
import { findTarget, isAddress, type Target } from '../target.js';
import { type LoginOptions, loginCredential } from './login.js';

export interface Setting {
  /** Fit to be shown. */
  readonly label: string;
  readonly url: string | URL;
  readonly credentials: CredentialProvider | undefined;
  readonly http: HttpOptions;
  readonly secrets: OwnSecrets;
  readonly isLogin: boolean;
}

/** Options that say how a user is asked. */
const OF_LOGIN = ['store', 'port', 'client-id', 'client-metadata-url', 'scope'] as const;
/** What is meant for the consent, or stands beside it. */
const OF_CLIENT = ['HOLDFAST_ISSUER', 'HOLDFAST_CLIENT_ID', 'HOLDFAST_CLIENT_SECRET'] as const;
const LARGEST_PORT = 65_535;

/** Throws a `UsageError`. */
export async function readSetting(
  words: ReadWords,
  io: CommandIo,
  say: LoginOptions['say'],
): Promise<Setting> {
  const isLogin = words.flag('login');
  const strange = isLogin ? undefined : OF_LOGIN.find((name) => words.one(name) !== undefined);
  if (strange !== undefined) throw new UsageError(`--${strange} is for --login.`);
  const argument = serverOf(words);
  // A consent uses the client of the environment in its own way.
  const env = isLogin ? without(io.env, OF_CLIENT) : io.env;
  const target = await findTarget(argument, { ...io, env });
  const { secrets, label } = target;
  if (isLogin) secrets.add(io.env.HOLDFAST_CLIENT_SECRET ?? '');
  const headers = headersOf(words.all('header-env'), io, secrets);
  const base: HttpOptions = io.fetch === undefined ? {} : { fetch: io.fetch };
  const found = await resolved(target, io, { ...base, headers });
  const { url, http } = found;
  const made = ownCredential(words, io, url, say);
  if (made !== undefined && found.credentials !== undefined) {
    const what = isLogin ? '--login' : '--token-file';
    await made.close?.();
    throw new UsageError(`${label}: ${what} stands beside another credential: which of them counts?`);
  }
  const credentials = made ?? found.credentials;
  return {
    label,
    url,
    credentials: credentials === undefined ? undefined : secrets.watching(credentials),
    http,
    secrets,
    isLogin,
  };
}

function serverOf(words: ReadWords): string {
  const [argument = ''] = words.positionals;
  const name = words.one('server');
  if (name === undefined) return argument;
  if (isAddress(argument)) throw new UsageError('--server names an entry of a configuration file.');
  return `${argument}#${name}`;
}

async function resolved(target: Target, { clock }: CommandIo, http: HttpOptions) {
  const { url, config, credentials, label } = target;
  if (url !== undefined) return { url, credentials, http };
  if (config?.resolve === undefined) {
    throw new UsageError(
      `${label}: This server is started by a command already: the host can do that itself.`,
    );
  }
  return await config.resolve({ clock, http });
}

function ownCredential(
  words: ReadWords,
  io: CommandIo,
  url: string | URL,
  say: LoginOptions['say'],
): CredentialProvider | undefined {
  const file = words.one('token-file');
  if (words.flag('login')) {
    if (file !== undefined) throw new UsageError('--login and --token-file: which of them counts?');
    return login(words, io, new URL(url), say);
  }
  return file === undefined ? undefined : tokenFromFile(pathIn(io, file), { clock: io.clock });
}

function login(words: ReadWords, io: CommandIo, url: URL, say: LoginOptions['say']): CredentialProvider {
  try {
    return loginCredential({
      url,
      store: storeFolder(words.one('store'), io),
      port: portOf(words.one('port')),
      client: clientOf(words, io),
      issuer: variable(io, 'HOLDFAST_ISSUER'),
      scope: words.one('scope'),
      clock: io.clock,
      fetch: io.fetch,
      say,
    });
  } catch (error) {
    // The option's name and what it has to be: without a value in its words.
    if (error instanceof TypeError) throw new UsageError(`--login cannot be used so: ${error.message}.`);
    throw error;
  }
}

function clientOf(words: ReadWords, io: CommandIo): ClientIdentity | undefined {
  const given = words.one('client-id');
  const fromEnvironment = variable(io, 'HOLDFAST_CLIENT_ID');
  const metadataUrl = words.one('client-metadata-url');
  const clientSecret = variable(io, 'HOLDFAST_CLIENT_SECRET');
  if (given !== undefined && fromEnvironment !== undefined && given !== fromEnvironment) {
    throw new UsageError('--client-id and HOLDFAST_CLIENT_ID are not the same: which of them counts?');
  }
  const clientId = given ?? fromEnvironment;
  if (clientId !== undefined && metadataUrl !== undefined) {
    throw new UsageError('--client-metadata-url and a client id: which of them counts?');
  }
  if (clientId !== undefined) return { clientId, clientSecret };
  if (clientSecret !== undefined) {
    throw new UsageError('HOLDFAST_CLIENT_SECRET is set, but no client id is: give --client-id.');
  }
  // Not all authorization servers read such documents.
  return metadataUrl === undefined ? undefined : { metadataUrl, register: { name: 'mcp-holdfast' } };
}

/** Of the XDG base directory specification: state of one user on one machine. */
function storeFolder(given: string | undefined, io: CommandIo): string {
  if (given !== undefined) return pathIn(io, given);
  const { XDG_STATE_HOME: state, HOME: home } = io.env;
  // It says that a relative path is to be ignored.
  const base = state !== undefined && isAbsolute(state) ? state : join(home || homedir(), '.local', 'state');
  return join(base, 'mcp-holdfast');
}

function portOf(given: string | undefined): number | undefined {
  if (given === undefined) return undefined;
  const port = /^\d{1,5}$/.test(given) ? Number(given) : 0;
  if (port < 1 || port > LARGEST_PORT) {
    throw new UsageError(`--port must be a whole number from 1 to ${LARGEST_PORT}.`);
  }
  return port;
}

function headersOf(
  given: readonly string[],
  io: CommandIo,
  secrets: OwnSecrets,
): Record<string, string> | undefined {
  if (given.length === 0) return undefined;
  const headers: Record<string, string> = Object.create(null);
  for (const pair of given) {
    const [, name = '', variable = ''] = /^([^=]+)=([A-Za-z_][A-Za-z0-9_]*)$/.exec(pair) ?? [];
    // What stands there instead of a variable's name may be the secret itself.
    if (!isHeaderName(name)) {
      throw new UsageError(
        '--header-env takes NAME=VARIABLE: a header, and the name of the variable that holds it.',
      );
    }
    const value = io.env[variable]?.trim();
    if (value === undefined || value === '') {
      throw new UsageError(`--header-env: the variable for the header ${name} is not set, or empty.`);
    }
    secrets.add(value);
    headers[name.toLowerCase()] = value;
  }
  return headers;
}

function variable({ env }: CommandIo, name: (typeof OF_CLIENT)[number]): string | undefined {
  const value = env[name]?.trim();
  if (value === '') throw new UsageError(`${name} is set, but empty.`);
  return value;
}

function without(env: CommandIo['env'], names: readonly string[]): CommandIo['env'] {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !names.includes(name)));
}
