/**
 * Replies that a test has put in the place of the server's own.
 *
 * Guarantees that of several that match, limited ones are used first and in the order they were given, and
 * of the unlimited ones the latest. Never answers anything but the MCP endpoint.
 */
import { type Disposer, disposer } from '../disposer.js';
import type { Answer } from './answer.js';
import { SSE_HEADERS } from './sse.js';
import type { RequestMatch, ScriptedHeaders, ScriptedReply, ScriptedRequest } from './types.js';

interface Script {
  readonly match: RequestMatch;
  readonly reply: ScriptedReply;
  times: number;
}

export interface RequestFacts {
  readonly http: string;
  readonly method: string | undefined;
  readonly tool: string | undefined;
  readonly isResume: boolean;
}

export class ScriptedReplies {
  readonly #scripts = new Set<Script>();

  add(match: RequestMatch, reply: ScriptedReply, times: number): Disposer {
    const script = { match: { ...match }, reply, times };
    this.#scripts.add(script);
    return disposer(() => {
      this.#scripts.delete(script);
    });
  }

  /** The reply for this request, used up by asking. `stage` 'run': only those that first do what was asked. */
  take(facts: RequestFacts, stage: 'run' | 'skip'): ScriptedReply | undefined {
    const matching = [...this.#scripts].filter(
      ({ match, reply }) =>
        (reply.tool ?? 'skip') === stage &&
        (match.http === undefined || match.http === facts.http) &&
        (match.method === undefined || match.method === facts.method) &&
        (match.tool === undefined || match.tool === facts.tool) &&
        (match.resume === undefined || (facts.http === 'GET' && match.resume === facts.isResume)),
    );
    const chosen = matching.find((script) => Number.isFinite(script.times)) ?? matching[matching.length - 1];
    if (chosen === undefined) return undefined;
    chosen.times -= 1;
    if (chosen.times <= 0) this.#scripts.delete(chosen);
    return chosen.reply;
  }
}

/** Sends a scripted reply; `wait` waits on the server's clock. */
export async function sendScripted(
  reply: ScriptedReply,
  request: ScriptedRequest,
  answer: Answer,
  wait: (ms: number) => Promise<void>,
): Promise<void> {
  if ('silence' in reply) return;
  if ('cut' in reply) {
    answer.cutAfter(reply.afterBytes, reply.cut);
    sendPadding(answer, reply.afterBytes);
    return;
  }
  if ('chunks' in reply) {
    await sendChunks(reply, request, answer, wait);
    return;
  }
  const body = typeof reply.body === 'function' ? reply.body(request) : reply.body;
  const headers = scriptedHeaders(reply.headers, request);
  const isRaw = body === undefined || typeof body === 'string' || body instanceof Uint8Array;
  if (isRaw) answer.send(reply.status, headers, body ?? '');
  else answer.sendJson(reply.status, body, headers);
}

async function sendChunks(
  reply: Extract<ScriptedReply, { chunks: unknown }>,
  request: ScriptedRequest,
  answer: Answer,
  wait: (ms: number) => Promise<void>,
): Promise<void> {
  const chunks = typeof reply.chunks === 'function' ? reply.chunks(request) : reply.chunks;
  answer.start(200, { ...SSE_HEADERS, ...scriptedHeaders(reply.headers, request) });
  for (const chunk of chunks) {
    if (!answer.isOpen) return;
    if (typeof chunk === 'object' && 'pauseMs' in chunk) {
      await wait(chunk.pauseMs);
      continue;
    }
    answer.write(chunk);
    // So that each piece is read by itself, however small it is.
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
  answer.end();
}

/** A cut without an answer to cut: bytes that mean nothing, then the end. */
function sendPadding(answer: Answer, bytes: number | undefined): void {
  if (!answer.start(200, SSE_HEADERS)) return;
  answer.write(`:${' '.repeat(Math.max(bytes ?? 0, 1))}`);
}

function scriptedHeaders(
  headers: ScriptedHeaders | ((request: ScriptedRequest) => ScriptedHeaders) | undefined,
  request: ScriptedRequest,
): ScriptedHeaders {
  const given = typeof headers === 'function' ? headers(request) : (headers ?? {});
  const lower: ScriptedHeaders = {};
  for (const [name, value] of Object.entries(given)) lower[name.toLowerCase()] = value;
  return lower;
}
