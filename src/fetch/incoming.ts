/**
 * What a framework hands to a `fetch`, read once: the request line, the headers, the body as text.
 *
 * Guarantees that every form of the signature (string, URL, Request; any kind of body) reads alike, and that
 * what `init` says stands over the Request. Never looks at what the body means.
 */
export interface Incoming {
  readonly method: string;
  /** Without a fragment; undefined where it is no absolute URL. */
  readonly url: string | undefined;
  readonly headers: Headers;
  readonly signal: AbortSignal | undefined;
  /** At once where the body is text already: then messages keep the order in which they were handed in. */
  body(): string | Promise<string>;
}

export function readIncoming(input: string | URL | Request, init: RequestInit = {}): Incoming {
  const request = isRequestObject(input) ? input : undefined;
  const { body } = init;
  return {
    method: (init.method ?? request?.method ?? 'GET').toUpperCase(),
    url: addressOf(request?.url ?? String(input)),
    headers: new Headers(init.headers ?? request?.headers),
    signal: init.signal ?? request?.signal ?? undefined,
    body: () => {
      if (typeof body === 'string') return body;
      if (body !== undefined && body !== null) return new Response(body).text();
      return request?.text() ?? '';
    },
  };
}

/** The form in which two addresses are compared. */
export function addressOf(url: string): string | undefined {
  if (!URL.canParse(url)) return undefined;
  const address = new URL(url);
  address.hash = '';
  return address.href;
}

/** A Request of any realm or library. */
function isRequestObject(input: string | URL | Request): input is Request {
  return typeof input === 'object' && 'method' in input && 'headers' in input;
}
