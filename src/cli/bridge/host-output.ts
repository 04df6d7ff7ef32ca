/**
 * Standard output as the host reads it: one JSON-RPC message a line.
 *
 * Guarantees whole lines and nothing but JSON-RPC, and that what waits for a host which does not read is bounded: first
 * what may be missed is left out, then no more is asked for, in the end the bridge stops. Never writes a line longer
 * than stock hosts read.
 */
import type { JsonRpcMessage } from '../../json-rpc.js';
import type { TextOutput } from '../command.js';

const MEBIBYTE = 1024 * 1024;

export const HOST_LIMITS = Object.freeze({
  /** The SDK's stdio client ends the process at 10 MiB, and counts what it has read of the next line, one chunk of 64 KiB. */
  lineBytes: 10 * MEBIBYTE - 128 * 1024,
  /** Far more than a host that reads leaves in the pipe. */
  fullBytes: MEBIBYTE,
  /** Six of the longest lines. */
  mostBytes: 64 * MEBIBYTE,
});

/** The host can do without one: the next says more. */
const MAY_BE_MISSED: ReadonlySet<string> = new Set(['notifications/progress', 'notifications/message']);

export interface HostOutputParts {
  readonly stdout: TextOutput;
  /** The host has left, or reads nothing. */
  onGone(reason: 'closed' | 'unread'): void;
}

export class HostOutput {
  readonly #parts: HostOutputParts;
  #waitingBytes = 0;
  #missed = 0;
  #isGone = false;
  #drained: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;

  constructor(parts: HostOutputParts) {
    this.#parts = parts;
  }

  /** Notifications that were left out. */
  get missed(): number {
    return this.#missed;
  }

  /** False: the line would be too long for a host, and was not written. */
  write(message: JsonRpcMessage): boolean {
    if (this.#isGone) return true;
    const line = `${JSON.stringify(message)}\n`;
    const bytes = Buffer.byteLength(line);
    if (bytes > HOST_LIMITS.lineBytes) return false;
    if (this.#waitingBytes > HOST_LIMITS.fullBytes && mayBeMissed(message)) {
      this.#missed += 1;
      return true;
    }
    this.#waitingBytes += bytes;
    this.#parts.stdout.write(line, (error) => this.#written(bytes, error));
    if (this.#waitingBytes > HOST_LIMITS.mostBytes) this.#gone('unread');
    return true;
  }

  /** Resolves when the host reads again; nothing where it does. */
  get draining(): Promise<void> | undefined {
    if (this.#isGone || this.#waitingBytes <= HOST_LIMITS.fullBytes) return undefined;
    if (this.#drained === undefined) {
      let resolve: () => void = () => {};
      const promise = new Promise<void>((done) => {
        resolve = done;
      });
      this.#drained = { promise, resolve };
    }
    return this.#drained.promise;
  }

  #written(bytes: number, error: unknown): void {
    this.#waitingBytes -= bytes;
    if (error !== undefined && error !== null) this.#gone('closed');
    if (this.#waitingBytes <= HOST_LIMITS.fullBytes) this.#wake();
  }

  #gone(reason: 'closed' | 'unread'): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#wake();
    this.#parts.onGone(reason);
  }

  #wake(): void {
    this.#drained?.resolve();
    this.#drained = undefined;
  }
}

function mayBeMissed(message: JsonRpcMessage): boolean {
  return 'method' in message && MAY_BE_MISSED.has(message.method);
}
