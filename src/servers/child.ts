/**
 * One process of a server, from its start to its end.
 *
 * Guarantees no shell, that whatever it writes is read and bounded, that its end is told once, after its last line, and
 * that `end()` ends it: by the end of its input, else SIGTERM, else SIGKILL. Never writes to our own output.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Clock, Timer } from '../clock.js';
import { codeOf } from '../errors.js';
import { Lines } from './lines.js';

export interface CommandLine {
  readonly command: string;
  readonly args: readonly string[];
  /** The whole of it. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | undefined;
}

export interface ChildEnd {
  /** It never ran. */
  readonly isStart: boolean;
  /** Of the system (`ENOENT`), or `EXIT_1`, or a signal. */
  readonly code: string;
}

export interface ChildParts {
  readonly clock: Clock;
  /** Between the end of its input and SIGTERM, and from there to SIGKILL. */
  readonly graceMs: number;
  readonly maxLineBytes: number;
  onLine(line: Buffer): void;
  onTooLong(head: Buffer, tail: Buffer): void;
  /** Lines of its standard error, bounded; where nobody wants them they are not read. */
  readonly onStderr: ((line: string) => void) | undefined;
  /** It has ended; what it has written may still be on its way. */
  onExit?(): void;
  onEnd(end: ChildEnd): void;
  /** It leads a process group of its own, and signals go to all of that. Not on Windows, which has none. */
  readonly ownGroup?: boolean | undefined;
}

/** Of a line of standard error. */
const STDERR_BYTES = 8 * 1024;
/** After its exit, another process may hold its output for ever. */
const DRAIN_MS = 1_000;

export class Child {
  readonly #parts: ChildParts;
  readonly #process: ChildProcess | undefined;
  readonly #ended: Promise<void>;
  /** Settled when it runs, or is known not to. */
  readonly started: Promise<void>;
  #settleStarted: () => void = () => {};
  #settleEnded: () => void = () => {};
  #exit: ChildEnd | undefined;
  #isOver = false;
  #timer: Timer | undefined;
  #ending = false;

  constructor(line: CommandLine, parts: ChildParts) {
    this.#parts = parts;
    this.#ended = new Promise((resolve) => {
      this.#settleEnded = resolve;
    });
    this.started = new Promise((resolve) => {
      this.#settleStarted = resolve;
    });
    try {
      this.#process = spawn(line.command, [...line.args], {
        cwd: line.cwd,
        env: { ...line.env },
        stdio: ['pipe', 'pipe', parts.onStderr === undefined ? 'ignore' : 'pipe'],
        shell: false,
        detached: parts.ownGroup === true && process.platform !== 'win32',
        windowsHide: true,
      });
      this.#watch(this.#process);
    } catch (error) {
      // Nobody is told before the constructor has returned.
      queueMicrotask(() => this.#over({ isStart: true, code: codeOf(error) ?? 'ERR_SPAWN' }));
    }
  }

  /** It has ended, or is about to: nothing may be asked of it any more. */
  get isEnding(): boolean {
    return this.#ending || this.#exit !== undefined || this.#isOver;
  }
  /** It was ended from here. */
  get wasEnded(): boolean {
    return this.#ending;
  }

  /** Of its process group as well, where it leads one; undefined where it never ran. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** One message. What it cannot take any more is lost with it: its end will be told. */
  write(message: string): void {
    this.#process?.stdin?.write(`${message}\n`);
  }

  /** Resolves when it has ended. Never rejects. */
  end(): Promise<void> {
    if (!this.#ending && !this.#isOver) {
      this.#ending = true;
      this.#process?.stdin?.end();
      if (this.#exit === undefined) this.#killIn('SIGTERM');
    }
    return this.#ended;
  }

  #killIn(signal: 'SIGTERM' | 'SIGKILL'): void {
    this.#timer = this.#parts.clock.setTimeout(() => {
      this.#signal(signal);
      if (signal === 'SIGTERM') this.#killIn('SIGKILL');
    }, this.#parts.graceMs);
  }

  #signal(signal: 'SIGTERM' | 'SIGKILL'): void {
    const { pid } = this;
    if (pid === undefined || this.#parts.ownGroup !== true || process.platform === 'win32') {
      this.#process?.kill(signal);
      return;
    }
    try {
      process.kill(-pid, signal);
    } catch {
      // Nobody is left.
    }
  }

  #watch(process: ChildProcess): void {
    const { maxLineBytes, onStderr, clock } = this.#parts;
    const lines = new Lines(
      {
        line: (bytes) => this.#parts.onLine(bytes),
        tooLong: (head, tail) => this.#parts.onTooLong(head, tail),
      },
      maxLineBytes,
    );
    process.stdout?.on('data', (chunk: Buffer) => {
      if (!this.#isOver) lines.push(chunk);
    });
    process.stdout?.on('error', () => {});
    // A pipe whose reader is gone: the exit tells more.
    process.stdin?.on('error', () => {});
    if (onStderr !== undefined) watchStderr(process, onStderr);
    process.on('spawn', () => this.#settleStarted());
    process.on('error', (error) => {
      // Also emitted where a signal could not be sent.
      if (process.pid === undefined) this.#over({ isStart: true, code: codeOf(error) ?? 'ERR_SPAWN' });
    });
    process.on('exit', (code, signal) => {
      this.#timer?.clear();
      const exit: ChildEnd = { isStart: false, code: signal ?? `EXIT_${code ?? 0}` };
      this.#exit = exit;
      this.#timer = clock.setTimeout(() => this.#over(exit), DRAIN_MS);
      this.#parts.onExit?.();
    });
    process.on('close', () => {
      lines.end();
      this.#over(this.#exit ?? { isStart: false, code: 'ERR_CLOSED' });
    });
  }

  #over(end: ChildEnd): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#timer?.clear();
    for (const stream of [this.#process?.stdin, this.#process?.stdout, this.#process?.stderr])
      stream?.destroy();
    this.#parts.onEnd(end);
    this.#settleStarted();
    this.#settleEnded();
  }
}

function watchStderr({ stderr }: ChildProcess, onStderr: (line: string) => void): void {
  const tell = (bytes: Buffer) => {
    try {
      onStderr(bytes.toString('utf8').replace(/\r$/, ''));
    } catch {
      // The app's own matter; the server's is to go on.
    }
  };
  const lines = new Lines({ line: tell, tooLong: (head) => tell(head) }, STDERR_BYTES);
  stderr?.on('data', (chunk: Buffer) => lines.push(chunk));
  stderr?.on('end', () => lines.end());
  stderr?.on('error', () => {});
}
