/**
 * A progress token of our own for calls whose caller asked for none: progress is bytes on the call's stream,
 * which is what keeps an intermediary from cutting it.
 *
 * Guarantees that nobody sees what it brings, however late it comes. Never replaces a caller's own token.
 */
import type { JsonRpcMessage, JsonRpcRequest } from '../json-rpc.js';

const PREFIX = 'holdfast:';

export class OwnProgress {
  #asked = 0;

  /** The request as it goes out. */
  ask(message: JsonRpcRequest): JsonRpcRequest {
    if (message.method !== 'tools/call') return message;
    const meta = message.params?._meta;
    // What is no object is the server's to refuse.
    if (meta !== undefined && (typeof meta !== 'object' || meta === null || Array.isArray(meta)))
      return message;
    if (meta !== undefined && 'progressToken' in meta) return message;
    this.#asked += 1;
    return {
      ...message,
      params: { ...message.params, _meta: { ...meta, progressToken: `${PREFIX}${this.#asked}` } },
    };
  }
}

/** Whether a message is progress that only we have asked for. */
export function isOwnProgress(message: JsonRpcMessage): boolean {
  if (!('method' in message) || message.method !== 'notifications/progress') return false;
  const token = message.params?.progressToken;
  return typeof token === 'string' && token.startsWith(PREFIX);
}
