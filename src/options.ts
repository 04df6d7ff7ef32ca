/**
 * The options of every face, resolved once.
 *
 * Guarantees that an option which cannot be used is refused by name, with a `TypeError`, before any I/O.
 * Never changes the object it was given.
 */
import { type Clock, systemClock } from './clock.js';
import { type ContractOptions, type ResolvedContract, resolveContract } from './contract/options.js';
import { resolveCredentials } from './credentials/index.js';
import type { CredentialProvider, TokenSource } from './credentials/provider.js';
import { type AuditLog, checkAudit } from './gates/audit-log.js';
import type { AuditWriter } from './gates/audit-writer.js';
import { checkGates, type Gate } from './gates/gate.js';
import { checkAddress } from './http/address.js';
import { type HttpOptions, type ResolvedHttpOptions, resolveHttpOptions } from './http/options.js';
import { OptionReader } from './option-reader.js';
import { type RateLimitOptions, type ResolvedRateLimit, resolveRateLimit } from './rate-limit/options.js';
import {
  type ResolvedSessionOptions,
  resolveSessionOptions,
  type SessionOptions,
} from './session/options.js';
import { checkTelemetry, type Telemetry } from './telemetry.js';

/** One line for the app's log. Carries no secret. */
export interface LogEntry {
  level: 'debug' | 'info' | 'warn' | 'error';
  event: string;
  message: string;
  fields: Readonly<Record<string, unknown>>;
}

export interface StreamOptions {
  /** Whether to keep the server's notification stream open. `'auto'`: always, but under `HostedClient` only when something listens. */
  listen?: 'auto' | boolean | undefined;
  /** The longest gap before a stream is opened again. 30,000. */
  reopenMaxDelayMs?: number | undefined;
  /**
   * Servers of protocol 2024-11-05 (HTTP+SSE) only: after so long without a byte on the stream a `ping` makes
   * the server send some. 25,000; 0: never.
   */
  legacyPingIntervalMs?: number | undefined;
  /** How long this way leaves a silent stream alone, where the app knows; else it is learned. */
  idleLimitMs?: number | undefined;
}

export interface RetryOptions {
  /** Attempts at what may be repeated, the first included. 2. */
  maxAttempts?: number | undefined;
  /** Bound of every wait where the caller's own time is not known. 50,000. */
  maxElapsedMs?: number | undefined;
  /**
   * A request that a challenge refused goes out once more: after a refresh (401), or with a wider scope where the
   * credential can have one (403 `insufficient_scope`). 'once'.
   */
  resendOn401?: 'once' | 'never' | undefined;
  /** A request that a 429 refused goes out once more after the pause. 'auto'. */
  resendOn429?: 'auto' | 'never' | undefined;
  /** Tools that may run twice: repeated after a failure as the protocol's reads are. None. */
  safeTools?: readonly string[] | ((tool: string) => boolean) | undefined;
}

/** Options of `HostedTransport` and `HostedClient`. */
export interface HostedOptions {
  /**
   * A bearer token, a function that gives one, or one of `bearerToken`, `headerCredential`, `tokenFromEnv`,
   * `tokenFromFile`, `tokenFromCommand`, `authorizationCodeGrant`, `clientCredentialsGrant`, `refreshTokenGrant`,
   * `tokenExchangeGrant`, `jwtBearerGrant`, `enterpriseManagedGrant`, `fromOAuthClientProvider`, or a provider of
   * your own.
   */
  credentials?: CredentialProvider | TokenSource | undefined;
  /** Records what the server offers, compares it, and refuses calls to tools that are not as they were reviewed. */
  contract?: ContractOptions | undefined;
  session?: SessionOptions | undefined;
  streams?: StreamOptions | undefined;
  /** A limit of our own on the requests to the endpoint. None; a server's 429 and Retry-After are honoured all the same. */
  rateLimit?: RateLimitOptions | undefined;
  retry?: RetryOptions | undefined;
  http?: HttpOptions | undefined;
  /** Asked in order before a tool call is sent and before its result is delivered; fail closed. */
  gates?: readonly Gate[] | undefined;
  /** `auditLog()` of `mcp-holdfast/gates`: one line for each tool call and each refusal. */
  audit?: AuditLog | undefined;
  /** `otel()` of `mcp-holdfast/otel`, or one of your own: spans, metrics and trace context. */
  telemetry?: Telemetry | undefined;
  clock?: Clock | undefined;
  /** `HostedClient` opens on the first call rather than in `connect()`. */
  lazyConnect?: boolean | undefined;
  logger?: ((entry: LogEntry) => void) | undefined;
}

export const RETRY_DEFAULTS = Object.freeze({
  /** One more try heals a blip; a second one only adds load to an outage. */
  maxAttempts: 2,
  /** Below the 60 s after which the SDK's own timer gives up without a reason. */
  maxElapsedMs: 50_000,
  resendOn401: 'once' as const,
  resendOn429: 'auto' as const,
});

export const STREAM_DEFAULTS = Object.freeze({
  listen: 'auto' as const,
  /** A server that is away for minutes gets two requests a minute from us, no more. */
  reopenMaxDelayMs: 30_000,
  /** Intermediaries cut a silent stream after 60 s, some after 30; two pings a minute are no load. */
  legacyPingIntervalMs: 25_000,
});

