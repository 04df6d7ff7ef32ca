/**
 * The small HTTP client for token endpoints and authorization metadata.
 *
 * Guarantees a bounded body, one timeout over head and body on the injected clock, no redirects, plain http
 * only to loopback and past every proxy, sockets that are not kept (a pooled one that the other side closed meanwhile
 * would put a rotating refresh in doubt), and that a request whose time ran out while it was being connected, as in a
 * process that was put aside, does not leave. With an `AddressGuard` nothing goes to an address it refuses. Never retries,
 * and never lets a foreign error out.
 */
import type { Agent, buildConnector, Dispatcher } from 'undici';
import { type Clock, untilAborted } from '../clock.js';
import { isLoopbackHost } from '../http/address.js';
import type { HttpFetch } from '../http/exchange.js';
import { proxiesOfEnvironment } from '../http/proxy-environment.js';
import { joined } from '../runtime/bytes.js';
import { needsPart } from '../runtime/needs-part.js';
import {
  type AddressGuard,
  addressRefused,
  checkScheme,
  isAddressRefusal,
} from './discovery/address-guard.js';
import { elapsedSince, momentOf } from './moment.js';

export interface TokenHttpRequest {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  /** What the address is, as the subject of a sentence: for the words of a guard's refusal. */
  readonly named?: string | undefined;
  readonly headers: Record<string, string>;
  readonly body?: string | undefined;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** Asked synchronously right before the request leaves; false holds it back. */
  readonly mayLeave?: (() => boolean) | undefined;
}

export interface TokenHttpReply {
  readonly status: number;
  readonly text: string;
  header(name: string): string | undefined;
}

export type TokenHttpResult =
  | { readonly kind: 'reply'; readonly reply: TokenHttpReply }
  | { readonly kind: 'held-back' }
  | {
      readonly kind: 'failed';
      /** False where it is certain that the request did not reach the server. */
      readonly mayHaveLeft: boolean;
      readonly reason: 'timeout' | 'network' | 'too-large';
      readonly status?: number | undefined;
      readonly cause?: unknown;
    };

/** Failures before a byte of the request could leave: name, route, connect, TLS. */
const NOT_SENT =
  /^(ECONNREFUSED|ENOTFOUND|EAI_[A-Z]+|EHOSTUNREACH|ENETUNREACH|ENETDOWN|EADDRNOTAVAIL|UND_ERR_CONNECT_TIMEOUT|UND_ERR_INVALID_ARG|CERT_[A-Z_]+|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_[A-Z_]+|ERR_TLS_[A-Z_]+|ERR_SSL_[A-Z0-9_]+|EPROTO)$/;

type Undici = typeof import('undici');

interface FetchResponse {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  // biome-ignore lint/suspicious/noExplicitAny: the stream types of fetch implementations do not agree.
  readonly body: { getReader(): any } | null;
  text(): Promise<string>;
}

export class TokenHttp {
  readonly #clock: Clock;
  readonly #given: HttpFetch | undefined;
  readonly #guard: AddressGuard | undefined;
  #own: Promise<OwnFetch> | undefined;
  #underWay = 0;

  /** `guard`: where addresses come from discovery, not from the app. */
  constructor(clock: Clock, fetch: HttpFetch | undefined, guard?: AddressGuard | undefined) {
    this.#clock = clock;
    this.#given = fetch;
    this.#guard = guard;
  }

