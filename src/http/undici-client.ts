/**
 * The usual way to an origin: undici, with agents of our own.
 *
 * Guarantees that undici is loaded at the first request and not before, that streams and calls never wait
 * for each other's sockets, and that proxies and certificate authorities hold on every road. Never uses
 * HTTP/2, pipelining or a retry, and never closes a dispatcher it did not make.
 */
import type { Agent, Dispatcher } from 'undici';
import { codeOf } from '../errors.js';
import { LIMITS } from '../limits.js';
import { LinkedSet } from '../linked-set.js';
import { isLoopbackHost } from './address.js';
import type { Zlib } from './decode.js';
import type { ExchangeHandle, HttpClient, HttpDispatcher, HttpRequest, ResponseSink } from './exchange.js';
import type { HttpTlsOptions, ResolvedHttpOptions } from './options.js';
import { proxiesOfEnvironment } from './proxy-environment.js';
import { type ExchangeOwner, UndiciExchange } from './undici-exchange.js';

type Undici = typeof import('undici');

/** What is loaded at the first request. Without undici: the dispatcher is the app's. */
interface Modules {
  readonly zlib: Zlib;
  readonly undici?: Undici;
}

/** Calls and streams apart; loopback apart, since no proxy of the environment is used for it. */
type Road = 'calls' | 'streams' | 'loopback-calls' | 'loopback-streams';

/**
 * One turn of the event loop. The real one also under fake timers: no time passes in it, and sockets follow
 * the real loop. Undefined where a runtime has none, or where it was faked before this module was loaded.
 */
const nextTurn: typeof setImmediate | undefined =
  typeof globalThis.setImmediate === 'function' && !('clock' in globalThis.setImmediate)
    ? globalThis.setImmediate
    : undefined;

export class UndiciClient implements HttpClient, ExchangeOwner {
  readonly #options: ResolvedHttpOptions;
  readonly #loadUndici: () => Promise<Undici>;
  readonly #underWay = new LinkedSet<UndiciExchange>();
  #modules: Modules | undefined;
  #loading: Promise<Modules> | undefined;
  #agents = new Map<Road, Dispatcher>();
  /** Streams under way, or about to be. */
  #streams = 0;
  /** An answer has just ended and undici takes its socket back only in the next turn of the loop. */
  #socketReturning = false;
  /** What came since, to go when it is back. */
  #forSocket: { readonly request: HttpRequest; readonly exchange: UndiciExchange }[] = [];
  readonly #awaitTurn = () => {
    nextTurn?.(this.#onSocketBack);
  };
  readonly #onSocketBack = () => {
    this.#socketReturning = false;
    if (this.#forSocket.length === 0) return;
    const waiting = this.#forSocket;
    this.#forSocket = [];
    for (const { request, exchange } of waiting) this.#start(request, exchange);
  };
  #address: { readonly href: string; readonly origin: string; readonly path: string } | undefined;
  #keepAliveTimeoutMs: number;
  #closed = false;

  /** `loadUndici` is a seam for tests of runtimes where undici is missing or a stub. */
  constructor(options: ResolvedHttpOptions, loadUndici: () => Promise<Undici> = () => import('undici')) {
    this.#options = options;
    this.#loadUndici = loadUndici;
    this.#keepAliveTimeoutMs = options.keepAliveTimeoutMs;
  }

