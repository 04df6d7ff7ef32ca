/**
 * Processes that do as a test says, under the real supervisor.
 */
import type { JsonRpcMessage, JsonRpcRequest } from '../../../src/json-rpc.js';
import type { GroupedChild, SupervisedChild } from '../../../src/relay/grouped-child.js';
import { makeSupervisor, type SuperviseOptions } from '../../../src/relay/supervise.js';
import type { ChildParts, CommandLine } from '../../../src/servers/child.js';

export class FakeChild implements SupervisedChild {
  readonly pid = 1;
  readonly started = Promise.resolve();
  readonly gone: Promise<void>;
  /** What was written to it, in order. */
  readonly received: JsonRpcMessage[] = [];
  readonly line: CommandLine;
  isEnding = false;
  wasEnded = false;
  /** Whether it answers the handshake by itself. */
  readonly #parts: ChildParts;
  readonly #answers: boolean;
  #settle: () => void = () => {};

  constructor(line: CommandLine, parts: ChildParts, answersHandshake: boolean) {
    this.line = line;
    this.#parts = parts;
    this.#answers = answersHandshake;
    this.gone = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  write(text: string): void {
    if (this.isEnding) return;
    const message = JSON.parse(text) as JsonRpcMessage;
    this.received.push(message);
    if (this.#answers && 'method' in message && message.method === 'initialize' && 'id' in message)
      queueMicrotask(() => this.handshake(message));
  }

  handshake({ id, params }: JsonRpcRequest): void {
    this.say({
      jsonrpc: '2.0',
      id,
      result: {
        protocolVersion: params?.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: 'fake', version: '1' },
      },
    });
  }

  /** Written to its output, even after its end: what is in a pipe is in it. */
  say(message: unknown): void {
    this.#parts.onLine(Buffer.from(JSON.stringify(message)));
  }
  sayRaw(line: string): void {
    this.#parts.onLine(Buffer.from(line));
  }
  tooLong(head: string, tail: string): void {
    this.#parts.onTooLong(Buffer.from(head), Buffer.from(tail));
  }
  complain(line: string): void {
    this.#parts.onStderr?.(line);
  }

  crash(code = 'SIGKILL'): void {
    if (this.isEnding) return;
    this.isEnding = true;
    this.#parts.onEnd({ isStart: false, code });
    this.#settle();
  }

  end(): Promise<void> {
    if (!this.isEnding) {
      this.wasEnded = true;
      this.crash('EXIT_0');
    }
    return this.gone;
  }

  /** Requests other than the handshake. */
  requests(): JsonRpcRequest[] {
    return this.received.filter(
      (each): each is JsonRpcRequest => 'method' in each && 'id' in each && each.method !== 'initialize',
    );
  }
  notified(method: string): JsonRpcMessage[] {
    return this.received.filter((each) => 'method' in each && each.method === method);
  }
}
// What stands in for it has to have the same shape.
({}) as GroupedChild satisfies SupervisedChild;

export function fakeSupervisor(options: SuperviseOptions = {}, o: { answersHandshake?: boolean } = {}) {
  const children: FakeChild[] = [];
  const supervisor = makeSupervisor(
    { command: 'fake', env: { API_KEY: 'sk-canary-0123456789' } },
    { name: 'fake', ...options },
    {
      start: (line, parts) => {
        const child = new FakeChild(line, parts, o.answersHandshake ?? true);
        children.push(child);
        return child;
      },
    },
  );
  return { supervisor, children };
}

let asked = 0;
export function toolCall(
  name: string,
  args: Record<string, unknown> = {},
  more: object = {},
): JsonRpcRequest {
  asked += 1;
  return {
    jsonrpc: '2.0',
    id: asked,
    method: 'tools/call',
    params: { name, arguments: args, ...more },
  };
}

export const never = new AbortController().signal;

/** Gives promise chains their turns. */
export async function turns(count = 12): Promise<void> {
  for (let left = count; left > 0; left -= 1) await Promise.resolve();
}

export async function outcome<T>(promise: Promise<T>): Promise<{ value: T } | { error: unknown }> {
  return promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
}

/** What a call of these tests is known by. */
export function textOf({ params }: JsonRpcRequest): string {
  return (params as { arguments: { text: string } }).arguments.text;
}
