/**
 * The shapes of the simulator: its options, its controls, what it counts and what it logs.
 *
 * Guarantees that a test can be written from these declarations alone. Never names a type of a test
 * runner or of an MCP SDK.
 */
import type { Clock } from '../clock.js';
import type { AsyncDisposer, Disposer } from '../disposer.js';

/** What a tool's handler is given beside its arguments. */
export interface ToolCallContext {
  /** Ends when the client cancels the call, deletes the session, or the server closes or restarts. */
  readonly signal: AbortSignal;
  /** `notifications/progress`; does nothing where the caller gave no progress token. */
  progress(progress: number): void;
  /** A notification on this call's own stream. */
  notify(method: string, params?: object | undefined): void;
  /**
   * A request to the client (`elicitation/create`, `sampling/createMessage`, ...) on this call's stream, or
   * on the listen stream where answers are plain JSON. Resolves with the client's result; rejects with its
   * error.
   */
  request(method: string, params?: object | undefined): Promise<unknown>;
  /** Waits on the server's clock, so that a manual clock moves it. Rejects when `signal` ends. */
  wait(ms: number): Promise<void>;
}

/**
 * A tool of the simulator. What the handler returns becomes the result: a string is its text, an object
 * with a `content` array is taken as it is, anything else becomes JSON text (and `structuredContent`, where the
 * tool has an output schema). A thrown error becomes an `isError` result; one with a numeric `code` becomes
 * a JSON-RPC error.
 */
export interface ToolDefinition {
  name: string;
  description?: string | undefined;
  /** JSON Schema; `{ type: 'object' }` by default. Arguments are not checked against it. */
  inputSchema?: object | undefined;
  outputSchema?: object | undefined;
  annotations?: object | undefined;
  handler?: ((args: Record<string, unknown>, call: ToolCallContext) => unknown) | undefined;
}

/** A limit on requests to the MCP endpoint. The token endpoint and metadata do not count. */
export interface ServerRateLimit {
  limit: number;
  /** Never more than `limit` in any window of this length, wherever it begins; its end does not belong to it. */
  intervalMs: number;
  /**
   * `'credential'`: a bucket for each subject of a token (see `issueToken`), whichever token it is, expired and revoked
   * ones too; strangers share one. `'tenant'`: one bucket for all.
   */
  per: 'credential' | 'tenant';
  /**
   * What answers say of it. `'retry-after'`, the default: a 429 has `Retry-After`. `'ratelimit'`: every answer has
   * `RateLimit-Policy` and `RateLimit` (IETF draft 10). `'x-ratelimit'`: every answer has `X-RateLimit-Limit`,
   * `-Remaining` and `-Reset` (epoch seconds).
   */
  headers?: 'none' | 'retry-after' | 'ratelimit' | 'x-ratelimit' | undefined;
  /** The body of a 429. `'json-rpc'`: error -32023 with `retryAfterMs`, under the request's id. `'text'` by default. */
  body?: 'text' | 'json-rpc' | undefined;
}

