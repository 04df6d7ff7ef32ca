/**
 * JSON-RPC messages as they cross the wire.
 *
 * Guarantees nothing about `params` and `result`: those belong to MCP and to the SDK above. Never copies
 * a parsed message into options; guards look at own keys only.
 */
export type RequestId = string | number;

export interface JsonRpcRequest {
  readonly jsonrpc: '2.0';
  readonly id: RequestId;
  readonly method: string;
  readonly params?: { readonly [key: string]: unknown } | undefined;
}
export interface JsonRpcNotification {
  readonly jsonrpc: '2.0';
  readonly method: string;
  readonly params?: { readonly [key: string]: unknown } | undefined;
}
export interface JsonRpcResult {
  readonly jsonrpc: '2.0';
  readonly id: RequestId;
  readonly result: { readonly [key: string]: unknown };
}
export interface JsonRpcError {
  readonly jsonrpc: '2.0';
  /** `null` or absent where the sender could not tell which request it refuses. */
  readonly id?: RequestId | null | undefined;
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown };
}
export type JsonRpcResponse = JsonRpcResult | JsonRpcError;
export type JsonRpcMessage = JsonRpcRequest | JsonRpcNotification | JsonRpcResponse;

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
const has = (value: object, key: string) => Object.hasOwn(value, key);

/** A request that wants an answer. */
export function isRequest(value: unknown): value is JsonRpcRequest {
  return isObject(value) && typeof value.method === 'string' && has(value, 'id') && isRequestId(value.id);
}
export function isNotification(value: unknown): value is JsonRpcNotification {
  return isObject(value) && typeof value.method === 'string' && !has(value, 'id');
}
export function isResult(value: unknown): value is JsonRpcResult {
  return isObject(value) && isRequestId(value.id) && has(value, 'result') && isObject(value.result);
}
export function isErrorResponse(value: unknown): value is JsonRpcError {
  return isObject(value) && isObject(value.error) && typeof value.error.code === 'number';
}
export function isResponse(value: unknown): value is JsonRpcResponse {
  return isResult(value) || isErrorResponse(value);
}
export function isRequestId(value: unknown): value is RequestId {
  return typeof value === 'string' || (typeof value === 'number' && Number.isFinite(value));
}
/** The tool a `tools/call` names, else nothing. */
export function toolOf(message: {
  method: string;
  params?: { readonly [key: string]: unknown } | undefined;
}): string | undefined {
  const name = message.method === 'tools/call' ? message.params?.name : undefined;
  return typeof name === 'string' ? name : undefined;
}
