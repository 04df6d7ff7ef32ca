/**
 * The supervisor of one server: its process, who asks it, and what becomes of both.
 *
 * Guarantees one process at a time, started by the first request and kept; that a request is written to one process
 * and never again to another; and that each ends within its time, with its own answer or an error that says what
 * happened. Never passes on a secret of its server, never waits for whoever hears its events.
 */
import { type Clock, sleep, untilAborted } from '../clock.js';
import { HostedMcpError, type HostedMcpErrorFields } from '../errors.js';
import type { Emitter } from '../events.js';
import {
  isNotification,
  isRequest,
  isResult,
  type JsonRpcMessage,
  type JsonRpcNotification,
  type JsonRpcRequest,
  type JsonRpcResponse,
} from '../json-rpc.js';
import type { Redactor } from '../redactor.js';
import type { ChildEnd, ChildParts, CommandLine } from '../servers/child.js';
import { quoted } from '../servers/placeholders.js';
import { BackOff } from './back-off.js';
import { ownTime } from './deadline.js';
import { Generation } from './generation.js';
import type { SupervisedChild } from './grouped-child.js';
import { askedBy, GENERATION, generationOf, type RelaySendOptions } from './messages.js';
import { Turnstile } from './turnstile.js';
import { Wait } from './wait.js';

export interface SupervisorEvents {
  /** A line of the server's standard error, cut at 8 KiB, without its secrets. */
  stderr: { readonly server: string; readonly generation: number; readonly line: string };
  /** A process has ended. `expected`: it was ended from here. `code`: `EXIT_1`, a signal, or the system's own. */
  exit: {
    readonly server: string;
    readonly generation: number;
    readonly code: string;
    readonly expected: boolean;
  };
  /** What the server said on its own account. */
  notification: {
    readonly server: string;
    readonly generation: number;
    readonly message: JsonRpcNotification;
  };
}

export interface SupervisorParts {
  readonly name: string;
  readonly clock: Clock;
  /** Of errors, and of what goes into logs. */
  readonly redactor: Redactor;
  /** Of results, in which a path that stands in the configuration is no secret. */
  readonly redactorOfResults: Redactor;
  readonly emitter: Emitter<SupervisorEvents>;
  readonly concurrency: number;
  readonly timeoutMs: number | undefined;
  readonly marginMs: number | undefined;
  readonly startTimeoutMs: number;
  readonly restartDelayMs: number;
  readonly restartMaxDelayMs: number;
  readonly closeGraceMs: number;
  readonly maxMessageBytes: number;
  readonly forwards: boolean;
  /** What is to be started, with all values read. Rejects with a `HostedMcpError`. */
  prepare(): Promise<CommandLine>;
  start(line: CommandLine, parts: ChildParts): SupervisedChild;
  /** Whoever keeps secrets may have let go of some. */
  refresh(): void;
}

/** A process of the server that has answered the handshake. */
interface Opened {
  readonly generation: Generation;
  readonly result: { readonly [key: string]: unknown };
}

/** The server answered the handshake with an error: for whoever asked, as it is. */
class Refused extends Error {
  readonly answer: JsonRpcResponse;
  constructor(answer: JsonRpcResponse) {
    super('The server refused to open a session');
    this.answer = answer;
  }
}

const OWN_PARAMS = Object.freeze({
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: Object.freeze({ name: 'mcp-holdfast', version: '1' }),
});
/** Of what clients can do: questions of the server, which no relay carries. */
const QUESTIONS = ['sampling', 'elicitation', 'roots', 'tasks'] as const;
/** Kept for the next answer, where notifications are forwarded. */
const MAX_BUFFERED = 256;
/** So many requests in a row without a sign of life: the process hangs. */
const SILENCES = 3;

export class Supervisor {
  readonly #parts: SupervisorParts;
  readonly #backOff: BackOff;
  readonly #turnstile: Turnstile;
  readonly #waits = new Set<Wait>();
  readonly #closed = new AbortController();
  #closing: Promise<void> | undefined;
  #opened: Opened | undefined;
  #opening: Promise<Opened> | undefined;
  #child: SupervisedChild | undefined;
  #initialize: JsonRpcRequest['params'] = OWN_PARAMS;
  #numbered = 0;
  #asked = 0;
  #buffer: JsonRpcNotification[] = [];

  constructor(parts: SupervisorParts) {
    this.#parts = parts;
    this.#backOff = new BackOff(parts.clock, parts.restartDelayMs, parts.restartMaxDelayMs);
    this.#turnstile = new Turnstile(parts.concurrency);
  }

  get generation(): number {
    return this.#numbered;
  }

