/**
 * One metadata document of somebody else's: fetched once, bounded, without credentials.
 *
 * Guarantees that a party that is away (no answer, 408, 425, 429, 5xx) is told apart from one that has no such document
 * (other 4xx) and from one whose document must not be used; and that an error names the party. Never follows a redirect,
 * never asks twice.
 */
import type { Clock } from '../../clock.js';
import { cleanServerText, HostedMcpError } from '../../errors.js';
import { LIMITS } from '../../limits.js';
import { MAX_RETRY_AFTER_MS } from '../options.js';
import { retryAfterMs, type TokenHttp, type TokenHttpReply } from '../token-fetch.js';

export interface DocumentRequest {
  readonly url: string;
  /** Whose document it is: the subject of a sentence, e.g. `The issuer`. */
  readonly party: string;
  /** What it is called, in the plural, e.g. `authorization metadata`. */
  readonly title: string;
  /** What the address is where it must not be asked, as the subject of a sentence. */
  readonly named: string;
  readonly http: TokenHttp;
  readonly clock: Clock;
  readonly timeoutMs: number;
}

export type Document =
  | { readonly kind: 'object'; readonly value: object }
  /** A single-page app answers every unknown path with its start page. */
  | { readonly kind: 'unreadable' }
  | { readonly kind: 'absent'; readonly status: number };

/** "Later" in the form of a client's mistake. */
const LATER: ReadonlySet<number> = new Set([408, 425, 429]);

/** Throws `ERR_DISCOVERY` (it must not be used) or `ERR_TOKEN_ENDPOINT` (the party is away; retryable). */
export async function readDocument(request: DocumentRequest): Promise<Document> {
  const { url, party, title, named, http, clock, timeoutMs } = request;
  const away = (fields: object) =>
    new HostedMcpError('ERR_TOKEN_ENDPOINT', `${party} did not give its ${title}`, {
      ...fields,
      retryable: true,
    });
  const result = await http.send({
    method: 'GET',
    url,
    named,
    headers: { accept: 'application/json' },
    timeoutMs,
    maxBytes: LIMITS.discoveryBytes,
  });
  if (result.kind === 'held-back') throw away({});
  if (result.kind === 'failed') {
    const { reason, cause } = result;
    if (reason === 'too-large')
      throw unusable(`The ${title} of ${lowerCase(party)} are too large`, 'too_large');
    throw away({ reason, cause });
  }
  const { reply } = result;
  const { status } = reply;
  if (LATER.has(status) || status >= 500) {
    throw away({
      status,
      retryAfterMs: retryAfterMs(reply, clock.now(), MAX_RETRY_AFTER_MS),
      serverText: cleanServerText(reply.text),
    });
  }
  if (status >= 300 && status < 400) {
    const what = `${party} redirects its ${title}, which is not followed: the final address must be named`;
    throw unusable(what, 'redirect', status);
  }
  if (status !== 200) return { kind: 'absent', status };
  const value = objectIn(reply);
  return value === undefined ? { kind: 'unreadable' } : { kind: 'object', value };
}

/** An own property: what comes from outside must not reach into prototypes. */
export function memberOf(document: object, name: string): unknown {
  return Object.hasOwn(document, name) ? (document as Record<string, unknown>)[name] : undefined;
}

/** The strings among the items of an array; undefined where it is none. */
export function stringsIn(document: object, name: string): readonly string[] | undefined {
  const value = memberOf(document, name);
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : undefined;
}

export function unusable(what: string, reason: string, status?: number | undefined): HostedMcpError {
  return new HostedMcpError('ERR_DISCOVERY', what, { reason, status });
}

function objectIn(reply: TokenHttpReply): object | undefined {
  try {
    const value: unknown = JSON.parse(reply.text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function lowerCase(party: string): string {
  return party.slice(0, 1).toLowerCase() + party.slice(1);
}