  /** Whether an address may be used, as far as that shows without a look-up. Throws `ERR_DISCOVERY`. */
  check(url: URL, named?: string | undefined): void {
    if (this.#guard === undefined) checkScheme(url, named);
    else this.#guard.check(url, named);
  }

  /** Loads what a request needs, so that nothing slow stands between the last look and the request. */
  async prepare(): Promise<void> {
    if (this.#given === undefined) await this.#ownFetch();
  }

  async #prepared(): Promise<OwnFetch | undefined> {
    try {
      return this.#given === undefined ? await this.#ownFetch() : undefined;
    } catch (error) {
      this.#underWay -= 1;
      throw error;
    }
  }

  /** Rejects only with the refusal of the guard, `ERR_DISCOVERY` with the reason `address`: nothing was sent then. */
  async send(request: TokenHttpRequest): Promise<TokenHttpResult> {
    this.#underWay += 1;
    const own = await this.#prepared();
    const fetch: OwnFetch['fetch'] = this.#given ?? (own as OwnFetch).fetch;
    const controller = new AbortController();
    const started = momentOf(this.#clock);
    let timedOut = false;
    let isLate = false;
    // The timer may be late: after a stop, what the connection has to say comes first.
    const mayBeWritten = () => {
      isLate = elapsedSince(started, this.#clock) >= request.timeoutMs;
      return !isLate;
    };
    const timer = this.#clock.setTimeout(() => {
      timedOut = true;
      controller.abort();
    }, request.timeoutMs);
    // Lets a manual clock know that a real socket is being waited for.
    const busy = this.#clock.track?.();
    let status: number | undefined;
    let isHandedOver = false;
    try {
      if (this.#guard !== undefined) {
        const url = new URL(request.url);
        // Behind a proxy the server's name may mean nothing here.
        if (own?.isProxied === false && this.#guard.isOpen(url)) {
          await untilAborted(this.#guard.locate(), controller.signal);
        }
        this.#guard.check(url, request.named);
      }
      if (request.mayLeave?.() === false) return { kind: 'held-back' };
      isHandedOver = true;
      const response: FetchResponse = await untilAborted(
        Promise.resolve(
          fetch(
            request.url,
            {
              method: request.method,
              headers: request.headers,
              ...(request.body === undefined ? {} : { body: request.body }),
              signal: controller.signal,
              redirect: 'manual',
            },
            mayBeWritten,
          ),
        ),
        controller.signal,
      );
      status = response.status;
      const text = await untilAborted(readBounded(response, request.maxBytes), controller.signal);
      if (text === undefined) return { kind: 'failed', mayHaveLeft: true, reason: 'too-large', status };
      return {
        kind: 'reply',
        reply: { status, text, header: (name) => response.headers.get(name) ?? undefined },
      };
    } catch (error) {
      if (this.#guard !== undefined && isAddressRefusal(error)) {
        // The guard's look-up does not know what the address is.
        throw isHandedOver ? addressRefused(request.named) : error;
      }
      if (isLate) return { kind: 'failed', mayHaveLeft: false, reason: 'timeout' };
      if (timedOut) return { kind: 'failed', mayHaveLeft: isHandedOver, reason: 'timeout', status };
      const code = deepCode(error);
      const mayHaveLeft = status !== undefined || code === undefined || !NOT_SENT.test(code);
      const cause = { name: 'Error', code };
      return { kind: 'failed', mayHaveLeft, reason: 'network', status, cause };
    } finally {
      timer.clear();
      // Ends a body that was refused for its size; harmless after a whole one.
      controller.abort();
      busy?.dispose();
      this.#underWay -= 1;
      // Until the next token nobody needs it, and it weighs as much as a session.
      if (this.#underWay === 0) void this.close();
    }
  }

  async close(): Promise<void> {
    const own = this.#own;
    // At once: whoever comes meanwhile makes another.
    this.#own = undefined;
    await own?.then((made) => made.close()).catch(() => {});
  }

  #ownFetch(): Promise<OwnFetch> {
    this.#own ??= makeOwnFetch(this.#guard).catch((error) => {
      this.#own = undefined;
      throw error;
    });
    return this.#own;
  }
}

interface OwnFetch {
  /** `mayBeWritten` is asked when the connection stands, right before the first byte of the request. */
  fetch(url: string, init: Parameters<HttpFetch>[1], mayBeWritten: () => boolean): ReturnType<HttpFetch>;
  /** Off loopback names are resolved by a proxy. */
  readonly isProxied: boolean;
  close(): Promise<void>;
}

