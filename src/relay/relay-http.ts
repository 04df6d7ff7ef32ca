/**
 * A server behind a relay, as an `HttpClient`: to the engine it is a Streamable HTTP server whose session is the
 * process at the other end.
 *
 * Guarantees that each exchange is handed to the relay once, with the time it has, and ends with that time; that its
 * session ends with the process it was opened on; and that what the relay says went wrong is kept for whoever asked.
 */
import { randomUUID } from 'node:crypto';
import type { Clock } from '../clock.js';
import { HostedMcpError } from '../errors.js';
import type { ExchangeHandle, HttpClient, HttpRequest, ResponseSink } from '../http/exchange.js';
import {
  isRequest,
  isResult,
  type JsonRpcMessage,
  type JsonRpcRequest,
  type RequestId,
} from '../json-rpc.js';
import { LocalExchange } from '../servers/local-exchange.js';
import type { SessionGone } from '../servers/own-http.js';
import { CHILD_ENDED, carriedError, toldError } from './carried.js';
import { generationOf, meantFor, type RelaySend, split, withoutGeneration } from './messages.js';

export interface RelayHttpParts {
  readonly send: RelaySend;
  readonly clock: Clock;
  /** Milliseconds that are left for a request of a caller; undefined for the engine's own. */
  leftMs(id: RequestId): number | undefined;
  /** What the relay said of a request that failed, beyond what the engine makes of it. */
  told(id: RequestId, error: HostedMcpError): void;
  readonly gone: SessionGone;
}

/** A session that was opened over the relay; its process, where the other end says which. */
interface Opened {
  readonly generation: number | undefined;
}

/** As long as the engine gives the first try of a handshake. */
const HANDSHAKE_MS = 15_000;
const PROBE_MS = 10_000;
/** "Refused before processing" to HTTP (RFC 9110 section 15.5.20), and no status by which the engine tries again. */
export const REFUSED = 421;
const NO_SESSION = '{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}';
const NO_SESSION_ID = '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No session id"}}';
/** The earlier era alone: `server/discover` is for servers without sessions. */
const NO_DISCOVERY = { code: -32601, message: 'A relay opens sessions with initialize' };

export class RelayHttpClient implements HttpClient {
  readonly #parts: RelayHttpParts;
  readonly #sessions = new Map<string, Opened>();
  readonly #exchanges = new Set<LocalExchange>();
  #problem: HostedMcpError | undefined;

  constructor(parts: RelayHttpParts) {
    this.#parts = parts;
  }

  /** What stood in the way of the last handshake. */
  get problem(): HostedMcpError | undefined {
    return this.#problem;
  }

  exchange(request: HttpRequest, sink: ResponseSink): ExchangeHandle {
    const controller = new AbortController();
    const exchange = new LocalExchange(sink, (ended) => {
      this.#exchanges.delete(ended);
      controller.abort(new HostedMcpError('ERR_ABORTED', 'Nobody waits for the answer any more'));
    });
    this.#exchanges.add(exchange);
    queueMicrotask(() => {
      if (exchange.hasEnded) return;
      const message = request.body === undefined ? undefined : (JSON.parse(request.body) as JsonRpcMessage);
      const id = request.headers['mcp-session-id'];
      if (message === undefined) this.#other(request.method, id, exchange);
      else void this.#post(message, id, exchange, controller.signal);
    });
    return exchange;
  }

