/**
 * The `http` options.
 *
 * Guarantees that an option that cannot work is refused with a TypeError that names it, before any socket
 * is opened, and that what comes out is complete and frozen. Never repeats a value in a message: proxies
 * and headers carry secrets.
 */
import { MAX_TIMER_MS } from '../clock.js';
import { LIMITS } from '../limits.js';
import type { HttpDispatcher, HttpFetch } from './exchange.js';
import { isHeaderName, isHeaderValue } from './headers.js';

/** PEM text or bytes, as `node:tls` takes them. */
export type Pem = string | Uint8Array;

export interface HttpTlsOptions {
  /** Certificate authorities to trust instead of the system's, e.g. a company's own. */
  ca?: Pem | readonly Pem[] | undefined;
  /** Client certificate; needs `key`. */
  cert?: Pem | undefined;
  key?: Pem | undefined;
  /** Name to ask for and to check, if it is not the host of the address. */
  servername?: string | undefined;
}

export interface HttpOptions {
  /**
   * Replaces undici: for runtimes without sockets, and for nock, msw and other mocks, which do not see
   * undici. Weaker evidence of whether a request left, so more failures are `executed: 'unknown'`. Proxy,
   * TLS, connection and keep-alive options do not reach it.
   */
  fetch?: HttpFetch | undefined;
  /** A dispatcher of undici 7. It must allow more than one connection: a listen stream holds one for good. Never closed by us. */
  dispatcher?: HttpDispatcher | undefined;
  /** Sent with every request to the server's origin, and nowhere else. Values are treated as secrets. */
  headers?: Record<string, string> | undefined;
  /**
   * `'env'` (default): HTTP_PROXY, HTTPS_PROXY and NO_PROXY, never for loopback; a URL: always through it;
   * `false`: never through one.
   */
  proxy?: 'env' | string | URL | false | undefined;
  tls?: HttpTlsOptions | undefined;
  /** Send a load balancer's cookies back within a session. Default true. */
  affinityCookies?: boolean | undefined;
  /** Until a socket stands, TLS and a proxy's answer included each; 0: no limit. Default 10 s. */
  connectTimeoutMs?: number | undefined;
  /** Until the response head is there, waiting and connecting included; 0 (default): the caller's time rules. */
  headersTimeoutMs?: number | undefined;
  /** How long an unused socket is kept; 0: not at all. Default 4 s. */
  keepAliveTimeoutMs?: number | undefined;
  /** Decoded bytes of one answer, and of one event of a stream. Default 16 MiB. */
  maxMessageBytes?: number | undefined;
  /** Allows plain http off loopback. Default false. */
  allowInsecure?: boolean | undefined;
}

export interface ResolvedHttpOptions {
  readonly fetch: HttpFetch | undefined;
  readonly dispatcher: HttpDispatcher | undefined;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly proxy: 'env' | URL | false;
  readonly tls: Readonly<HttpTlsOptions> | undefined;
  readonly affinityCookies: boolean;
  readonly connectTimeoutMs: number;
  readonly headersTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  readonly maxMessageBytes: number;
  readonly allowInsecure: boolean;
}

export const HTTP_DEFAULTS = Object.freeze({
  /** What every other tool on the machine does. */
  proxy: 'env',
  /** Without them a sticky load balancer loses the session at the next request. */
  affinityCookies: true,
  /** Three SYN retransmissions (1, 2 and 4 s) fit in; undici's default, too. */
  connectTimeoutMs: 10_000,
  /** A tool may think for minutes before its head; the caller's own timer is the one that knows. */
  headersTimeoutMs: 0,
  /** Below the 5 s of Node's own servers and every proxy's default, so that we close first. */
  keepAliveTimeoutMs: 4_000,
  maxMessageBytes: LIMITS.messageBytes,
  /** A bearer token in clear is everybody's. */
  allowInsecure: false,
} as const);

const OPTION_NAMES: ReadonlySet<string> = new Set<keyof HttpOptions>([
  'fetch',
  'dispatcher',
  'headers',
  'proxy',
  'tls',
  'affinityCookies',
  'connectTimeoutMs',
  'headersTimeoutMs',
  'keepAliveTimeoutMs',
  'maxMessageBytes',
  'allowInsecure',
]);

const TLS_NAMES: ReadonlySet<string> = new Set<keyof HttpTlsOptions>(['ca', 'cert', 'key', 'servername']);

/** They belong to one connection or to the framing of one message; a fixed value would break every request. */
const HEADERS_OF_THE_CONNECTION: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** They say which session and which stream a request belongs to: a fixed one would go with every handshake, too. */
const HEADERS_OF_THE_SESSION: ReadonlySet<string> = new Set(['last-event-id', 'mcp-session-id']);

