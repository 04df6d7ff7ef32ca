/**
 * Header lines, in and out.
 *
 * Guarantees that no header of ours can hold a line break or any other character that would split or
 * spoil a request, and that the cookies of a sticky load balancer come back to it. Never stores a cookie
 * beyond the object it was given to: one jar belongs to one session of one origin.
 */
import type { Clock } from '../clock.js';
import { headerValues, type ResponseHead } from './exchange.js';

/** RFC 9110, 5.6.2: token. */
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** RFC 9110, 5.5: tab, visible ASCII, space, obs-text. CR, LF and NUL are what request splitting needs. */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

export function isHeaderName(name: string): boolean {
  return HEADER_NAME.test(name);
}

export function isHeaderValue(value: unknown): value is string {
  return typeof value === 'string' && HEADER_VALUE.test(value);
}

/** An app that makes up names for every call must not fill the memory. */
const MOST_NAMES = 100;

/** Looks through the headers of requests; most of them are those of the request before. */
export class HeaderCheck {
  /** By name, the value that was found good last. */
  #good: Record<string, string> = Object.create(null);
  #names = 0;

  /** Says in our words which header cannot be sent, if one cannot; the value is never repeated. */
  findUnusable(headers: Readonly<Record<string, string>>): string | undefined {
    for (const name in headers) {
      const value = headers[name];
      const known = this.#good[name];
      if (known !== undefined && known === value) continue;
      if (!HEADER_NAME.test(name)) return 'a header name holds a character that HTTP does not allow';
      if (!isHeaderValue(value))
        return `the value of header ${name} holds a character that HTTP does not allow`;
      if (known === undefined) this.#countName();
      this.#good[name] = value;
    }
    return undefined;
  }

  #countName(): void {
    this.#names += 1;
    if (this.#names <= MOST_NAMES) return;
    this.#names = 1;
    this.#good = Object.create(null);
  }
}

/** Far more than any load balancer sets; RFC 6265 (6.1) asks for 50 a domain of a general user agent. */
const MAX_COOKIES = 20;
/** RFC 6265, 6.1: at least 4096 bytes a cookie. */
const MAX_COOKIE_BYTES = 4096;

interface Cookie {
  readonly pair: string;
  readonly path: string;
  readonly secure: boolean;
  readonly expiresAtMs: number;
}

/**
 * Affinity cookies of one session, in memory. That they go to the same origin only is the holder's part:
 * one jar per connection. Honours `Path`, `Secure`, `Max-Age` and `Expires`, and nothing else.
 */
export class CookieJar {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #cookies = new Map<string, Cookie>();

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** Takes over what a response sets or deletes. */
  store(head: ResponseHead): void {
    for (const line of headerValues(head, 'set-cookie')) this.#storeOne(line);
  }

  /** The `cookie` header for a request to this address; undefined when there is nothing to send. */
  header(url: URL): string | undefined {
    if (this.#cookies.size === 0) return undefined;
    const now = this.#clock.now();
    let line: string | undefined;
    for (const [key, cookie] of this.#cookies) {
      if (cookie.expiresAtMs <= now) {
        this.#cookies.delete(key);
      } else if ((!cookie.secure || url.protocol === 'https:') && pathMatches(url.pathname, cookie.path)) {
        line = line === undefined ? cookie.pair : `${line}; ${cookie.pair}`;
      }
    }
    return line;
  }

  #storeOne(line: string): void {
    // Visible ASCII and space only: anything else could not be sent back as it came.
    if (line.length > MAX_COOKIE_BYTES || !/^[\x20-\x7e]*$/.test(line)) return;
    const [first = '', ...attributes] = line.split(';');
    const equals = first.indexOf('=');
    const name = first.slice(0, equals).trim();
    if (equals < 1 || name === '') return;
    const now = this.#clock.now();
    let path = '/';
    let secure = false;
    let expires: number | undefined;
    let maxAge: number | undefined;
    for (const attribute of attributes) {
      const at = attribute.indexOf('=');
      const key = (at < 0 ? attribute : attribute.slice(0, at)).trim().toLowerCase();
      const value = at < 0 ? '' : attribute.slice(at + 1).trim();
      if (key === 'secure') secure = true;
      else if (key === 'path' && value.startsWith('/')) path = value;
      else if (key === 'max-age' && /^-?\d{1,15}$/.test(value)) maxAge = now + Number(value) * 1000;
      else if (key === 'expires' && !Number.isNaN(Date.parse(value))) expires = Date.parse(value);
    }
    // RFC 6265, 5.3: Max-Age has precedence over Expires.
    const expiresAtMs = maxAge ?? expires ?? Number.POSITIVE_INFINITY;
    const key = `${path}\n${name}`;
    this.#cookies.delete(key);
    if (expiresAtMs <= now) return;
    this.#cookies.set(key, { pair: `${name}=${first.slice(equals + 1).trim()}`, path, secure, expiresAtMs });
    if (this.#cookies.size > MAX_COOKIES) {
      const oldest = this.#cookies.keys().next();
      if (oldest.done !== true) this.#cookies.delete(oldest.value);
    }
  }
}

/** RFC 6265, 5.1.4. */
function pathMatches(requestPath: string, cookiePath: string): boolean {
  return (
    requestPath === cookiePath ||
    (requestPath.startsWith(cookiePath) &&
      (cookiePath.endsWith('/') || requestPath[cookiePath.length] === '/'))
  );
}
