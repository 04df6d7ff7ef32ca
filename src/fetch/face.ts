/**
 * The engine behind the fetch signature: what a framework's HTTP transport says becomes messages of the engine, and
 * what the engine says becomes HTTP answers.
 *
 * Guarantees that the framework never meets a lost session, a refused token or a limit as an HTTP status: the
 * engine heals them, or the request gets a typed JSON-RPC error of its own. Never shows the server's session id,
 * and never sends anything to another address than the one it was made for.
 */
import { untilAborted } from '../clock.js';
import type { HostedConnection } from '../connection/connection.js';
import type { Call } from '../connection/ledger.js';
import { isStateless, versionOf } from '../connection/outgoing.js';
import { HostedMcpError } from '../errors.js';
import {
  isNotification,
  isRequest,
  isResponse,
  isResult,
  type JsonRpcNotification,
  type JsonRpcRequest,
  type JsonRpcResponse,
  type RequestId,
} from '../json-rpc.js';
import type { ResolvedHostedOptions } from '../options.js';
import { randomUUID } from '../runtime/digest.js';
import {
  badRequest,
  DISCOVERY_REFUSED,
  emptyResponse,
  errorAnswer,
  jsonResponse,
  streamResponse,
} from './answers.js';
import { FetchCall } from './fetch-call.js';
import { addressOf, type Incoming, readIncoming } from './incoming.js';
import { MessageStream } from './message-stream.js';
import { Routes } from './routes.js';
import { SignalWatch } from './signal-watch.js';

const SESSION_HEADER = 'mcp-session-id';
/** What a framework that keeps a session over a restart is assumed to speak when it does not say. */
const RESUMED_PROTOCOL_VERSION = '2025-11-25';
const RESUMED_CLIENT_INFO = Object.freeze({ name: 'mcp-holdfast', version: '1' });
/** What v2's Client looks for on an error, to tell a matter of authorization from a server that is away. */
const AUTHORIZATION = Symbol.for('mcp.authSeamEscape');
const OF_AUTHORIZATION: ReadonlySet<string> = new Set([
  'ERR_CREDENTIAL_REJECTED',
  'ERR_REAUTHORIZATION_REQUIRED',
  'ERR_INSUFFICIENT_SCOPE',
]);

export class FetchFace {
  readonly #engine: HostedConnection;
  readonly #address: string | undefined;
  readonly #listens: boolean;
  readonly #routes = new Routes();
  readonly #signals = new SignalWatch();
  #lastId = 0;
  /** What the handshakes of this face say. */
  #handshake: string | undefined;
  /** The server has opened a session: it is one of the earlier era. */
  #hasSessions = false;

  constructor(engine: HostedConnection, { url, streams }: Pick<ResolvedHostedOptions, 'url' | 'streams'>) {
    this.#engine = engine;
    this.#address = addressOf(url.href);
    this.#listens = streams.listen !== false;
    engine.attach({
      onMessage: (message, about?: Call) => this.#routes.deliver(message, about),
      onError: () => {},
      onSession: () => {},
    });
    engine.on('state', ({ current }) => {
      if (current === 'closed') this.#routes.stopListening();
    });
  }

  async fetch(input: string | URL | Request, init?: RequestInit): Promise<Response> {
    const incoming = readIncoming(input, init);
    const { method, url, signal } = incoming;
    if (url === undefined || url !== this.#address) {
      const what = 'This fetch serves one MCP endpoint, and no other address';
      throw new HostedMcpError('ERR_DENIED', what, { reason: 'another address' });
    }
    signal?.throwIfAborted();
    if (method === 'POST') return this.#post(incoming);
    if (method === 'GET') return this.#listen(incoming);
    if (method === 'DELETE') return this.#delete(incoming);
    return emptyResponse(405, { allow: 'GET, POST, DELETE' });
  }

