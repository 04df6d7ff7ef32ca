/**
 * HostedTransport: the SDK's Transport, v1 and v2, over a Connection.
 *
 * Guarantees the stock transport's constructor options and members, and that `send()` of a request stays
 * pending until its answer was delivered, so that a loss rejects the caller with our own error. Imports no
 * SDK; never sends a request twice that may have run.
 */
import { inNextTurn } from './clock.js';
import { HostedConnection } from './connection/connection.js';
import type { Call } from './connection/ledger.js';
import type { Connection } from './connection/types.js';
import type { AuthorizationCodeProvider, Callback } from './credentials/index.js';
import { HostedMcpError } from './errors.js';
import { checkGateTimes } from './gates/gate.js';
import { isNotification, isRequest, isResponse, type JsonRpcMessage, type RequestId } from './json-rpc.js';
import { type ResolvedHostedOptions, resolveHostedOptions } from './options.js';
import { type HostedTransportOptions, splitOptions } from './stock-options.js';
import { asUnauthorized } from './unauthorized.js';

export type { HostedTransportOptions, StockTransportOptions } from './stock-options.js';

/** What both SDKs hand to `send()`. */
export interface TransportSendOptions {
  relatedRequestId?: RequestId | undefined;
  resumptionToken?: string | undefined;
  onresumptiontoken?: ((token: string) => void) | undefined;
  requestSignal?: AbortSignal | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
}

/**
 * How HostedClient hands a call's deadline past the SDK, which has no place for it: right before the SDK calls
 * `send()`, which it does in the same turn.
 */
export const HAND_OVER: unique symbol = Symbol('handOver');

export interface CallLink {
  deadlineMs: number;
  /** Stops the caller's timer; what it gives starts it again. */
  hold?: () => () => void;
  /** Set when the call has been handed to the engine. */
  call?: Call;
  /** Ends it: dropped where it has not left, else cancelled at the server. */
  takeBack?: (error: HostedMcpError) => void;
}

/** The version a resumed session is assumed to speak when the app does not say. */
const RESUMED_PROTOCOL_VERSION = '2025-11-25';
/** Nobody tells a transport that resumes a session who the client is, nor what it can do. */
const RESUMED_CLIENT_INFO = Object.freeze({ name: 'mcp-holdfast', version: '1' });

/**
 * Drop-in for the stock transport, under either SDK's Client.
 *
 * ```ts
 * const transport = new HostedTransport('https://mcp.example.com/mcp', { credentials: tokenFromEnv('MCP_TOKEN') });
 * await client.connect(transport);
 * ```
 *
 * Throws `TypeError` for an option that cannot be used, before any I/O. `close()` leaves the session at
 * the server, as the stock transport does; `terminateSession()` deletes it.
 */
export class HostedTransport {
  /** The engine: state, events, figures. */
  readonly connection: Connection;
  /** To v2's Client, in the later era: a call is cancelled by its `requestSignal`, which closes its stream. */
  readonly hasPerRequestStream = true;
  /** A secret, here because the SDK's interface has it: an accessor, so that printing the transport does not show it. */
  declare sessionId?: string;
  protocolVersion?: string;
  // biome-ignore lint/suspicious/noExplicitAny: each SDK has its own message types; both fit.
  onmessage?: (message: any, extra?: any) => void;
  onerror?: (error: Error) => void;
  onclose?: () => void;
  readonly #engine: HostedConnection;
  readonly #ownsConnection: boolean;
  readonly #authorization: Pick<ResolvedHostedOptions, 'credentials' | 'url'> | undefined;
  #sessionId: string | undefined;
  #resume: { id: string; protocolVersion: string } | undefined;
  #handedOver: CallLink | undefined;
  /** Until somebody comes who keeps the caller's time. */
  #gateTimes: (() => void) | undefined;
  #hasAuthProvider = false;
  #started = false;
  #closed = false;
  /** v2's Client says which versions it speaks; v1's does not. */
  #underV2 = false;

