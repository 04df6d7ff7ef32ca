/**
 * What a command is at, for whoever waits.
 *
 * Guarantees that nothing is said before a step has taken a second, that it goes to stderr, and only where a person
 * looks at it or `--progress` asks for it. Never keeps the process alive.
 */
import type { Timer } from '../clock.js';
import type { CommandIo } from './command.js';

/** Shorter waits are no waits. */
const PATIENCE_MS = 1_000;
/** A log wants fewer lines than a terminal. */
const LOG_EVERY_MS = 10_000;
const CLEAR_LINE = '\r\u001b[K';

export class Progress {
  readonly #io: CommandIo;
  readonly #isTerminal: boolean;
  readonly #isWanted: boolean;
  #timer: Timer | undefined;
  #text = '';
  #sinceMs = 0;
  #isShown = false;

  constructor(io: CommandIo, options: { readonly forced?: boolean | undefined } = {}) {
    this.#io = io;
    this.#isTerminal = io.isTTY.stderr && io.env.TERM !== 'dumb';
    this.#isWanted = this.#isTerminal || options.forced === true;
  }

  /** What is under way from here on; our own words, or made `visible`. */
  step(text: string): void {
    if (!this.#isWanted) return;
    this.#timer?.clear();
    this.#text = text;
    this.#sinceMs = this.#io.clock.monotonic();
    // A terminal that shows the last step shows this one, too.
    if (this.#isShown && this.#isTerminal) this.#show();
    else this.#wait(PATIENCE_MS);
  }

  /** All is done: what a terminal shows of it goes away. */
  end(): void {
    this.#timer?.clear();
    this.#timer = undefined;
    if (this.#isShown && this.#isTerminal) this.#io.stderr.write(CLEAR_LINE);
    this.#isShown = false;
  }

  #wait(ms: number): void {
    this.#timer = this.#io.clock.setTimeout(() => this.#show(), ms, { background: true });
  }

  #show(): void {
    this.#isShown = true;
    const seconds = Math.floor((this.#io.clock.monotonic() - this.#sinceMs) / 1_000);
    const line = seconds === 0 ? `${this.#text} ...` : `${this.#text} ... ${seconds} s`;
    this.#io.stderr.write(this.#isTerminal ? `${CLEAR_LINE}${line}` : `${line}\n`);
    this.#wait(this.#isTerminal ? PATIENCE_MS : LOG_EVERY_MS);
  }
}