export interface HostedServerOptions {
  /** Default: `echo { text }`, `add { a, b }`, `slow { ms }` and `fail`. */
  tools?: readonly ToolDefinition[] | undefined;
  /** Tools on one page of `tools/list`; all of them by default. */
  pageSize?: number | undefined;
  /** Whether a bearer token is asked for; true by default. */
  auth?: boolean | undefined;
  /** Lifetime of new access tokens in milliseconds; one hour by default. */
  tokenLifetimeMs?: number | undefined;
  /** A refresh spends its refresh token; a spent one that comes again revokes its whole family. */
  rotateRefreshTokens?: boolean | undefined;
  /** How long the token endpoint takes, in milliseconds of the server's clock, after it has decided. */
  tokenDelayMs?: number | undefined;
  /** `'token'`: a session answers only to the access token that opened it. */
  bindSession?: 'none' | 'token' | undefined;
  /** `'none'`: a 401 carries no `WWW-Authenticate`. */
  challenge?: 'bearer' | 'none' | undefined;
  /**
   * Tokens are bound to a key (RFC 9449): token endpoint and MCP endpoint ask for a proof, and refuse one that comes again
   * or is dated more than a minute off. A refresh token that was given out so answers to the same key only, and
   * tokens of `issueToken()` are of no use. `'nonce'`: a proof needs a nonce, too; each answer brings a new one, good for
   * a minute, and the two endpoints have their own. False by default.
   */
  dpop?: boolean | 'nonce' | undefined;
  /** False: no session ids are given out, none is asked for. */
  sessions?: boolean | undefined;
  /** The status by which an unknown session is refused; 404 by default. */
  sessionLostStatus?: 400 | 401 | 403 | 404 | 200 | undefined;
  /**
   * The form of answers. Default: JSON, unless a tool sends something before its answer. `'json'` never opens
   * a stream for a call; `'sse'` always does.
   */
  answer?: 'json' | 'sse' | undefined;
  /** Answers are encoded so, whether the client asked for it or not. */
  compress?: 'gzip' | 'br' | undefined;
  /**
   * SSE events carry ids and are kept, so that a cut stream can be resumed with `Last-Event-ID`. `'deaf'`, as
   * some real stores are: a resume brings what every stream of the session has stored after that event,
   * then nothing more; what is stored later comes with the next resume. Such a stream never ends by itself.
   */
  eventStore?: boolean | 'deaf' | undefined;
  /** A comment line on every open event stream this often, as a server's own keep-alive. None by default. */
  heartbeatMs?: number | undefined;
  /** `retry:` at the start of every event stream, in milliseconds. May be 0, negative or huge. */
  retryFieldMs?: number | undefined;
  /**
   * A proxy's idle limit: an event stream on which the server sent nothing for so long is cut by `cutShape`. A
   * request whose answer has not begun by then is answered 504 with a page, whatever the shape.
   */
  idleCutMs?: number | undefined;
  /** A proxy's limit on the whole answer, counted from the request: the same, although bytes flowed. */
  ageCutMs?: number | undefined;
  /**
   * What a cut looks like. `'fin'`, the default: the connection closes in mid-answer. `'eof'`: the answer ends
   * as if it were complete. `'reset'`: the connection is reset. `'status'`: as `'fin'`, and the next three requests for
   * a stream of that session are answered 502, 503 and 504 with a page. (Sessions are told apart by the header:
   * without one, all clients share the three.)
   */
  cutShape?: StreamCutShape | undefined;
  /**
   * A proxy that does not tell the server when a client leaves a stream: for the server it stays open, so that
   * a new GET is refused with 409, until `releaseStreams()`, until `forMs` after the client left, or until the
   * proxy's own `idleCutMs` or `ageCutMs`. What is sent meanwhile goes nowhere. `cutStreams()` then cuts the
   * client's side only.
   */
  abortNotPropagated?: boolean | { forMs: number } | undefined;
  /** So long after an event stream was opened, its bytes go nowhere, and neither does its end. */
  silentDropMs?: number | undefined;
  /**
   * Over the limit, requests are answered 429, run nothing and do not count against it. Proxies' own pages do
   * not count either, scripted replies do. What is in the buckets stays there when `set()` changes the numbers.
   */
  rateLimit?: ServerRateLimit | undefined;
  /** `Keep-Alive: timeout=...` on every answer, in full seconds. The server itself closes no idle socket. */
  keepAliveHintMs?: number | undefined;
  /** False: GET is answered 405. */
  listen?: boolean | undefined;
  /**
   * So many nodes in turn, one per request, each with its own sessions. Only `notifications/initialized` goes
   * where its session is, as it would on a kept connection: else no handshake would ever come to an end.
   */
  nodesWithoutAffinity?: number | undefined;
  /** A `node` cookie is given out, and a request that brings it goes to its node (two nodes by default). */
  affinityCookie?: boolean | undefined;
  /**
   * Pins the version the handshake answers; by default the client's own, if known. `'2026-07-28'` is another
   * protocol: `server/discover` and `subscriptions/listen`, no handshake, no sessions, no GET, no resume.
   */
  protocolVersion?: string | undefined;
  /**
   * `'legacy-sse'`: HTTP+SSE of 2024-11-05. `url` is then `/sse`: GET opens the stream and the session, its
   * `endpoint` event says where to POST, answers come on the stream, and the session is lost with it.
   */
  transport?: 'streamable' | 'legacy-sse' | undefined;
  /** With `'legacy-sse'`: how a POST to `/sse`, and everything at `/mcp`, is refused; 404 by default. */
  legacyRefusalStatus?: 400 | 404 | 405 | undefined;
  /** With `'legacy-sse'`: what the `endpoint` event says instead of `/messages`; `sessionId` is added to its query. */
  legacyEndpoint?: string | undefined;
  /** The answer to `notifications/initialized`; 202 by default, 200 has the body `null`. */
  handshakeStatus?: 200 | 202 | 204 | undefined;
  /** Moves every timer, expiry and date of the server. The real clock by default. */
  clock?: Clock | undefined;
}

