/**
 * The host on one side, the engine on the other.
 *
 * Guarantees that each request of the host gets one answer, save one that the host took back; that a failure of the way
 * is a typed JSON-RPC error whose words say what happened to the call; and that what the server asks and tells reaches
 * the host as it is. Never sends a request twice: that is the engine's to decide. Never sees a credential or a session id.
 */
import type { Clock } from '../../clock.js';
import type { HostedConnection } from '../../connection/connection.js';
import type { Call } from '../../connection/ledger.js';
import { isStateless, versionOf } from '../../connection/outgoing.js';
import { HostedMcpError } from '../../errors.js';
import { errorAnswer } from '../../fetch/answers.js';
import {
  isNotification,
  isRequest,
  type JsonRpcError,
  type JsonRpcMessage,
  type JsonRpcNotification,
  type JsonRpcRequest,
  type JsonRpcResponse,
  type RequestId,
} from '../../json-rpc.js';
import { failureLine } from '../failure-line.js';
import type { HostInputSink, Unusable } from './host-input.js';
import type { HostOutput } from './host-output.js';
import type { BridgeLog } from './log.js';

export interface BridgeParts {
  readonly engine: HostedConnection;
  readonly output: HostOutput;
  readonly log: BridgeLog;
  readonly clock: Clock;
  /** What is spoken to, fit to be shown. */
  readonly label: string;
  /** How long the host's handshake may wait for a person; the host has its own idea of that. */
  readonly consentMs: number | undefined;
  /** What a person may do about a credential that is refused. */
  readonly advice: string;
}

const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;
const OF_THE_CREDENTIAL: ReadonlySet<string> = new Set([
  'ERR_CREDENTIAL_REJECTED',
  'ERR_REAUTHORIZATION_REQUIRED',
  'ERR_INSUFFICIENT_SCOPE',
]);

export class Bridge implements HostInputSink {
  readonly #parts: BridgeParts;
  /** Requests of the host under way. */
  readonly #asked = new Map<RequestId, Call | undefined>();
  #onIdle: (() => void) | undefined;

  constructor(parts: BridgeParts) {
    this.#parts = parts;
    parts.engine.attach({
      onMessage: (message) => this.#tell(message),
      onError: (error) => parts.log.say('warn', 'error', failureLine(error)),
      onSession: () => {},
    });
  }

  message(message: JsonRpcMessage): void {
    if (isRequest(message)) void this.#ask(message);
    else if (isNotification(message)) void this.#notify(message);
    else void this.#respond(message);
  }

  unusable({ kind, what, id }: Unusable): void {
    const { code, message, executed } = new HostedMcpError(
      kind === 'too-large' ? 'ERR_MESSAGE_TOO_LARGE' : 'ERR_PROTOCOL',
      what,
    );
    this.#parts.log.say('warn', 'host-line-refused', `${what}.`);
    this.#write({
      jsonrpc: '2.0',
      id: id !== undefined && !this.#asked.has(id) ? id : null,
      error: {
        code: kind === 'parse' ? PARSE_ERROR : INVALID_REQUEST,
        message,
        data: { holdfast: { code, executed } },
      },
    });
  }

  /** Resolves when every request has its answer. */
  settled(): Promise<void> {
    if (this.#asked.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onIdle = resolve;
    });
  }

  async #ask(message: JsonRpcRequest): Promise<void> {
    const { engine, clock, consentMs } = this.#parts;
    const { id, method } = message;
    if (this.#asked.has(id)) {
      // Under its own id it would be taken for the answer to the first.
      this.unusable({ kind: 'invalid', what: 'A request under this id is still under way', id: undefined });
      return;
    }
    this.#asked.set(id, undefined);
    this.#noteEra(message);
    const waitsForPerson = method === 'initialize' && consentMs !== undefined;
    try {
      const answer = await engine.request(message, {
        ...(waitsForPerson && { deadlineMs: clock.monotonic() + consentMs }),
        onCall: (call) => {
          this.#asked.set(id, call);
        },
      });
      this.#answer(message, answer);
    } catch (error) {
      // Whoever takes a request back has forgotten its id.
      if (this.#asked.get(id)?.takenBack !== true) this.#fail(message, error);
    } finally {
      this.#asked.delete(id);
      if (this.#asked.size === 0) this.#onIdle?.();
    }
  }

  /** A host may have asked for the era in another process, and begins here with what it found (v2's Client does). */
  #noteEra(message: JsonRpcRequest): void {
    const { engine } = this.#parts;
    const version = versionOf(message);
    if (version === undefined || !isStateless(version) || message.method === 'server/discover') return;
    if (engine.session === undefined) engine.negotiated(version);
  }

  #answer(message: JsonRpcRequest, answer: JsonRpcResponse): void {
    if (this.#write(answer)) return;
    const executed = 'result' in answer ? true : 'unknown';
    const what = 'The answer is longer than a host reads, and was not passed on';
    const { method } = message;
    this.#fail(message, new HostedMcpError('ERR_MESSAGE_TOO_LARGE', what, { executed, method }));
  }

  #fail(message: JsonRpcRequest, error: unknown): void {
    const { log, label, advice } = this.#parts;
    const { id, method } = message;
    const failure = errorAnswer(id, error);
    this.#write(method === 'tools/call' ? inWordsForModels(failure, error) : failure);
    const isStart = method === 'initialize';
    const isOfCredential = HostedMcpError.isInstance(error) && OF_THE_CREDENTIAL.has(error.code);
    const line = failureLine(error, label);
    log.say(isStart ? 'error' : 'warn', 'request-failed', isOfCredential ? `${line} ${advice}` : line, {
      method,
    });
  }

  async #notify(message: JsonRpcNotification): Promise<void> {
    try {
      await this.#parts.engine.notify(message);
    } catch (error) {
      this.#parts.log.say('warn', 'notification-failed', failureLine(error), { method: message.method });
    }
  }

  async #respond(message: JsonRpcResponse): Promise<void> {
    try {
      await this.#parts.engine.respond(message);
    } catch (error) {
      this.#parts.log.say('warn', 'answer-failed', failureLine(error));
    }
  }

  /** What the server says on its own account. */
  #tell(message: JsonRpcMessage): void {
    if (this.#write(message)) return;
    this.#parts.log.say('warn', 'message-dropped', 'A message of the server is longer than a host reads.');
    if (!isRequest(message)) return;
    const error = { code: INVALID_REQUEST, message: 'The request is longer than the client reads.' };
    void this.#respond({ jsonrpc: '2.0', id: message.id, error });
  }

  #write(message: JsonRpcMessage): boolean {
    return this.#parts.output.write(message);
  }
}

/**
 * Of a call that failed, a model sees the message alone: what to do, and how long to wait, belong into it. Mastra 0.14
 * launches us anew, and so ends whatever else is at work, where it reads the word session.
 */
function inWordsForModels(answer: JsonRpcError, error: unknown): JsonRpcError {
  if (!HostedMcpError.isInstance(error)) return answer;
  const [{ text }] = error.toToolResult().content;
  const said = text.replace(/\bsession\b/gi, 'link').replace(/session/gi, 's…n');
  return { ...answer, error: { ...answer.error, message: said } };
}
