/**
 * One server of a configuration: a command to start, or an address to speak to.
 *
 * Guarantees that what passes has the keys of one of the two and of no other, with values of the right type, and is
 * a frozen copy without a prototype's members in it. Never reads a placeholder, and never has a value in an error.
 */

import { isHeaderName } from '../http/headers.js';
import type { JsonPath } from './place.js';
import { hasPlaceholder, placeholderProblem, quoted, type Variables } from './placeholders.js';

/**
 * A server started here, spoken to over its standard input and output. `${NAME}`, `${NAME:-default}` and
 * `${file:path}` may stand in every value; they are read each time a process is started.
 */
export interface CommandEntry {
  readonly command: string;
  readonly args?: readonly string[] | undefined;
  /** Added to the few variables that a server inherits (PATH, HOME and the like). */
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly cwd?: string | undefined;
  readonly type?: 'stdio' | undefined;
  readonly url?: undefined;
}

/** How a hosted server of a configuration is authorized at: a bearer token, or OAuth client credentials. */
export type EntryAuth =
  | { readonly token: string; readonly grant?: undefined }
  | {
      readonly grant: 'client_credentials';
      readonly issuer: string;
      readonly clientId: string;
      readonly clientSecret: string;
      readonly scope?: string | undefined;
    };

/**
 * A hosted server. Placeholders may stand in every value: those of a token and of an `Authorization` header are
 * read at each use, the others when the connection is opened.
 */
export interface UrlEntry {
  readonly url: string | URL;
  /** Told apart by asking the server, whatever is written here. */
  readonly type?: 'http' | 'streamable-http' | 'sse' | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly auth?: EntryAuth | undefined;
  readonly command?: undefined;
}

export type ServerEntry = CommandEntry | UrlEntry;

/** Says where the fault is; what is wrong comes in our words. */
export type Refuse = (path: JsonPath, what: string) => TypeError;

const COMMAND_KEYS: ReadonlySet<string> = new Set(['command', 'args', 'env', 'cwd', 'type']);
const URL_KEYS: ReadonlySet<string> = new Set(['url', 'type', 'headers', 'auth']);
const URL_TYPES = ['http', 'streamable-http', 'sse'] as const;
const TOKEN_KEYS: ReadonlySet<string> = new Set(['token']);
const GRANT_KEYS: ReadonlySet<string> = new Set(['grant', 'issuer', 'clientId', 'clientSecret', 'scope']);

/** Where an entry was read: its name, and the variables its placeholders mean. */
export class EntryOrigin {
  readonly #name: string | undefined;
  readonly #variables: Variables | undefined;

  constructor(name: string | undefined, variables: Variables | undefined) {
    this.#name = name;
    this.#variables = variables;
  }
  get name(): string | undefined {
    return this.#name;
  }
  /** Behind an accessor: printing an entry does not print the environment. */
  get variables(): Variables {
    return this.#variables ?? process.env;
  }
}

/** Enumerable on an entry, so that a copy made by spreading still means the same variables. */
export const ORIGIN: unique symbol = Symbol('origin');

export function originOf(entry: object): EntryOrigin {
  const origin = (entry as { [ORIGIN]?: unknown })[ORIGIN];
  return origin instanceof EntryOrigin ? origin : new EntryOrigin(undefined, undefined);
}

/** Throws what `refuse` makes. */
export function checkEntry(value: unknown, origin: EntryOrigin, refuse: Refuse): ServerEntry {
  if (!isRecord(value)) throw refuse([], 'must be an object');
  const command = own(value, 'command');
  const url = own(value, 'url');
  if (command !== undefined && url !== undefined)
    throw refuse(
      ['url'],
      'cannot stand beside "command": a server is either started here or spoken to at its address',
    );
  if (command === undefined && url === undefined) throw refuse([], 'needs a "command" or a "url"');
  const read = command === undefined ? readUrlEntry : readCommandEntry;
  const allowed = command === undefined ? URL_KEYS : COMMAND_KEYS;
  const others = command === undefined ? COMMAND_KEYS : URL_KEYS;
  const needed = command === undefined ? 'command' : 'url';
  for (const key of Object.keys(value)) {
    if (allowed.has(key) || value[key] === undefined) continue;
    throw refuse([key], others.has(key) ? `belongs to a server with a "${needed}"` : 'is no key of a server');
  }
  return Object.freeze({ ...read(value, refuse), [ORIGIN]: origin });
}

