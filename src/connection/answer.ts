/**
 * What comes back on one exchange, read as it arrives.
 *
 * Guarantees that the facts are settled exactly once, at the first moment they are known: with the answer
 * itself where an event stream goes on behind it. Bounded: a body over the limit ends the exchange.
 */

import type { Clock } from '../clock.js';
import type { ExchangeFailure, ResponseHead, ResponseSink } from '../http/exchange.js';
import { header, headerValues } from '../http/exchange.js';
import type { CookieJar } from '../http/headers.js';
import {
  isErrorResponse,
  isNotification,
  isRequest,
  isResponse,
  type JsonRpcMessage,
  type JsonRpcResponse,
  type RequestId,
} from '../json-rpc.js';
import { LIMITS } from '../limits.js';
import { retryAfterOf } from '../rate-limit/retry-after.js';
import type { Redactor } from '../redactor.js';
import { joined, utf8Text } from '../runtime/bytes.js';
import { isResumableId, type SseEvent, SseReader } from '../streams/sse-reader.js';
import { type Challenge, parseChallenges } from './challenge.js';
import type { Route, StreamFacts, StreamRoute } from './route.js';
import type { UnderWay } from './under-way.js';

interface AnswerParts {
  readonly method: string;
  readonly expects: RequestId | undefined;
  readonly sessionSent: boolean;
  readonly maxBytes: number;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly redactor: Redactor;
  readonly way: Route;
  readonly stream: StreamRoute | undefined;
  /** What was sent as `cookie`, and as `dpop`. */
  readonly cookie: string | undefined;
  readonly proof: string | undefined;
  readonly cookies: CookieJar | undefined;
  readonly owner: Pick<UnderWay, 'settled' | 'ended' | 'cut' | 'heard' | 'abort'>;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Of an error page only the beginning is read; the rest is let through unread. */
const TEXT_BYTES = 64 * 1024;
/** Pieces below a quarter of it are joined to such ones. */
const JOINED_BYTES = 16 * 1024;
/** More than is kept, so that no secret is cut in two before it is found. */
const REDACTED_LENGTH = 4 * LIMITS.classifyTextLength;

export class Answer implements ResponseSink {
  readonly #parts: AnswerParts;
  #head: ResponseHead | undefined;
  #type: string | undefined;
  #mode: 'none' | 'json' | 'events' | 'text' = 'none';
  #reader: SseReader | undefined;
  #chunks: Uint8Array[] = [];
  /** Small pieces that follow one another. */
  #joined: Uint8Array | undefined;
  #joinedLength = 0;
  #kept = 0;
  #bytes = 0;
  #sent = false;
  #settled = false;
  #events = 0;
  /** On the monotonic clock: when the request left, and when the last byte came. */
  #sentAtMs = 0;
  #lastByteMs = 0;
  #survivedMs = 0;
  #lastEventId: string | undefined;
  #retryMs: number | undefined;

  constructor(parts: AnswerParts) {
    this.#parts = parts;
  }

  sent(): void {
    this.#parts.way.onSent?.();
    this.#sent = true;
    this.#sentAtMs = this.#parts.clock.monotonic();
    this.#lastByteMs = this.#sentAtMs;
  }

