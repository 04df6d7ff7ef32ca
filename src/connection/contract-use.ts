/**
 * How a connection reads its server's contract, and when the watch looks again.
 *
 * Guarantees that the connection's own questions go the way of every request, under its limits and its recovery,
 * and are on nobody's account. Never compares: that is the watch's.
 */
import { readContract, type SnapshotOptions } from '../contract/read.js';
import type { ContractSnapshot, JsonObject } from '../contract/types.js';
import { ContractWatch } from '../contract/watch.js';
import { cleanServerText, HostedMcpError } from '../errors.js';
import type { Emitter } from '../events.js';
import { isErrorResponse, type JsonRpcRequest, type JsonRpcResponse } from '../json-rpc.js';
import type { ResolvedHostedOptions } from '../options.js';
import type { Redactor } from '../redactor.js';
import type { SessionKeeper } from '../session/keeper.js';
import type { RequestOptions } from './ledger.js';
import type { ConnectionEvents } from './types.js';

interface ContractUseParts {
  readonly options: ResolvedHostedOptions;
  readonly emitter: Emitter<ConnectionEvents>;
  readonly keeper: SessionKeeper;
  readonly redactor: Redactor;
  request(message: JsonRpcRequest, options: RequestOptions): Promise<JsonRpcResponse>;
  close(): void;
}

const METHOD_NOT_FOUND = -32601;
/** MCP 2026-07-28, "Request Metadata". */
const PROTOCOL_META = 'io.modelcontextprotocol/';

export class ContractUse {
  readonly #parts: ContractUseParts;
  /** Where the app wants one. */
  readonly watch: ContractWatch | undefined;
  #asked = 0;
  /** What each request of the later era says of itself in its `_meta`. */
  #meta: unknown;

  constructor(parts: ContractUseParts) {
    this.#parts = parts;
    const { options, emitter, keeper } = parts;
    if (options.contract === undefined) return;
    const watch = new ContractWatch({
      options: options.contract,
      clock: options.clock,
      read: (what) => this.snapshot(what),
      tell: (event, payload) => emitter.emit(event, payload as never),
      isUp: () => keeper.session !== undefined,
      close: parts.close,
    });
    this.watch = watch;
    emitter.on('session-established', () => watch.changed());
    // Without the notifications that were lost in it, nobody else would say so.
    emitter.on('stream-gap', () => watch.changed());
  }

  async snapshot(options: SnapshotOptions = {}): Promise<ContractSnapshot> {
    const { options: resolved, keeper } = this.#parts;
    // The handshake says what the lists belong to.
    if (keeper.session === undefined) await keeper.ready();
    const origin = () => {
      const {
        protocolVersion = '',
        capabilities = {},
        serverInfo = {},
        instructions,
      } = keeper.session?.info ?? {};
      return { protocolVersion, capabilities, serverInfo, instructions, url: resolved.url };
    };
    const takenAt = new Date(resolved.clock.now());
    return readContract(
      (method, params) => this.#ask(method, params, options.signal),
      origin,
      takenAt,
      options,
    );
  }

  /** A request of the face. */
  seen(message: JsonRpcRequest): void {
    if (message.params?._meta !== undefined) this.#meta = message.params._meta;
  }

  #paramsOf(params: JsonObject): JsonObject {
    if (this.#parts.keeper.session?.info.era !== 'stateless') return params;
    const meta = Object.entries(this.#meta ?? {}).filter(([key]) => key.startsWith(PROTOCOL_META));
    return { ...params, _meta: Object.fromEntries(meta) };
  }

  async #ask(
    method: string,
    params: JsonObject,
    signal: AbortSignal | undefined,
  ): Promise<JsonObject | undefined> {
    const id = `holdfast-contract-${++this.#asked}`;
    const request = { jsonrpc: '2.0', id, method, params: this.#paramsOf(params) } as const;
    const answer = await this.#parts.request(request, { isOwn: true, signal });
    // What is recorded, compared and told must not hold what a server echoes of our secrets.
    if (!isErrorResponse(answer)) return this.#parts.redactor.value(answer.result) as JsonObject;
    if (answer.error.code === METHOD_NOT_FOUND) return undefined;
    const serverText = cleanServerText(answer.error.message);
    throw new HostedMcpError('ERR_PROTOCOL', 'The server does not list what it offers', {
      method,
      serverText,
    });
  }
}
