/**
 * The simulator: a hosted MCP server on the loopback interface, with its faults on switches.
 *
 * Guarantees a real HTTP server that counts what reached it, and that `close()` leaves no socket and no
 * timer behind. Never leaves 127.0.0.1 and never needs a test runner or an MCP SDK.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { makeAsyncDisposable } from '../disposer.js';
import { Answer } from './answer.js';
import { Intermediary } from './intermediary.js';
import { endpointPath, isEndpointPath, McpEndpoint } from './mcp-endpoint.js';
import { resolveServerOptions } from './options.js';
import { ProofCheck } from './proof-check.js';
import { RateLimiter } from './rate-limiter.js';
import { refuse } from './refusals.js';
import { Labels, type LogEntry, loggedHeaders, RequestLog, tokenOf } from './request-log.js';
import { ScriptedReplies } from './scripted-replies.js';
import type { ServerState } from './server-state.js';
import { Nodes, Session } from './sessions.js';
import { issuerMetadata, resourceMetadata, TokenIssuer } from './token-issuer.js';
import { TrafficHold } from './traffic-hold.js';
import type { HostedServer, HostedServerControls, HostedServerOptions } from './types.js';

/** What SDK servers take; more than any test sends. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;

/**
 * Starts a hosted MCP server at `http://127.0.0.1:<port>/mcp`, with its own authorization server at the same
 * origin. Throws a `TypeError` that names a bad option.
 *
 * @example
 * const server = await startHostedServer({ bindSession: 'token', tokenLifetimeMs: 60_000 });
 * // ... connect a client to server.url, then
 * server.expireTokens();
 * await server.close();
 */
export async function startHostedServer(options?: HostedServerOptions | undefined): Promise<HostedServer> {
  let given: HostedServerOptions = { ...options };
  const closing = new AbortController();
  const state = newState(given, closing.signal);
  const endpoint = new McpEndpoint(state);
  const server = createServer((request, response) => void serve(state, endpoint, request, response));
  // Sockets live until somebody closes them: a real timer of the HTTP server would be one more fault.
  server.keepAliveTimeout = 0;
  server.requestTimeout = 0;
  await listen(server);
  state.origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const change = (next: HostedServerOptions) => {
    const merged = { ...given, ...next, clock: state.clock };
    state.options = resolveServerOptions(merged);
    given = merged;
    state.intermediary.onLimitsChanged();
  };
  const restart = () => {
    state.intermediary.letGo();
    for (const call of state.running) call.abort(new Error('the server was restarted'));
    state.nodes.forgetAll();
    server.closeAllConnections();
  };
  const close = async () => {
    closing.abort(new Error('the server was closed'));
    for (const call of state.running) call.abort(closing.signal.reason);
    if (!server.listening) return;
    state.intermediary.letGo();
    for (const channel of [...state.connected]) channel.cut('fin');
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
  };

  const hosted: HostedServerControls = {
    get url() {
      return resourceOf(state);
    },
    issuer: state.origin,
    tokenEndpoint: `${state.origin}/token`,
    client: state.issuer.client,
    get counts() {
      return state.log.counts;
    },
    get log() {
      return state.log.entries;
    },
    issueToken: (o) => state.issuer.issueAccessToken(o),
    issueRefreshToken: (o) => state.issuer.issueRefreshToken(o),
    expireTokens: () => state.issuer.expireAll(),
    revokeTokens: () => state.issuer.revokeAll(),
    dropSessions: () => state.nodes.forgetAll(),
    cutStreams(shape = 'fin') {
      for (const channel of [...state.connected]) channel.cut(shape);
    },
    releaseStreams: () => state.intermediary.releaseAbandoned(),
    deploy({ tools, serverInfo, capabilities, restart: isRestart }) {
      if (tools !== undefined) change({ tools });
      if (serverInfo !== undefined) state.serverInfo = { ...serverInfo };
      if (capabilities !== undefined) state.capabilities = { ...capabilities };
      if (isRestart === true) restart();
    },
    throttle(forMs) {
      state.throttledUntilMs = state.clock.monotonic() + forMs;
    },
    failTokenEndpoint(reply = { status: 503, body: 'Service Unavailable' }, o) {
      state.issuer.failWith(reply, o?.times ?? Number.POSITIVE_INFINITY);
    },
    restoreTokenEndpoint: () => state.issuer.restore(),
    set: change,
    reset: () => state.log.reset(),
    replyOnce: (match, reply) => void state.scripts.add(match, reply, 1),
    reply: (match, reply, o) => state.scripts.add(match, reply, o?.times ?? Number.POSITIVE_INFINITY),
    notify(method, params) {
      notifyListeners(state, { jsonrpc: '2.0', method, ...(params === undefined ? {} : { params }) });
    },
    mostIn: (windowMs, which) => state.log.mostIn(windowMs, which),
    close,
  };
  makeAsyncDisposable(hosted, close);
  return hosted as HostedServer;
}

function newState(given: HostedServerOptions, closing: AbortSignal): ServerState {
  const options = resolveServerOptions(given);
  const { clock } = options;
  const labels = new Labels();
  const state: ServerState = {
    options,
    clock,
    labels,
    closing,
    serverInfo: { name: 'mcp-holdfast-simulator', version: '1.0.0' },
    capabilities: {
      tools: { listChanged: true },
      resources: { subscribe: true, listChanged: true },
      prompts: { listChanged: true },
      logging: {},
    },
    throttledUntilMs: 0,
    origin: '',
    log: new RequestLog(() => state.connected.size),
    issuer: new TokenIssuer(clock, labels, () => state.options),
    proofs: new ProofCheck(clock, () => state.options.dpop === 'nonce'),
    nodes: new Nodes(),
    stateless: new Session({ token: undefined, protocolVersion: '2025-11-25' }),
    scripts: new ScriptedReplies(),
    connected: new Set(),
    subscriptions: new Set(),
    limiter: new RateLimiter(),
    intermediary: new Intermediary(clock, () => state.options),
    running: new Set(),
  };
  return state;
}

