/**
 * JSON-RPC messages over one HTTP endpoint: out as requests, back as facts.
 *
 * Guarantees that whatever a server answers, JSON, an event stream, HTML or nothing, ends as
 * `ExchangeFacts`; that messages which are no answer reach their receiver in order; and that every
 * answer is bounded. Never judges: `classify` does. Never sends again, save for what is no call of the app's and was
 * refused for the nonce that its proof lacks, once.
 */
import type { Clock } from '../clock.js';
import type { HttpClient, HttpRequest, ResponseHead } from '../http/exchange.js';
import type { CookieJar } from '../http/headers.js';
import type { JsonRpcMessage, JsonRpcResponse, RequestId } from '../json-rpc.js';
import type { PayOptions, Toll, Urgency } from '../rate-limit/toll.js';
import type { Redactor } from '../redactor.js';
import type { Cut } from '../streams/idle-limits.js';
import { lastEventIdHeader } from '../streams/sse-reader.js';
import { Answer, fitToShow } from './answer.js';
import { LISTEN } from './outgoing.js';
import type { ExchangeDone, Route, StreamFacts, StreamRoute } from './route.js';
import { Lingering, UnderWay, type UnderWayHost } from './under-way.js';

export interface WireParts {
  readonly url: URL;
  readonly http: HttpClient;
  readonly clock: Clock;
  readonly redactor: Redactor;
  /** Secrets of the app, for this origin only. */
  readonly headers: Readonly<Record<string, string>>;
  readonly maxMessageBytes: number;
  readonly affinityCookies: boolean;
  /** Every request to the endpoint pays before it leaves. */
  readonly toll: Toll;
  /** Each answer's head: the server may say something of its limit there. */
  readonly onHead: (head: ResponseHead) => void;
  /** Called after each HTTP request, where somebody wants to know. */
  readonly onExchange: (done: ExchangeDone) => void;
  /** Absent: somebody always does. */
  readonly wantsExchanges?: (() => boolean) | undefined;
  /** A stream was cut, or a gateway gave up waiting: for what can be learned from it. */
  readonly onCut: (cut: Cut) => void;
}

/** Methods with long, compressible answers; a call's own stream stays uncoded so that nothing buffers it. */
const COMPRESSED = /\/list$|^resources\/read$/;
/** Of an `Authorization` value (RFC 9110 section 11.4): no secret itself. */
const SCHEME = /^(?:bearer|basic|dpop|token|apikey) +/i;

export class Wire {
  readonly #parts: WireParts;
  readonly #lingering = new Lingering();
  readonly #host: UnderWayHost;
  #learned: { readonly value: string; readonly secrets: readonly string[] } = { value: '', secrets: [] };

  constructor(parts: WireParts) {
    this.#parts = parts;
    this.#host = { ...parts, lingering: this.#lingering };
  }

  /** POSTs one message; resolves with the facts, never rejects but with what `credential.headers()` throws. */
  send(message: JsonRpcMessage, way: Route): Promise<StreamFacts> {
    return way.session?.road?.send(message, way) ?? this.post(message, way, this.#parts.url);
  }

  /** The same, to an address that the server has named, and nowhere else. */
  post(message: JsonRpcMessage, way: Route, url: URL): Promise<StreamFacts> {
    const paying = this.#pay(way);
    return paying === undefined
      ? this.#post(message, way, url)
      : paying.then(() => this.#post(message, way, url));
  }

  #post(message: JsonRpcMessage, way: Route, url: URL): Promise<StreamFacts> {
    const method = 'method' in message ? message.method : 'response';
    const expects = 'method' in message && 'id' in message ? message.id : undefined;
    const headers = this.#headers(way, method);
    headers['content-type'] = 'application/json';
    headers.accept = 'application/json, text/event-stream';
    headers['accept-encoding'] = COMPRESSED.test(method) ? 'gzip, deflate, br' : 'identity';
    const body = JSON.stringify(message);
    const listens = method === LISTEN;
    const request = { method: 'POST', url, headers, body, stream: listens, givesWay: listens } as const;
    if (!isMendedHere(way)) return this.#authorized(request, way, method, expects);
    const send = () => this.#authorized(request, way, method, expects);
    return send().then((facts) => this.#mended(facts, way, send));
  }

  /** Opens an event stream by GET; resolves when it has ended. */
  async stream(way: StreamRoute): Promise<StreamFacts> {
    await this.#pay(way);
    const headers = this.#headers(way, way.method);
    headers.accept = 'text/event-stream';
    headers['accept-encoding'] = 'identity';
    if (way.cursor !== undefined) headers['last-event-id'] = lastEventIdHeader(way.cursor);
    const request = {
      method: 'GET',
      url: this.#parts.url,
      headers,
      stream: true,
      // One that is read event by event carries the answers as well.
      givesWay: way.expects === undefined && way.onEvent === undefined,
      headersTimeoutMs: 0,
    } as const;
    return this.#run(request, await this.#authorize(request, way), way, way.method, way.expects, way);
  }

  /** DELETEs the way's session. */
  async delete(way: Route): Promise<StreamFacts> {
    await this.#pay(way);
    const request = {
      method: 'DELETE',
      url: this.#parts.url,
      headers: this.#headers(way, 'DELETE'),
    } as const;
    const send = () => this.#authorized(request, way, 'DELETE', undefined);
    const facts = await send();
    return isMendedHere(way) ? this.#mended(facts, way, send) : facts;
  }

  /** Pays for one request ahead, by a sender whose own time must not run while it waits: then its way is 'paid'. */
  pay(urgency: Urgency, options: PayOptions): Promise<unknown> | undefined {
    return this.#parts.toll.pay(urgency, options);
  }

  /** An answer that did not come as an exchange's own, made fit to be shown as those are. */
  fitToShow(message: JsonRpcResponse, method: string, cookies: CookieJar): JsonRpcResponse {
    const { redactor, url } = this.#parts;
    return fitToShow(message, method, () => {
      for (const pair of cookies.header(url)?.split('; ') ?? [])
        redactor.add(pair.slice(pair.indexOf('=') + 1));
      return redactor;
    });
  }

  /** A secret that came in a message. */
  learnSecret(secret: string): void {
    this.#parts.redactor.add(secret);
  }

  /** Ends the streams that were only kept for their sockets. */
  dropLingering(): void {
    this.#lingering.drop();
  }

  /** What the server refused unread, for a proof that wants its nonce (RFC 9449, 9), once more. */
  async #mended(facts: StreamFacts, way: Route, send: () => Promise<StreamFacts>): Promise<StreamFacts> {
    const { status, dpopNonce, challenges } = facts;
    const wantsNonce = challenges?.some(({ error }) => error === 'use_dpop_nonce') === true;
    if (status !== 401 || dpopNonce === undefined || !wantsNonce || way.signal?.aborted === true)
      return facts;
    try {
      await this.pay('recovery', { signal: way.signal });
    } catch {
      return facts;
    }
    return send();
  }

  #pay({ toll, signal }: Route): Promise<unknown> | undefined {
    return toll === 'paid'
      ? undefined
      : this.pay(toll?.urgency ?? 'recovery', { untilMs: toll?.untilMs, signal });
  }

