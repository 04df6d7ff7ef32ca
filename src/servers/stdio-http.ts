/**
 * A server in a process of its own, spoken to over its standard input and output, as an `HttpClient`: to the engine it
 * is a Streamable HTTP server whose session is the process.
 *
 * Guarantees that a message is written to one process and never again to another; that with a process the calls under
 * way on it fail as sent, and its session is unknown from then on; and that `close()` ends every process that was
 * started. Never uses a shell, never lends a process our own streams.
 */
import { randomUUID } from 'node:crypto';
import type { Clock } from '../clock.js';
import { HostedMcpError } from '../errors.js';
import type { ExchangeHandle, HttpClient, HttpRequest, ResponseSink } from '../http/exchange.js';
import { isRequest, type JsonRpcMessage, type JsonRpcRequest } from '../json-rpc.js';
import type { LogEntry } from '../options.js';
import { Child, type ChildEnd, type CommandLine } from './child.js';
import { LocalExchange } from './local-exchange.js';
import type { SessionGone } from './own-http.js';
import { quoted } from './placeholders.js';
import { ProcessSession } from './process-session.js';

export interface StdioParts {
  readonly clock: Clock;
  /** The server's name in its configuration. */
  readonly server: string | undefined;
  /** How the command may be called in errors. */
  readonly commandName: string;
  readonly maxMessageBytes: number;
  /** Between the end of a process's input and SIGTERM, and from there to SIGKILL. */
  readonly graceMs: number;
  /** What is under way on a process that was replaced gets so long. */
  readonly drainMs: number;
  /** What is to be started, with all values read. Rejects with a `HostedMcpError`. */
  prepare(): Promise<CommandLine>;
  /** Before each exchange: whoever keeps secrets may have let go of some. */
  onExchange(): void;
  readonly onStderr: ((line: string) => void) | undefined;
  readonly logger: ((entry: LogEntry) => void) | undefined;
  readonly gone: SessionGone;
}

interface Running {
  readonly child: Child;
  readonly session: ProcessSession;
}

/** A process that ends before it has answered the handshake is started once more, then its end is said by name. */
const EARLY_ENDS = 2;
const NOT_FOUND: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR']);
const NO_SESSION = '{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}';
const NO_SESSION_ID = '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No session id"}}';

export class StdioHttpClient implements HttpClient {
  readonly #parts: StdioParts;
  /** By session id: those that take messages. */
  readonly #running = new Map<string, Running>();
  /** All that have not ended. */
  readonly #children = new Set<Child>();
  #prepared: CommandLine | undefined;
  #problem: HostedMcpError | undefined;
  #earlyEnds = 0;
  #closed = false;

  constructor(parts: StdioParts) {
    this.#parts = parts;
  }

