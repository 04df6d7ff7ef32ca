/**
 * Requests that servers send (elicitation, sampling, roots), bound to the session they came on.
 *
 * Guarantees that an answer reaches the question it was given for or nobody: ids are rewritten to
 * `"<session>:<id>"`, and with the session its open questions are withdrawn.
 */
import {
  isRequestId,
  type JsonRpcMessage,
  type JsonRpcNotification,
  type JsonRpcRequest,
  type JsonRpcResponse,
  type RequestId,
} from '../json-rpc.js';
import type { Session } from './session.js';

interface Open {
  readonly session: Session;
  readonly id: RequestId;
}

/** A server that asks more than this at once is broken; the oldest question is forgotten. */
const MOST_OPEN = 1_000;

export class ServerRequests {
  readonly #open = new Map<string, Open>();

  /** A message on its way to the face, with the ids of server requests rewritten. */
  incoming(message: JsonRpcMessage, session: Session): JsonRpcMessage {
    if (!('method' in message)) return message;
    if ('id' in message) return this.#remember(message, session);
    if (message.method !== 'notifications/cancelled') return message;
    const id = message.params?.requestId;
    const key = isRequestId(id) ? keyOf(session, id) : undefined;
    if (key === undefined || !this.#open.delete(key)) return message;
    return { ...message, params: { ...message.params, requestId: key } };
  }

  /** Where the face's answer belongs, with the server's own id; nothing if that session is gone. */
  outgoing(message: JsonRpcResponse): { session: Session; message: JsonRpcResponse } | undefined {
    const key = typeof message.id === 'string' ? message.id : '';
    const open = this.#open.get(key);
    this.#open.delete(key);
    if (open === undefined || open.session.phase === 'ended') return undefined;
    return { session: open.session, message: { ...message, id: open.id } as JsonRpcResponse };
  }

  /** Withdraws the questions of a session that is gone: one cancellation each, for the face. */
  withdraw(session: Session): JsonRpcNotification[] {
    const gone: JsonRpcNotification[] = [];
    for (const [key, open] of this.#open) {
      if (open.session !== session) continue;
      this.#open.delete(key);
      gone.push({
        jsonrpc: '2.0',
        method: 'notifications/cancelled',
        params: { requestId: key, reason: 'The session that asked is gone.' },
      });
    }
    return gone;
  }

  #remember(message: JsonRpcRequest, session: Session): JsonRpcRequest {
    const key = keyOf(session, message.id);
    this.#open.set(key, { session, id: message.id });
    if (this.#open.size > MOST_OPEN) {
      for (const oldest of this.#open.keys()) {
        this.#open.delete(oldest);
        break;
      }
    }
    return { ...message, id: key };
  }
}

/** 1 and "1" are two ids in JSON-RPC. */
function keyOf(session: Session, id: RequestId): string {
  return typeof id === 'string' ? `${session.number}:'${id}` : `${session.number}:${id}`;
}