function readCommandEntry(value: Record<string, unknown>, refuse: Refuse): CommandEntry {
  const args = own(value, 'args');
  const env = own(value, 'env');
  const cwd = own(value, 'cwd');
  const type = own(value, 'type');
  if (type !== undefined && type !== 'stdio')
    throw refuse(['type'], 'must be "stdio" for a server with a "command"');
  if (args !== undefined && !Array.isArray(args)) throw refuse(['args'], 'must be a list of texts');
  return {
    command: text(value.command, ['command'], refuse),
    ...(args !== undefined && {
      args: Object.freeze(Array.from(args, (each, index) => text(each, ['args', index], refuse, true))),
    }),
    ...(env !== undefined && {
      env: texts(env, 'env', refuse, (name) =>
        name !== '' && !/[=\0]/.test(name) ? undefined : 'is no name of a variable',
      ),
    }),
    ...(cwd !== undefined && { cwd: text(cwd, ['cwd'], refuse) }),
    ...(type !== undefined && { type }),
  };
}

function readUrlEntry(value: Record<string, unknown>, refuse: Refuse): UrlEntry {
  const url = own(value, 'url');
  const type = own(value, 'type');
  const given = own(value, 'headers');
  const auth = own(value, 'auth');
  if (type !== undefined && !URL_TYPES.some((each) => each === type)) {
    const names = URL_TYPES.map((each) => `"${each}"`).join(', ');
    throw refuse(['type'], `must be one of ${names} for a server with a "url"`);
  }
  const headers =
    given === undefined
      ? undefined
      : texts(given, 'headers', refuse, (name) =>
          isHeaderName(name) ? undefined : 'is no name of a header',
        );
  const authorization = Object.keys(headers ?? {}).find((name) => name.toLowerCase() === 'authorization');
  if (auth !== undefined && authorization !== undefined)
    throw refuse(['headers', authorization], 'cannot stand beside "auth"');
  return {
    url: url instanceof URL ? new URL(url) : address(url, refuse),
    ...(type !== undefined && { type: type as (typeof URL_TYPES)[number] }),
    ...(headers !== undefined && { headers }),
    ...(auth !== undefined && { auth: readAuth(auth, refuse) }),
  };
}

function address(value: unknown, refuse: Refuse): string {
  const url = text(value, ['url'], refuse);
  // With a placeholder in it, it is looked at when it is known.
  if (!hasPlaceholder(url) && !/^https?:\/\//i.test(url))
    throw refuse(['url'], 'must begin with https:// or http://');
  return url;
}

function readAuth(value: unknown, refuse: Refuse): EntryAuth {
  if (!isRecord(value)) throw refuse(['auth'], 'must be an object');
  const grant = own(value, 'grant');
  if (grant !== undefined && grant !== 'client_credentials')
    throw refuse(['auth', 'grant'], 'must be "client_credentials"');
  if (grant !== undefined && own(value, 'token') !== undefined)
    throw refuse(['auth', 'token'], 'cannot stand beside "grant"');
  const allowed = grant === undefined ? TOKEN_KEYS : GRANT_KEYS;
  for (const key of Object.keys(value)) {
    if (allowed.has(key) || value[key] === undefined) continue;
    throw refuse(['auth', key], GRANT_KEYS.has(key) ? 'needs a "grant" beside it' : 'is no key of "auth"');
  }
  const field = (name: string) => text(own(value, name), ['auth', name], refuse);
  if (grant === undefined) return Object.freeze({ token: field('token') });
  const scope = own(value, 'scope');
  return Object.freeze({
    grant,
    issuer: field('issuer'),
    clientId: field('clientId'),
    clientSecret: field('clientSecret'),
    ...(scope !== undefined && { scope: text(scope, ['auth', 'scope'], refuse) }),
  });
}

function texts(
  value: unknown,
  key: string,
  refuse: Refuse,
  problemOf: (name: string) => string | undefined,
): Readonly<Record<string, string>> {
  if (!isRecord(value)) throw refuse([key], 'must be an object of names and texts');
  // No prototype: a name such as `__proto__` is one like any other.
  const copy: Record<string, string> = Object.create(null);
  for (const name of Object.keys(value)) {
    if (value[name] === undefined) continue;
    const problem = problemOf(name);
    if (problem !== undefined) throw refuse([key, name], problem);
    copy[name] = text(value[name], [key, name], refuse, true);
  }
  return Object.freeze(copy);
}

function text(value: unknown, path: JsonPath, refuse: Refuse, mayBeEmpty = false): string {
  if (typeof value !== 'string') throw refuse(path, value === undefined ? 'is missing' : 'must be a text');
  if (value === '' && !mayBeEmpty) throw refuse(path, 'must not be empty');
  if (value.includes('\0')) throw refuse(path, 'must not hold a NUL');
  const problem = placeholderProblem(value);
  if (problem !== undefined) throw refuse(path, problem);
  return value;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function own(value: Record<string, unknown>, key: string): unknown {
  return Object.hasOwn(value, key) ? value[key] : undefined;
}

/** `args[2]`, `env.TOKEN`: as a person would write it. */
export function fieldName(path: JsonPath): string {
  const name = path
    .map((step, index) => (typeof step === 'number' ? `[${step}]` : `${index === 0 ? '' : '.'}${step}`))
    .join('');
  return quoted(name);
}
