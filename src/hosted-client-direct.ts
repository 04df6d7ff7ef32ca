/**
 * The requests of a HostedClient that need nothing of the SDK but its schemas: they go to the engine, and not through the
 * SDK's own bookkeeping.
 *
 * Guarantees the results and errors that the SDK would give for the same answers, and ids that its own never have. What
 * asks for progress, tasks or a stream to be taken up is not for here. Never sends anything by itself.
 */
import { type AnySchema, safeParse } from '@modelcontextprotocol/sdk/server/zod-compat.js';
import type { RequestOptions } from '@modelcontextprotocol/sdk/shared/protocol.js';
import { CallToolResultSchema, McpError } from '@modelcontextprotocol/sdk/types.js';
import type { Clock } from './clock.js';
import type { HostedConnection } from './connection/connection.js';
import type { Call } from './connection/ledger.js';
import { HostedMcpError } from './errors.js';
import { type CallState, REQUEST_TIMEOUT_MS } from './hosted-call-timer.js';
import { isErrorResponse, type JsonRpcRequest, type JsonRpcResponse, toolOf } from './json-rpc.js';
import { refusedResult } from './output-validator.js';

/** Far above what the SDK counts up to. */
const FIRST_ID = 2 ** 30;

export class DirectRequests {
  readonly #engine: HostedConnection;
  readonly #clock: Clock;
  readonly #takeBack: (call: Call, error: HostedMcpError) => void;
  #nextId = FIRST_ID;

  constructor(engine: HostedConnection, clock: Clock) {
    this.#engine = engine;
    this.#clock = clock;
    this.#takeBack = (call, error) => engine.takeBack(call, error);
  }

  /** Whether nothing is asked for that the SDK does. */
  static suits(options: RequestOptions | undefined): boolean {
    if (options === undefined) return true;
    const { onprogress, task, relatedTask, relatedRequestId, resumptionToken, onresumptiontoken } = options;
    return (
      onprogress === undefined &&
      task === undefined &&
      relatedTask === undefined &&
      relatedRequestId === undefined &&
      resumptionToken === undefined &&
      onresumptiontoken === undefined
    );
  }

  send(
    { method, params }: { readonly method: string; readonly params?: unknown },
    schema: AnySchema,
    options: RequestOptions = {},
    state?: CallState,
  ): Promise<unknown> {
    const { timeout = REQUEST_TIMEOUT_MS, maxTotalTimeout = Number.POSITIVE_INFINITY, signal } = options;
    if (signal?.aborted === true)
      return Promise.reject(
        new HostedMcpError('ERR_ABORTED', 'The caller gave the call up', { method, retryable: true }),
      );
    const id = this.#nextId;
    this.#nextId += 1;
    const message = { jsonrpc: '2.0', id, method, params } as JsonRpcRequest;
    const deadlineMs = this.#clock.monotonic() + Math.min(timeout, maxTotalTimeout);
    return this.#engine.request(message, { deadlineMs, signal, takeBack: this.#takeBack }).then((answer) => {
      const result = resultOf(answer, schema, message);
      if (state !== undefined) state.answered = true;
      return result;
    });
  }
}

function resultOf(answer: JsonRpcResponse, schema: AnySchema, message: JsonRpcRequest): unknown {
  if (isErrorResponse(answer)) {
    const { code, message: text, data } = answer.error;
    throw McpError.fromError(code, text, data);
  }
  const { result } = answer;
  if (schema === CallToolResultSchema && isPlain(result)) return result;
  let refusal: unknown;
  try {
    const parsed = safeParse(schema, result);
    if (parsed.success) return parsed.data;
    refusal = parsed.error;
  } catch (error) {
    refusal = error;
  }
  throw refusedResult(refusal, message.method, toolOf(message));
}

/** A result of text alone, as most are: the schema would give it back as it is. */
function isPlain(result: Readonly<Record<string, unknown>>): boolean {
  const { content, isError } = result;
  if (!Array.isArray(content) || (isError !== undefined && typeof isError !== 'boolean')) return false;
  for (const key in result) if (key !== 'content' && key !== 'isError') return false;
  for (const block of content) {
    if (
      typeof block !== 'object' ||
      block === null ||
      block.type !== 'text' ||
      typeof block.text !== 'string'
    )
      return false;
    for (const key in block) if (key !== 'type' && key !== 'text') return false;
  }
  return true;
}
