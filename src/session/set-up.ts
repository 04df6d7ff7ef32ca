/**
 * What a session gets before waiting calls go out on it: what the old one had, then the app's own set-up.
 *
 * Guarantees a bound in time, and that set-up calls go out on this very session, ahead of everybody.
 * Never re-sends what it sends.
 */
import type { Clock } from '../clock.js';
import { classify, PLAIN_CONTEXT } from '../connection/classify.js';
import type { Wire } from '../connection/wire.js';
import { cleanServerText, HostedMcpError } from '../errors.js';
import { isErrorResponse, type JsonRpcMessage, type JsonRpcRequest, toolOf } from '../json-rpc.js';
import type { ResolvedSessionOptions, SessionSetup } from './options.js';
import type { Session } from './session.js';

export interface SetUpParts {
  readonly clock: Clock;
  readonly wire: Wire;
  readonly options: ResolvedSessionOptions;
  onMessage(message: JsonRpcMessage, session: Session): void;
}

export class SetUp {
  readonly #parts: SetUpParts;
  #logLevel: JsonRpcRequest | undefined;
  readonly #subscriptions = new Map<string, JsonRpcRequest>();
  #sent = 0;

  constructor(parts: SetUpParts) {
    this.#parts = parts;
  }

  /** An answered request whose effect a new session would not have. */
  note(request: JsonRpcRequest): void {
    if (request.method === 'logging/setLevel') this.#logLevel = request;
    const uri = request.params?.uri;
    if (typeof uri !== 'string') return;
    if (request.method === 'resources/subscribe') this.#subscriptions.set(uri, request);
    else if (request.method === 'resources/unsubscribe') this.#subscriptions.delete(uri);
  }

  async run(
    session: Session,
    previous: Session | undefined,
    reason: string,
    ended: AbortSignal,
  ): Promise<void> {
    const { clock, options } = this.#parts;
    if (options.restore && session.number > 1) await this.#restore(session, ended);
    const { onEstablished } = options;
    if (onEstablished === undefined) return;
    const bound = new AbortController();
    const late = new HostedMcpError('ERR_SESSION_UNSTABLE', 'The set-up of the session did not end in time', {
      reason: 'onEstablished did not end in time; inside it, calls go through setup.callTool',
    });
    const timer = clock.setTimeout(() => bound.abort(late), options.setupTimeoutMs);
    const onEnded = () => bound.abort(ended.reason);
    ended.addEventListener('abort', onEnded, { once: true });
    const { signal } = bound;
    const send = (
      method: string,
      params: Record<string, unknown> | undefined,
      given: AbortSignal | undefined,
    ) =>
      this.#request(session, method, params, given === undefined ? signal : AbortSignal.any([signal, given]));
    const setup: SessionSetup = {
      session: session.info,
      ...(previous !== undefined && { previous: previous.info }),
      reason,
      signal,
      callTool: (params, o) => send('tools/call', params, o?.signal),
      request: (method, params, o) => send(method, params, o?.signal),
    };
    try {
      await new Promise<void>((resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
        Promise.resolve()
          .then(() => onEstablished(setup))
          .then(resolve, reject);
      });
    } finally {
      timer.clear();
      ended.removeEventListener('abort', onEnded);
    }
  }

  async #restore(session: Session, signal: AbortSignal): Promise<void> {
    const requests = [...(this.#logLevel ? [this.#logLevel] : []), ...this.#subscriptions.values()];
    // A server that no longer has the resource is no reason to refuse the session.
    for (const { method, params } of requests)
      await this.#request(session, method, params, signal).catch(() => {});
    if (signal.aborted) throw signal.reason;
  }

  async #request(
    session: Session,
    method: string,
    params: { readonly [key: string]: unknown } | undefined,
    signal: AbortSignal,
  ): Promise<Record<string, unknown>> {
    if (signal.aborted) throw signal.reason;
    const request: JsonRpcRequest = {
      jsonrpc: '2.0',
      id: `holdfast-set-up-${++this.#sent}`,
      method,
      ...(params !== undefined && { params }),
    };
    const facts = await this.#parts.wire.send(request, {
      session,
      credential: session.credential,
      signal,
      onMessage: (message) => this.#parts.onMessage(message, session),
    });
    if (signal.aborted && facts.sent) {
      throw new HostedMcpError(
        'ERR_OUTCOME_UNKNOWN',
        'A request of the session set-up was cut off by its end',
        {
          executed: 'unknown',
          method,
          tool: toolOf(request),
        },
      );
    }
    if (signal.aborted) throw signal.reason;
    const verdict = classify(facts, PLAIN_CONTEXT);
    if (verdict.kind === 'answer' && !isErrorResponse(verdict.message)) {
      session.answered += 1;
      return verdict.message.result as Record<string, unknown>;
    }
    const text = isErrorResponse(facts.message) ? facts.message.error.message : facts.text;
    throw new HostedMcpError('ERR_PROTOCOL', 'A request of the session set-up was not answered', {
      executed: facts.sent ? 'unknown' : false,
      method,
      tool: toolOf(request),
      status: facts.status,
      serverText: text === undefined ? undefined : cleanServerText(text),
    });
  }
}
