/**
 * A token from a command, as `kubectl` credential plug-ins give it.
 *
 * Guarantees no shell, a small environment, a time limit and a size limit; neither the command's arguments nor
 * what it wrote stand in any error.
 */
import { execFile } from 'node:child_process';
import type { Clock } from '../../clock.js';
import { codeOf, HostedMcpError } from '../../errors.js';
import { needsPart } from '../../runtime/needs-part.js';
import { checkedToken, jwtTimes } from '../token-value.js';
import type { Reading } from './source-provider.js';

/** A helper that takes longer waits for a person. */
export const COMMAND_TIMEOUT_MS = 10_000;
/** For tokens that do not tell their end: a process per call would be 14 ms each. */
export const COMMAND_CACHE_MS = 60_000;
const MAX_OUTPUT_BYTES = 64 * 1024;
/** Nobody serves a token that expires on its way. */
const EXPIRY_MARGIN_MS = 2_000;

export interface CommandLine {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly cacheMs: number | undefined;
}

/** Throws where no command can be run. */
export function needsCommands(): void {
  needsPart('ERR_CREDENTIAL_SOURCE', 'tokenFromCommand()', 'node:child_process', execFile);
}

export async function readTokenCommand(
  line: CommandLine,
  clock: Clock,
  signal: AbortSignal,
): Promise<Reading> {
  const output = (await run(line, clock, signal)).trim();
  const { token, expiresAtMs: stated } = output.startsWith('{')
    ? parseExecCredential(output)
    : { token: output };
  const value = checkedToken(token, 'The token command');
  const expiresAtMs = stated ?? jwtTimes(value)?.expiresAtMs;
  const untilEndMs = expiresAtMs === undefined ? undefined : expiresAtMs - EXPIRY_MARGIN_MS - clock.now();
  const freshForMs = Math.max(
    0,
    Math.min(line.cacheMs ?? untilEndMs ?? COMMAND_CACHE_MS, untilEndMs ?? Infinity),
  );
  return { value, freshForMs, ...(expiresAtMs === undefined ? {} : { expiresAtMs }) };
}

function run(line: CommandLine, clock: Clock, signal: AbortSignal): Promise<string> {
  const busy = clock.track?.();
  return new Promise<string>((resolve, reject) => {
    const controller = new AbortController();
    let timedOut = false;
    const stop = () => controller.abort();
    const timer = clock.setTimeout(() => {
      timedOut = true;
      stop();
    }, line.timeoutMs);
    signal.addEventListener('abort', stop, { once: true });
    const env: Record<string, string> = {};
    for (const name of ['PATH', 'HOME']) {
      const value = process.env[name];
      if (value !== undefined) env[name] = value;
    }
    const done = (error: unknown, stdout: string) => {
      timer.clear();
      signal.removeEventListener('abort', stop);
      busy?.dispose();
      if (error === null) resolve(stdout);
      else reject(commandError(timedOut ? 'did not end in time' : 'failed', codeOf(error)));
    };
    try {
      const child = execFile(
        line.command,
        [...line.args],
        {
          env: { ...env, ...line.env },
          maxBuffer: MAX_OUTPUT_BYTES,
          killSignal: 'SIGKILL',
          signal: controller.signal,
          windowsHide: true,
        },
        (error, stdout) => done(error, stdout),
      );
      // A helper that asks on its input would wait for ever.
      child.stdin?.end();
    } catch (error) {
      done(error ?? {}, '');
    }
  });
}

/** client.authentication.k8s.io ExecCredential: `{ status: { token, expirationTimestamp } }`. */
function parseExecCredential(output: string): { token: unknown; expiresAtMs?: number | undefined } {
  let parsed: unknown;
  try {
    parsed = JSON.parse(output);
  } catch {
    throw commandError('wrote JSON that cannot be read', undefined);
  }
  const status = ownObject(parsed, 'status');
  const stated = ownValue(status, 'expirationTimestamp');
  const expiresAtMs = typeof stated === 'string' ? Date.parse(stated) : Number.NaN;
  return {
    token: ownValue(status, 'token'),
    expiresAtMs: Number.isNaN(expiresAtMs) ? undefined : expiresAtMs,
  };
}

function ownValue(object: unknown, name: string): unknown {
  if (typeof object !== 'object' || object === null || !Object.hasOwn(object, name)) return undefined;
  return (object as Record<string, unknown>)[name];
}

function ownObject(object: unknown, name: string): object | undefined {
  const value = ownValue(object, name);
  return typeof value === 'object' && value !== null ? value : undefined;
}

function commandError(what: string, code: string | undefined): HostedMcpError {
  return new HostedMcpError('ERR_CREDENTIAL_SOURCE', `The token command ${what}`, {
    reason: 'command',
    cause: { name: 'Error', code },
  });
}
