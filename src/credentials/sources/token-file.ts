/**
 * A token in a file that something else rewrites (a projected Kubernetes token, a side-car, a person).
 *
 * Guarantees that a file caught in the middle of a rewrite does not replace a good value. Reads on use, never
 * watches: file watching goes silent after the first symlink swap.
 */
import { open } from 'node:fs/promises';
import type { Clock } from '../../clock.js';
import { HostedMcpError } from '../../errors.js';
import { needsPart } from '../../runtime/needs-part.js';
import { isTokenValue, jwtLifetimeMs, jwtTimes } from '../token-value.js';
import type { Reading } from './source-provider.js';

/** At most this long is a rewritten file overlooked; a tenth of the token's life where that is shorter. */
const REREAD_MS = 60_000;
const MAX_FILE_BYTES = 64 * 1024;

export class TokenFile {
  readonly #path: string;
  readonly #clock: Clock;
  #lastGood: string | undefined;

  constructor(path: string, clock: Clock) {
    needsPart('ERR_CREDENTIAL_SOURCE', 'tokenFromFile()', 'node:fs/promises', open);
    this.#path = path;
    this.#clock = clock;
  }

  async read(): Promise<Reading> {
    let text: string | undefined;
    let cause: unknown;
    try {
      text = await readWhole(this.#path);
    } catch (error) {
      cause = error;
    }
    const value = text?.trim();
    if (value === undefined || !isTokenValue(value) || this.#looksTorn(value)) return this.#fallBack(cause);
    this.#lastGood = value;
    const expiresAtMs = jwtTimes(value)?.expiresAtMs;
    const freshForMs = Math.min(REREAD_MS, (jwtLifetimeMs(value) ?? Number.POSITIVE_INFINITY) / 10);
    return { value, freshForMs, ...(expiresAtMs === undefined ? {} : { expiresAtMs }) };
  }

  /**
   * Half a JWT is no JWT, or has less of a signature than another of the same key. Of other tokens only their shape in
   * the header can be judged.
   */
  #looksTorn(value: string): boolean {
    const last = this.#lastGood;
    if (last === undefined || jwtTimes(last) === undefined) return false;
    if (jwtTimes(value) === undefined) return true;
    const [header, , signature = ''] = value.split('.');
    const [lastHeader, , lastSignature = ''] = last.split('.');
    return header === lastHeader && signature.length < lastSignature.length;
  }

  #fallBack(cause: unknown): Reading {
    const value = this.#lastGood;
    const expiresAtMs = value === undefined ? undefined : jwtTimes(value)?.expiresAtMs;
    if (value === undefined || (expiresAtMs !== undefined && expiresAtMs <= this.#clock.now())) {
      throw new HostedMcpError('ERR_CREDENTIAL_SOURCE', 'The token file has no usable token', {
        reason: 'file',
        cause,
      });
    }
    // Not fresh for any time: the next use looks again.
    return { value, freshForMs: 0, ...(expiresAtMs === undefined ? {} : { expiresAtMs }) };
  }
}

/** The text, or undefined where the file changed while it was read. */
async function readWhole(path: string): Promise<string | undefined> {
  const file = await open(path, 'r');
  try {
    const before = await file.stat();
    if (before.size > MAX_FILE_BYTES) return undefined;
    const text = await file.readFile('utf8');
    const after = await file.stat();
    const isSame = before.size === after.size && before.mtimeMs === after.mtimeMs;
    return isSame && Buffer.byteLength(text) === after.size ? text : undefined;
  } finally {
    await file.close();
  }
}