  /**
   * Asked before messages leave: is there a process, or can one be started? Rejects with what stands in the way, which
   * no answer could say in our words.
   */
  async ready(): Promise<void> {
    const problem = this.#problem;
    this.#problem = undefined;
    if (problem !== undefined) throw problem;
    if (this.#running.size === 0) this.#prepared = await this.#parts.prepare();
  }

  exchange(request: HttpRequest, sink: ResponseSink): ExchangeHandle {
    let session: ProcessSession | undefined;
    const exchange = new LocalExchange(sink, (ended) => session?.ended(ended));
    this.#parts.onExchange();
    queueMicrotask(() => {
      if (exchange.hasEnded) return;
      const message = request.body === undefined ? undefined : (JSON.parse(request.body) as JsonRpcMessage);
      if (message !== undefined && isRequest(message) && message.method === 'initialize') {
        void this.#initialize(message, request.body as string, exchange, (made) => {
          session = made;
        });
        return;
      }
      const id = request.headers['mcp-session-id'];
      const running = id === undefined ? undefined : this.#running.get(id);
      if (running === undefined || running.child.isEnding) {
        if (exchange.leave())
          exchange.answer(id === undefined ? 400 : 404, id === undefined ? NO_SESSION_ID : NO_SESSION);
        return;
      }
      session = running.session;
      if (request.method === 'GET') session.listen(exchange);
      else if (request.method === 'DELETE') void this.#delete(running, exchange);
      else if (message !== undefined) this.#post(message, request.body as string, running, exchange);
    });
    return exchange;
  }

  async closeIdle(): Promise<void> {
    this.#running.clear();
    await Promise.all([...this.#children].map((child) => child.end()));
  }

  keepSocketsFor(): void {}

  async close(): Promise<void> {
    this.#closed = true;
    await this.closeIdle();
  }

  #post(message: JsonRpcMessage, body: string, { child, session }: Running, exchange: LocalExchange): void {
    if (isRequest(message)) {
      session.ask(message, body, child, exchange);
    } else if (exchange.leave()) {
      child.write(body);
      exchange.answer(202, '');
    }
  }

  async #delete({ child, session }: Running, exchange: LocalExchange): Promise<void> {
    if (!exchange.leave()) return;
    this.#running.delete(session.id);
    await child.end();
    exchange.answer(200, '');
  }

  async #initialize(
    message: JsonRpcRequest,
    body: string,
    exchange: LocalExchange,
    bind: (session: ProcessSession) => void,
  ): Promise<void> {
    let line: CommandLine;
    try {
      line = this.#prepared ?? (await this.#parts.prepare());
    } catch (error) {
      this.#problem = HostedMcpError.isInstance(error)
        ? error
        : this.#startError('its start could not be prepared', error);
      exchange.fail('network');
      return;
    }
    this.#prepared = undefined;
    if (exchange.hasEnded) return;
    if (this.#closed) {
      exchange.fail('network', 'ERR_CLOSED');
      return;
    }
    const session = new ProcessSession({
      id: randomUUID(),
      maxBytes: this.#parts.maxMessageBytes,
      onStands: () => this.#stands(session, child),
      tell: (event, what, count) => this.#tell(event, what, count),
    });
    const child: Child = new Child(line, {
      clock: this.#parts.clock,
      graceMs: this.#parts.graceMs,
      maxLineBytes: this.#parts.maxMessageBytes,
      onLine: (bytes) => session.onLine(bytes),
      onTooLong: (head, tail) => session.onTooLong(head, tail),
      onStderr: this.#parts.onStderr,
      onEnd: (end) => this.#onEnd(session, child, end),
    });
    this.#children.add(child);
    bind(session);
    await child.started;
    if (child.isEnding) exchange.fail('network', 'ERR_START');
    else session.ask(message, body, child, exchange);
    // Refused, given up or cut: nobody will speak to it.
    session.whenIdle(() => {
      if (!session.stands) void child.end();
    });
  }

  #stands(session: ProcessSession, child: Child): void {
    this.#earlyEnds = 0;
    for (const before of this.#running.values()) this.#retire(before);
    this.#running.clear();
    this.#running.set(session.id, { child, session });
  }

  /** Its session was replaced: what is under way on it gets its time. */
  #retire({ child, session }: Running): void {
    const timer = this.#parts.clock.setTimeout(() => void child.end(), this.#parts.drainMs);
    session.whenIdle(() => {
      timer.clear();
      void child.end();
    });
  }

  #onEnd(session: ProcessSession, child: Child, end: ChildEnd): void {
    this.#children.delete(child);
    const wasRunning = this.#running.delete(session.id);
    if (end.isStart) this.#problem = this.#startError(startWords(end.code), end);
    else if (!session.stands && !child.wasEnded && ++this.#earlyEnds >= EARLY_ENDS) {
      this.#earlyEnds = 0;
      this.#problem = this.#startError(`it ended (${end.code}) before it had answered the handshake`, end);
    }
    if (wasRunning) {
      // First: whoever hears of a cut call and calls again shall find a new session.
      const isClean = end.code === 'EXIT_0' && !session.isBusy;
      this.#parts.gone(session.id, `the process of the server has ended (${end.code})`, {
        counts: !isClean,
        opens: !isClean,
      });
    }
    session.onEnd(end);
  }

  #startError(why: string, cause: unknown): HostedMcpError {
    const { server, commandName } = this.#parts;
    const whose = server === undefined ? 'The server' : `The server ${quoted(server)}`;
    return new HostedMcpError(
      'ERR_NOT_SENT',
      `${whose} (command ${quoted(commandName)}) could not be started: ${why}`,
      {
        reason: 'start',
        cause,
      },
    );
  }

  /** The first, the tenth, the hundredth: a server that writes its log there would fill ours. */
  #tell(event: string, message: string, count: number): void {
    if (!/^10*$/.test(String(count))) return;
    const { logger, server } = this.#parts;
    try {
      logger?.({ level: 'warn', event, message, fields: { count, ...(server !== undefined && { server }) } });
    } catch {
      // A logger that throws harms nothing.
    }
  }
}

function startWords(code: string): string {
  if (NOT_FOUND.has(code)) return 'the command, or the folder it is to run in, was not found';
  if (code === 'EACCES') return 'the command may not be executed';
  if (code === 'EINVAL')
    return 'the command cannot be executed directly; a batch file of Windows needs the command "cmd" with "/c" as its first argument';
  return `the system refused it (${code})`;
}