/** Fills in the defaults. Throws TypeError naming the option. */
export function resolveHttpOptions(options: HttpOptions = {}): ResolvedHttpOptions {
  checkKeys(options, 'http', OPTION_NAMES);
  const { fetch, dispatcher } = options;
  if (fetch !== undefined && typeof fetch !== 'function')
    throw new TypeError('http.fetch must be a function.');
  if (
    dispatcher !== undefined &&
    typeof (dispatcher as { dispatch?: unknown } | null)?.dispatch !== 'function'
  ) {
    throw new TypeError('http.dispatcher must have a method dispatch().');
  }
  if (fetch !== undefined && dispatcher !== undefined) {
    throw new TypeError('http.fetch and http.dispatcher exclude each other.');
  }
  for (const name of ['proxy', 'tls'] as const) {
    if (options[name] === undefined) continue;
    if (dispatcher !== undefined)
      throw new TypeError(`http.${name} has no effect with http.dispatcher: set it there.`);
    if (fetch !== undefined) throw new TypeError(`http.${name} has no effect with http.fetch: set it there.`);
  }
  return Object.freeze({
    fetch,
    dispatcher,
    headers: resolveHeaders(options.headers),
    proxy: resolveProxy(options.proxy),
    tls: resolveTls(options.tls),
    affinityCookies: flag(options, 'affinityCookies'),
    connectTimeoutMs: duration(options, 'connectTimeoutMs'),
    headersTimeoutMs: duration(options, 'headersTimeoutMs'),
    keepAliveTimeoutMs: duration(options, 'keepAliveTimeoutMs'),
    maxMessageBytes: byteCount(options, 'maxMessageBytes'),
    allowInsecure: flag(options, 'allowInsecure'),
  });
}

function checkKeys(value: unknown, name: string, known: ReadonlySet<string>): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new TypeError(`${name} must be an object.`);
  }
  for (const key of Object.keys(value)) {
    if (!known.has(key)) throw new TypeError(`${name}.${key} is not an option.`);
  }
}

function flag(options: HttpOptions, name: 'affinityCookies' | 'allowInsecure'): boolean {
  const value = options[name] ?? HTTP_DEFAULTS[name];
  if (typeof value !== 'boolean') throw new TypeError(`http.${name} must be true or false.`);
  return value;
}

function duration(
  options: HttpOptions,
  name: 'connectTimeoutMs' | 'headersTimeoutMs' | 'keepAliveTimeoutMs',
): number {
  const value = options[name] ?? HTTP_DEFAULTS[name];
  if (typeof value !== 'number' || !(value >= 0 && value <= MAX_TIMER_MS)) {
    throw new TypeError(`http.${name} must be a number of milliseconds from 0 to ${MAX_TIMER_MS}.`);
  }
  return value;
}

function byteCount(options: HttpOptions, name: 'maxMessageBytes'): number {
  const value = options[name] ?? HTTP_DEFAULTS[name];
  if (!Number.isSafeInteger(value) || value < 1) {
    throw new TypeError(`http.${name} must be a whole number of bytes, at least 1.`);
  }
  return value;
}

function resolveHeaders(headers: unknown): Readonly<Record<string, string>> {
  // No prototype: a header named `__proto__` is refused as a value, not taken for one.
  const resolved: Record<string, string> = Object.create(null);
  if (headers === undefined) return Object.freeze(resolved);
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers)) {
    throw new TypeError('http.headers must be an object of names and values.');
  }
  for (const [given, value] of Object.entries(headers)) {
    if (!isHeaderName(given)) throw new TypeError('http.headers holds a name that is no HTTP header name.');
    const name = given.toLowerCase();
    if (HEADERS_OF_THE_CONNECTION.has(name)) {
      throw new TypeError(`http.headers must not set ${name}: it belongs to the connection.`);
    }
    if (HEADERS_OF_THE_SESSION.has(name)) {
      throw new TypeError(`http.headers must not set ${name}: it belongs to the session.`);
    }
    if (Object.hasOwn(resolved, name)) throw new TypeError(`http.headers names ${name} twice.`);
    if (!isHeaderValue(value)) {
      throw new TypeError(
        `http.headers: the value of ${name} must be text without line breaks or control characters.`,
      );
    }
    resolved[name] = value;
  }
  return Object.freeze(resolved);
}

function resolveProxy(proxy: unknown): 'env' | URL | false {
  if (proxy === undefined) return HTTP_DEFAULTS.proxy;
  if (proxy === 'env' || proxy === false) return proxy;
  if (typeof proxy === 'string' || proxy instanceof URL) {
    try {
      const url = new URL(String(proxy));
      if (url.protocol === 'http:' || url.protocol === 'https:') return url;
    } catch {
      // Falls through to the one message, which does not repeat the value.
    }
  }
  throw new TypeError(`http.proxy must be 'env', false, or an http(s) URL.`);
}

function resolveTls(tls: HttpTlsOptions | undefined): Readonly<HttpTlsOptions> | undefined {
  if (tls === undefined) return undefined;
  checkKeys(tls, 'http.tls', TLS_NAMES);
  const { ca, cert, key, servername } = tls;
  if (ca !== undefined && !(Array.isArray(ca) ? ca.length > 0 && ca.every(isPem) : isPem(ca))) {
    throw new TypeError('http.tls.ca must be PEM text or bytes, or a list of them.');
  }
  if (cert !== undefined && !isPem(cert)) throw new TypeError('http.tls.cert must be PEM text or bytes.');
  if (key !== undefined && !isPem(key)) throw new TypeError('http.tls.key must be PEM text or bytes.');
  if ((cert === undefined) !== (key === undefined)) {
    throw new TypeError('http.tls.cert and http.tls.key need each other.');
  }
  if (servername !== undefined && (typeof servername !== 'string' || servername === '')) {
    throw new TypeError('http.tls.servername must be a host name.');
  }
  const resolved: HttpTlsOptions = {};
  if (ca !== undefined) resolved.ca = Array.isArray(ca) ? [...ca] : ca;
  if (cert !== undefined) resolved.cert = cert;
  if (key !== undefined) resolved.key = key;
  if (servername !== undefined) resolved.servername = servername;
  return Object.freeze(resolved);
}

function isPem(value: unknown): value is Pem {
  return (typeof value === 'string' && value !== '') || (value instanceof Uint8Array && value.byteLength > 0);
}
