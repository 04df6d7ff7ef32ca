/**
 * A server under the model's hand: what it holds (sessions, tokens, a ledger of what it ran), and the ways in which
 * it, or something in front of it, may answer.
 *
 * A reply by which HTTP or MCP says "refused before processing" never runs what it refuses; every other one may.
 */
import type { Exchange } from './wire.js';

/** `never`: HTTP or MCP says by it that nothing ran. */
export const REPLIES = {
  'sse-then-end': 'honest',
  'sse-stays-open': 'honest',
  'json-cut': 'maybe',
  cut: 'maybe',
  'sse-cut-with-cursor': 'always',
  'sse-cut-bare': 'maybe',
  'elsewhere-then-cut': 'always',
  '401-challenge': 'never',
  '401-bare': 'maybe',
  '401-own': 'maybe',
  '401-own-early': 'never',
  '403-scope': 'never',
  '403-bare': 'maybe',
  '403-session-words': 'maybe',
  '404-layer': 'never',
  '404-html': 'maybe',
  '404-method': 'maybe',
  '400-layer': 'never',
  '400-words': 'maybe',
  '405': 'never',
  '413': 'never',
  '429': 'never',
  '429-own': 'maybe',
  '500': 'maybe',
  '502': 'maybe',
  '503': 'maybe',
  '503-later': 'maybe',
  '200-layer': 'never',
  '200-own-session-error': 'maybe',
  '200-own-error': 'maybe',
  '400-own-error': 'maybe',
  '202': 'maybe',
  '200-empty': 'maybe',
  '200-garbage': 'maybe',
  '200-foreign': 'maybe',
} as const;
export type Reply = keyof typeof REPLIES;

const JSON_HEAD = { 'content-type': 'application/json' };
const SSE_HEAD = { 'content-type': 'text/event-stream' };
const CHALLENGE = { 'www-authenticate': 'Bearer error="invalid_token"' };

interface Page {
  readonly status: number;
  readonly headers?: Record<string, string>;
  readonly body?: string | ((exchange: Exchange) => string);
}

const html = (status: number, more: Record<string, string> = {}): Page => ({
  status,
  headers: { 'content-type': 'text/html', ...more },
  body: '<html>Sorry</html>',
});
const words = (status: number, body: string): Page => ({
  status,
  headers: { 'content-type': 'text/plain' },
  body,
});
/** A JSON-RPC error with the request's own id, or with none. */
const error = (
  status: number,
  whose: 'own' | 'none',
  code: number,
  message: string,
  more: Record<string, string> = {},
): Page => ({
  status,
  headers: { ...JSON_HEAD, ...more },
  body: ({ id }) =>
    JSON.stringify({ jsonrpc: '2.0', id: whose === 'own' ? (id ?? null) : null, error: { code, message } }),
});

const PAGES: Partial<Record<Reply, Page>> = {
  '401-challenge': { status: 401, headers: CHALLENGE },
  '401-bare': html(401),
  '401-own': error(401, 'own', -32000, 'Unauthorized', CHALLENGE),
  '401-own-early': error(401, 'own', -32023, 'Unauthorized', CHALLENGE),
  '403-scope': {
    status: 403,
    headers: { 'www-authenticate': 'Bearer error="insufficient_scope", scope="more"' },
  },
  '403-bare': html(403),
  '403-session-words': words(403, 'Your session has expired'),
  '404-layer': error(404, 'none', -32001, 'Session not found'),
  '404-html': html(404),
  '404-method': error(404, 'none', -32601, 'Method not found'),
  '400-layer': error(400, 'none', -32000, 'Bad Request: Server not initialized'),
  '400-words': words(400, 'No valid session ID provided'),
  '405': { status: 405 },
  '413': { status: 413 },
  '429': html(429, { 'retry-after': '2' }),
  '429-own': error(429, 'own', -32000, 'Slow down', { 'retry-after': '1' }),
  '500': html(500),
  '502': html(502),
  '503': html(503),
  '503-later': html(503, { 'retry-after': '3' }),
  '200-layer': error(200, 'none', -32000, 'No session'),
  '200-own-session-error': error(200, 'own', -32001, 'Session not found'),
  '200-own-error': error(200, 'own', -32602, 'Unknown argument'),
  '400-own-error': error(400, 'own', -32602, 'Unbekannt'),
  '202': { status: 202 },
  '200-empty': { status: 200, headers: JSON_HEAD },
  '200-garbage': { status: 200, headers: JSON_HEAD, body: '{"jsonrpc":"2.0","id":' },
  '200-foreign': {
    status: 200,
    headers: JSON_HEAD,
    body: '{"jsonrpc":"2.0","id":"another","result":{}}',
  },
};

export interface ServerSession {
  readonly id: string;
  readonly generation: number;
  alive: boolean;
}

export interface ServerTraits {
  readonly stateful: boolean;
  readonly listens: boolean;
  /** A session takes only the token that opened it; and how it refuses others. */
  readonly bound: false | '401' | '404';
}

export class FakeServer {
  readonly traits: ServerTraits;
  readonly sessions = new Map<string, ServerSession>();
  /** How often each tag ran. */
  readonly ran = new Map<string, number>();
  /** Answers kept for those who ask by cursor. */
  readonly kept = new Map<string, string>();
  /** Requests that arrived, whose sender has given up, and that may still run. */
  readonly late: Exchange[] = [];
  leastGeneration = 1;
  #sessionsMade = 0;

  constructor(traits: ServerTraits) {
    this.traits = traits;
  }