export interface ResolvedHostedOptions {
  readonly url: URL;
  readonly credentials: CredentialProvider;
  readonly contract: ResolvedContract | undefined;
  readonly session: ResolvedSessionOptions;
  readonly streams: {
    readonly listen: 'auto' | boolean;
    readonly reopenMaxDelayMs: number;
    readonly legacyPingIntervalMs: number;
    readonly idleLimitMs: number | undefined;
  };
  readonly retry: {
    readonly maxAttempts: number;
    readonly maxElapsedMs: number;
    readonly resendOn401: 'once' | 'never';
    readonly resendOn429: 'auto' | 'never';
    readonly isSafeTool: (tool: string) => boolean;
  };
  readonly rateLimit: ResolvedRateLimit;
  readonly http: ResolvedHttpOptions;
  readonly gates: readonly Gate[];
  readonly audit: AuditWriter | undefined;
  readonly telemetry: Telemetry | undefined;
  readonly clock: Clock;
  readonly lazyConnect: boolean;
  readonly logger: ((entry: LogEntry) => void) | undefined;
}

/** The names of `HostedOptions`; a face that takes more options splits on them. */
export const HOSTED_OPTION_NAMES = Object.freeze([
  'credentials',
  'contract',
  'session',
  'streams',
  'rateLimit',
  'retry',
  'http',
  'gates',
  'audit',
  'telemetry',
  'clock',
  'lazyConnect',
  'logger',
] as const satisfies readonly (keyof HostedOptions)[]);

/** Throws `TypeError` naming the option that cannot be used. No I/O. `check`: which addresses there are. */
export function resolveHostedOptions(
  url: string | URL,
  options: HostedOptions,
  check: (url: string | URL, allowInsecure: boolean) => URL = checkAddress,
): ResolvedHostedOptions {
  const read = new OptionReader('', options);
  const given = read.any('clock') as Clock | undefined;
  const clock = given === undefined ? systemClock() : given;
  if (
    typeof clock?.now !== 'function' ||
    typeof clock.monotonic !== 'function' ||
    typeof clock.setTimeout !== 'function'
  ) {
    throw new TypeError('clock needs now(), monotonic() and setTimeout()');
  }
  const http = resolveHttpOptions(read.any('http') as HttpOptions | undefined);
  const credentials = read.any('credentials') as HostedOptions['credentials'];
  if (credentials !== undefined && http.headers.authorization !== undefined) {
    throw new TypeError('http.headers must not have "authorization" beside credentials');
  }
  const address = check(url, http.allowInsecure);
  const provider = resolveCredentials(credentials, clock);
  const resolved = {
    url: address,
    credentials: provider,
    contract: resolveContract(read.any('contract') as ContractOptions | undefined),
    session: resolveSessionOptions(read.any('session') as SessionOptions | undefined),
    streams: resolveStreams(read.any('streams') as StreamOptions | undefined),
    rateLimit: resolveRateLimit(read.any('rateLimit') as RateLimitOptions | undefined, {
      credentials: provider,
      url: address,
      clock,
    }),
    retry: resolveRetry(read.any('retry') as RetryOptions | undefined),
    http,
    gates: checkGates(read.any('gates') as readonly Gate[] | undefined),
    audit: checkAudit(read.any('audit') as AuditLog | undefined),
    telemetry: checkTelemetry(read.any('telemetry') as Telemetry | undefined),
    clock,
    lazyConnect: read.oneOf('lazyConnect', [true, false] as const) ?? false,
    logger: read.func<(entry: LogEntry) => void>('logger'),
  };
  read.done();
  return Object.freeze(resolved);
}

function resolveStreams(options: StreamOptions | undefined): ResolvedHostedOptions['streams'] {
  const read = new OptionReader('streams', options);
  const resolved = {
    listen: read.oneOf('listen', ['auto', true, false] as const) ?? STREAM_DEFAULTS.listen,
    reopenMaxDelayMs: read.duration('reopenMaxDelayMs', 1) ?? STREAM_DEFAULTS.reopenMaxDelayMs,
    legacyPingIntervalMs: read.duration('legacyPingIntervalMs') ?? STREAM_DEFAULTS.legacyPingIntervalMs,
    idleLimitMs: read.duration('idleLimitMs', 1),
  };
  read.done();
  return resolved;
}

function resolveRetry(options: RetryOptions | undefined): ResolvedHostedOptions['retry'] {
  const read = new OptionReader('retry', options);
  const safeTools = read.any('safeTools');
  if (safeTools !== undefined && typeof safeTools !== 'function' && !isStringArray(safeTools)) {
    throw new TypeError('retry.safeTools must be an array of tool names or a function');
  }
  const names = isStringArray(safeTools) ? new Set(safeTools) : undefined;
  const resolved = {
    maxAttempts: read.count('maxAttempts', 1, 10) ?? RETRY_DEFAULTS.maxAttempts,
    maxElapsedMs: read.duration('maxElapsedMs', 1) ?? RETRY_DEFAULTS.maxElapsedMs,
    resendOn401: read.oneOf('resendOn401', ['once', 'never'] as const) ?? RETRY_DEFAULTS.resendOn401,
    resendOn429: read.oneOf('resendOn429', ['auto', 'never'] as const) ?? RETRY_DEFAULTS.resendOn429,
    isSafeTool: names
      ? (tool: string) => names.has(tool)
      : ((safeTools as ((tool: string) => boolean) | undefined) ?? (() => false)),
  };
  read.done();
  return resolved;
}

function isStringArray(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}
