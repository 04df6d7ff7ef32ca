/**
 * The MCP endpoint, whichever transport it speaks.
 *
 * Guarantees the order of the way in: the proxy's own pages, the limit, a scripted reply that runs nothing,
 * the token, then the transport. Never lets a request pass uncounted.
 */
import { toolOf } from '../json-rpc.js';
import {
  asParams,
  type Exchange,
  headerOf,
  type Message,
  parseBody,
  replyAsScripted,
  scriptFacts,
  type Wire,
} from './exchange.js';
import { LEGACY_MESSAGE_PATH, LEGACY_STREAM_PATH, LegacyWire } from './legacy-wire.js';
import { ModernWire } from './modern-wire.js';
import type { ServerOptions } from './options.js';
import type { ProofError } from './proof-check.js';
import { answerHeaders, refuseForLimit } from './rate-limiter.js';
import { refuseToken } from './refusals.js';
import { tokenOf } from './request-log.js';
import type { ServerState } from './server-state.js';
import { StreamableWire } from './streamable-wire.js';

export const MCP_PATH = '/mcp';

/** Where clients are told to connect. */
export function endpointPath({ wire }: Pick<ServerOptions, 'wire'>): string {
  return wire === 'legacy-sse' ? LEGACY_STREAM_PATH : MCP_PATH;
}

export function isEndpointPath({ wire }: Pick<ServerOptions, 'wire'>, path: string): boolean {
  if (path === MCP_PATH) return true;
  return wire === 'legacy-sse' && (path === LEGACY_STREAM_PATH || path === LEGACY_MESSAGE_PATH);
}

export class McpEndpoint {
  readonly #state: ServerState;
  readonly #wires: Readonly<Record<ServerOptions['wire'], Wire>>;

  constructor(state: ServerState) {
    this.#state = state;
    this.#wires = {
      streamable: new StreamableWire(state),
      'legacy-sse': new LegacyWire(state),
      modern: new ModernWire(state),
    };
  }

  async handle(exchange: Exchange): Promise<void> {
    const { request, answer, entry } = exchange;
    const state = this.#state;
    const message = request.method === 'POST' ? parseBody(exchange.body) : undefined;
    this.#note(exchange, message);
    const wantsStream = request.method === 'GET' || message?.method === 'subscriptions/listen';
    if (wantsStream && state.intermediary.answersWithPage(request, answer)) return;
    if (state.throttledUntilMs > state.clock.monotonic()) {
      state.log.counts.rejectedByLimit += 1;
      const seconds = Math.ceil((state.throttledUntilMs - state.clock.monotonic()) / 1000);
      answer.send(429, { 'retry-after': String(seconds), 'content-type': 'text/plain' }, 'Too Many Requests');
      return;
    }
    if (!this.#isWithinLimit(exchange, message)) return;
    const skipping = state.scripts.take(scriptFacts(entry), 'skip');
    if (skipping !== undefined) {
      const sessionId = headerOf(request, 'mcp-session-id');
      await replyAsScripted(state, skipping, exchange, { message, answer: undefined, sessionId });
      return;
    }
    if (!this.#isAuthorized(exchange)) return;
    const token = tokenOf(request.headers.authorization);
    await this.#wires[state.options.wire].handle(exchange, message, token);
  }

  /** Judges token and proof; false where the request was refused. */
  #isAuthorized({ request, answer, path }: Exchange): boolean {
    const { options, issuer, proofs, origin } = this.#state;
    const { auth, challenge, dpop } = options;
    if (!auth) return true;
    const scheme = dpop === false ? 'Bearer' : 'DPoP';
    const token = tokenOf(request.headers.authorization, dpop === false ? 'bearer' : 'dpop');
    const metadataUrl = `${origin}/.well-known/oauth-protected-resource${endpointPath(options)}`;
    const refuse = (error?: ProofError) => {
      const wasGiven = tokenOf(request.headers.authorization) !== undefined;
      refuseToken(answer, { metadataUrl, challenge, wasGiven, scheme, error });
      return false;
    };
    if (dpop !== false && token !== undefined) {
      const method = request.method ?? '';
      const verdict = proofs.judge(headerOf(request, 'dpop'), { method, url: `${origin}${path}`, token });
      Object.assign(answer.extraHeaders, proofs.headers());
      if ('error' in verdict) return refuse(verdict.error);
      if (issuer.keyOf(token) !== verdict.thumbprint) return refuse();
    }
    return token !== undefined && issuer.judge(token) === 'valid' ? true : refuse();
  }

  /** Counts a request against the limit, or refuses it. */
  #isWithinLimit({ request, answer, entry }: Exchange, message: Message | undefined): boolean {
    const { limiter, issuer, log, clock, options } = this.#state;
    const { rateLimit } = options;
    if (rateLimit === undefined) return true;
    const token = tokenOf(request.headers.authorization);
    const subject = token === undefined ? undefined : issuer.subjectOf(token);
    const standing = limiter.judge(rateLimit, subject, entry.atMs);
    Object.assign(answer.extraHeaders, answerHeaders(rateLimit, standing, clock.now()));
    if (standing.isAdmitted) return true;
    log.counts.rejectedByLimit += 1;
    refuseForLimit(answer, rateLimit, standing, message?.id);
    return false;
  }

  /** Counts and logs, before anything is judged. */
  #note({ request, entry, path }: Exchange, message: Message | undefined): void {
    const { clock, log } = this.#state;
    const { counts } = log;
    log.arrived(entry, clock.monotonic());
    if (request.method === 'GET') {
      counts.gets += 1;
      if (path === MCP_PATH) counts.listens += 1;
      if (headerOf(request, 'last-event-id') !== undefined) counts.resumes += 1;
    }
    if (request.method === 'DELETE') counts.deletes += 1;
    if (typeof message?.method === 'string') {
      entry.rpcMethod = message.method;
      if (message.method === 'initialize') counts.initializes += 1;
      if (message.method === 'ping') counts.pings += 1;
      if (message.method === 'subscriptions/listen') counts.subscriptions += 1;
      const tool = toolOf({ method: message.method, params: asParams(message.params) });
      if (tool !== undefined) entry.tool = tool;
    }
    if (typeof message?.id === 'string' || typeof message?.id === 'number') entry.rpcId = message.id;
  }
}