async function makeOwnFetch(guard: AddressGuard | undefined): Promise<OwnFetch> {
  const undici = await import('undici');
  // A stand-in would send, but past the proxy, the last look and the guard.
  needsPart(
    'ERR_CREDENTIAL_SOURCE',
    'A token request',
    "undici's dispatch()",
    undici.Agent?.prototype?.dispatch,
    'give the source a fetch',
  );
  // Timeouts are the clock's; a socket lives for one request.
  const sockets: Agent.Options = {
    // Of a proxied agent this is for the hosts that go past the proxy.
    ...(guard === undefined ? {} : { connect: guardedConnector(undici, guard) }),
    keepAliveTimeout: 1,
    keepAliveMaxTimeout: 1,
    pipelining: 0,
    headersTimeout: 0,
    bodyTimeout: 0,
  };
  const direct = new undici.Agent(sockets);
  const environment = proxiesOfEnvironment();
  const isProxied = environment.httpProxy !== undefined || environment.httpsProxy !== undefined;
  const proxied = isProxied ? new undici.EnvHttpProxyAgent({ ...sockets, ...environment }) : direct;
  return {
    fetch: (url, init, mayBeWritten) => {
      const way = isLoopbackHost(new URL(url).hostname) ? direct : proxied;
      const dispatcher = { dispatch: lastLook(way, mayBeWritten) } as InstanceType<typeof undici.Dispatcher>;
      return undici.fetch(url, { ...init, dispatcher });
    },
    isProxied,
    close: async () => {
      await Promise.all([direct.destroy(), proxied.destroy()]);
    },
  };
}

/** Connects to no address but those that the guard's look-up let pass, and tells it where the MCP server was met. */
function guardedConnector(undici: Undici, guard: AddressGuard): buildConnector.connector {
  const connect = undici.buildConnector({ lookup: guard.lookup });
  return (options, callback) => {
    connect(options, (...result) => {
      // A failure comes alone, whatever the types say.
      if (options.protocol === 'https:' && result[0] === null) {
        guard.connected(options.hostname, result[1].remoteAddress);
      }
      callback(...result);
    });
  };
}

/** undici tells a request's handler when the request is about to be written, and lets it be aborted there. */
function lastLook(way: Dispatcher, mayBeWritten: () => boolean): Dispatcher['dispatch'] {
  return (options, handler) => {
    const looking: Dispatcher.DispatchHandler = Object.assign(Object.create(handler), {
      onConnect(abort: (reason?: Error) => void) {
        handler.onConnect?.call(looking, abort);
        if (!mayBeWritten()) abort(new Error('late'));
      },
    });
    return way.dispatch(options, looking);
  };
}

/** The body as text, or undefined where it is longer than `maxBytes`. */
async function readBounded(response: FetchResponse, maxBytes: number): Promise<string | undefined> {
  if (response.body === null) return '';
  const reader = response.body.getReader();
  const chunks: Uint8Array[] = [];
  let total = 0;
  for (;;) {
    const { done, value } = (await reader.read()) as { done: boolean; value?: Uint8Array };
    if (done) break;
    if (value === undefined) continue;
    total += value.byteLength;
    if (total > maxBytes) {
      Promise.resolve(reader.cancel?.()).catch(() => {});
      return undefined;
    }
    chunks.push(value);
  }
  // Takes a byte order mark away, as `Response.text()` does.
  return new TextDecoder().decode(joined(chunks));
}

/** The first system or undici code on the chain of causes; fetch hides it one level down. */
function deepCode(error: unknown): string | undefined {
  for (let at: unknown = error, depth = 0; typeof at === 'object' && at !== null && depth < 5; depth++) {
    const { code, cause } = at as { code?: unknown; cause?: unknown };
    if (typeof code === 'string') return code;
    at = cause;
  }
  return undefined;
}

/** `Retry-After` (RFC 9110, 10.2.3), seconds or a date, in milliseconds; a date is read against the server's own `Date`. */
export function retryAfterMs(reply: TokenHttpReply, nowMs: number, maxMs: number): number | undefined {
  const value = reply.header('retry-after')?.trim();
  if (value === undefined || value === '') return undefined;
  if (/^\d{1,10}$/.test(value)) return Math.min(Number(value) * 1000, maxMs);
  const at = Date.parse(value);
  if (Number.isNaN(at)) return undefined;
  const sentAt = Date.parse(reply.header('date') ?? '');
  return Math.min(Math.max(0, at - (Number.isNaN(sentAt) ? nowMs : sentAt)), maxMs);
}

export function isLoopback(url: URL): boolean {
  const host = url.hostname;
  return host === 'localhost' || host === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** https, or plain http on loopback; no user name or password, no fragment. */
export function isSafeEndpoint(url: URL): boolean {
  if (url.username !== '' || url.password !== '' || url.hash !== '') return false;
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url));
}
