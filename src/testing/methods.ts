/**
 * What the simulator answers to each JSON-RPC method.
 *
 * Guarantees that an execution is counted when its handler starts, whatever becomes of the answer, and that
 * a cancelled call is not answered. Never looks at HTTP.
 */
import type { JsonRpcError, JsonRpcRequest, JsonRpcResponse } from '../json-rpc.js';
import { KNOWN_VERSIONS } from './options.js';
import type { ServerState } from './server-state.js';
import type { Session } from './sessions.js';
import { shownTool, toFailure, toResult } from './tools.js';
import type { TrafficHold } from './traffic-hold.js';
import type { ToolDefinition } from './types.js';

/** Where a call sends what comes before its answer; false where there is nowhere. */
export type Emit = (message: object) => boolean;

export interface RequestContext {
  readonly state: ServerState;
  readonly session: Session;
  readonly emit: Emit;
  readonly hold: TrafficHold;
}

const MEMO = { uri: 'memo://welcome', name: 'welcome', mimeType: 'text/plain' };

class RpcError extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

/** The version that the handshake settles on. */
export function negotiatedVersion(state: ServerState, message: JsonRpcRequest): string {
  const asked = message.params?.protocolVersion;
  const pinned = state.options.protocolVersion;
  if (pinned !== undefined) return pinned;
  const isKnown = typeof asked === 'string' && KNOWN_VERSIONS.includes(asked);
  return isKnown ? asked : (KNOWN_VERSIONS[0] ?? '');
}

export function initializeResult(
  state: ServerState,
  session: Session,
  message: JsonRpcRequest,
): JsonRpcResponse {
  const { capabilities, serverInfo } = state;
  const result = { protocolVersion: session.protocolVersion, capabilities, serverInfo };
  return { jsonrpc: '2.0', id: message.id, result };
}

/** Does what a request asks. Undefined where the request was cancelled: then nothing is answered. */
export async function perform(
  message: JsonRpcRequest,
  context: RequestContext,
): Promise<JsonRpcResponse | undefined> {
  try {
    if (message.method === 'tools/call') return await callTool(message, context);
    return { jsonrpc: '2.0', id: message.id, result: simpleResult(message, context) };
  } catch (error) {
    return errorResponse(message, error);
  }
}

function simpleResult(message: JsonRpcRequest, { state, session }: RequestContext): Record<string, unknown> {
  const params = message.params ?? {};
  switch (message.method) {
    case 'ping':
    case 'logging/setLevel':
      return {};
    case 'tools/list':
      return toolPage(state, params.cursor);
    case 'resources/list':
      return { resources: [MEMO] };
    case 'resources/templates/list':
      return { resourceTemplates: [] };
    case 'resources/read':
      if (params.uri !== MEMO.uri) throw new RpcError(-32002, 'Resource not found');
      return { contents: [{ uri: MEMO.uri, mimeType: MEMO.mimeType, text: 'Welcome.' }] };
    case 'resources/subscribe':
      session.subscriptions.add(String(params.uri));
      return {};
    case 'resources/unsubscribe':
      session.subscriptions.delete(String(params.uri));
      return {};
    case 'prompts/list':
      return { prompts: [] };
    default:
      throw new RpcError(-32601, 'Method not found');
  }
}

function toolPage(state: ServerState, cursor: unknown): Record<string, unknown> {
  const { tools, pageSize } = state.options;
  const from =
    cursor === undefined ? 0 : Number(/^page-after-(\d+)$/.exec(String(cursor))?.[1] ?? Number.NaN);
  if (!(from >= 0 && from <= tools.length)) throw new RpcError(-32602, 'Invalid cursor');
  const until = Math.min(from + pageSize, tools.length);
  const page = { tools: tools.slice(from, until).map(shownTool) };
  return until < tools.length ? { ...page, nextCursor: `page-after-${until}` } : page;
}

async function callTool(
  message: JsonRpcRequest,
  context: RequestContext,
): Promise<JsonRpcResponse | undefined> {
  const { state, session } = context;
  const name = message.params?.name;
  const tool = state.options.tools.find((candidate) => candidate.name === name);
  if (tool === undefined) throw new RpcError(-32602, `Unknown tool: ${String(name)}`);
  const controller = new AbortController();
  session.calls.set(message.id, controller);
  state.running.add(controller);
  try {
    const outcome = await runHandler(tool, message, context, controller.signal);
    if (controller.signal.aborted) return undefined;
    return { jsonrpc: '2.0', id: message.id, ...outcome };
  } finally {
    state.running.delete(controller);
    if (session.calls.get(message.id) === controller) session.calls.delete(message.id);
  }
}

async function runHandler(
  tool: ToolDefinition,
  message: JsonRpcRequest,
  { state, session, emit, hold }: RequestContext,
  signal: AbortSignal,
): Promise<{ result: Record<string, unknown> } | { error: JsonRpcError['error'] }> {
  const meta = asRecord(message.params?._meta);
  const progressToken = meta.progressToken;
  const notify = (method: string, params?: object | undefined) => {
    emit({ jsonrpc: '2.0', method, ...(params === undefined ? {} : { params }) });
  };
  state.log.countExecution(tool.name, meta['mcp-holdfast/callId']);
  try {
    const value = await tool.handler?.(asRecord(message.params?.arguments), {
      signal,
      notify,
      progress(progress) {
        if (progressToken !== undefined) notify('notifications/progress', { progressToken, progress });
      },
      request: (method, params) => hold.during(() => ask(session, emit, method, params, signal)),
      wait: (ms) => hold.wait(ms, signal),
    });
    return { result: toResult(value, tool) };
  } catch (thrown) {
    return toFailure(thrown);
  }
}

/** Asks the client something. */
function ask(
  session: Session,
  emit: Emit,
  method: string,
  params: object | undefined,
  signal: AbortSignal,
): Promise<unknown> {
  const id = session.nextQuestionId();
  return new Promise((resolve, reject) => {
    const end = () => {
      session.questions.delete(id);
      signal.removeEventListener('abort', onAbort);
    };
    const onAbort = () => {
      end();
      reject(signal.reason);
    };
    signal.addEventListener('abort', onAbort);
    session.questions.set(id, {
      resolve(result) {
        end();
        resolve(result);
      },
      reject(error) {
        end();
        reject(error);
      },
    });
    if (!emit({ jsonrpc: '2.0', id, method, ...(params === undefined ? {} : { params }) })) {
      end();
      reject(new Error('there is no stream to ask the client on'));
    }
  });
}

function errorResponse(message: JsonRpcRequest, error: unknown): JsonRpcResponse {
  const known = error instanceof RpcError;
  const code = known ? error.code : -32603;
  const text = error instanceof Error ? error.message : 'Internal error';
  return { jsonrpc: '2.0', id: message.id, error: { code, message: text } };
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
