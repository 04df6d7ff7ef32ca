/**
 * The options of the loopback redirect, read once.
 *
 * Guarantees a `TypeError` that names the option, before any I/O. Never takes a path that a browser or a server would
 * spell in another way: authorization servers compare it byte by byte.
 */
import { type Clock, systemClock } from '../clock.js';
import { OptionReader } from '../option-reader.js';

export interface LoopbackOptions {
  /**
   * The port to listen on. 0, the default: the system chooses a free one. Authorization servers that follow RFC 8252
   * section 7.3 take any port of a registered loopback address; give one for those that do not.
   */
  port?: number | undefined;
  /**
   * The path of the redirect URI. Default `/callback`. It can be guessed, and has to be: everything but the port must
   * be as it was registered (RFC 8252, sections 7.3 and 8.4). What keeps strangers out is `state` and PKCE.
   */
  path?: string | undefined;
  /**
   * Shows the authorization URL to the user, instead of the system browser. What it throws, or rejects with, ends the
   * wait; that it is still running does not matter.
   */
  open?: ((url: URL) => unknown) | undefined;
  /** How long the user may take, from `onRedirect` on. Default 300,000. */
  timeoutMs?: number | undefined;
  /** Ends the helper, waiting or not: `ERR_ABORTED`. */
  signal?: AbortSignal | undefined;
  clock?: Clock | undefined;
}

export const LOOPBACK_DEFAULTS = Object.freeze({
  port: 0,
  path: '/callback',
  /** Time for a password, a second factor and a consent page; a user who takes longer has gone away. */
  timeoutMs: 300_000,
});

/** A longer one is no path that anybody registered. */
const MAX_PATH_LENGTH = 200;
/** Segments of the characters that no party escapes or reads in another way (RFC 3986 section 2.3, "unreserved"). */
const PLAIN_PATH = /^(\/[A-Za-z0-9._~-]+)*\/?$/;

export interface ResolvedLoopbackOptions {
  readonly port: number;
  readonly path: string;
  /** `undefined`: the system browser. */
  readonly open: ((url: URL) => unknown) | undefined;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  readonly clock: Clock;
}

/** Throws `TypeError` naming the option that cannot be used. No I/O. */
export function resolveLoopbackOptions(options: LoopbackOptions | undefined): ResolvedLoopbackOptions {
  const read = new OptionReader('', options);
  const resolved = {
    port: read.count('port', 0, 65_535) ?? LOOPBACK_DEFAULTS.port,
    path: checkPath(read.any('path')),
    open: read.func<(url: URL) => unknown>('open'),
    timeoutMs: read.duration('timeoutMs', 1) ?? LOOPBACK_DEFAULTS.timeoutMs,
    signal: checkSignal(read.any('signal')),
    clock: checkClock(read.any('clock')),
  };
  read.done();
  return resolved;
}

function checkPath(path: unknown): string {
  if (path === undefined) return LOOPBACK_DEFAULTS.path;
  if (
    typeof path !== 'string' ||
    path === '' ||
    path.length > MAX_PATH_LENGTH ||
    !PLAIN_PATH.test(path) ||
    // The URL parser takes out `.` and `..`.
    new URL(path, 'http://127.0.0.1').pathname !== path
  ) {
    throw new TypeError(
      `path must begin with / and be made of letters, digits and -._~/ only, at most ${MAX_PATH_LENGTH} characters`,
    );
  }
  return path;
}

function checkSignal(signal: unknown): AbortSignal | undefined {
  if (signal === undefined) return undefined;
  const given = signal as AbortSignal | null;
  if (typeof given?.aborted !== 'boolean' || typeof given.addEventListener !== 'function') {
    throw new TypeError('signal must be an AbortSignal');
  }
  return given;
}

function checkClock(clock: unknown): Clock {
  if (clock === undefined) return systemClock();
  const given = clock as Clock | null;
  if (
    typeof given?.now !== 'function' ||
    typeof given.monotonic !== 'function' ||
    typeof given.setTimeout !== 'function'
  ) {
    throw new TypeError('clock needs now(), monotonic() and setTimeout()');
  }
  return given;
}