  exchange(request: HttpRequest, sink: ResponseSink): ExchangeHandle {
    const exchange = new UndiciExchange(request, sink, this, this.#options.maxMessageBytes);
    this.#underWay.add(exchange);
    if (exchange.isStream) this.#streams += 1;
    // In a microtask even when all is loaded: no sink hears anything before this method has returned.
    if (this.#modules === undefined) void this.#loadAndStart(request, exchange);
    else queueMicrotask(() => this.#startWithSocket(request, exchange));
    return exchange;
  }

  /** @internal */
  exchangeEnded(exchange: UndiciExchange, complete: boolean): void {
    this.#underWay.delete(exchange);
    if (exchange.isStream) this.#streamEnded();
    if (!complete || this.#socketReturning || nextTurn === undefined) return;
    this.#socketReturning = true;
    // undici has not asked for its own turn yet, and is to have it first.
    queueMicrotask(this.#awaitTurn);
  }

  /** @internal Kept, for a URL makes its parts anew each time. */
  addressOf(url: URL): { readonly origin: string; readonly path: string } {
    const { href } = url;
    if (this.#address?.href !== href) {
      const path = url.search === '' ? url.pathname : url.pathname + url.search;
      this.#address = { href, origin: url.origin, path };
    }
    return this.#address;
  }

  keepSocketsFor(ms: number): void {
    if (ms === this.#keepAliveTimeoutMs) return;
    this.#keepAliveTimeoutMs = ms;
    const agents = [...this.#agents.values()];
    this.#agents = new Map();
    // What is under way on them ends there.
    for (const agent of agents) agent.close().catch(() => {});
  }

  async closeIdle(): Promise<void> {
    const agents = [...this.#agents.values()];
    this.#agents = new Map();
    for (const exchange of this.#underWay.all()) exchange.abort();
    await Promise.allSettled(agents.map((agent) => agent.destroy()));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.closeIdle();
  }

  /** The next stream may be a minute away, or never come; what carries streams weighs as much as a session. */
  #streamEnded(): void {
    this.#streams -= 1;
    if (this.#streams > 0) return;
    for (const road of ['streams', 'loopback-streams'] as const) {
      const agent = this.#agents.get(road);
      this.#agents.delete(road);
      agent?.close().catch(() => {});
    }
  }

  /** A call made upon an answer would find that socket busy and open a second one: a handshake dearer than a turn. */
  #startWithSocket(request: HttpRequest, exchange: UndiciExchange): void {
    if (this.#socketReturning) this.#forSocket.push({ request, exchange });
    else this.#start(request, exchange);
  }

  async #loadAndStart(request: HttpRequest, exchange: UndiciExchange): Promise<void> {
    try {
      // A failed load is tried again by the next request: a file system may have been away.
      this.#loading ??= this.#load();
      this.#modules = await this.#loading;
    } catch (error) {
      this.#loading = undefined;
      const code = codeOf(error);
      // Bundles and runtimes without it have words of their own for that, and mostly no code.
      const isMissing = code === undefined || code.endsWith('MODULE_NOT_FOUND');
      const reason = 'undici could not be loaded: give http.fetch where there is none';
      exchange.failWith(isMissing ? 'unsupported' : 'network', code, reason);
      return;
    }
    this.#start(request, exchange);
  }

  async #load(): Promise<Modules> {
    if (this.#options.dispatcher !== undefined) return { zlib: await import('node:zlib') };
    const [zlib, undici] = await Promise.all([import('node:zlib'), this.#loadUndici()]);
    return { zlib, undici };
  }

  #start(request: HttpRequest, exchange: UndiciExchange): void {
    if (exchange.hasEnded) return;
    if (this.#closed) {
      exchange.failWith('aborted', undefined, 'the HTTP client has been closed');
      return;
    }
    const { zlib, undici } = this.#modules as Modules;
    let dispatcher: HttpDispatcher | undefined = this.#options.dispatcher;
    if (dispatcher === undefined) {
      try {
        dispatcher = this.#agentFor(request, undici as Undici);
      } catch (error) {
        // The options were checked; what is left are proxy variables of the environment.
        exchange.failWith(
          'invalid-request',
          codeOf(error),
          'a proxy variable of the environment is not usable',
        );
        return;
      }
      if (typeof (dispatcher as { dispatch?: unknown }).dispatch !== 'function') {
        const reason = 'the undici of this runtime has no dispatch(): give http.fetch';
        exchange.failWith('unsupported', 'UND_ERR_NOT_SUPPORTED', reason);
        return;
      }
    }
    exchange.dispatch(dispatcher, zlib, this.#options.proxy !== false);
  }

  #agentFor(request: HttpRequest, undici: Undici): Dispatcher {
    const loopback = this.#options.proxy === 'env' && isLoopbackHost(request.url.hostname);
    const kind = request.stream === true ? 'streams' : 'calls';
    const road: Road = loopback ? `loopback-${kind}` : kind;
    let agent = this.#agents.get(road);
    if (agent === undefined) {
      agent = createAgent(
        undici,
        { ...this.#options, keepAliveTimeoutMs: this.#keepAliveTimeoutMs },
        loopback,
      );
      this.#agents.set(road, agent);
    }
    return agent;
  }
}

function createAgent(undici: Undici, options: ResolvedHttpOptions, loopback: boolean): Dispatcher {
  // Bun's stub may not even have the classes; the caller looks at what comes back.
  if (typeof undici.Agent !== 'function') return {} as Dispatcher;
  const timeout = options.connectTimeoutMs;
  const tls = tlsOptions(options.tls);
  const common: Agent.Options = {
    // 0: each socket serves one request.
    pipelining: options.keepAliveTimeoutMs === 0 ? 0 : 1,
    allowH2: false,
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: LIMITS.headerBytes,
    connect: { timeout, ...tls },
  };
  if (options.keepAliveTimeoutMs > 0) {
    common.keepAliveTimeout = options.keepAliveTimeoutMs;
    // A server's hint may shorten it, not lengthen it: what closes the socket first may be a proxy before it.
    common.keepAliveMaxTimeout = options.keepAliveTimeoutMs;
  }
  const { proxy } = options;
  const environment = proxy === 'env' && !loopback ? proxiesOfEnvironment() : {};
  const throughProxy = {
    ...common,
    // Behind a proxy `connect` is not asked: this is what the server's certificate is checked with.
    requestTls: { timeout, ...tls },
    // The CA holds for a proxy reached by https, too; the client certificate is for the server alone.
    proxyTls: { timeout, ...(tls.ca === undefined ? {} : { ca: tls.ca }) },
    // A proxy that accepts and then says nothing is a connection that does not come about.
    clientFactory: (origin: URL, poolOptions: object) =>
      new undici.Pool(origin, { ...poolOptions, headersTimeout: timeout }),
  };
  if (proxy instanceof URL) return new undici.ProxyAgent({ ...throughProxy, uri: proxy.href });
  if (environment.httpProxy === undefined && environment.httpsProxy === undefined)
    return new undici.Agent(common);
  return new undici.EnvHttpProxyAgent({ ...throughProxy, ...environment });
}

/** `tls` in the types of node:tls; only what is set, since an undefined would hide a default. */
function tlsOptions(tls: HttpTlsOptions = {}) {
  const given: {
    ca?: Array<string | Buffer>;
    cert?: string | Buffer;
    key?: string | Buffer;
    servername?: string;
  } = {};
  if (tls.ca !== undefined) given.ca = (Array.isArray(tls.ca) ? tls.ca : [tls.ca]).map(pem);
  if (tls.cert !== undefined) given.cert = pem(tls.cert);
  if (tls.key !== undefined) given.key = pem(tls.key);
  if (tls.servername !== undefined) given.servername = tls.servername;
  return given;
}

function pem(value: string | Uint8Array): string | Buffer {
  return typeof value === 'string' ? value : Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}
