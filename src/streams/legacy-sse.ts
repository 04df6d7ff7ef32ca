/**
 * One session of HTTP+SSE (protocol 2024-11-05): a stream that carries all the server says, and the address
 * named on it, which takes all the server hears.
 *
 * Guarantees the facts that an exchange of Streamable HTTP would give; that whoever is owed an answer hears of
 * the stream's end at once; and that nothing goes to another origin than that of the stream. Never opens the
 * stream again, never sends a message twice, never judges: `classify` does.
 */
import type { Clock } from '../clock.js';
import { parseJson } from '../connection/answer.js';
import { type Route, routeWith, type StreamFacts } from '../connection/route.js';
import type { Wire } from '../connection/wire.js';
import type { Credential } from '../credentials/provider.js';
import { HostedMcpError } from '../errors.js';
import type { ExchangeFailure, ExchangeHandle } from '../http/exchange.js';
import type { CookieJar } from '../http/headers.js';
import {
  isErrorResponse,
  isNotification,
  isRequest,
  isRequestId,
  isResponse,
  type JsonRpcMessage,
  type RequestId,
} from '../json-rpc.js';
import { LIMITS } from '../limits.js';
import { utf8Length } from '../runtime/bytes.js';
import type { Session } from '../session/session.js';
import type { SseEvent } from './sse-reader.js';

export interface LegacyRoadParts {
  readonly clock: Clock;
  readonly wire: Wire;
  /** Where the stream is opened. */
  readonly url: URL;
  readonly cookies: CookieJar;
  /** What the server says on its own account. */
  onMessage(message: JsonRpcMessage, session: Session): void;
}

/** A request whose answer the stream owes. */
interface Owed {
  readonly method: string;
  /** Whether its POST has left. */
  isSent: boolean;
  settle(part: Partial<StreamFacts>): void;
  /** Ends its POST, if that is still under way. */
  drop(): void;
}

/** Servers name the endpoint with the head of the stream; whoever takes longer will not, and callers wait behind it. */
const ENDPOINT_WAIT_MS = 10_000;
/** Kept between the answer to `initialize` and the moment the session is known here; nobody says more by then. */
const EARLY_MESSAGES = 64;
/** As of an answer whose head was good. */
const DAMAGED = { damage: 'malformed', status: 200 } as const;
const ABORTED = { phase: 'body', kind: 'aborted' } as const;

export class LegacyRoad {
  readonly #parts: LegacyRoadParts;
  readonly #owed = new Map<RequestId, Owed>();
  readonly #onOver: ((cut: StreamFacts | undefined) => void)[] = [];
  /** Ends the waiting for the endpoint; undefined once that is known. */
  #waiting: { named(): void; refused(error: HostedMcpError): void } | undefined;
  #endpoint: URL | undefined;
  #stream: ExchangeHandle | undefined;
  #session: Session | undefined;
  #early: JsonRpcMessage[] = [];
  /** Of the stream, once it was cut. */
  #cut: StreamFacts | undefined;
  #isOver = false;
  /** When the last bytes came, on the monotonic clock. */
  heardAtMs: number;