  async handle(
    message: JsonRpcMessage,
    { deadlineMs, signal }: RelaySendOptions,
  ): Promise<JsonRpcMessage | readonly JsonRpcMessage[]> {
    if (isNotification(message)) {
      this.#notified(message);
      return [];
    }
    if (!isRequest(message)) return [];
    if (this.#closing !== undefined)
      throw new HostedMcpError('ERR_CLOSED', 'The server was ended here', askedBy(message));
    const { clock, name, marginMs, timeoutMs } = this.#parts;
    const ownMs = ownTime(deadlineMs, { marginMs, timeoutMs });
    const wait = new Wait(message, name, { clock, ownMs, signal });
    this.#waits.add(wait);
    try {
      const answer =
        message.method === 'initialize'
          ? await this.#handshake(message, wait)
          : await this.#request(message, wait);
      const shown = this.#shown(answer);
      const before = this.#buffer;
      this.#buffer = [];
      return before.length === 0 ? shown : [...before, shown];
    } finally {
      this.#waits.delete(wait);
      wait.release();
    }
  }

  /** Never rejects. */
  close(): Promise<void> {
    this.#closing ??= (async () => {
      this.#closed.abort(new HostedMcpError('ERR_CLOSED', 'The server was ended here'));
      for (const wait of [...this.#waits]) wait.end('ERR_CLOSED');
      await Promise.all([this.#child?.end(), this.#opening?.catch(() => {})]);
      this.#parts.emitter.close();
    })();
    return this.#closing;
  }

  async #handshake(message: JsonRpcRequest, wait: Wait): Promise<JsonRpcResponse> {
    this.#initialize = message.params;
    try {
      const { generation, result } = await this.#open(wait);
      const meta = { ...(result._meta as object | undefined), [GENERATION]: generation.number };
      return { jsonrpc: '2.0', id: message.id, result: { ...result, _meta: meta } };
    } catch (error) {
      if (error instanceof Refused) return { ...error.answer, id: message.id };
      throw error;
    }
  }

  async #request(message: JsonRpcRequest, wait: Wait): Promise<JsonRpcResponse> {
    const meant = generationOf(message);
    if (meant !== undefined) this.#meant(meant, message);
    // A probe must not wait behind what it is to look after.
    const leave = message.method === 'ping' ? () => {} : await this.#turnstile.enter(wait.signal);
    try {
      let generation = meant === undefined ? this.#opened?.generation : this.#meant(meant, message);
      // In the turns that a promise takes to tell of a process it may have ended: until there is one that lives now.
      while (generation?.isAlive !== true) generation = await this.#openFor(message, wait);
      if (wait.signal.aborted) throw wait.signal.reason;
      wait.isWritten = true;
      const { answer, cancel } = generation.ask(message);
      try {
        return await untilAborted(answer, wait.signal);
      } finally {
        if (wait.endedBy !== undefined) this.#gaveUp(generation, wait, cancel);
      }
    } finally {
      leave();
    }
  }

  /** The process a request is meant for, if it is the one that runs. */
  #meant(number: number, message: JsonRpcRequest): Generation {
    const generation = this.#opened?.generation;
    if (generation?.number === number && generation.isAlive) return generation;
    throw new HostedMcpError('ERR_SESSION_LOST', 'The process of the server has been replaced', {
      retryable: true,
      ...askedBy(message),
    });
  }

  async #openFor(message: JsonRpcRequest, wait: Wait): Promise<Generation> {
    try {
      return (await this.#open(wait)).generation;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      throw new HostedMcpError('ERR_PROTOCOL', 'The server refused to open a session', askedBy(message));
    }
  }