  #headers(way: Route, method: string): Record<string, string> {
    const headers: Record<string, string> = { ...this.#parts.headers, ...way.headers };
    const id = way.session?.revealId();
    if (id !== undefined) headers['mcp-session-id'] = id;
    const version = way.protocolVersion ?? way.session?.info.protocolVersion;
    if (version !== undefined && method !== 'initialize') headers['mcp-protocol-version'] = version;
    const jar = this.#parts.affinityCookies ? (way.session?.cookies ?? way.cookies) : undefined;
    const cookie = jar?.header(this.#parts.url);
    if (cookie !== undefined)
      headers.cookie = headers.cookie === undefined ? cookie : `${headers.cookie}; ${cookie}`;
    // Each time, so that none is forgotten for younger ones.
    if (id !== undefined) this.#parts.redactor.add(id);
    for (const name in this.#parts.headers) this.#learn(this.#parts.headers[name] as string);
    return headers;
  }

  /** Most credentials have their headers at hand: then no turn is lost. */
  #authorized(
    request: HttpRequest,
    way: Route,
    method: string,
    expects: RequestId | undefined,
  ): Promise<StreamFacts> {
    try {
      const secret = this.#authorize(request, way);
      return typeof secret.then === 'function'
        ? secret.then((given) => this.#run(request, given, way, method, expects, undefined))
        : this.#run(request, secret as Record<string, string>, way, method, expects, undefined);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #authorize(request: HttpRequest, way: Route): Record<string, string> | Promise<Record<string, string>> {
    return way.credential.headers({ method: request.method, url: request.url });
  }

  #run(
    request: HttpRequest,
    secret: Record<string, string>,
    way: Route,
    method: string,
    expects: RequestId | undefined,
    stream: StreamRoute | undefined,
  ): Promise<StreamFacts> {
    const { clock, http, redactor } = this.#parts;
    const { cookie } = request.headers;
    // Good for this request alone: its answer sees to it that it is not shown.
    const { dpop: proof } = secret;
    for (const name in secret) {
      const value = secret[name];
      if (value === undefined) continue;
      if (value !== proof) this.#learn(value);
      request.headers[name.toLowerCase()] = value;
    }
    const underWay = new UnderWay(method, way, this.#host);
    const answer = new Answer({
      method,
      expects,
      sessionSent: way.session?.hasId === true,
      maxBytes: this.#parts.maxMessageBytes,
      clock,
      redactor,
      way,
      stream,
      cookie,
      proof,
      cookies: this.#parts.affinityCookies ? (way.cookies ?? way.session?.cookies) : undefined,
      owner: underWay,
    });
    underWay.began(http.exchange(request, answer));
    return underWay.facts;
  }

  /** A secret in a header may come back with its scheme or without, as a whole or one word of it. */
  #learn(value: string): void {
    // Most requests carry what the last one did. Told each time, so that none is forgotten for younger ones.
    if (value !== this.#learned.value) this.#learned = { value, secrets: secretsIn(value) };
    for (const secret of this.#learned.secrets) this.#parts.redactor.add(secret);
  }
}

function secretsIn(value: string): string[] {
  const bare = value.replace(SCHEME, '');
  return bare === value && value.includes(' ') ? [bare, ...value.split(' ')] : [bare];
}

/** Who looks at the moment of sending answers for what is sent again: a call, with its ledger and its caller's rules. */
function isMendedHere({ credential, onSent }: Route): boolean {
  return credential.answered !== undefined && onSent === undefined;
}
