/**
 * The options of the SDK's stock transport, and what becomes of them here.
 *
 * Guarantees that they are refused under the names the app knows them by, before any I/O. Never follows a redirect to
 * another origin for them.
 */
import {
  type AuthProviderLike,
  fromOAuthClientProvider,
  type OAuthClientProviderLike,
} from './credentials/index.js';
import type { HttpFetch } from './http/exchange.js';
import { resolveHttpOptions } from './http/options.js';
import { OptionReader } from './option-reader.js';
import type { HostedOptions } from './options.js';

/** Options of the stock `StreamableHTTPClientTransport`, so that the one-line swap compiles. */
export interface StockTransportOptions {
  /** Its token is read for each use. Not beside `credentials`. */
  authProvider?: OAuthClientProviderLike | AuthProviderLike | undefined;
  /** Of `requestInit` only `headers` are used; they go to the server's origin alone. */
  // biome-ignore lint/suspicious/noExplicitAny: HeadersInit of whichever library the app compiles with.
  requestInit?: { headers?: any } | undefined;
  /** Same as `http.fetch`. Not beside it. */
  fetch?: HttpFetch | undefined;
  /** `maxReconnectionDelay` becomes `streams.reopenMaxDelayMs`; streams are not given up after a number of tries. */
  reconnectionOptions?:
    | {
        maxReconnectionDelay: number;
        initialReconnectionDelay: number;
        reconnectionDelayGrowFactor: number;
        maxRetries: number;
      }
    | undefined;
  /** Redirects are followed within the origin only; `'follow'` is a TypeError. */
  redirectPolicy?: 'same-origin' | 'follow' | undefined;
}

/** `sessionId` and `protocolVersion` take up a session of before a restart: no handshake is made. */
export type HostedTransportOptions = HostedOptions &
  StockTransportOptions & { sessionId?: string | undefined; protocolVersion?: string | undefined };

const STOCK_NAMES = [
  'authProvider',
  'requestInit',
  'fetch',
  'reconnectionOptions',
  'redirectPolicy',
  'sessionId',
  'protocolVersion',
];
/** What an app hands to the transport, taken apart. Throws `TypeError` naming the option that cannot be used. */
export function splitOptions(options: HostedTransportOptions): {
  hosted: HostedOptions;
  stock: { sessionId?: string | undefined; protocolVersion?: string | undefined };
} {
  const own: Record<string, unknown> = {};
  const rest: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(options)) {
    if (STOCK_NAMES.includes(name)) rest[name] = value;
    else own[name] = value;
  }
  const hosted = own as HostedOptions;
  const stock = rest as StockTransportOptions & { sessionId?: string; protocolVersion?: string };
  const read = new OptionReader('', rest);
  if (read.oneOf('redirectPolicy', ['same-origin', 'follow'] as const) === 'follow') {
    throw new TypeError(
      'redirectPolicy: "follow" would send credentials to other origins; only "same-origin" is possible',
    );
  }
  for (const name of ['sessionId', 'protocolVersion']) {
    const value = read.any(name);
    if (value !== undefined && (typeof value !== 'string' || !/^[\x21-\x7e]{1,1024}$/.test(value)))
      throw new TypeError(`${name} must be 1 to 1024 visible ASCII characters`);
  }
  checkGroups(stock);
  if (stock.authProvider !== undefined && hosted.credentials !== undefined)
    throw new TypeError('authProvider cannot stand beside credentials');
  if (stock.fetch !== undefined && hosted.http?.fetch !== undefined)
    throw new TypeError('fetch cannot stand beside http.fetch');
  return {
    stock,
    hosted: {
      ...hosted,
      ...(stock.authProvider !== undefined && {
        credentials: fromOAuthClientProvider(stock.authProvider, { fetch: stock.fetch, clock: hosted.clock }),
      }),
      ...((stock.fetch !== undefined || stock.requestInit?.headers !== undefined) && {
        http: {
          ...hosted.http,
          ...(stock.fetch !== undefined && { fetch: stock.fetch }),
          ...(stock.requestInit?.headers !== undefined && {
            headers: { ...plainHeaders(stock.requestInit.headers), ...hosted.http?.headers },
          }),
        },
      }),
      ...(stock.reconnectionOptions !== undefined && {
        streams: { reopenMaxDelayMs: stock.reconnectionOptions.maxReconnectionDelay, ...hosted.streams },
      }),
    },
  };
}

/** Under the names the app knows them by: what they become has other ones. */
function checkGroups({ authProvider, fetch, requestInit, reconnectionOptions }: StockTransportOptions): void {
  if (authProvider !== undefined) {
    const { token, tokens } = (authProvider ?? {}) as { token?: unknown; tokens?: unknown };
    if (typeof token !== 'function' && typeof tokens !== 'function')
      throw new TypeError('authProvider must have the method tokens() or token()');
  }
  if (fetch !== undefined && typeof fetch !== 'function') throw new TypeError('fetch must be a function');
  if (requestInit !== undefined && (typeof requestInit !== 'object' || requestInit === null))
    throw new TypeError('requestInit must be an object');
  if (requestInit?.headers !== undefined) {
    try {
      resolveHttpOptions({ headers: plainHeaders(requestInit.headers) });
    } catch (error) {
      throw new TypeError((error as Error).message.replace(/^http\./, 'requestInit.'));
    }
  }
  if (reconnectionOptions === undefined) return;
  if (typeof reconnectionOptions !== 'object' || reconnectionOptions === null)
    throw new TypeError('reconnectionOptions must be an object');
  const read = new OptionReader('reconnectionOptions', reconnectionOptions);
  if (read.duration('maxReconnectionDelay', 1) === undefined)
    throw new TypeError('reconnectionOptions.maxReconnectionDelay must be a number of milliseconds');
}

/** Any of the forms that `RequestInit.headers` may have. */
function plainHeaders(headers: unknown): Record<string, string> {
  if (typeof headers !== 'object' || headers === null)
    throw new TypeError('requestInit.headers must be an object');
  const pairs =
    Symbol.iterator in headers
      ? [...(headers as Iterable<readonly [string, string]>)]
      : Object.entries(headers);
  return Object.fromEntries(pairs.map(([name, value]) => [name.toLowerCase(), String(value)]));
}
