/**
 * Credentials that are not obtained by OAuth here: a fixed token, a header, a variable, a file, a command, a
 * callback.
 *
 * Guarantees that each is read when it is used, and that a value that cannot stand in a header is refused with
 * an error that does not quote it. Never guesses another value after a refusal: the source is asked once more.
 */
import { type Clock, systemClock } from '../clock.js';
import { HostedMcpError } from '../errors.js';
import { hmacHex } from '../runtime/digest.js';
import { environmentVariable } from '../runtime/environment.js';
import type { AccessToken, CredentialProvider, TokenSource } from './provider.js';
import { type Reading, SourceProvider } from './sources/source-provider.js';
import { COMMAND_TIMEOUT_MS, needsCommands, readTokenCommand } from './sources/token-command.js';
import { TokenFile } from './sources/token-file.js';
import { checkedToken, isHeaderName, isHeaderValue, isTokenValue, jwtTimes } from './token-value.js';

/** What belongs to HTTP or to MCP and no credential may set. */
const RESERVED_HEADERS =
  /^(host|connection|content-.*|transfer-encoding|te|trailer|upgrade|expect|accept|accept-encoding|last-event-id|mcp-.*)$/;

/** Nobody serves a token that expires on its way; a tenth of a short life is enough. */
const EXPIRY_MARGIN_MS = 2_000;

/** An id and a clock; every static source takes them. */
export interface StaticOptions {
  /** Names the credential in events and rate-limit keys. Not secret. */
  id?: string | undefined;
  /** Time for tests. */
  clock?: Clock | undefined;
}

/**
 * A bearer token (RFC 6750), fixed or from a function. A function is asked at every acquire, unless it tells
 * `expiresAtMs` (then it is asked again just before that) or `cacheMs` is given; and once with `rejected: true`
 * after the server refused what it gave. Concurrent callers share one asking.
 *
 * `acquire` throws `ERR_CREDENTIAL_SOURCE`, and `ERR_CREDENTIAL_REJECTED` after a refusal when the value is
 * still the same. A fixed token that cannot stand in a header is a `TypeError`.
 */
export function bearerToken(
  source: TokenSource,
  options: StaticOptions & { cacheMs?: number | undefined } = {},
): CredentialProvider {
  checkDuration('cacheMs', options.cacheMs);
  return sourceProvider('source', source, {
    id: options.id ?? 'bearer',
    clock: options.clock,
    cacheMs: options.cacheMs,
    header: 'authorization',
    prefix: 'Bearer ',
    isValid: isTokenValue,
  });
}

/** A header of any name, for servers with API keys. Redirects do not carry it to another origin. */
export function headerCredential(header: {
  name: string;
  value: TokenSource;
  id?: string | undefined;
  clock?: Clock | undefined;
}): CredentialProvider {
  const name = typeof header.name === 'string' ? header.name.toLowerCase() : '';
  if (!isHeaderName(name)) throw new TypeError('name must be the name of a header');
  if (RESERVED_HEADERS.test(name)) throw new TypeError(`name: the header ${name} cannot carry a credential`);
  return sourceProvider('value', header.value, {
    id: header.id ?? `header:${name}`,
    clock: header.clock,
    cacheMs: undefined,
    header: name,
    prefix: '',
    isValid: isHeaderValue,
  });
}

/** A bearer token in the environment variable `name`, read at every acquire. */
export function tokenFromEnv(name: string, options: StaticOptions = {}): CredentialProvider {
  if (typeof name !== 'string' || name === '') throw new TypeError('name must be the name of a variable');
  return bearerProvider(options, `env:${name}`, async () => ({
    value: checkedToken(environmentVariable(name), `The environment variable ${name}`),
    freshForMs: 0,
  }));
}

/**
 * A bearer token in a file, read on use at most every min(60 s, a tenth of its life) and at once after a
 * refusal. A file that is empty or half written leaves the last good value in force.
 */
export function tokenFromFile(path: string, options: StaticOptions = {}): CredentialProvider {
  if (typeof path !== 'string' || path === '') throw new TypeError('path must be the path of a file');
  const file = new TokenFile(path, options.clock ?? systemClock());
  return bearerProvider(options, `file:${digest(path)}`, () => file.read());
}