  async closeIdle(): Promise<void> {
    for (const exchange of [...this.#exchanges]) exchange.abort();
  }

  keepSocketsFor(): void {}

  async close(): Promise<void> {
    this.#sessions.clear();
    await this.closeIdle();
  }

  /** The process belongs to the other end: no session of ours ends it. And nothing of it comes unasked. */
  #other(method: HttpRequest['method'], id: string | undefined, exchange: LocalExchange): void {
    if (!exchange.leave()) return;
    if (method !== 'DELETE') {
      exchange.answer(405, '');
      return;
    }
    if (id !== undefined) this.#sessions.delete(id);
    exchange.answer(200, '');
  }

  async #post(
    message: JsonRpcMessage,
    sessionId: string | undefined,
    exchange: LocalExchange,
    signal: AbortSignal,
  ): Promise<void> {
    const method = 'method' in message ? message.method : undefined;
    if (method === 'initialize') {
      await this.#initialize(message as JsonRpcRequest, exchange, signal);
      return;
    }
    if (!exchange.leave()) return;
    if (method === 'server/discover' && isRequest(message)) {
      exchange.answer(200, JSON.stringify({ jsonrpc: '2.0', id: message.id, error: NO_DISCOVERY }));
      return;
    }
    const opened = sessionId === undefined ? undefined : this.#sessions.get(sessionId);
    if (sessionId === undefined || opened === undefined) {
      if (sessionId === undefined) exchange.answer(400, NO_SESSION_ID);
      else exchange.answer(404, NO_SESSION);
      return;
    }
    // An answer to a question: no relay carries any.
    if (method === undefined) {
      exchange.answer(202, '');
      return;
    }
    const { came, failure } = await this.#send(meantFor(message, opened.generation), exchange, signal);
    if (exchange.hasEnded) return;
    if (!isRequest(message)) {
      if (failure === undefined) exchange.answer(202, '');
      else exchange.fail('network', 'ERR_RELAY');
      return;
    }
    const { answer, notifications } = split(came);
    const told = failure ?? (answer === undefined ? undefined : carriedError(message, answer));
    if (told !== undefined) {
      this.#fail(told, message, sessionId, exchange);
      return;
    }
    for (const each of notifications) exchange.event(JSON.stringify(each));
    exchange.answer(200, answer === undefined ? '' : JSON.stringify(answer));
  }

  async #initialize(message: JsonRpcRequest, exchange: LocalExchange, signal: AbortSignal): Promise<void> {
    const { came, failure } = await this.#send(message, exchange, signal);
    if (exchange.hasEnded) return;
    const { answer } = split(came);
    const told = failure ?? (answer === undefined ? undefined : carriedError(message, answer));
    if (told !== undefined) {
      const { retryAfterMs } = told;
      this.#problem = new HostedMcpError('ERR_NOT_SENT', 'The server behind the relay could not be opened', {
        ...{ reason: told.reason ?? 'relay', retryable: true, retryAfterMs, cause: told },
      });
      if (exchange.leave()) exchange.answer(REFUSED, '');
      return;
    }
    this.#problem = undefined;
    if (!exchange.leave()) return;
    if (answer === undefined || !isResult(answer)) {
      exchange.answer(200, answer === undefined ? '' : JSON.stringify(answer));
      return;
    }
    const id = randomUUID();
    this.#sessions.set(id, { generation: generationOf(answer) });
    const shown = { ...answer, result: withoutGeneration(answer.result) };
    exchange.answer(200, JSON.stringify(shown), { 'mcp-session-id': id });
  }

  /** What came, or why nothing did. Ends the exchange when its time is up. */
  async #send(
    message: JsonRpcMessage,
    exchange: LocalExchange,
    signal: AbortSignal,
  ): Promise<{ came?: unknown; failure?: HostedMcpError }> {
    const { clock, send, leftMs } = this.#parts;
    const isHandshake = 'method' in message && message.method === 'initialize';
    const caller = isRequest(message) ? leftMs(message.id) : undefined;
    const deadlineMs = caller ?? (isHandshake ? HANDSHAKE_MS : PROBE_MS);
    const timer = clock.setTimeout(() => exchange.fail('timeout'), Math.max(0, deadlineMs));
    // Whoever was asked may never say anything.
    signal.addEventListener('abort', () => timer.clear(), { once: true });
    try {
      return { came: await send(message, { deadlineMs: Math.max(0, deadlineMs), signal }) };
    } catch (error) {
      const isOurs = HostedMcpError.isInstance(error);
      return { failure: isOurs ? error : toldError(message, 'ERR_OUTCOME_UNKNOWN', 'unknown') };
    } finally {
      timer.clear();
    }
  }

  /** As the engine understands it; what it says beyond that is told apart. */
  #fail(told: HostedMcpError, message: JsonRpcRequest, sessionId: string, exchange: LocalExchange): void {
    const { code, executed, reason } = told;
    if (reason === CHILD_ENDED || code === 'ERR_CLOSED') {
      this.#sessions.delete(sessionId);
      // First: whoever hears of a cut call and calls again shall find a new session.
      this.#parts.gone(sessionId, 'the process of the server has ended', { counts: true, opens: false });
    }
    if (code === 'ERR_SESSION_LOST' && executed === false) exchange.answer(404, NO_SESSION);
    else if (executed === false) exchange.answer(REFUSED, '');
    else if (code === 'ERR_MESSAGE_TOO_LARGE') exchange.fail('too-large');
    else exchange.fail(code === 'ERR_TIMEOUT' ? 'timeout' : 'network', code);
    this.#parts.told(message.id, told);
  }
}