  timesRun(tag: string): number {
    return this.ran.get(tag) ?? 0;
  }

  run(exchange: Exchange): void {
    const { tag } = exchange;
    if (tag !== undefined) this.ran.set(tag, this.timesRun(tag) + 1);
  }

  restart(): void {
    for (const session of this.sessions.values()) session.alive = false;
    this.kept.clear();
  }

  /** As a server does that keeps the protocol. */
  answer(exchange: Exchange, as: 'json' | 'sse-then-end' | 'sse-stays-open' = 'json'): void {
    exchange.decided = true;
    const refusal = this.#refusalOf(exchange);
    if (refusal !== undefined) {
      this.reply(exchange, refusal, false);
      return;
    }
    switch (exchange.purpose) {
      case 'initialize':
        this.#open(exchange);
        return;
      case 'delete': {
        const session = this.sessions.get(exchange.sessionId ?? '');
        if (session !== undefined) session.alive = false;
        exchange.head(200);
        exchange.end();
        return;
      }
      case 'listen':
        if (this.traits.listens && exchange.sessionId !== undefined) exchange.head(200, SSE_HEAD);
        else this.reply(exchange, '405', false);
        return;
      case 'resume': {
        const answer = this.kept.get(exchange.cursor ?? '');
        if (answer === undefined) this.reply(exchange, '400-words', false);
        else this.#whole(exchange, answer, SSE_HEAD);
        return;
      }
      case 'probe':
      case 'tool':
      case 'read': {
        this.run(exchange);
        const answer = resultOf(exchange);
        if (as === 'json') this.#whole(exchange, answer, JSON_HEAD);
        else {
          exchange.head(200, SSE_HEAD);
          exchange.data(`data: ${answer}\n\n`);
          if (as === 'sse-then-end') exchange.end();
        }
        return;
      }
      default:
        exchange.head(202);
        exchange.end();
    }
  }

  /** As something may that does not, or does it with a fault. `runs`: where the reply leaves that open. */
  reply(exchange: Exchange, reply: Reply, runs: boolean): void {
    exchange.decided = true;
    const rule = REPLIES[reply];
    if (rule === 'honest') {
      this.answer(exchange, reply as 'sse-then-end' | 'sse-stays-open');
      return;
    }
    if (rule === 'always' || (rule === 'maybe' && runs)) this.run(exchange);
    const page = PAGES[reply as keyof typeof PAGES];
    if (page !== undefined) {
      const { status, headers = {}, body } = page;
      exchange.head(status, headers);
      if (body !== undefined) exchange.data(typeof body === 'string' ? body : body(exchange));
      exchange.end();
    } else this.#break(exchange, reply);
  }

  /** What is no whole answer. */
  #break(exchange: Exchange, reply: Reply): void {
    if (reply === 'cut') {
      exchange.fail('network', 'ECONNRESET');
      return;
    }
    if (reply === 'json-cut' || reply === 'sse-cut-bare') {
      exchange.head(200, reply === 'json-cut' ? JSON_HEAD : SSE_HEAD);
      exchange.data(reply === 'json-cut' ? '{"jsonrpc":"2.0",' : ': here\n\n');
      exchange.fail('network', 'ECONNRESET');
      return;
    }
    const answer = resultOf(exchange);
    let cursor = `call-${String(exchange.id)}-gone`;
    if (reply === 'sse-cut-with-cursor') {
      cursor = `call-${String(exchange.id)}-${this.kept.size}`;
      this.kept.set(cursor, answer);
    }
    exchange.head(200, SSE_HEAD);
    exchange.data(`id: ${cursor}\ndata:\n\n`);
    if (reply === 'elsewhere-then-cut')
      for (const other of this.listening(exchange.sessionId)) other.data(`data: ${answer}\n\n`);
    exchange.end();
  }

  /** The open listen streams of a session. */
  listening: (sessionId: string | undefined) => readonly Exchange[] = () => [];

  #open(exchange: Exchange): void {
    const headers: Record<string, string> = { ...JSON_HEAD };
    if (this.traits.stateful) {
      const id = `session-of-the-model-${++this.#sessionsMade}`;
      this.sessions.set(id, { id, generation: exchange.generation, alive: true });
      headers['mcp-session-id'] = id;
    }
    const result = {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 'model', version: '1' },
    };
    this.#whole(exchange, JSON.stringify({ jsonrpc: '2.0', id: exchange.id, result }), headers);
  }

  #refusalOf({ purpose, generation, sessionId }: Exchange): Reply | undefined {
    if (generation < this.leastGeneration) return '401-challenge';
    if (purpose === 'initialize' || !this.traits.stateful) return undefined;
    // In the older protocol there are no sessions here.
    if (purpose === 'listen' && sessionId === undefined) return '405';
    const session = this.sessions.get(sessionId ?? '');
    if (session?.alive !== true) return '404-layer';
    if (this.traits.bound === false || session.generation === generation) return undefined;
    return this.traits.bound === '401' ? '401-challenge' : '404-layer';
  }

  #whole(exchange: Exchange, text: string, headers: Record<string, string>): void {
    exchange.head(200, headers);
    exchange.data(headers['content-type'] === 'text/event-stream' ? `data: ${text}\n\n` : text);
    exchange.end();
  }
}

function resultOf(exchange: Exchange): string {
  const result =
    exchange.purpose === 'tool'
      ? { content: [{ type: 'text', text: exchange.tag }] }
      : exchange.purpose === 'read'
        ? { tools: [] }
        : {};
  return JSON.stringify({ jsonrpc: '2.0', id: exchange.id, result });
}