  head(head: ResponseHead): void {
    this.#head = head;
    this.#parts.owner.heard(head);
    const { credential } = this.#parts.way;
    if (credential.answered !== undefined) {
      const dpopNonce = header(head, 'dpop-nonce');
      const date = head.status === 401 ? header(head, 'date') : undefined;
      if (dpopNonce !== undefined || date !== undefined) credential.answered({ dpopNonce, date });
    }
    if (head.headers['set-cookie'] !== undefined) this.#parts.cookies?.store(head);
    const type = mediaType(head);
    this.#type = type;
    if (type === 'text/event-stream' && head.status < 300) {
      this.#mode = 'events';
      const sink = {
        event: (event: SseEvent) => this.#event(event),
        retry: (ms: number) => {
          this.#retryMs = ms;
        },
        failed: () => this.#damaged('too-large'),
      };
      this.#reader = new SseReader(sink, { lineBytes: this.#parts.maxBytes });
      this.#parts.stream?.onOpen?.();
      // To what wants no answer, a stream says "taken", whether and whenever it ends.
      if (this.#parts.stream === undefined && this.#parts.expects === undefined) this.#settle({});
    } else {
      this.#mode = type === 'application/json' || type?.endsWith('+json') === true ? 'json' : 'text';
    }
  }

  data(chunk: Uint8Array): void {
    this.#bytes += chunk.length;
    if (this.#reader !== undefined) {
      const nowMs = this.#parts.clock.monotonic();
      const silenceMs = nowMs - this.#lastByteMs;
      if (silenceMs > this.#survivedMs) this.#survivedMs = silenceMs;
      this.#lastByteMs = nowMs;
      this.#parts.stream?.onBytes?.();
      this.#reader.push(chunk);
      return;
    }
    if (this.#mode === 'text' && this.#kept >= TEXT_BYTES) return;
    this.#kept += chunk.length;
    if (this.#kept > this.#parts.maxBytes) this.#damaged('too-large');
    else this.#keep(chunk);
  }

  end(): void {
    this.#noteCut(undefined);
    if (!this.#settled) {
      if (this.#mode === 'events')
        this.#streamEnded({ sent: true, phase: 'body', kind: 'network', code: 'EOF' });
      else this.#whole();
    }
    this.#parts.owner.ended(this.#head?.status, true, this.#bytes);
  }

  fail(failure: ExchangeFailure): void {
    this.#noteCut(failure);
    if (!this.#settled) {
      if (this.#mode === 'events') this.#streamEnded(failure);
      else this.#settle({ failure });
    }
    this.#parts.owner.ended(this.#head?.status ?? failure.status, failure.sent, this.#bytes);
  }

  /** A stream that ended before its answer, a listen stream's end, or a gateway's page after a long wait. */
  #noteCut(failure: ExchangeFailure | undefined): void {
    if (failure !== undefined && failure.kind !== 'network') return;
    const isListening = this.#parts.stream !== undefined && this.#parts.expects === undefined;
    const isStream = this.#mode === 'events' && (isListening || !this.#settled);
    const status = this.#head?.status ?? 0;
    if (!isStream && (status < 502 || status > 504)) return;
    const nowMs = this.#parts.clock.monotonic();
    this.#parts.owner.cut({
      idleMs: nowMs - this.#lastByteMs,
      ageMs: nowMs - this.#sentAtMs,
      survivedMs: this.#survivedMs,
    });
  }

  #event(event: SseEvent): void {
    this.#events += 1;
    let isRepeated = false;
    if (event.id !== undefined && isResumableId(event.id)) {
      const seen = this.#parts.stream?.seen;
      isRepeated = seen?.has(event.id) === true;
      if (!isRepeated) {
        seen?.add(event.id);
        this.#lastEventId = event.id;
        this.#parts.way.onEventId?.(event.id);
      }
    }
    const { onEvent } = this.#parts.stream ?? {};
    if (onEvent !== undefined) {
      onEvent(event);
      return;
    }
    if (this.#settled || event.data === '' || (event.event !== undefined && event.event !== 'message'))
      return;
    const parsed = parseJson(event.data);
    if (parsed === undefined) {
      // On a listen stream a broken event harms nobody; on a call's own stream it may have been the answer.
      if (this.#parts.expects !== undefined) this.#damaged('malformed');
      return;
    }
    for (const message of Array.isArray(parsed) ? parsed : [parsed]) this.#streamed(message, isRepeated);
  }

  /** What came before is not told again; but an answer still owed has not come before, whatever its event is called. */
  #streamed(message: unknown, isRepeated: boolean): void {
    if (isResponse(message)) {
      if (this.#settled) return;
      if (this.#parts.expects === undefined) this.#parts.stream?.onAnswer?.(message);
      else if (message.id === this.#parts.expects) this.#settle({ message, relation: 'own' });
      else if (this.#parts.stream?.adopts === true)
        this.#settle({ message: { ...message, id: this.#parts.expects }, relation: 'own' });
      else if (isErrorResponse(message) && (message.id === null || message.id === undefined)) {
        this.#settle({ message, relation: 'none' });
      }
    } else if (isRequest(message) || isNotification(message)) {
      if (!isRepeated) this.#parts.way.onMessage(message);
    } else if (this.#parts.expects !== undefined && idOf(message) === this.#parts.expects) {
      // It was meant to be the answer: no other will come.
      this.#damaged('malformed');
    }
  }

  /** A body that is no event stream, complete. */
  #whole(): void {
    const text = this.#text();
    const parsed = this.#mode === 'json' || /^\s*[[{]/.test(text) ? parseJson(text) : undefined;
    let found: { message: JsonRpcResponse; relation: 'own' | 'none' | 'foreign' } | undefined;
    for (const message of Array.isArray(parsed) ? parsed : [parsed]) {
      if (isResponse(message)) {
        const relation = this.#relation(message);
        // With an array, the request's own answer counts, wherever it stands.
        if (found === undefined || relation === 'own') found = { message, relation };
      } else if (isRequest(message) || isNotification(message)) {
        this.#parts.way.onMessage(message as JsonRpcMessage);
      }
    }
    if (found !== undefined) this.#settle(found);
    else if (this.#mode === 'json' && parsed === undefined && text.trim() !== '')
      this.#settle({ damage: 'malformed' });
    else this.#settle({ text: text.slice(0, REDACTED_LENGTH) });
  }

  #relation(message: JsonRpcResponse): 'own' | 'none' | 'foreign' {
    if (this.#parts.expects !== undefined && message.id === this.#parts.expects) return 'own';
    return message.id === null || message.id === undefined ? 'none' : 'foreign';
  }

  #streamEnded(failure: ExchangeFailure): void {
    if (this.#parts.stream === undefined) this.#reader?.end();
    if (this.#settled) return;
    const cursor = this.#lastEventId ?? this.#parts.stream?.cursor;
    this.#settle({
      failure: { ...failure, sent: true },
      ...(cursor !== undefined && {
        resume: { cursor, ...(this.#retryMs !== undefined && { retryMs: this.#retryMs }) },
      }),
    });
  }

  #damaged(damage: 'malformed' | 'too-large'): void {
    if (!this.#settled) this.#settle({ damage });
    this.#parts.owner.abort();
  }

  #settle(part: Partial<StreamFacts>): void {
    this.#settled = true;
    const { method, expects, sessionSent, clock } = this.#parts;
    const head = this.#head;
    const facts: Mutable<StreamFacts> = {
      method,
      expectsAnswer: expects !== undefined,
      sent: part.failure?.sent ?? (this.#sent || head !== undefined),
      sessionSent,
      events: this.#events,
      sessionIds: head === undefined ? [] : headerValues(head, 'mcp-session-id'),
      ...part,
    };
    if (head !== undefined) {
      facts.status = head.status;
      if (this.#type !== undefined) facts.contentType = this.#type;
      if (head.status >= 400) {
        const challenges = headerValues(head, 'www-authenticate');
        if (challenges.length > 0)
          facts.challenges = this.#redactor().value(parseChallenges(challenges)) as Challenge[];
        const retryAfterMs = retryAfterOf(head, clock.now());
        if (retryAfterMs !== undefined) facts.retryAfterMs = retryAfterMs;
        const dpopNonce = header(head, 'dpop-nonce');
        if (dpopNonce !== undefined) facts.dpopNonce = dpopNonce;
      }
    }
    if (this.#lastEventId !== undefined) facts.lastEventId = this.#lastEventId;
    if (this.#retryMs !== undefined) facts.retryMs = this.#retryMs;
    if (part.failure !== undefined && this.#mode === 'events') {
      facts.ageMs = clock.monotonic() - this.#sentAtMs;
      facts.idleMs = clock.monotonic() - this.#lastByteMs;
    }
    if (facts.message !== undefined) facts.message = fitToShow(facts.message, method, () => this.#redactor());
    if (facts.text !== undefined)
      facts.text = this.#redactor().text(facts.text).slice(0, LIMITS.classifyTextLength);
    this.#parts.owner.settled(facts, this.#mode === 'events' && part.failure === undefined);
  }

  /** With what only this exchange knows: its proof, the new session's id, and cookies, which some balancers change each time. */
  #redactor(): Redactor {
    const { redactor, cookie, proof, method } = this.#parts;
    if (proof !== undefined) redactor.add(proof);
    const head = this.#head;
    const pairs = cookie?.split(/; */) ?? [];
    if (head !== undefined) {
      for (const line of headerValues(head, 'set-cookie')) pairs.push(line.split(';', 1)[0] ?? '');
      if (method === 'initialize') for (const id of headerValues(head, 'mcp-session-id')) redactor.add(id);
    }
    for (const pair of pairs) redactor.add(pair.slice(pair.indexOf('=') + 1).trim());
    return redactor;
  }

  /** From the second on, small pieces are joined: by themselves they would weigh a hundred times what is in them. */
  #keep(chunk: Uint8Array): void {
    const isSmall = chunk.length < JOINED_BYTES / 4 && this.#chunks.length > 0;
    if (!isSmall || this.#joinedLength + chunk.length > JOINED_BYTES) this.#seal();
    if (!isSmall) {
      this.#chunks.push(chunk);
      return;
    }
    this.#joined ??= new Uint8Array(JOINED_BYTES);
    this.#joined.set(chunk, this.#joinedLength);
    this.#joinedLength += chunk.length;
  }

  #seal(): void {
    if (this.#joinedLength === 0) return;
    this.#chunks.push((this.#joined as Uint8Array).slice(0, this.#joinedLength));
    this.#joinedLength = 0;
  }

  #text(): string {
    this.#seal();
    this.#joined = undefined;
    const [first] = this.#chunks;
    const bytes = this.#chunks.length === 1 && first !== undefined ? first : joined(this.#chunks);
    this.#chunks = [];
    return utf8Text(bytes);
  }
}

function mediaType(head: ResponseHead): string | undefined {
  const value = header(head, 'content-type');
  if (value === undefined) return undefined;
  const end = value.indexOf(';');
  return (end < 0 ? value : value.slice(0, end)).trim().toLowerCase();
}

/** What a server says of itself in the handshake, and its errors, are shown in events and logs. */
export function fitToShow(
  message: JsonRpcResponse,
  method: string,
  redactor: () => Redactor,
): JsonRpcResponse {
  if (method !== 'initialize' && !isErrorResponse(message) && message.result.isError !== true) return message;
  return withoutForgery(redactor().value(message) as JsonRpcResponse);
}

/** What only this library may say of a call: `HostedMcpError.from` believes it. */
function withoutForgery(message: JsonRpcResponse): JsonRpcResponse {
  const data = isErrorResponse(message) ? message.error.data : undefined;
  if (!isErrorResponse(message) || typeof data !== 'object' || data === null || !('holdfast' in data))
    return message;
  const { holdfast: _, ...others } = data;
  return { ...message, error: { ...message.error, data: others } };
}

function idOf(message: unknown): unknown {
  return typeof message === 'object' && message !== null && 'id' in message ? message.id : undefined;
}

/** `undefined` for what does not parse (and for nothing else: JSON has no undefined). */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);
  } catch {
    return undefined;
  }
}
