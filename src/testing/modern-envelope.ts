/**
 * What every request of 2026-07-28 must carry, in its `_meta` and in its headers.
 *
 * Guarantees the order in which SDK servers look: the revision, the envelope, the headers, the method. Never
 * refuses a request for what it asks.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { JsonRpcRequest } from '../json-rpc.js';
import { asParams } from './exchange.js';
import { MODERN_VERSION } from './options.js';

const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion';
const ENVELOPE_KEYS: readonly string[] = [
  VERSION_KEY,
  'io.modelcontextprotocol/clientInfo',
  'io.modelcontextprotocol/clientCapabilities',
];

/** Those of this revision that the simulator knows. `initialize`, `ping` and the like are gone. */
const MODERN_METHODS: readonly string[] = [
  'server/discover',
  'subscriptions/listen',
  'tools/list',
  'tools/call',
  'resources/list',
  'resources/templates/list',
  'resources/read',
  'prompts/list',
];

/** Where `Mcp-Name` comes from. */
const NAME_SOURCES: readonly (readonly [string, string])[] = [
  ['tools/call', 'name'],
  ['resources/read', 'uri'],
];

export interface EnvelopeRefusal {
  readonly status: number;
  readonly code: number;
  readonly message: string;
  readonly data?: object | undefined;
}

/** Why a request may not pass; undefined where it may. */
export function refusalOf(
  message: JsonRpcRequest,
  headers: IncomingHttpHeaders,
): EnvelopeRefusal | undefined {
  // Whoever shakes hands has not read this revision: the method is what is wrong.
  if (message.method === 'initialize') return methodNotFound();
  const meta = asParams(message.params?._meta) ?? {};
  const claimed = meta[VERSION_KEY] ?? headers['mcp-protocol-version'];
  if (claimed !== MODERN_VERSION) {
    const data = { supported: [MODERN_VERSION], requested: claimed ?? null };
    return { status: 400, code: -32022, message: 'Unsupported protocol version', data };
  }
  const missing = ENVELOPE_KEYS.filter((key) => meta[key] === undefined);
  if (missing.length > 0) {
    return { status: 400, code: -32602, message: `Invalid params: _meta lacks ${missing.join(', ')}` };
  }
  const wrong = wrongHeader(message, headers);
  if (wrong !== undefined) {
    return {
      status: 400,
      code: -32020,
      message: `Header mismatch: ${wrong} is missing or differs from the body`,
    };
  }
  return MODERN_METHODS.includes(message.method) ? undefined : methodNotFound();
}

function methodNotFound(): EnvelopeRefusal {
  return { status: 404, code: -32601, message: 'Method not found' };
}

/** SEP-2243: what intermediaries route by must say the same as the body. */
function wrongHeader(message: JsonRpcRequest, headers: IncomingHttpHeaders): string | undefined {
  if (headers['mcp-protocol-version'] !== MODERN_VERSION) return 'MCP-Protocol-Version';
  if (headers['mcp-method'] !== message.method) return 'Mcp-Method';
  const source = NAME_SOURCES.find(([method]) => method === message.method)?.[1];
  const name = source === undefined ? undefined : message.params?.[source];
  if (typeof name === 'string' && decoded(headers['mcp-name']) !== name) return 'Mcp-Name';
  return undefined;
}

/** Values that are no plain ASCII field value come as `=?base64?...?=`. */
function decoded(value: string | string[] | undefined): string | undefined {
  const text = Array.isArray(value) ? value.join(', ') : value;
  const base64 = /^=\?base64\?(.*)\?=$/.exec(text ?? '')?.[1];
  return base64 === undefined ? text : Buffer.from(base64, 'base64').toString();
}
