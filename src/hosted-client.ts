/**
 * HostedClient: the SDK v1 Client, holding one hosted session.
 *
 * Guarantees that every failure of the way is a `HostedMcpError`, timeouts and aborts included, because
 * the caller's timer is ours; that `listTools()` gives the whole list; and that `close()` never rejects.
 * Never reads or writes a private member of the SDK.
 */
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type {
  AnyObjectSchema,
  AnySchema,
  SchemaOutput,
} from '@modelcontextprotocol/sdk/server/zod-compat.js';
import type { RequestOptions } from '@modelcontextprotocol/sdk/shared/protocol.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import {
  type CallToolRequest,
  CallToolResultSchema,
  type ClientCapabilities,
  type CompatibilityCallToolResultSchema,
  type Implementation,
  type ListToolsRequest,
  ListToolsResultSchema,
  type ServerCapabilities,
} from '@modelcontextprotocol/sdk/types.js';
import { type Clock, systemClock } from './clock.js';
import type { HostedConnection } from './connection/connection.js';
import type { Connection, ContractSnapshot, SnapshotOptions } from './connection/types.js';
import { type AsyncDisposer, makeAsyncDisposable } from './disposer.js';
import { HostedMcpError } from './errors.js';
import { type CallState, underTimer } from './hosted-call-timer.js';
import { DirectRequests } from './hosted-client-direct.js';
import { closedError, isTransport, listError } from './hosted-client-errors.js';
import { type HostedClientOptions, splitOptions, wantsQuestions } from './hosted-client-options.js';
import { makeTurn, type Turn, type TurnOptions } from './hosted-client-turn.js';
import { HAND_OVER, HostedTransport } from './hosted-transport.js';
import { LIMITS } from './limits.js';
import { guardedValidator, refusedResult } from './output-validator.js';
import { missingCapability } from './required-capability.js';
import { engineOf } from './servers/engine.js';

export interface HostedClient extends AsyncDisposer {}