function listen(server: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** The resource that tokens are for. */
function resourceOf({ origin, options }: ServerState): string {
  return `${origin}${endpointPath(options)}`;
}

/** Open listen streams, and with an event store those that are cut just now: they hear it on their resume. */
function notifyListeners(state: ServerState, message: object): void {
  const listeners = new Set([...state.connected].filter((channel) => channel.isListener));
  for (const session of state.nodes.all())
    if (session.listener !== undefined) listeners.add(session.listener);
  for (const listener of listeners) listener.send(message);
  for (const subscription of state.subscriptions) subscription.deliver(message);
}

async function serve(
  state: ServerState,
  endpoint: McpEndpoint,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const hold = new TrafficHold(state.clock);
  const path = (request.url ?? '').split('?', 1)[0] ?? '';
  const entry = newEntry(state, request, path);
  const answer = new Answer(response, state.clock.now(), (status) => {
    entry.status = status;
  });
  state.log.entries.push(entry);
  if (isEndpointPath(state.options, path)) state.intermediary.guard(request, answer);
  try {
    const body = await readBody(request);
    if (body === undefined) answer.send(413, {});
    else if (!isOurHost(request, state.origin)) refuse(answer, 403, -32000, 'Invalid Host or Origin header');
    else if (isEndpointPath(state.options, path)) {
      await endpoint.handle({ request, path, body, answer, entry, hold });
    } else if (path === '/token' && request.method === 'POST')
      await answerToken(state, request, body, answer, hold);
    else if (path === '/revoke' && request.method === 'POST') answerRevocation(state, request, body, answer);
    else answerMetadata(state, path, answer);
  } catch (error) {
    // The client broke off its request, the server is closing, or a scripted function threw: say which.
    if (answer.isStarted) answer.cut('fin');
    else refuse(answer, 500, -32603, `Internal error: ${error instanceof Error ? error.message : error}`);
  } finally {
    hold.release();
  }
}

function newEntry(state: ServerState, request: IncomingMessage, path: string): LogEntry {
  const { labels, clock } = state;
  const entry: LogEntry = {
    at: clock.now(),
    atMs: clock.monotonic(),
    http: request.method ?? '',
    path,
    headers: loggedHeaders(request.headers, labels),
  };
  const token = tokenOf(request.headers.authorization);
  if (token !== undefined) entry.tokenLabel = labels.seen('token', token);
  const sessionId = request.headers['mcp-session-id'];
  if (typeof sessionId === 'string') entry.sessionLabel = labels.seen('session', sessionId);
  return entry;
}

/** The whole body; undefined where it is larger than any honest one. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    size += (chunk as Buffer).length;
    if (size > MAX_BODY_BYTES) return undefined;
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks).toString();
}

/** Against DNS rebinding: a page of another origin reaches loopback, but not with our name. */
function isOurHost(request: IncomingMessage, origin: string): boolean {
  const port = new URL(origin).port;
  const hosts = ['127.0.0.1', 'localhost', '[::1]'].map((name) => `${name}:${port}`);
  if (!hosts.includes(request.headers.host ?? '')) return false;
  const from = request.headers.origin;
  return from === undefined || hosts.some((host) => from === `http://${host}`);
}

async function answerToken(
  state: ServerState,
  request: IncomingMessage,
  body: string,
  answer: Answer,
  hold: TrafficHold,
): Promise<void> {
  state.log.counts.tokenRequests += 1;
  const form = new URLSearchParams(body);
  const { authorization, dpop: proof } = request.headers;
  const reply = state.issuer.answer({
    form,
    authorization,
    proof: Array.isArray(proof) ? undefined : proof,
    url: `${state.origin}/token`,
    resource: resourceOf(state),
  });
  const { tokenDelayMs } = state.options;
  if (tokenDelayMs > 0) await hold.wait(tokenDelayMs, state.closing);
  if (typeof reply.body === 'object') answer.sendJson(reply.status, reply.body, reply.headers);
  else answer.send(reply.status, { 'content-type': 'text/html', ...reply.headers }, reply.body);
}

function answerRevocation(state: ServerState, request: IncomingMessage, body: string, answer: Answer): void {
  const form = new URLSearchParams(body);
  const { status, headers } = state.issuer.revoke({ form, authorization: request.headers.authorization });
  answer.send(status, headers ?? {});
}

function answerMetadata(state: ServerState, path: string, answer: Answer): void {
  const resourcePath = '/.well-known/oauth-protected-resource';
  const issuerPaths = ['/.well-known/oauth-authorization-server', '/.well-known/openid-configuration'];
  const isBound = state.options.dpop !== false;
  if (!state.options.auth) answer.send(404, {});
  else if (path === resourcePath || path === `${resourcePath}${endpointPath(state.options)}`) {
    answer.sendJson(200, resourceMetadata(resourceOf(state), state.origin, isBound));
  } else if (issuerPaths.includes(path)) answer.sendJson(200, issuerMetadata(state.origin, isBound));
  else if (path === '/jwks') answer.sendJson(200, { keys: [] });
  else answer.send(404, {});
}
