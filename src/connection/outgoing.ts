/**
 * A call as it goes on the wire: the message, and the headers that repeat parts of it.
 *
 * Guarantees that headers and body are made from the same message in one place, so that they cannot differ
 * (MCP 2026-07-28, "Request Metadata"), and that a header the engine answers for is never the caller's. Never
 * changes what the caller asked, save for the arguments a gate put in their place and the trace context in `_meta`.
 */
import type { JsonRpcRequest, RequestId } from '../json-rpc.js';
import { base64Of } from '../runtime/bytes.js';
import type { Session } from '../session/session.js';
import type { Call } from './ledger.js';
import type { Route, StreamFacts } from './route.js';

/** The first revision without handshake and sessions; revisions are dates, so they sort as text. */
const FIRST_STATELESS_VERSION = '2026-07-28';
/** Its answer is a stream that stays: no call that anybody waits for. */
export const LISTEN = 'subscriptions/listen';
const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion';

/** Where `Mcp-Name` comes from (SEP-2243; the tasks extension, SEP-2663). */
const NAME_SOURCES: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
  ['tasks/get', 'taskId'],
  ['tasks/update', 'taskId'],
  ['tasks/cancel', 'taskId'],
]);
/** Not the caller's to set: credentials, the session, and what is made from the body. */
const RESERVED: ReadonlySet<string> = new Set([
  'authorization',
  'dpop',
  'content-type',
  'mcp-protocol-version',
  'mcp-method',
  'mcp-name',
  'mcp-session-id',
]);

/** What a call of the earlier era has beside its session. */
const NOTHING_MORE = Object.freeze({ headers: Object.freeze({}) });

export function isStateless(version: string): boolean {
  return version >= FIRST_STATELESS_VERSION;
}

/** The version that a request says in its `_meta`; those of earlier revisions say none. */
export function versionOf({ params }: JsonRpcRequest): string | undefined {
  const meta = params?._meta;
  if (typeof meta !== 'object' || meta === null || !Object.hasOwn(meta, VERSION_KEY)) return undefined;
  const version = (meta as Record<string, unknown>)[VERSION_KEY];
  return typeof version === 'string' ? version : undefined;
}

/** What goes out for a call, this time. */
export function outgoing(
  call: Call,
  session: Session,
): { message: JsonRpcRequest; route: Pick<Route, 'protocolVersion' | 'headers'> } {
  let { message } = call;
  if (call.rewritten !== undefined)
    message = { ...message, params: { ...message.params, arguments: call.rewritten } };
  if (session.info.era === 'stateless' && call.attempts > 0) message = reissued(message, call.attempts);
  if (call.trace !== undefined) message = call.trace.carry(message);
  return { message, route: routeOf(message, call.options.headers) };
}

/** In the later era whatever goes out again does so under a new id (2026-07-28, changelog, major change 9). */
export function reissued(message: JsonRpcRequest, attempt: number): JsonRpcRequest {
  return { ...message, id: `holdfast-again-${attempt}-${message.id}` };
}

/** An answer under the id that the caller knows. */
export function answeredAs(facts: StreamFacts, id: RequestId): StreamFacts {
  const { message, relation } = facts;
  if (message === undefined || relation !== 'own' || message.id === id) return facts;
  return { ...facts, message: { ...message, id } };
}

export function routeOf(
  message: JsonRpcRequest,
  given: Readonly<Record<string, string>> | undefined,
): Pick<Route, 'protocolVersion' | 'headers'> {
  const protocolVersion = versionOf(message);
  if (given === undefined && protocolVersion === undefined) return NOTHING_MORE;
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(given ?? {})) {
    const lower = name.toLowerCase();
    if (!RESERVED.has(lower)) headers[lower] = value;
  }
  if (protocolVersion === undefined) return { headers };
  headers['mcp-method'] = message.method;
  const source = NAME_SOURCES.get(message.method);
  const name = source === undefined ? undefined : message.params?.[source];
  if (typeof name === 'string') headers['mcp-name'] = encoded(name);
  return { protocolVersion, headers };
}

/** 2026-07-28, transports, "Value Encoding": what is no plain field value travels as base64 of its UTF-8. */
function encoded(value: string): string {
  const isPlain = /^[\x20-\x7e\t]+$/.test(value) && value === value.trim();
  const isSentinel = value.startsWith('=?base64?') && value.endsWith('?=');
  return isPlain && !isSentinel ? value : `=?base64?${base64Of(value)}?=`;
}
