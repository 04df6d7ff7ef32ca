/**
 * Digests and random values, by `node:crypto` where there is one.
 *
 * Guarantees the same digests in a bundle that has left that module out (`"browser"` in package.json): a name given to
 * a credential or a contract holds everywhere. Random values come from a source fit for secrets, or there is an error.
 */
import {
  createHash,
  createHmac,
  randomBytes as nodeRandomBytes,
  randomUUID as nodeRandomUUID,
} from 'node:crypto';
import * as own from './sha256.js';

interface NodeCrypto {
  readonly createHash: typeof createHash;
  readonly createHmac: typeof createHmac;
  readonly randomBytes: typeof nodeRandomBytes;
  readonly randomUUID: typeof nodeRandomUUID;
}

export interface Digests {
  /** SHA-256 of the text's UTF-8, in hexadecimal. */
  sha256Hex(text: string): string;
  /** HMAC with SHA-256, in hexadecimal. */
  hmacHex(key: string | Uint8Array, text: string): string;
  hmacBase64url(key: string | Uint8Array, text: string): string;
  randomBytes(count: number): Uint8Array;
  randomUUID(): string;
}

export const { sha256Hex, hmacHex, hmacBase64url, randomBytes, randomUUID } = digests({
  createHash,
  createHmac,
  randomBytes: nodeRandomBytes,
  randomUUID: nodeRandomUUID,
});

/** `node` is a seam for tests of runtimes without that module: what a bundle leaves out is undefined. */
export function digests(node: NodeCrypto | undefined): Digests {
  return typeof node?.createHmac === 'function' ? digestsOfNode(node) : digestsOfTheWeb();
}

function digestsOfNode({ createHash, createHmac, ...random }: NodeCrypto): Digests {
  return {
    sha256Hex: (text) => createHash('sha256').update(text).digest('hex'),
    hmacHex: (key, text) => createHmac('sha256', key).update(text).digest('hex'),
    hmacBase64url: (key, text) => createHmac('sha256', key).update(text).digest('base64url'),
    randomBytes: (count) => random.randomBytes(count),
    randomUUID: () => random.randomUUID(),
  };
}

function digestsOfTheWeb(): Digests {
  const encoder = new TextEncoder();
  const bytesOf = (value: string | Uint8Array) => (typeof value === 'string' ? encoder.encode(value) : value);
  const hmac = (key: string | Uint8Array, text: string) => own.hmacSha256(bytesOf(key), bytesOf(text));
  return {
    sha256Hex: (text) => hex(own.sha256(bytesOf(text))),
    hmacHex: (key, text) => hex(hmac(key, text)),
    hmacBase64url: (key, text) => base64url(hmac(key, text)),
    randomBytes: (count) => crypto.getRandomValues(new Uint8Array(count)),
    randomUUID: () => crypto.randomUUID(),
  };
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}