  async #post(incoming: Incoming): Promise<Response> {
    const body = incoming.body();
    let message: unknown;
    try {
      message = JSON.parse(typeof body === 'string' ? body : await body);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      return badRequest('parse', 'The body is not JSON');
    }
    incoming.signal?.throwIfAborted();
    if (Array.isArray(message)) return badRequest('invalid', 'Send one message at a time: no batches');
    if (isRequest(message)) return this.#request(message, incoming);
    if (isNotification(message)) return this.#notify(message, incoming);
    if (isResponse(message)) return this.#respond(message, incoming);
    return badRequest('invalid', 'The body is not a JSON-RPC message');
  }

  #request(message: JsonRpcRequest, incoming: Incoming): Promise<Response> {
    const isHandshake = message.method === 'initialize';
    const client = isHandshake ? randomUUID() : clientOf(incoming);
    if (message.method === 'server/discover' && this.#hasSessions)
      return Promise.resolve(jsonResponse(sessionsHere(message.id), {}));
    const call = new FetchCall({
      message,
      client,
      engineId: ++this.#lastId,
      signal: incoming.signal,
      watch: this.#signals,
      headers: isHandshake ? { [SESSION_HEADER]: client } : {},
      onGivenUp: takeBack(this.#engine),
    });
    this.#routes.opened(call);
    void this.#carry(call, message, incoming).finally(() => this.#routes.ended(call));
    return call.response;
  }

  async #carry(call: FetchCall, message: JsonRpcRequest, incoming: Incoming): Promise<void> {
    const { method } = message;
    try {
      if (method === 'initialize') await this.#prepareHandshake(call, message);
      else if (method !== 'server/discover') this.#prepare(message, incoming);
      if (call.isTakenBack) return;
      const answer = await this.#engine.request(call.outgoing, {
        headers: parameterHeaders(incoming.headers),
        onCall: (made) => {
          call.onItsWay = made;
        },
      });
      if (method === 'initialize' && isResult(answer)) this.#hasSessions = true;
      call.answer(answer);
    } catch (error) {
      if (call.isTakenBack) call.silence();
      // In-band it would be taken for a server of the earlier era.
      else if (method === 'server/discover') call.fail(markForNegotiation(error));
      else call.answer(errorAnswer(call.id, error));
    }
  }

  /** A client that says something else than the last one needs a session of its own, unless that is still at work. */
  async #prepareHandshake(call: FetchCall, { params }: JsonRpcRequest): Promise<void> {
    const said = JSON.stringify(params);
    const differs = this.#handshake !== undefined && this.#handshake !== said;
    this.#handshake = said;
    if (differs && !this.#routes.isUsedByOthers(call.client)) await this.#engine.terminateSession();
  }

  /** A client that makes no handshake knows the server from before. */
  #prepare(message: JsonRpcRequest, { headers }: Incoming): void {
    const version = versionOf(message);
    if (version !== undefined && isStateless(version)) {
      if (this.#engine.session === undefined && !this.#hasSessions) this.#engine.negotiated(version);
      return;
    }
    if (this.#handshake !== undefined || this.#engine.session !== undefined) return;
    const protocolVersion = headers.get('mcp-protocol-version') ?? RESUMED_PROTOCOL_VERSION;
    const params = { protocolVersion, capabilities: {}, clientInfo: RESUMED_CLIENT_INFO };
    this.#handshake = JSON.stringify(params);
    this.#engine.capture({ jsonrpc: '2.0', id: 'resumed', method: 'initialize', params });
  }

  async #notify(message: JsonRpcNotification, incoming: Incoming): Promise<Response> {
    let notice = message;
    if (message.method === 'notifications/cancelled') {
      const call = this.#routes.find(clientOf(incoming), message.params?.requestId);
      if (call === undefined) return emptyResponse(202);
      call.isTakenBack = true;
      notice = { ...message, params: { ...message.params, requestId: call.engineId } };
    }
    await untilAborted(this.#engine.notify(notice), incoming.signal);
    return emptyResponse(202);
  }

  async #respond(message: JsonRpcResponse, { signal }: Incoming): Promise<Response> {
    this.#routes.answered(message.id);
    await untilAborted(this.#engine.respond(message), signal);
    return emptyResponse(202);
  }

  #listen(incoming: Incoming): Response {
    const { headers, signal } = incoming;
    const client = clientOf(incoming);
    // Without a session it is no listen stream that is asked for, but HTTP+SSE (2024-11-05).
    if (!this.#listens || client === '' || this.#engine.state === 'closed')
      return emptyResponse(405, { allow: 'POST, DELETE' });
    if (headers.get('accept')?.includes('text/event-stream') !== true) return emptyResponse(406);
    if (headers.has('last-event-id'))
      return badRequest('invalid', 'Streams are resumed on the way to the server; there are no cursors here');
    const over = () => {
      unwatch();
      stop();
    };
    const stream = new MessageStream(over);
    const stop = this.#routes.listen(client, stream);
    const unwatch = this.#signals.on(signal, () => {
      stream.end();
      over();
    });
    return streamResponse(stream.body);
  }

  async #delete(incoming: Incoming): Promise<Response> {
    const client = clientOf(incoming);
    this.#routes.stopListening(client);
    if (!this.#routes.isUsedByOthers(client))
      await untilAborted(this.#engine.terminateSession(), incoming.signal);
    return emptyResponse(200);
  }
}

function clientOf({ headers }: Incoming): string {
  return headers.get(SESSION_HEADER) ?? '';
}

/** Dropped where it has not left, else cancelled at the server. */
function takeBack(engine: HostedConnection): (call: FetchCall, reason: unknown) => void {
  return (call, reason) => {
    call.isTakenBack = true;
    const made = call.onItsWay;
    if (made === undefined || made.ended) return;
    const isTimeout = reason instanceof Error && reason.name === 'TimeoutError';
    const error = isTimeout
      ? made.error('ERR_TIMEOUT', "The caller's time was up")
      : made.error('ERR_ABORTED', 'The caller gave the call up');
    engine.takeBack(made, error);
  };
}

/** Made from the arguments of a call (2026-07-28, SEP-2243); all else that belongs in headers is the engine's. */
function parameterHeaders(headers: Headers): Readonly<Record<string, string>> | undefined {
  let found: Record<string, string> | undefined;
  headers.forEach((value, name) => {
    if (!name.startsWith('mcp-param-')) return;
    found ??= {};
    found[name] = value;
  });
  return found;
}

function sessionsHere(id: RequestId): JsonRpcResponse {
  const error = { code: DISCOVERY_REFUSED, message: 'The server opens sessions with initialize.' };
  return { jsonrpc: '2.0', id, error };
}

/** So that v2's `connect()` rejects with the error as it is, and nobody takes it for a question of versions. */
function markForNegotiation(error: unknown): unknown {
  if (HostedMcpError.isInstance(error) && OF_AUTHORIZATION.has(error.code))
    Object.defineProperty(error, AUTHORIZATION, { value: true, configurable: true });
  return error;
}
