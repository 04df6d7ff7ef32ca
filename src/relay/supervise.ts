/**
 * `superviseServer`: a server beside what it operates, behind a boundary, asked one message at a time.
 *
 * Guarantees that everything it starts ends with `close()`, with this process, or with the one that started this
 * process; and that options which cannot be used are refused before anything is started. Never opens a port.
 */
import { randomUUID } from 'node:crypto';
import { basename } from 'node:path';
import { type Clock, systemClock, type Timer } from '../clock.js';
import type { Disposer } from '../disposer.js';
import { Emitter } from '../events.js';
import type { JsonRpcMessage } from '../json-rpc.js';
import { LIMITS } from '../limits.js';
import { OptionReader } from '../option-reader.js';
import { Redactor } from '../redactor.js';
import { type CommandEntry, checkEntry, fieldName, originOf } from '../servers/entry.js';
import { checkArguments, commandLine, INHERITED } from './environment.js';
import { GroupedChild } from './grouped-child.js';
import { Guard } from './guard.js';
import type { RelaySendOptions } from './messages.js';
import { Supervisor, type SupervisorEvents, type SupervisorParts } from './supervisor.js';

export interface SuperviseOptions {
  /** In errors and events. The entry's name in its configuration, else the command's. */
  name?: string | undefined;
  /** Variables of this process that the server gets beside those of its entry. PATH, HOME, LANG, LC_ALL, TZ, TMPDIR. */
  inherit?: readonly string[] | undefined;
  /** Requests under way at once. 1: one after the other. */
  concurrency?: number | undefined;
  /** The longest that one request may take, whatever time it was given. No limit of its own. */
  timeoutMs?: number | undefined;
  /** Taken off the given time, for the way back of an error; of short times a tenth. 500. */
  marginMs?: number | undefined;
  /** From the start of a process to its answer to the handshake. 30,000. */
  startTimeoutMs?: number | undefined;
  /** After a crash; doubled with each further one. 200. */
  restartDelayMs?: number | undefined;
  /** 30,000. */
  restartMaxDelayMs?: number | undefined;
  /** Notifications of the server: let go, or handed out before the next answer. They are events in both cases. 'discard'. */
  notifications?: 'discard' | 'forward' | undefined;
  /** Between the end of its input and SIGTERM, from there to SIGKILL, and for what it has started. 400. */
  closeGraceMs?: number | undefined;
  /** Of one line of the server. 16 MiB. */
  maxMessageBytes?: number | undefined;
  /** Goes on when the process that started this one has ended. `false`. */
  outliveParent?: boolean | undefined;
  clock?: Clock | undefined;
}

export interface SupervisedServer {
  /**
   * One message for the server: answers of a server resolve, its own errors too; everything of the way there and back
   * rejects with a `HostedMcpError` that says whether the call ran. Notifications resolve with an empty list.
   */
  handle(
    message: JsonRpcMessage,
    options: RelaySendOptions,
  ): Promise<JsonRpcMessage | readonly JsonRpcMessage[]>;
  /** The number of the latest process; 0 before the first. */
  readonly generation: number;
  on<E extends keyof SupervisorEvents>(event: E, listener: (payload: SupervisorEvents[E]) => void): Disposer;
  /** Ends the server and all that it has started, within two seconds. Never rejects. */
  close(): Promise<void>;
}

export const SUPERVISE_DEFAULTS = Object.freeze({
  /** Many servers of this kind drive one device, or one browser. */
  concurrency: 1,
  /** Package runners fetch what they run. */
  startTimeoutMs: 30_000,
  /** Nobody notices it after one crash; after seven in a row it is minutes. */
  restartDelayMs: 200,
  restartMaxDelayMs: 30_000,
  /** Three of them are well within the two seconds that everything has to be gone in. */
  closeGraceMs: 400,
});
/** A process learns of its parent's end by asking. */
const PARENT_LOOK_MS = 250;

/**
 * Supervises the server of an entry with a `command`, from inside the sandbox. Nothing is started before the first
 * request; a process that has ended by itself is started again by the next one, after a pause that grows. What the
 * server had under way is rejected with `executed: 'unknown'`, and nothing is repeated.
 *
 * Placeholders of the entry are read at each start, from this process's variables. A secret belongs in the entry's
 * `env`: arguments can be read by other processes, so one that holds a secret is refused.
 *
 * Throws `TypeError` for an entry or an option that cannot be used.
 *
 * @example
 * const server = superviseServer({ command: 'browser-mcp', env: { API_KEY: '${BROWSER_API_KEY}' } });
 * const answer = await server.handle(message, { deadlineMs: 30_000, signal });
 */