/**
 * ```ts
 * const client = new HostedClient({ name: 'agent', version: '1.0.0' }, {
 *   url: 'https://mcp.example.com/mcp',
 *   credentials: clientCredentialsGrant({ issuer: 'https://auth.example.com', clientId, clientSecret }),
 * });
 * await client.connect();
 * const result = await client.callTool({ name: 'search', arguments: { query: 'weather' } });
 * await client.close();
 * ```
 *
 * The constructor throws `TypeError` for an option that cannot be used. Speaks the protocol versions that
 * have `initialize` (2025-11-25 and before).
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: the constructor defines what AsyncDisposer names.
export class HostedClient extends Client {
  readonly #clock: Clock;
  readonly #lazy: boolean;
  #engine: HostedConnection | undefined;
  /** Undefined where the SDK's own rules were asked for. */
  readonly #direct: DirectRequests | undefined;
  #given: HostedTransport | undefined;
  #connecting: Promise<void> | undefined;
  #connected = false;
  /** `initialize` is under way. */
  #initializing = false;
  #closing: Promise<void> | undefined;
  #transport: HostedTransport | undefined;
  #calling: CallState | undefined;
  #wantsListening: boolean;

  constructor(info: Implementation, options: HostedClientOptions) {
    const { hosted, client, url } = splitOptions(options);
    super(info, {
      ...client,
      jsonSchemaValidator: guardedValidator(client.jsonSchemaValidator, (error) => this.onerror?.(error)),
    });
    this.#engine = engineOf(options, url, hosted);
    this.#clock = hosted.clock ?? systemClock();
    const isStrict = client.enforceStrictCapabilities === true;
    this.#direct = this.#engine && !isStrict ? new DirectRequests(this.#engine, this.#clock) : undefined;
    this.#lazy = hosted.lazyConnect === true;
    this.#wantsListening = wantsQuestions(client.capabilities);
    this.#updateListening();
    makeAsyncDisposable(this, () => this.close());
  }

  /** One object for the client's life: events may be listened to before `connect()`. */
  get connection(): Connection {
    const engine = this.#given?.connection ?? this.#engine;
    if (engine === undefined)
      throw new TypeError('connection: this client has neither a url nor a transport yet');
    return engine;
  }

  /**
   * Opens the session at `url`, or over a `HostedTransport`. Connectable again after a failure.
   * Throws `HostedMcpError`; `TypeError` without a url and a transport.
   */
  override connect(options?: RequestOptions): Promise<void>;
  override connect(transport: Transport, options?: RequestOptions): Promise<void>;
  override async connect(first?: Transport | RequestOptions, second?: RequestOptions): Promise<void> {
    const transport = isTransport(first) ? first : undefined;
    const options = transport === undefined ? (first as RequestOptions | undefined) : second;
    if (transport !== undefined && !(transport instanceof HostedTransport)) {
      throw new TypeError('connect() takes a HostedTransport, or no transport where the client has a url');
    }
    if (transport === undefined && this.#engine === undefined)
      throw new TypeError('connect() needs a url in the options, or a transport');
    if (this.#closing !== undefined) throw closedError();
    if (transport !== undefined) this.#given = transport as HostedTransport;
    this.#updateListening();
    if (this.#lazy && transport === undefined) return;
    await this.#open(options);
  }

  /** Every request of every typed method comes through here. */
  override request<T extends AnySchema>(
    request: Parameters<Client['request']>[0],
    resultSchema: T,
    options?: RequestOptions,
  ): Promise<SchemaOutput<T>> {
    const state = this.#calling;
    this.#calling = undefined;
    return this.#routed(request, resultSchema, options, state) as Promise<SchemaOutput<T>>;
  }

  /** The whole list, all pages; with a `cursor` that page alone. Tools with an unusable output schema stay listed, unchecked. */
  override async listTools(params?: ListToolsRequest['params'], options?: RequestOptions) {
    // A single page would make the SDK forget the output schemas of all others.
    if (params?.cursor !== undefined)
      return this.request({ method: 'tools/list', params }, ListToolsResultSchema, options);
    return super.listTools(params, options);
  }

  /** What the server offers, read now: all pages, whole tools. */
  async snapshot(options?: SnapshotOptions): Promise<ContractSnapshot> {
    if (!this.#connected) await this.#openFirst();
    return this.connection.snapshot(options);
  }

  /** The server's contract was reviewed: `snapshot`, or what was read last, is the pin from here on. */
  acceptContract(snapshot?: ContractSnapshot): void {
    this.connection.acceptContract(snapshot);
  }

  override callTool(
    params: CallToolRequest['params'],
    options?: RequestOptions,
  ): ReturnType<Client['callTool']>;
  override callTool(
    params: CallToolRequest['params'],
    resultSchema?: typeof CallToolResultSchema | typeof CompatibilityCallToolResultSchema,
    options?: RequestOptions,
  ): ReturnType<Client['callTool']>;
  override async callTool(
    params: CallToolRequest['params'],
    second?: typeof CallToolResultSchema | typeof CompatibilityCallToolResultSchema | RequestOptions,
    third?: RequestOptions,
  ) {
    const isSchema = typeof second === 'object' && second !== null && 'parse' in second;
    const given = isSchema ? third : ((second as RequestOptions | undefined) ?? third);
    const schema = isSchema ? (second as typeof CallToolResultSchema) : CallToolResultSchema;
    // The SDK makes its request in the same turn: that one is meant.
    const state: CallState = { answered: false };
    this.#calling = state;
    try {
      return await super.callTool(params, schema, given);
    } catch (error) {
      throw state.answered ? refusedResult(error, 'tools/call', params.name) : error;
    }
  }

  /**
   * Some calls with a cap in common: `turn.callTool()` is `callTool()`, named as a part of this turn, and ends in
   * `ERR_CALL_LIMIT` beyond `maxCalls`. The gate `maxCalls()` of `mcp-holdfast/gates` caps every turn, on every face.
   * Throws `TypeError` for an option that cannot be used.
   */
  turn(options?: TurnOptions): Turn {
    return makeTurn(this, options);
  }

  override getServerCapabilities(): ServerCapabilities | undefined {
    const capabilities = this.#current?.capabilities;
    return (capabilities as ServerCapabilities | undefined) ?? super.getServerCapabilities();
  }
  override getServerVersion(): Implementation | undefined {
    const info = this.#current?.serverInfo;
    return (info as Implementation | undefined) ?? super.getServerVersion();
  }
  override getInstructions(): string | undefined {
    return this.#current?.instructions ?? super.getInstructions();
  }

  /** With `enforceStrictCapabilities`: by what the session in use offers, not by what the first one did. */
  protected override assertCapabilityForMethod(method: string): void {
    const missing = missingCapability(method, this.getServerCapabilities());
    if (missing !== undefined) throw new Error(`Server does not support ${missing} (required for ${method})`);
  }

  override registerCapabilities(capabilities: ClientCapabilities): void {
    super.registerCapabilities(capabilities);
    this.#wantsListening ||= wantsQuestions(capabilities);
    this.#updateListening();
  }

  override setNotificationHandler<T extends AnyObjectSchema>(
    schema: T,
    handler: (notification: SchemaOutput<T>) => void | Promise<void>,
  ): void {
    super.setNotificationHandler(schema, handler);
    // The SDK's own constructor comes through here, before there is anything of ours.
    if (!(#clock in this)) return;
    this.#wantsListening = true;
    this.#updateListening();
  }

  /** Deletes the session, then ends everything. Idempotent; never rejects. */
  override close(): Promise<void> {
    // The SDK calls it, un-awaited, when a handshake has failed: then only its own state is to be undone.
    const isUndoing = this.#connecting !== undefined && !this.#connected && !this.#initializing;
    if (isUndoing && this.#closing === undefined) return super.close().catch(() => {});
    this.#closing ??= (async () => {
      const engine = this.#given?.connection ?? this.#engine;
      await engine?.close();
      await super.close();
    })().catch(() => {});
    return this.#closing;
  }

  #routed(
    request: Parameters<Client['request']>[0],
    schema: AnySchema,
    options: RequestOptions | undefined,
    state: CallState | undefined,
  ): Promise<unknown> {
    if (request.method === 'initialize') {
      this.#initializing = true;
      return this.#timed(request, schema, options).finally(() => {
        this.#initializing = false;
      });
    }
    const list = request.method === 'tools/list' ? (request as ListToolsRequest) : undefined;
    if (list !== undefined && list.params?.cursor === undefined) return this.#allTools(list, schema, options);
    return this.#timed(request, schema, options, state);
  }

  get #current() {
    const session = (this.#given?.connection ?? this.#engine)?.session;
    return session !== undefined && Object.keys(session.serverInfo).length > 0 ? session : undefined;
  }

  #updateListening(): void {
    const wanted = this.#wantsListening || this.fallbackNotificationHandler !== undefined;
    if (this.#given === undefined) this.#engine?.setListening(wanted);
  }

  /** For the callers who come before there is a session; each waits no longer than its own time. */
  async #openFirst(): Promise<void> {
    if (this.#closing !== undefined) throw closedError();
    if (this.#connecting === undefined && !this.#lazy) {
      throw new HostedMcpError('ERR_NOT_SENT', 'The client has no session yet: call connect() first', {
        retryable: false,
      });
    }
    await this.#open(undefined);
  }

  #open(options: RequestOptions | undefined): Promise<void> {
    if (this.#connected) return Promise.resolve();
    this.#connecting ??= this.#handshake(options).finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }

  async #handshake(options: RequestOptions | undefined): Promise<void> {
    const transport = this.#given ?? new HostedTransport(this.#engine as HostedConnection);
    this.#transport = transport;
    const { onclose } = transport;
    transport.onclose = () => {
      this.#connected = false;
      onclose?.();
    };
    // That the caller's time is kept here.
    transport[HAND_OVER](undefined);
    // The types of v1's Transport and ours differ only in `undefined` of optional members.
    await super.connect(transport as Transport, options);
    this.#connected = true;
  }

  async #allTools(request: ListToolsRequest, schema: AnySchema, options: RequestOptions | undefined) {
    const tools: unknown[] = [];
    const seen = new Set<string>();
    let cursor: string | undefined;
    for (let page = 0; page < LIMITS.pages; page += 1) {
      const params = cursor === undefined ? request.params : { ...request.params, cursor };
      const result = (await this.#timed({ ...request, ...(params && { params }) }, schema, options)) as {
        tools: unknown[];
        nextCursor?: string;
      };
      tools.push(...result.tools);
      if (tools.length > LIMITS.tools) throw listError(`lists more than ${LIMITS.tools} tools`);
      const { nextCursor, ...last } = result;
      if (nextCursor === undefined) return { ...last, tools };
      if (seen.has(nextCursor)) throw listError('lists its tools in an endless circle of pages');
      seen.add(nextCursor);
      cursor = nextCursor;
    }
    throw listError(`lists its tools on more than ${LIMITS.pages} pages`);
  }

  /** One request under the caller's own timer, which is ours and knows the ledger. */
  #timed(
    request: Parameters<Client['request']>[0],
    schema: AnySchema,
    options: RequestOptions = {},
    state?: CallState,
  ): Promise<unknown> {
    // A transport that the app gave has a say in what becomes of an error.
    if (
      this.#direct !== undefined &&
      this.#connected &&
      this.#given === undefined &&
      DirectRequests.suits(options)
    )
      return this.#direct.send(request, schema, options, state);
    return underTimer({
      clock: this.#clock,
      method: request.method as string,
      options,
      state,
      send: (link, passed, hasEnded) => {
        const send = () => {
          this.#transport?.[HAND_OVER](link);
          try {
            return super.request(request, schema, passed);
          } finally {
            this.#transport?.[HAND_OVER](undefined);
          }
        };
        const opening = this.#connected || request.method === 'initialize' ? undefined : this.#openFirst();
        // Whoever has given up meanwhile sends nothing; nobody hears of this rejection.
        return opening?.then(() => (hasEnded() ? Promise.reject(closedError()) : send())) ?? send();
      },
    });
  }
}
