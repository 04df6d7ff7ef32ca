/**
 * What the bridge tells people: lines on standard error, where hosts keep their logs of a command.
 *
 * Guarantees one line an entry, in our words, without a known secret, and that nothing a server wrote is obeyed by a
 * terminal. Never writes to standard output, and never fails: a log nobody takes is no reason to stop.
 */
import type { Clock } from '../../clock.js';
import { visible } from '../../contract/visible.js';
import { HostedMcpError } from '../../errors.js';
import type { LogEntry } from '../../options.js';
import type { TextOutput } from '../command.js';
import { failureLine } from '../failure-line.js';

export const LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type Level = (typeof LEVELS)[number];

export interface BridgeLogParts {
  readonly stderr: TextOutput;
  readonly clock: Pick<Clock, 'now'>;
  readonly level: Level;
  readonly json: boolean;
  /** Takes our secrets out. */
  redact(text: string): string;
}

type Plain = string | number | boolean;

export class BridgeLog {
  readonly #parts: BridgeLogParts;

  constructor(parts: BridgeLogParts) {
    this.#parts = parts;
  }

  /** As the option `logger` is called. */
  readonly entry = ({ level, event, message, fields }: LogEntry): void => {
    this.say(level, event, message, fields);
  };

  say(level: Level, event: string, message: string, fields: Readonly<Record<string, unknown>> = {}): void {
    const { stderr, clock, json, redact } = this.#parts;
    if (LEVELS.indexOf(level) < LEVELS.indexOf(this.#parts.level)) return;
    const plain = plainFields(fields);
    const time = new Date(clock.now()).toISOString();
    const line = json
      ? JSON.stringify({ time, level, event, message, ...plain })
      : `mcp-holdfast bridge: ${level}: ${visible(message)}${shown(plain)}`;
    stderr.write(`${redact(line)}\n`);
  }
}

/** Of what is no plain value: the number of a session, the code of an error. The rest is the server's words. */
function plainFields(fields: Readonly<Record<string, unknown>>): Record<string, Plain> {
  const plain: Record<string, Plain> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
      plain[name] = value;
    } else if (HostedMcpError.isInstance(value)) {
      plain[name] = value.code;
      plain.why = failureLine(value);
    } else if (typeof value === 'object' && value !== null && 'number' in value) {
      plain[name] = Number(value.number);
    }
  }
  return plain;
}

function shown(plain: Readonly<Record<string, Plain>>): string {
  const parts = Object.entries(plain).map(([name, value]) =>
    typeof value === 'string' && !/^[\w./:-]+$/.test(value)
      ? `${name}=${visible(JSON.stringify(value))}`
      : `${name}=${value}`,
  );
  return parts.length === 0 ? '' : ` (${parts.join(' ')})`;
}
