/**
 * One HTTP exchange, as facts.
 *
 * Guarantees that a failure says whether any byte of the request may have left (`sent`), that the body
 * arrives decoded and counted, and that nothing is ever sent twice here save for a 307 or 308 within the
 * origin. Never interprets what it carries: that is `connection/classify.ts`.
 */

/** A `fetch` as this library calls it; the global one, undici's and both SDKs' types fit. */
export type HttpFetch = (
  url: string,
  init: {
    method: string;
    headers: Record<string, string>;
    body?: string;
    signal?: AbortSignal;
    redirect?: 'manual';
  },
) => Promise<{
  readonly status: number;
  readonly headers: {
    get(name: string): string | null;
    forEach(callback: (value: string, key: string) => void): void;
  };
  // biome-ignore lint/suspicious/noExplicitAny: the stream types of fetch implementations do not agree.
  readonly body: { getReader(): any } | null;
  text(): Promise<string>;
}>;

/** Anything undici accepts as a dispatcher; it must allow more than one connection. */
export interface HttpDispatcher {
  // biome-ignore lint/suspicious/noExplicitAny: no type of undici may stand in a public signature.
  dispatch(options: any, handler: any): boolean;
}

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly url: URL;
  /** Names in lower case. */
  readonly headers: Record<string, string>;
  readonly body?: string | undefined;
  /** A listen or resumed stream: it gets a socket that no call waits for. */
  readonly stream?: boolean | undefined;
  /** Nobody waits for it: where there are too few connections, calls go first. */
  readonly givesWay?: boolean | undefined;
  /** Milliseconds until the response head must be there; 0: no limit of ours, undefined: as `http.headersTimeoutMs` says. */
  readonly headersTimeoutMs?: number | undefined;
}

export interface ResponseHead {
  readonly status: number;
  /** Names in lower case; a header that came more than once is an array. */
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
}

/** Why an exchange ended without a complete answer. */
export interface ExchangeFailure {
  /** False only where it is proved that no byte of the request left this process. */
  readonly sent: boolean;
  readonly phase: 'before' | 'head' | 'body';
  readonly kind:
    | 'network'
    | 'timeout'
    | 'aborted'
    | 'too-large'
    | 'encoding'
    | 'redirect'
    | 'invalid-request'
    /** This runtime has no way to make the request: `reason` says what to give it. */
    | 'unsupported';
  /** The system's or undici's code, e.g. `ECONNRESET`. */
  readonly code?: string | undefined;
  /** Status of the redirect that was not followed. */
  readonly status?: number | undefined;
  /** Our words where the code says too little, e.g. which header is unusable. No server text, no secret. */
  readonly reason?: string | undefined;
}

/**
 * Where an exchange reports to. Exactly one of `end` and `fail` is called, once, and nothing after it.
 * Nothing is called before `exchange()` has returned. Only `sent` may throw.
 */
export interface ResponseSink {
  /** The moment before the first byte leaves. Again for each followed redirect. Throwing stops the exchange: nothing leaves. */
  sent?(): void;
  head(head: ResponseHead): void;
  /** Decoded bytes, as they arrive. */
  data(chunk: Uint8Array): void;
  end(): void;
  fail(failure: ExchangeFailure): void;
}

export interface ExchangeHandle {
  /** Ends the exchange at once: `fail` is called with kind `aborted` and the true `sent`, even while connecting or queued. No-op when it has ended. */
  abort(): void;
  /** Back-pressure, for streams. One chunk that is under way may still come. */
  pause(): void;
  resume(): void;
}

/** The way to one origin. */
export interface HttpClient {
  exchange(request: HttpRequest, sink: ResponseSink): ExchangeHandle;
  /** Gives up pooled sockets; exchanges under way are aborted. Never rejects. Usable again after it (sockets open anew). */
  closeIdle(): Promise<void>;
  /** From now on unused sockets are kept for so long. No-op where sockets are not ours. */
  keepSocketsFor(ms: number): void;
  close(): Promise<void>;
}

/** First value of a header, whatever its form. */
export function header(head: ResponseHead, name: string): string | undefined {
  const value = head.headers[name];
  return typeof value === 'string' ? value : value?.[0];
}
/** All values of a header. */
export function headerValues(head: ResponseHead, name: string): readonly string[] {
  const value = head.headers[name];
  return value === undefined ? [] : typeof value === 'string' ? [value] : value;
}
