/**
 * The way to an origin over a `fetch` that the app gives: edge runtimes, mocks, its own instrumentation.
 *
 * Guarantees the same facts as the usual way, as far as fetch shows them: a request counts as sent as soon
 * as fetch was called, unless the error proves that no connection came about. Never decodes (fetch has) and
 * never follows a redirect.
 */
import { codeOf } from '../errors.js';
import type {
  ExchangeFailure,
  ExchangeHandle,
  HttpClient,
  HttpFetch,
  HttpRequest,
  ResponseHead,
  ResponseSink,
} from './exchange.js';
import type { ResolvedHttpOptions } from './options.js';

type FetchResponse = Awaited<ReturnType<HttpFetch>>;

/** Errors that exist only before a connection stands. ECONNRESET and ETIMEDOUT are not among them. */
const BEFORE_ANY_BYTE: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_INVALID_ARG',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'ERR_TLS_CERT_ALTNAME_INVALID',
]);

export class FetchClient implements HttpClient {
  readonly #fetch: HttpFetch;
  readonly #maxBytes: number;
  readonly #underWay = new Set<FetchExchange>();
  #closed = false;

  constructor(fetch: HttpFetch, options: Pick<ResolvedHttpOptions, 'maxMessageBytes'>) {
    this.#fetch = fetch;
    this.#maxBytes = options.maxMessageBytes;
  }

  exchange(request: HttpRequest, sink: ResponseSink): ExchangeHandle {
    const exchange = new FetchExchange(request, sink, this.#underWay, this.#maxBytes);
    if (this.#closed) queueMicrotask(() => exchange.abort());
    else void exchange.run(this.#fetch);
    return exchange;
  }

  /** The sockets are the given fetch's own. */
  keepSocketsFor(_ms: number): void {}

  async closeIdle(): Promise<void> {
    for (const exchange of [...this.#underWay]) exchange.abort();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.closeIdle();
  }
}

class FetchExchange implements ExchangeHandle {
  readonly #request: HttpRequest;
  readonly #sink: ResponseSink;
  readonly #underWay: Set<FetchExchange>;
  readonly #abortController = new AbortController();
  readonly #maxBytes: number;
  #bytesLeft: number;
  #called = false;
  #hasHead = false;
  #ended = false;
  #paused = false;
  #continue: (() => void) | undefined;

  constructor(request: HttpRequest, sink: ResponseSink, underWay: Set<FetchExchange>, maxBytes: number) {
    this.#request = request;
    this.#sink = sink;
    this.#underWay = underWay;
    this.#maxBytes = maxBytes;
    this.#bytesLeft = maxBytes;
    underWay.add(this);
  }

  async run(fetch: HttpFetch): Promise<void> {
    // No sink hears anything before exchange() has returned.
    await undefined;
    if (this.#ended) return;
    try {
      const response = await this.#call(fetch);
      if (response !== undefined) await this.#deliver(response);
    } catch (error) {
      const { code, proved } = readCauses(error);
      const failure = this.#failure('network', code);
      this.#fail(this.#hasHead || !proved ? failure : { ...failure, sent: false, phase: 'before' });
    }
  }

  abort(): void {
    if (this.#ended) return;
    this.#fail(this.#failure('aborted'));
    this.#stop();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#continue?.();
    this.#continue = undefined;
  }

  async #call(fetch: HttpFetch): Promise<FetchResponse | undefined> {
    const { method, url, headers, body } = this.#request;
    try {
      this.#sink.sent?.();
    } catch {
      this.#fail(this.#failure('aborted'));
    }
    if (this.#ended) return undefined;
    this.#called = true;
    const response = await fetch(url.href, {
      method,
      headers: { ...headers },
      ...(body === undefined ? {} : { body }),
      signal: this.#abortController.signal,
      redirect: 'manual',
    });
    return this.#ended ? undefined : response;
  }

  async #deliver(response: FetchResponse): Promise<void> {
    const head = readHead(response);
    this.#hasHead = true;
    const type = response.headers.get('content-type');
    if (type?.toLowerCase().startsWith('text/event-stream') === true)
      this.#bytesLeft = Number.POSITIVE_INFINITY;
    this.#sink.head(head);
    if (this.#ended) return;
    // Some mocks have no body stream, only the text.
    if (response.body === null || response.body === undefined) {
      const text = await response.text();
      if (text !== '') this.#data(new TextEncoder().encode(text));
    } else {
      await this.#read(response.body.getReader());
    }
    if (this.#ended) return;
    this.#end();
    this.#sink.end();
  }

  // biome-ignore lint/suspicious/noExplicitAny: the reader types of fetch implementations do not agree.
  async #read(reader: any): Promise<void> {
    for (;;) {
      if (this.#paused) await new Promise<void>((resolve) => (this.#continue = resolve));
      if (this.#ended) return;
      const { done, value } = await reader.read();
      if (done === true || this.#ended) return;
      this.#data(typeof value === 'string' ? new TextEncoder().encode(value) : value);
    }
  }

  #data(chunk: Uint8Array): void {
    if (this.#ended) return;
    this.#bytesLeft -= chunk.byteLength;
    if (this.#bytesLeft >= 0) {
      this.#sink.data(chunk);
      return;
    }
    const reason = `the answer has more than ${this.#maxBytes} bytes`;
    this.#fail({ ...this.#failure('too-large'), reason });
    this.#stop();
  }

  #failure(kind: ExchangeFailure['kind'], code?: string): ExchangeFailure {
    const phase = this.#hasHead ? 'body' : this.#called ? 'head' : 'before';
    return { sent: this.#called, phase, kind, code };
  }

  #fail(failure: ExchangeFailure): void {
    if (this.#ended) return;
    this.#end();
    this.#sink.fail(failure);
  }

  #end(): void {
    this.#ended = true;
    this.#underWay.delete(this);
  }

  #stop(): void {
    this.#abortController.abort();
    this.resume();
  }
}

function readHead(response: FetchResponse): ResponseHead {
  const headers: Record<string, string | string[]> = Object.create(null);
  response.headers.forEach((value, key) => {
    const name = key.toLowerCase();
    const before = headers[name];
    // `set-cookie` alone comes once per line; everything else is already one value.
    headers[name] =
      before === undefined ? value : typeof before === 'string' ? [before, value] : [...before, value];
  });
  return { status: response.status, headers };
}

/** The first code in the chain of causes, and whether any of them proves that no connection came about. */
function readCauses(error: unknown): { code: string | undefined; proved: boolean } {
  let code: string | undefined;
  for (let at = error, depth = 0; typeof at === 'object' && at !== null && depth < 5; depth++) {
    const own = codeOf(at);
    code ??= own;
    const connecting = (at as { syscall?: unknown }).syscall === 'connect';
    if (connecting || (own !== undefined && (BEFORE_ANY_BYTE.has(own) || own.startsWith('CERT_')))) {
      return { code: own ?? code, proved: true };
    }
    at = (at as { cause?: unknown }).cause;
  }
  return { code, proved: false };
}