export interface TokenCommandOptions extends StaticOptions {
  /** Added to PATH and HOME, the only variables the command inherits. */
  env?: Record<string, string> | undefined;
  /** Default 10 s. */
  timeoutMs?: number | undefined;
  /** How long a token is used. Default: until its stated end, or 60 s. */
  cacheMs?: number | undefined;
}

/**
 * A bearer token from a command's output: the bare token or an ExecCredential. Runs without a shell. `acquire`
 * throws `ERR_CREDENTIAL_SOURCE` without the command's arguments or output.
 */
export function tokenFromCommand(
  command: string,
  args: readonly string[] = [],
  options: TokenCommandOptions = {},
): CredentialProvider {
  if (typeof command !== 'string' || command === '') throw new TypeError('command must be a program');
  if (!Array.isArray(args) || args.some((arg) => typeof arg !== 'string')) {
    throw new TypeError('args must be an array of strings');
  }
  checkDuration('timeoutMs', options.timeoutMs);
  checkDuration('cacheMs', options.cacheMs);
  needsCommands();
  const clock = options.clock ?? systemClock();
  const line = {
    command,
    args: [...args],
    env: { ...options.env },
    timeoutMs: options.timeoutMs ?? COMMAND_TIMEOUT_MS,
    cacheMs: options.cacheMs,
  };
  return bearerProvider(options, `command:${digest(command)}`, ({ signal }) =>
    readTokenCommand(line, clock, signal),
  );
}

function bearerProvider(
  options: StaticOptions,
  defaultId: string,
  read: (request: { signal: AbortSignal }) => Promise<Reading>,
): CredentialProvider {
  return new SourceProvider({
    id: options.id ?? defaultId,
    clock: options.clock ?? systemClock(),
    header: 'authorization',
    prefix: 'Bearer ',
    read,
  });
}

function sourceProvider(
  option: string,
  source: TokenSource,
  how: {
    id: string;
    clock: Clock | undefined;
    cacheMs: number | undefined;
    header: string;
    prefix: string;
    isValid: (value: string) => boolean;
  },
): CredentialProvider {
  const clock = how.clock ?? systemClock();
  const { id, header, prefix, cacheMs, isValid } = how;
  if (typeof source === 'string') {
    const value = source.trim();
    if (!isValid(value)) throw new TypeError(`${option} cannot stand in a header`);
    // A token is no secret from its own provider, but it must not be seen when the provider is printed.
    const reading: Reading = { value, freshForMs: Number.POSITIVE_INFINITY };
    return new SourceProvider({ id, clock, header, prefix, read: async () => reading });
  }
  if (typeof source !== 'function') throw new TypeError(`${option} must be a string or a function`);
  return new SourceProvider({
    id,
    clock,
    header,
    prefix,
    async read(request) {
      let given: string | AccessToken;
      try {
        given = await source(request);
      } catch (error) {
        if (HostedMcpError.isInstance(error)) throw error;
        throw new HostedMcpError('ERR_CREDENTIAL_SOURCE', 'The token function failed', { cause: error });
      }
      const { token, expiresAtMs: stated } =
        typeof given === 'object' && given !== null ? given : { token: given, expiresAtMs: undefined };
      const value = checkedToken(token, 'The token function', isValid);
      const expiresAtMs = Number.isFinite(stated) ? stated : undefined;
      return { value, expiresAtMs, freshForMs: freshFor(value, expiresAtMs, cacheMs, clock) };
    },
  });
}

/** Until just before a stated end, at most `cacheMs`; without either not at all. */
function freshFor(
  value: string,
  expiresAtMs: number | undefined,
  cacheMs: number | undefined,
  clock: Clock,
): number {
  if (expiresAtMs === undefined && cacheMs === undefined) return 0;
  const end = expiresAtMs ?? jwtTimes(value)?.expiresAtMs;
  if (end === undefined) return cacheMs ?? 0;
  const leftMs = end - clock.now();
  return Math.max(
    0,
    Math.min(cacheMs ?? Number.POSITIVE_INFINITY, leftMs - Math.min(EXPIRY_MARGIN_MS, leftMs / 10)),
  );
}

function checkDuration(name: string, value: number | undefined): void {
  if (value !== undefined && !(typeof value === 'number' && value >= 0)) {
    throw new TypeError(`${name} must be a number of milliseconds, not below 0`);
  }
}

function digest(text: string): string {
  return hmacHex('mcp-holdfast source id', text).slice(0, 16);
}