/** Which requests to the MCP endpoint are meant; what is left out matches everything. */
export interface RequestMatch {
  http?: 'GET' | 'POST' | 'DELETE' | undefined;
  /** JSON-RPC method. */
  method?: string | undefined;
  tool?: string | undefined;
  /** Only GET requests with `Last-Event-ID`, or only those without. */
  resume?: boolean | undefined;
}

/** The request a scripted reply answers, as its functions see it. */
export interface ScriptedRequest {
  readonly http: string;
  /** Names in lower case. Not redacted: this is for making an answer, not for the log. */
  readonly headers: Readonly<Record<string, string>>;
  /** The JSON-RPC message; undefined for GET and DELETE. */
  readonly message: { readonly [key: string]: unknown } | undefined;
  /** With `tool: 'run'`: the JSON-RPC response that an undisturbed server would have sent. */
  readonly answer: { readonly [key: string]: unknown } | undefined;
  /** The session the request belongs to; for an `initialize` that was run, the new one. */
  readonly sessionId: string | undefined;
}

export type ScriptedHeaders = Record<string, string | string[]>;
export type ScriptedChunk = string | Uint8Array | { pauseMs: number };
export type CutShape = 'fin' | 'eof' | 'reset';
/** How an event stream is cut: see `cutShape`. */
export type StreamCutShape = CutShape | 'status';

/**
 * An answer instead of the server's own. `tool: 'run'` first does what was asked (a tool runs and is counted, an
 * `initialize` opens a session), after the usual checks of token and session; `'skip'`, the default, does
 * and checks nothing.
 *
 * - `status`: one complete answer. Objects are sent as JSON; a function is called for each request.
 * - `cut`: the answer breaks off after `afterBytes` of its body, or before its head where that is not given.
 *   `'fin'` closes the connection, `'reset'` resets it, `'eof'` ends the answer as if it were complete.
 * - `silence`: nothing is ever sent.
 * - `chunks`: an event stream (unless `headers` say otherwise) in exactly these pieces, then a clean end.
 */
export type ScriptedReply = { tool?: 'run' | 'skip' | undefined } & (
  | {
      status: number;
      headers?: ScriptedHeaders | ((request: ScriptedRequest) => ScriptedHeaders) | undefined;
      body?:
        | string
        | Uint8Array
        | object
        | null
        | ((request: ScriptedRequest) => string | Uint8Array | object | null | undefined)
        | undefined;
    }
  | { cut: CutShape; afterBytes?: number | undefined }
  | { silence: true }
  | {
      chunks: readonly ScriptedChunk[] | ((request: ScriptedRequest) => readonly ScriptedChunk[]);
      headers?: ScriptedHeaders | ((request: ScriptedRequest) => ScriptedHeaders) | undefined;
    }
);

/** What the token endpoint says while it fails. */
export interface TokenReply {
  status: number;
  headers?: ScriptedHeaders | undefined;
  body?: string | object | undefined;
}

/** What reached the server. Counted on arrival, refused or not; executions when the handler starts. */
export interface ServerCounts {
  readonly executions: Record<string, number>;
  /** By `params._meta['mcp-holdfast/callId']`, where a client sends one. */
  readonly executionsById: Record<string, number>;
  readonly initializes: number;
  readonly tokenRequests: number;
  /** GET requests to the MCP endpoint, resumes included. */
  readonly listens: number;
  /** GET requests for a stream, with either transport. */
  readonly gets: number;
  /** GET requests with `Last-Event-ID`. */
  readonly resumes: number;
  /** `subscriptions/listen` requests. */
  readonly subscriptions: number;
  /** Not a count but a reading: event streams that are open just now, as the server sees it. Scripted ones are not. */
  readonly streamsOpen: number;
  readonly deletes: number;
  readonly pings: number;
  /** Every HTTP request to the MCP endpoint. */
  readonly requests: number;
  /** Those answered 429 by `throttle()` or `rateLimit`. */
  readonly rejectedByLimit: number;
}