  /** @internal The SDK's class, where there is an SDK. */
  protected readonly unauthorizedError: (new (message: string) => Error) | undefined = undefined;

  constructor(url: string | URL, options?: HostedTransportOptions);
  /** @internal */
  constructor(engine: HostedConnection);
  constructor(target: string | URL | HostedConnection, options: HostedTransportOptions = {}) {
    Object.defineProperty(this, 'sessionId', {
      configurable: true,
      get: () => this.#sessionId,
      set: (id: string | undefined) => {
        this.#sessionId = id;
      },
    });
    if (target instanceof HostedConnection) {
      this.#engine = target;
      this.#ownsConnection = false;
    } else {
      const { hosted, stock } = splitOptions(options);
      const resolved = resolveHostedOptions(target, hosted);
      this.#engine = new HostedConnection(resolved);
      this.#authorization = resolved;
      this.#hasAuthProvider = options.authProvider !== undefined;
      this.#ownsConnection = true;
      this.#gateTimes = () => checkGateTimes(resolved.gates, resolved.retry.maxElapsedMs);
      if (stock.sessionId !== undefined) {
        this.#resume = {
          id: stock.sessionId,
          protocolVersion: stock.protocolVersion ?? RESUMED_PROTOCOL_VERSION,
        };
        this.#sessionId = stock.sessionId;
      }
    }
    this.connection = this.#engine;
  }

  /** Called by the Client. No I/O: the handshake opens the connection. `TypeError` for a gate that may take longer than all waits. */
  async start(): Promise<void> {
    if (this.#started) throw new HostedMcpError('ERR_PROTOCOL', 'The transport was started before');
    this.#gateTimes?.();
    this.#started = true;
    this.#engine.attach({
      onMessage: (message) => this.onmessage?.(message),
      onError: (error) => this.onerror?.(error),
      onSession: (id, info) => {
        this.#sessionId = id;
        this.protocolVersion = info.protocolVersion;
      },
    });
    if (this.#resume === undefined) return;
    const { id, protocolVersion } = this.#resume;
    // The Client makes no handshake then: should the session be gone, this is how the next one is opened.
    const params = { protocolVersion, capabilities: {}, clientInfo: RESUMED_CLIENT_INFO };
    this.#engine.capture({ jsonrpc: '2.0', id: 'resumed', method: 'initialize', params });
    await this.#engine.resumeSession(id, protocolVersion);
  }

  /** @internal The next request belongs to `link`. */
  [HAND_OVER](link: CallLink | undefined): void {
    this.#handedOver = link;
    this.#gateTimes = undefined;
  }

  /** Resolves when the message was taken, for a request when its answer was delivered. Rejects with a `HostedMcpError`. */
  async send(message: unknown, options?: TransportSendOptions): Promise<void> {
    if (isRequest(message)) return this.#request(message, options);
    if (isNotification(message)) return this.#engine.notify(message);
    if (isResponse(message))
      return this.#engine.respond(message).catch((error: Error) => this.onerror?.(error));
    throw new HostedMcpError('ERR_PROTOCOL', 'Not a JSON-RPC message, or several at once');
  }

  /** Ends everything on this side. Never rejects. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#ownsConnection) await this.#engine.close({ deleteSession: false });
    // Callers hear of their own calls first; the Client's catch-all for the rest does not know what happened.
    await Promise.resolve();
    this.onclose?.();
  }

  /** Deletes the session at the server. The next call opens a new one. */
  async terminateSession(): Promise<void> {
    await this.#engine.terminateSession();
    this.#sessionId = undefined;
  }

  /** Called by the Client after the handshake. */
  setProtocolVersion(version: string): void {
    this.protocolVersion = version;
    this.#engine.negotiated(version);
  }
  /** Called by v2's Client before `start()`. */
  setSupportedProtocolVersions(_versions: readonly string[]): void {
    this.#underV2 = true;
  }

  /** Takes up the answer of an earlier request by its resumption token. */
  async resumeStream(
    lastEventId: string,
    options: { onresumptiontoken?: (token: string) => void; replayMessageId?: RequestId } = {},
  ): Promise<void> {
    const { replayMessageId, onresumptiontoken } = options;
    if (replayMessageId === undefined)
      throw new HostedMcpError('ERR_PROTOCOL', 'Name the request whose answer is wanted: replayMessageId');
    await this.send(
      { jsonrpc: '2.0', id: replayMessageId, method: 'resume' },
      { resumptionToken: lastEventId, ...(onresumptiontoken !== undefined && { onresumptiontoken }) },
    );
  }

  /**
   * Finishes an authorization: `callback` is the whole URL that the browser came back to, or its query (with an
   * `authProvider` the bare code will do). Then connect again. Throws what the provider's `finishAuth` throws, and a
   * `TypeError` where the credentials do not come from an authorization by a user.
   */
  async finishAuth(callback: Callback): Promise<void> {
    const { credentials, url } = this.#authorization ?? {};
    const { finishAuth } = (credentials ?? {}) as Partial<AuthorizationCodeProvider>;
    if (finishAuth === undefined) {
      throw new TypeError('finishAuth() needs credentials of authorizationCodeGrant or an authProvider');
    }
    await finishAuth.call(credentials as AuthorizationCodeProvider, callback, url);
  }

  async #request(
    message: JsonRpcMessage & { id: RequestId; method: string },
    options: TransportSendOptions = {},
  ): Promise<void> {
    const { onresumptiontoken, resumptionToken, requestSignal, headers } = options;
    const link = this.#handedOver;
    this.#handedOver = undefined;
    let call: Call | undefined;
    const isProbe = message.method === 'server/discover';
    // It is the first that v2's Client says, before it says anything else of itself.
    if (isProbe) this.#underV2 = true;
    try {
      const answer = await this.#engine.request(message, {
        deadlineMs: link?.deadlineMs,
        hold: link?.hold,
        onresumptiontoken,
        resumptionToken,
        signal: requestSignal,
        headers,
        onCall: (made) => {
          call = made;
          if (link === undefined) return;
          link.call = made;
          link.takeBack = (error) => this.#engine.takeBack(made, error);
        },
      });
      this.onmessage?.(answer);
    } catch (error) {
      if (isProbe) markForNegotiation(error);
      if (call?.takenBack !== true && 'onresumptiontoken' in options) this.#forget(message.id);
      throw this.#hasAuthProvider ? asUnauthorized(error, this.unauthorizedError) : error;
    }
  }

  /**
   * v1's Client keeps a handler for ever when `send()` rejects; a late in-band error frees it. Others have forgotten
   * the id by then: v2's Client would complain, AI SDK's throws. v1's is known by the options it sends with.
   */
  #forget(id: RequestId): void {
    if (this.#underV2) return;
    const error = { code: -32010, message: 'The call has ended; its caller was told why.' };
    inNextTurn(() => this.onmessage?.({ jsonrpc: '2.0', id, error }));
  }
}

/** What v2's Client looks for on an error, to tell a matter of authorization from a server that is away. */
const AUTHORIZATION = Symbol.for('mcp.authSeamEscape');
const OF_AUTHORIZATION: ReadonlySet<string> = new Set([
  'ERR_CREDENTIAL_REJECTED',
  'ERR_REAUTHORIZATION_REQUIRED',
  'ERR_INSUFFICIENT_SCOPE',
  'ERR_CREDENTIAL_SOURCE',
  'ERR_DISCOVERY',
]);

/** So that `connect()` rejects with the error as it is, and nobody takes it for a question of versions. */
function markForNegotiation(error: unknown): void {
  if (!HostedMcpError.isInstance(error) || !OF_AUTHORIZATION.has(error.code)) return;
  Object.defineProperty(error, AUTHORIZATION, { value: true, configurable: true });
}