  async #open(wait: Wait): Promise<Opened> {
    for (;;) {
      const opened = this.#opened;
      if (opened?.generation.isAlive === true) return opened;
      if (this.#opening === undefined && this.#backOff.leftMs > wait.leftMs)
        throw this.#error('it ended by itself, and is given a pause');
      this.#opening ??= this.#establish().finally(() => {
        this.#opening = undefined;
      });
      this.#opening.catch(() => {});
      await untilAborted(this.#opening, wait.signal);
    }
  }

  /** One start for all who wait. */
  async #establish(): Promise<Opened> {
    const { clock, startTimeoutMs } = this.#parts;
    const { signal } = this.#closed;
    await this.#child?.gone;
    if (this.#backOff.leftMs > 0) await sleep(clock, this.#backOff.leftMs, signal);
    const line = await this.#parts.prepare();
    if (signal.aborted) throw signal.reason;
    const { generation, ended } = this.#start(line);
    const { answer, cancel } = generation.ask({
      jsonrpc: '2.0',
      id: 'handshake',
      method: 'initialize',
      params: withoutQuestions(this.#initialize),
    });
    const bound = new AbortController();
    const timer = clock.setTimeout(() => bound.abort(), startTimeoutMs);
    try {
      const answered = await untilAborted(answer, bound.signal);
      if (!isResult(answered)) throw new Refused(answered);
      generation.tell({ jsonrpc: '2.0', method: 'notifications/initialized' });
      const opened = { generation, result: answered.result };
      if (generation.isAlive) this.#opened = opened;
      return opened;
    } catch (error) {
      cancel('');
      if (error instanceof Refused) {
        void generation.child?.end();
        throw error;
      }
      if (!bound.signal.aborted) throw this.#startError(await ended);
      this.#backOff.crashed();
      void generation.child?.end();
      throw this.#error('it did not answer the handshake in time');
    } finally {
      timer.clear();
    }
  }

  #start(line: CommandLine): { generation: Generation; ended: Promise<ChildEnd> } {
    const { clock, closeGraceMs, maxMessageBytes, name: server, redactor, emitter } = this.#parts;
    this.#numbered += 1;
    const number = this.#numbered;
    const generation = new Generation({
      number,
      nextId: () => {
        this.#asked += 1;
        return this.#asked;
      },
      onNotification: (message) => this.#heard(message, number),
    });
    this.#backOff.started();
    let settle: (end: ChildEnd) => void = () => {};
    const ended = new Promise<ChildEnd>((resolve) => {
      settle = resolve;
    });
    const child = this.#parts.start(line, {
      clock,
      graceMs: closeGraceMs,
      maxLineBytes: maxMessageBytes,
      onLine: (bytes) => generation.onLine(bytes),
      onTooLong: (head, tail) => generation.onTooLong(head, tail),
      onStderr: (text) => {
        this.#parts.refresh();
        emitter.emit('stderr', { server, generation: number, line: redactor.text(text) });
      },
      onEnd: (end) => {
        if (this.#opened?.generation === generation) this.#opened = undefined;
        if (!child.wasEnded) this.#backOff.crashed();
        generation.onEnd(end);
        settle(end);
        emitter.emit('exit', { server, generation: number, code: end.code, expected: child.wasEnded });
      },
    });
    generation.bind(child);
    this.#child = child;
    return { generation, ended };
  }

  /** Nobody waits for its answer any more. */
  #gaveUp(generation: Generation, wait: Wait, cancel: (reason: string) => void): void {
    cancel(wait.endedBy === 'ERR_TIMEOUT' ? 'timed out' : 'given up by the caller');
    if (wait.endedBy !== 'ERR_TIMEOUT') return;
    generation.silences += 1;
    if (generation.silences < SILENCES || !generation.isAlive) return;
    this.#backOff.crashed();
    void generation.child?.end();
  }

  #notified(message: JsonRpcNotification): void {
    const { method, params } = message;
    // The handshake here has said so itself.
    if (method === 'notifications/initialized') return;
    if (method === 'notifications/cancelled') {
      // Askers choose their ids: two may have chosen the same.
      const [only, other] = [...this.#waits].filter(({ id }) => id === params?.requestId);
      if (other === undefined) only?.end('ERR_ABORTED');
      return;
    }
    const generation = this.#opened?.generation;
    if ((generationOf(message) ?? generation?.number) === generation?.number) generation?.tell(message);
  }

  #heard(message: JsonRpcNotification, generation: number): void {
    const { forwards, redactor, emitter, name: server } = this.#parts;
    if (!forwards && !emitter.wants('notification')) return;
    this.#parts.refresh();
    const shown = redactor.value(message) as JsonRpcNotification;
    emitter.emit('notification', { server, generation, message: shown });
    if (!forwards) return;
    this.#buffer.push(shown);
    if (this.#buffer.length > MAX_BUFFERED) this.#buffer.shift();
  }

  /** Without the secrets of its server. */
  #shown(answer: JsonRpcResponse): JsonRpcResponse {
    const { refresh, redactor, redactorOfResults } = this.#parts;
    refresh();
    const isFailure = !isResult(answer) || answer.result.isError === true;
    return (isFailure ? redactor : redactorOfResults).value(answer) as JsonRpcResponse;
  }

  #startError({ isStart, code }: ChildEnd): HostedMcpError {
    return this.#error(
      isStart ? `the system says ${code}` : `it ended (${code}) before it had answered the handshake`,
      {
        cause: { code },
      },
    );
  }

  #error(why: string, fields: HostedMcpErrorFields = {}): HostedMcpError {
    const what = `The server ${quoted(this.#parts.name)} could not be started: ${why}`;
    const retryAfterMs = this.#backOff.leftMs || undefined;
    return new HostedMcpError('ERR_NOT_SENT', what, {
      reason: 'start',
      retryable: true,
      retryAfterMs,
      ...fields,
    });
  }
}

function withoutQuestions(params: JsonRpcRequest['params']): { readonly [key: string]: unknown } {
  const capabilities: Record<string, unknown> = { ...(params?.capabilities as object | undefined) };
  for (const name of QUESTIONS) delete capabilities[name];
  return { ...params, capabilities };
}