/** One HTTP request. Secrets are replaced by labels that are stable for the life of the server. */
export interface ServerLogEntry {
  /** Epoch milliseconds on the server's clock. */
  readonly at: number;
  /**
   * Milliseconds on the server's monotonic clock, by which limits are judged: of a request to the MCP endpoint when it
   * was there as a whole, of others when it began.
   */
  readonly atMs: number;
  readonly http: string;
  /** Without the query. */
  readonly path: string;
  readonly rpcMethod?: string;
  readonly rpcId?: string | number;
  readonly tool?: string;
  /** Of the answer; missing until its head was sent, and where none ever was. */
  readonly status?: number;
  /** Names in lower case; `authorization`, `cookie` and `mcp-session-id` as labels, e.g. `Bearer token#3`. */
  readonly headers: Readonly<Record<string, string>>;
  /** `session#2`; `unknown-session#1` for an id that this server never gave out. */
  readonly sessionLabel?: string;
  /** `token#3`; `unknown-token#1` for a token that this server never gave out. */
  readonly tokenLabel?: string;
  readonly nodeLabel?: string;
}

/** What `deploy()` changes. Nobody is told: use `notify()` for that. */
export interface Deployment {
  tools?: readonly ToolDefinition[] | undefined;
  serverInfo?: { name: string; version: string; [field: string]: unknown } | undefined;
  capabilities?: Record<string, unknown> | undefined;
  /** Sessions are forgotten, running calls aborted, sockets closed. */
  restart?: boolean | undefined;
}

/** A running simulator; `await using` closes it where the consumer's TypeScript library knows that. */
export type HostedServer = HostedServerControls & AsyncDisposer;

export interface HostedServerControls {
  /** The MCP endpoint, of the transport that is set just now. */
  readonly url: string;
  readonly issuer: string;
  readonly tokenEndpoint: string;
  /** The one OAuth client; `refreshToken` is the first of its family. */
  readonly client: { readonly id: string; readonly secret: string; readonly refreshToken: string };
  /**
   * An access token that did not come from the token endpoint. `subject`: whose it is, for `rateLimit` per credential;
   * the client itself by default, as of all tokens from the token endpoint.
   */
  issueToken(
    options?:
      | { lifetimeMs?: number | undefined; scope?: string | undefined; subject?: string | undefined }
      | undefined,
  ): string;
  /** A refresh token of a new family, as after a new authorization, by the client itself or by `subject`. */
  issueRefreshToken(options?: { subject?: string | undefined } | undefined): string;
  /** Every access token given out so far is expired from now on. */
  expireTokens(): void;
  /** Every access and refresh token given out so far is void. */
  revokeTokens(): void;
  /** All sessions are forgotten. Open streams and running calls are left alone: see `cutStreams()`. */
  dropSessions(): void;
  /** Cuts every open event stream, of calls and listeners; `'fin'` by default. */
  cutStreams(shape?: StreamCutShape | undefined): void;
  /** The server hears of every client that has left: see `abortNotPropagated`. */
  releaseStreams(): void;
  deploy(change: Deployment): void;
  /** From now on and for so long, the MCP endpoint answers 429 with `Retry-After`. */
  throttle(forMs: number): void;
  /** The token endpoint answers so (503 by default) until it is restored, or `times` times. */
  failTokenEndpoint(
    reply?: TokenReply | undefined,
    options?: { times?: number | undefined } | undefined,
  ): void;
  restoreTokenEndpoint(): void;
  /**
   * Changes options from now on; `undefined` puts back the default. Limits hold for open streams, too. The clock
   * cannot be changed.
   */
  set(options: Omit<HostedServerOptions, 'clock'>): void;
  /** Empties `counts` and `log`. Tokens, sessions, options and scripted replies stay. */
  reset(): void;
  close(): Promise<void>;
  /** The next matching request is answered so. Several are used in the order they were given. */
  replyOnce(match: RequestMatch, reply: ScriptedReply): void;
  /** Every matching request, or the next `times`. Limited replies come before unlimited ones; of these, the latest wins. */
  reply(
    match: RequestMatch,
    reply: ScriptedReply,
    options?: { times?: number | undefined } | undefined,
  ): Disposer;
  /** A notification on every open listen stream. */
  notify(method: string, params?: object | undefined): void;
  readonly counts: ServerCounts;
  /**
   * The most requests to the MCP endpoint, refused ones too, in any window of this length, wherever it begins; since
   * the start or `reset()`. Its end does not belong to a window. `which`: only those are counted.
   */
  mostIn(windowMs: number, which?: ((entry: ServerLogEntry) => boolean) | undefined): number;
  /** Every HTTP request, in order of arrival. */
  readonly log: readonly ServerLogEntry[];
}
