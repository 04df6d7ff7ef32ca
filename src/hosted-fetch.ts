/**
 * hostedFetch: the engine behind the fetch signature, for frameworks that take nothing else.
 *
 * Guarantees what the engine guarantees, under whichever HTTP transport a framework brings: its sessions, tokens,
 * cuts and limits are healed behind it, and a call leaves this process at most once. Imports no SDK; never serves
 * another address than its endpoint.
 */
import { HostedConnection } from './connection/connection.js';
import type { Connection } from './connection/types.js';
import { type AsyncDisposer, makeAsyncDisposable } from './disposer.js';
import { FetchFace } from './fetch/face.js';
import { checkGateTimes } from './gates/gate.js';
import { type HostedOptions, resolveHostedOptions } from './options.js';

/**
 * A `fetch` for one MCP endpoint. `await using` closes it where the consumer's TypeScript library knows that.
 *
 * Takes POST, GET and DELETE of Streamable HTTP. What fails on the way comes as a JSON-RPC error with a code from
 * -32018 to -32010, whose `data.holdfast` is `{ code, executed, retryAfterMs? }`: `HostedMcpError.from(error)` reads it from the
 * SDK's error. Rejects with a `HostedMcpError` for another address (`ERR_DENIED`), for a notification that was not taken,
 * and for `server/discover` where the server gave no answer; with the signal's reason where that was aborted, and the
 * call is then cancelled at the server.
 */
export type HostedFetch = {
  (input: string | URL | Request, init?: RequestInit): Promise<Response>;
  /** The engine: state, events, figures. */
  readonly connection: Connection;
  /** Deletes the session and ends every stream and call. Never rejects. */
  close(): Promise<void>;
} & AsyncDisposer;

/**
 * The engine behind the fetch signature. The framework's transport is given a session id of its own at each handshake,
 * never the server's, and keeps it however often the session behind it is replaced.
 *
 * ```ts
 * const fetch = hostedFetch('https://mcp.example.com/mcp', { credentials: tokenFromEnv('MCP_TOKEN') });
 * const server = new MCPServerStreamableHttp({ url: 'https://mcp.example.com/mcp', fetch });
 * ```
 *
 * Headers for the server belong in `http.headers`: of the framework's own only `Mcp-Param-*` are passed on, and a
 * token that it sends is not used. Throws `TypeError` for an option that cannot be used, before any I/O.
 */
export function hostedFetch(url: string | URL, options: HostedOptions = {}): HostedFetch {
  const resolved = resolveHostedOptions(url, options);
  // Nobody here can stop the timer of the framework's caller.
  checkGateTimes(resolved.gates, resolved.retry.maxElapsedMs);
  const connection = new HostedConnection(resolved);
  const face = new FetchFace(connection, resolved);
  const serve = (input: string | URL | Request, init?: RequestInit) => face.fetch(input, init);
  const close = () => connection.close();
  const made = Object.defineProperties(serve, {
    connection: { value: connection, enumerable: true },
    close: { value: close, enumerable: true },
  });
  makeAsyncDisposable(made, close);
  return made as unknown as HostedFetch;
}