  constructor(parts: LegacyRoadParts) {
    this.#parts = parts;
    this.heardAtMs = parts.clock.monotonic();
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * Resolves with nothing when the endpoint is known, else with the facts of a stream that was refused, ended
   * or is none of this protocol. Rejects with `ERR_PROTOCOL` for an endpoint that is not used, with `ERR_TIMEOUT`
   * where none is named in time, and with the signal's reason.
   */
  async open(credential: Credential, signal: AbortSignal): Promise<StreamFacts | undefined> {
    const { clock } = this.#parts;
    let onAbort = () => {};
    const named = new Promise<undefined>((resolve, reject) => {
      this.#waiting = { named: () => resolve(undefined), refused: reject };
      onAbort = () => reject(signal.reason);
    });
    const timer = clock.setTimeout(() => this.#waiting?.refused(unnamedError()), ENDPOINT_WAIT_MS);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    try {
      return await Promise.race([named, this.#listen(credential)]);
    } catch (error) {
      this.end();
      throw error;
    } finally {
      this.#waiting = undefined;
      timer.clear();
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** As `Wire.send`, over this road. The answer comes on the stream, before the POST has ended or after it. */
  send(message: JsonRpcMessage, way: Route): Promise<StreamFacts> {
    const method = 'method' in message ? message.method : 'response';
    const expects = isRequest(message) ? message.id : undefined;
    if (this.#isOver || this.#endpoint === undefined) {
      const failure = { sent: false, phase: 'before', kind: 'network', code: 'EOF' } as const;
      return Promise.resolve(factsOf(method, expects !== undefined, false, { failure }));
    }
    if (expects === undefined) return this.#post(message, way, this.#endpoint);
    return this.#ask(message, way, this.#endpoint, method, expects);
  }

  /** The session that lives here is known from now on. */
  carry(session: Session): void {
    this.#session = session;
    const early = this.#early;
    this.#early = [];
    for (const message of early) this.#parts.onMessage(message, session);
  }

  /** Called when the stream is over, at once where it is: with its facts where it was cut, with nothing after `end()`. */
  onOver(listener: (cut: StreamFacts | undefined) => void): void {
    if (this.#isOver) listener(this.#cut);
    else this.#onOver.push(listener);
  }

  /** Ends the stream. Nothing is owed any more; nothing is left behind. */
  end(): void {
    if (this.#isOver) return;
    this.#finish(undefined, (owed) => ({ failure: { ...ABORTED, sent: owed.isSent } }));
    this.#stream?.abort();
  }

  async #listen(credential: Credential): Promise<StreamFacts> {
    const road = this;
    const { wire, clock, cookies } = this.#parts;
    const facts = await wire.stream({
      method: 'GET',
      // Not there yet when the stream is opened.
      get session() {
        return road.#session;
      },
      credential,
      cookies,
      // Its opener has seen to it.
      toll: 'paid',
      attach: (handle) => {
        this.#stream = handle;
        if (this.#isOver) handle.abort();
      },
      onBytes: () => {
        this.heardAtMs = clock.monotonic();
      },
      onEvent: (event) => this.#event(event),
      onMessage: () => {},
    });
    if (this.#isOver) return facts;
    const { failure, damage } = facts;
    const isTheOnlyOne = this.#owed.size === 1;
    this.#finish(facts, ({ isSent }) =>
      damage !== undefined && isTheOnlyOne && isSent
        ? { damage, status: 200 }
        : { failure: { ...cutOf(failure, isSent), sent: isSent } },
    );
    return facts;
  }

  #finish(cut: StreamFacts | undefined, partOf: (owed: Owed) => Partial<StreamFacts>): void {
    this.#isOver = true;
    this.#cut = cut;
    this.#early = [];
    // First it is known that there is no session any more: whoever goes again goes on another.
    for (const listener of this.#onOver.splice(0)) listener(cut);
    for (const owed of [...this.#owed.values()]) {
      owed.settle(partOf(owed));
      owed.drop();
    }
  }

  #event({ event, data }: SseEvent): void {
    if (this.#isOver) return;
    if (this.#endpoint === undefined) {
      // It is the first event, or this is a stream of another kind.
      if (event === 'endpoint') this.#name(data);
      else this.end();
      return;
    }
    if (data === '' || (event !== undefined && event !== 'message')) return;
    const parsed = parseJson(data);
    if (parsed === undefined) this.#unreadable(data);
    else for (const message of Array.isArray(parsed) ? parsed : [parsed]) this.#heard(message);
  }

  #name(data: string): void {
    const endpoint = endpointOf(data, this.#parts.url);
    if (endpoint instanceof URL) {
      this.#endpoint = endpoint;
      this.#waiting?.named();
    } else this.#waiting?.refused(refusedError(endpoint));
  }

  #heard(message: unknown): void {
    if (isResponse(message)) {
      const { id } = message;
      const owed = isRequestId(id) ? this.#owed.get(id) : undefined;
      if (owed !== undefined) this.#answer(owed, { message, relation: 'own' });
      else if (isErrorResponse(message) && !isRequestId(id) && this.#owed.size === 1) {
        for (const only of this.#owed.values()) this.#answer(only, { message, relation: 'none' });
      }
    } else if (isRequest(message) || isNotification(message)) {
      if (this.#session !== undefined) this.#parts.onMessage(message, this.#session);
      else if (this.#early.length < EARLY_MESSAGES) this.#early.push(message);
    } else if (typeof message === 'object' && message !== null && 'id' in message) {
      // It was meant to be the answer: no other will come.
      if (isRequestId(message.id)) this.#owed.get(message.id)?.settle(DAMAGED);
    }
  }

  #answer(owed: Owed, { message, relation }: Required<Pick<StreamFacts, 'message' | 'relation'>>): void {
    const { wire, cookies } = this.#parts;
    owed.settle({ message: wire.fitToShow(message, owed.method, cookies), relation, status: 200 });
  }

  /** No JSON, and yet perhaps an answer: the only asker, or one who is named in it, will get no other. */
  #unreadable(data: string): void {
    const named = new Set(Array.from(data.matchAll(/"id" *: *("[^"]{0,100}"|\d{1,16})/g), ([, id]) => id));
    const isTheOnlyOne = this.#owed.size === 1;
    for (const [id, owed] of [...this.#owed])
      if (isTheOnlyOne || named.has(JSON.stringify(id))) owed.settle(DAMAGED);
  }

  #post(message: JsonRpcMessage, way: Route, endpoint: URL): Promise<StreamFacts> {
    // Each time, so that none is forgotten for younger ones.
    for (const secret of secretsOf(endpoint)) this.#parts.wire.learnSecret(secret);
    return this.#parts.wire
      .post(message, routeWith(way, { cookies: this.#parts.cookies }), endpoint)
      .then((facts) => {
        // No answer can be taken up again here.
        const { resume: _, ...others } = facts;
        return { ...others, sessionSent: true };
      });
  }

  #ask(
    message: JsonRpcMessage,
    way: Route,
    endpoint: URL,
    method: string,
    expects: RequestId,
  ): Promise<StreamFacts> {
    const { signal } = way;
    return new Promise((resolve, reject) => {
      let post: ExchangeHandle | undefined;
      let isSettled = false;
      const settle = (facts: StreamFacts | undefined, error?: unknown) => {
        if (isSettled) return;
        isSettled = true;
        if (this.#owed.get(expects) === owed) this.#owed.delete(expects);
        signal?.removeEventListener('abort', abort);
        if (facts === undefined) reject(error);
        else resolve(facts);
      };
      const owed: Owed = {
        method,
        isSent: false,
        settle: (part) => settle(factsOf(method, true, owed.isSent, part)),
        drop: () => post?.abort(),
      };
      const abort = () => {
        owed.settle({ failure: { ...ABORTED, sent: owed.isSent } });
        owed.drop();
      };
      this.#owed.set(expects, owed);
      signal?.addEventListener('abort', abort, { once: true });
      const inner = routeWith(way, {
        signal: undefined,
        onSent: () => {
          // Whoever was told that it never left must be right.
          if (isSettled) throw new HostedMcpError('ERR_ABORTED', 'The request has ended before it left');
          way.onSent?.();
          owed.isSent = true;
        },
        attach: (handle) => {
          post = handle;
          way.attach?.({ abort, pause: () => {}, resume: () => {} });
        },
      });
      this.#post(message, inner, endpoint).then(
        (facts) => {
          if (!isTaken(facts)) settle(facts);
        },
        (error) => settle(undefined, error),
      );
      if (signal?.aborted === true) abort();
    });
  }
}

/** Where messages go; a word on why not, where this address is not used. */
function endpointOf(data: string, base: URL): URL | string {
  const text = data.trim();
  if (text === '') return 'it is empty';
  if (utf8Length(text) > LIMITS.endpointBytes) return 'it is too long';
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
  if (/[\x00-\x20\x7f]/.test(text)) return 'it holds a character that no address has';
  let endpoint: URL;
  try {
    endpoint = new URL(text, base);
  } catch {
    return 'it is no address';
  }
  if (endpoint.origin !== base.origin) return 'it is at another origin';
  if (endpoint.username !== '' || endpoint.password !== '') return 'it holds a name or a password';
  endpoint.hash = '';
  return endpoint;
}

/** The values of its query and the last part of its path: one of them tells the sessions of a server apart. */
function secretsOf(endpoint: URL): string[] {
  const last = endpoint.pathname.split('/').at(-1) ?? '';
  return [...endpoint.searchParams.values(), ...(/\d/.test(last) && last.length >= 16 ? [last] : [])];
}

/** The server has it and will answer on the stream: of what else it says to the POST, only an answer counts. */
function isTaken({ status = 0, failure, damage, message, relation }: StreamFacts): boolean {
  if (failure !== undefined || damage === 'too-large' || status < 200 || status >= 300) return false;
  return message === undefined || relation === 'foreign';
}

function cutOf(failure: ExchangeFailure | undefined, isSent: boolean): Omit<ExchangeFailure, 'sent'> {
  const phase = isSent ? 'body' : 'before';
  return { phase, kind: 'network', code: failure?.code ?? 'EOF' };
}

function factsOf(
  method: string,
  expectsAnswer: boolean,
  sent: boolean,
  part: Partial<StreamFacts>,
): StreamFacts {
  return { method, expectsAnswer, sent, sessionSent: true, events: 0, sessionIds: [], ...part };
}

function refusedError(reason: string): HostedMcpError {
  return new HostedMcpError(
    'ERR_PROTOCOL',
    'The address that the server named for messages (event endpoint) is refused',
    { method: 'initialize', reason: `refused: ${reason}` },
  );
}

function unnamedError(): HostedMcpError {
  return new HostedMcpError(
    'ERR_TIMEOUT',
    'The server opened a stream but named no address for messages on it in time',
    { method: 'initialize', retryable: true },
  );
}
