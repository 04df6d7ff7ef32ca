/**
 * Standard input as messages of the host: one a line.
 *
 * Guarantees that each line is a message or a reason why it is none, whatever bytes come, and that no more is kept of a
 * line than the limit. Never throws.
 */
import {
  isNotification,
  isRequest,
  isRequestId,
  isResponse,
  type JsonRpcMessage,
  type RequestId,
} from '../../json-rpc.js';
import { LIMITS } from '../../limits.js';
import { Lines } from '../../servers/lines.js';
import { keyOfCut } from '../../servers/process-session.js';

export interface Unusable {
  readonly kind: 'parse' | 'invalid' | 'too-large';
  readonly what: string;
  /** Of the request that it was to be, where that can be told. */
  readonly id: RequestId | undefined;
}

export interface HostInputSink {
  message(message: JsonRpcMessage): void;
  unusable(line: Unusable): void;
}

export class HostInput {
  readonly #sink: HostInputSink;
  readonly #lines: Lines;
  readonly #decoder = new TextDecoder('utf-8', { fatal: true });

  constructor(sink: HostInputSink, maxBytes: number = LIMITS.messageBytes) {
    this.#sink = sink;
    this.#lines = new Lines(
      {
        line: (bytes) => this.#line(bytes),
        tooLong: (head, tail) => {
          const key = keyOfCut(head, tail);
          const id: unknown = key === undefined ? undefined : JSON.parse(key);
          sink.unusable({
            kind: 'too-large',
            what: `A message may have ${Math.floor(maxBytes / 1024 / 1024)} MiB at most`,
            id: isRequestId(id) ? id : undefined,
          });
        },
      },
      maxBytes,
    );
  }

  push(chunk: Uint8Array | string): void {
    this.#lines.push(Buffer.from(chunk as string));
  }

  end(): void {
    this.#lines.end();
  }

  #line(bytes: Buffer): void {
    let value: unknown;
    try {
      const text = this.#decoder.decode(bytes).trim();
      if (text === '') return;
      value = JSON.parse(text);
    } catch {
      this.#sink.unusable({ kind: 'parse', what: 'The line is not JSON', id: undefined });
      return;
    }
    if (isRequest(value) || isNotification(value) || isResponse(value)) {
      this.#sink.message(value);
      return;
    }
    const what = Array.isArray(value)
      ? 'Send one message at a time: no batches'
      : 'The line is not a JSON-RPC message';
    this.#sink.unusable({ kind: 'invalid', what, id: requestIdIn(value) });
  }
}

/** Not of an answer: the host would take ours for one to a request of its own. */
function requestIdIn(value: unknown): RequestId | undefined {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, 'method')) return undefined;
  const { id } = value as { id?: unknown };
  return isRequestId(id) ? id : undefined;
}
