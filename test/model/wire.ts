/**
 * A network without sockets: what the engine sends lies here until the server under the model's hand answers.
 *
 * Keeps the contract of `HttpClient`: nothing is heard before `exchange()` has returned, one end each, an abort
 * heard at once.
 */
import type {
  ExchangeHandle,
  HttpClient,
  HttpRequest,
  ResponseHead,
  ResponseSink,
} from '../../src/http/exchange.js';
import type { JsonRpcMessage, RequestId } from '../../src/json-rpc.js';

export type Purpose =
  | 'initialize'
  | 'initialized'
  | 'probe'
  | 'tool'
  | 'read'
  | 'cancelled'
  | 'notice'
  | 'reply'
  | 'listen'
  | 'resume'
  | 'delete';

export class Exchange implements ExchangeHandle {
  readonly message: JsonRpcMessage | undefined;
  readonly purpose: Purpose;
  readonly sessionId: string | undefined;
  /** Of the token that came with it. */
  readonly generation: number;
  readonly cursor: string | undefined;
  /** `waiting`: no byte has left; `sent`: the server has it; `open`: its head has arrived. */
  phase: 'waiting' | 'sent' | 'open' | 'ended' = 'waiting';
  /** The server has made up its mind about it. */
  decided = false;
  readonly #wire: FakeWire;
  readonly #sink: ResponseSink;

  constructor(wire: FakeWire, request: HttpRequest, sink: ResponseSink) {
    const { headers, body, method } = request;
    this.#wire = wire;
    this.#sink = sink;
    this.message = body === undefined ? undefined : (JSON.parse(body) as JsonRpcMessage);
    this.sessionId = headers['mcp-session-id'];
    this.generation = Number(/^Bearer token-(\d+)$/.exec(headers.authorization ?? '')?.[1] ?? 0);
    this.cursor = headers['last-event-id'];
    this.purpose = purposeOf(method, this.message, this.cursor);
  }

  get id(): RequestId | undefined {
    return this.message !== undefined && 'method' in this.message && 'id' in this.message
      ? this.message.id
      : undefined;
  }

  /** What the model counts a call by. */
  get tag(): string | undefined {
    const params = this.message !== undefined && 'method' in this.message ? this.message.params : undefined;
    const meta = params?._meta as { tag?: string } | undefined;
    return meta?.tag;
  }

  get isUnderWay(): boolean {
    return this.phase !== 'ended';
  }

  /** The socket stands, and the bytes leave, if whoever sends them still wants to. */
  leave(): void {
    if (this.phase !== 'waiting') return;
    try {
      this.#sink.sent?.();
    } catch {
      this.fail('aborted');
    }
    if (this.phase !== 'waiting') return;
    this.phase = 'sent';
    this.#wire.onLeft(this);
  }

  head(status: number, headers: ResponseHead['headers'] = {}): void {
    if (this.phase !== 'sent') return;
    this.phase = 'open';
    this.#sink.head({ status, headers });
  }

  data(text: string): void {
    if (this.phase === 'open') this.#sink.data(Buffer.from(text));
  }

  end(): void {
    if (this.phase !== 'open') return;
    this.#ended();
    this.#sink.end();
  }

  fail(kind: 'network' | 'aborted' | 'timeout', code?: string): void {
    if (this.phase === 'ended') return;
    const at = this.phase;
    this.#ended();
    // Who gives up does not know what the server makes of it.
    if (kind === 'aborted' && at === 'sent' && !this.decided) this.#wire.onGivenUp(this);
    const phase = at === 'waiting' ? 'before' : at === 'sent' ? 'head' : 'body';
    this.#sink.fail({ sent: at !== 'waiting', phase, kind, code });
  }

  abort(): void {
    this.fail('aborted');
  }

  pause(): void {}
  resume(): void {}

  #ended(): void {
    this.phase = 'ended';
    this.#wire.underWay.delete(this);
    this.#wire.onEnd(this);
  }
}

export class FakeWire implements HttpClient {
  readonly underWay = new Set<Exchange>();
  /** `slow`: sockets stand when the model says so. */
  network: 'up' | 'slow' | 'down' = 'up';
  isClosed = false;
  /** An exchange is asked for; its bytes leave; it is given up when the server has it; it is over. */
  onBegin: (exchange: Exchange) => void = () => {};
  onLeft: (exchange: Exchange) => void = () => {};
  onGivenUp: (exchange: Exchange) => void = () => {};
  onEnd: (exchange: Exchange) => void = () => {};

  exchange(request: HttpRequest, sink: ResponseSink): ExchangeHandle {
    const exchange = new Exchange(this, request, sink);
    this.underWay.add(exchange);
    this.onBegin(exchange);
    queueMicrotask(() => {
      if (this.network === 'down') exchange.fail('network', 'ECONNREFUSED');
      else if (this.network === 'up') exchange.leave();
    });
    return exchange;
  }

  /** Of those that wait for a socket, all get one. */
  connectAll(): void {
    for (const exchange of [...this.underWay]) exchange.leave();
  }

  keepSocketsFor(): void {}

  async closeIdle(): Promise<void> {
    for (const exchange of [...this.underWay]) exchange.abort();
  }

  async close(): Promise<void> {
    this.isClosed = true;
    await this.closeIdle();
  }
}

function purposeOf(method: string, message: JsonRpcMessage | undefined, cursor: string | undefined): Purpose {
  if (method === 'DELETE') return 'delete';
  if (message === undefined) return cursor?.startsWith('call-') === true ? 'resume' : 'listen';
  if (!('method' in message)) return 'reply';
  if (message.method === 'initialize' || message.method === 'tools/list') {
    return message.method === 'initialize' ? 'initialize' : 'read';
  }
  if (message.method === 'ping') return 'probe';
  if (message.method === 'tools/call') return 'tool';
  if (message.method === 'notifications/initialized') return 'initialized';
  return message.method === 'notifications/cancelled' ? 'cancelled' : 'notice';
}