export function superviseServer(entry: CommandEntry, options: SuperviseOptions = {}): SupervisedServer {
  return makeSupervisor(entry, options);
}

/** `start`: in place of real processes. */
export function makeSupervisor(
  entry: CommandEntry,
  options: SuperviseOptions,
  fake?: Pick<SupervisorParts, 'start'>,
): SupervisedServer {
  const checked = checkEntry(entry, originOf(entry ?? {}), (path, what) => {
    return new TypeError(`The server${path.length === 0 ? '' : `, key ${fieldName(path)}`} ${what}`);
  });
  if (checked.command === undefined) throw new TypeError('superviseServer needs an entry with a "command"');
  checkArguments(checked);
  const read = new OptionReader('', options);
  const clock = (read.any('clock') as Clock | undefined) ?? systemClock();
  const given = read.any('name');
  if (given !== undefined && (typeof given !== 'string' || given === ''))
    throw new TypeError('name must be a text that is not empty');
  const name = given ?? originOf(checked).name ?? basename(checked.command);
  const inherit = namesOf(read.any('inherit'));
  const outlivesParent = read.oneOf('outliveParent', [true, false] as const) ?? false;
  const redactor = new Redactor();
  const redactorOfResults = new Redactor();
  const secrets = new Map<string, boolean>();
  const emitter = new Emitter<SupervisorEvents>();
  const mark = randomUUID();
  const guard = new Guard(mark, () => {});
  const supervisor = new Supervisor({
    name,
    clock,
    redactor,
    redactorOfResults,
    emitter,
    concurrency: read.count('concurrency', 1, 1_000) ?? SUPERVISE_DEFAULTS.concurrency,
    timeoutMs: read.duration('timeoutMs', 1),
    marginMs: read.duration('marginMs'),
    startTimeoutMs: read.duration('startTimeoutMs', 1) ?? SUPERVISE_DEFAULTS.startTimeoutMs,
    restartDelayMs: read.duration('restartDelayMs') ?? SUPERVISE_DEFAULTS.restartDelayMs,
    restartMaxDelayMs: read.duration('restartMaxDelayMs') ?? SUPERVISE_DEFAULTS.restartMaxDelayMs,
    closeGraceMs: read.duration('closeGraceMs') ?? SUPERVISE_DEFAULTS.closeGraceMs,
    maxMessageBytes: read.count('maxMessageBytes', 1, 2 ** 30) ?? LIMITS.messageBytes,
    forwards: read.oneOf('notifications', ['discard', 'forward'] as const) === 'forward',
    prepare: () =>
      commandLine(checked, {
        name,
        inherit,
        learn: (value, isSecret) => void secrets.set(value, isSecret || secrets.get(value) === true),
      }),
    refresh: () => {
      for (const [value, isSecret] of secrets) {
        redactor.add(value);
        if (isSecret) redactorOfResults.add(value);
      }
    },
    start: fake?.start ?? ((line, parts) => new GroupedChild(line, parts, mark, guard)),
  });
  read.done();

  const follower =
    fake === undefined && !outlivesParent ? new ParentFollower(clock, () => void close()) : undefined;
  const close = async () => {
    follower?.stop();
    await supervisor.close();
    guard.stop();
  };
  return {
    handle: (message, how) => {
      follower?.start();
      return supervisor.handle(message, how);
    },
    get generation() {
      return supervisor.generation;
    },
    on: (event, listener) => emitter.on(event, listener),
    close,
  };
}

function namesOf(value: unknown): readonly string[] {
  if (value === undefined) return INHERITED;
  if (!Array.isArray(value) || !value.every((name) => typeof name === 'string' && name !== ''))
    throw new TypeError('inherit must be a list of names of variables');
  return [...value];
}

/** Looks whether the process that started this one is still there. */
class ParentFollower {
  readonly #clock: Clock;
  readonly #onEnd: () => void;
  readonly #parent = process.ppid;
  #timer: Timer | undefined;
  #stopped = false;

  constructor(clock: Clock, onEnd: () => void) {
    this.#clock = clock;
    this.#onEnd = onEnd;
  }

  /** The first process of all, and its children, have nobody to follow. */
  start(): void {
    if (this.#timer !== undefined || this.#stopped || this.#parent <= 1) return;
    this.#timer = this.#clock.setTimeout(
      () => {
        this.#timer = undefined;
        if (process.ppid === this.#parent) this.start();
        else this.#onEnd();
      },
      PARENT_LOOK_MS,
      { background: true },
    );
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.clear();
  }
}
