/**
 * Proofs that a token is used by the client it was given to (RFC 9449).
 *
 * Guarantees one proof for each request, good for its method, address and token alone, with the nonce that the server
 * gave last, and dated by the server's clock once it has refused ours; and that a private key leaves its object
 * for the store only. Never sends anything, and never decides that a request is made again.
 */
import {
  createECDH,
  createHash,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomUUID,
} from 'node:crypto';
import type { Clock } from '../clock.js';
import { needsPart } from '../runtime/needs-part.js';

/** A private key as it stands in a stored record (RFC 7517). */
export interface StoredKey {
  readonly kty: 'EC';
  readonly crv: 'P-256';
  readonly x: string;
  readonly y: string;
  readonly d: string;
}

/** What a proof is for. */
export interface ProofRequest {
  readonly method: string;
  readonly url: URL;
  /** Of the access token that goes with it: see `accessTokenHash`. */
  readonly ath?: string | undefined;
}

/** What an answer says about the next proof. */
export interface ProofAdvice {
  readonly dpopNonce?: string | undefined;
  /** Its `Date`, where it refuses. */
  readonly date?: string | undefined;
}

/** Longer ones would crowd the request's head. */
const MAX_NONCE_LENGTH = 1024;
/** RFC 9449, 8.1. */
const NONCE = /^[\x21\x23-\x5b\x5d-\x7e]+$/;
/** `Date` has whole seconds, and the answer was some time under way. */
const NOTICEABLE_SKEW_MS = 2_000;
/** Requests that left before a correction may still be refused for this long. */
const STRAGGLERS_MS = 10_000;

/** The key that tokens are bound to: ECDSA on P-256, the one algorithm that every server has to know (RFC 7518). */
export class DpopKey {
  readonly #private: KeyObject;
  readonly #public: Readonly<{ kty: string; crv: string; x: string; y: string }>;

  private constructor(key: KeyObject) {
    this.#private = key;
    const { kty, crv, x, y } = key.export({ format: 'jwk' }) as unknown as StoredKey;
    this.#public = Object.freeze({ kty, crv, x, y });
  }

  static generate(): DpopKey {
    return new DpopKey(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey);
  }

  /** Undefined for what is no such key. */
  static read(stored: unknown): DpopKey | undefined {
    if (typeof stored !== 'object' || stored === null) return undefined;
    const own = (name: keyof StoredKey) =>
      Object.hasOwn(stored, name) ? (stored as Record<string, unknown>)[name] : undefined;
    const [x, y, d] = [own('x'), own('y'), own('d')];
    if (own('kty') !== 'EC' || own('crv') !== 'P-256') return undefined;
    if (typeof x !== 'string' || typeof y !== 'string' || typeof d !== 'string') return undefined;
    try {
      // Node takes any private part: one of another key would make proofs that nobody can verify.
      const whole = createECDH('prime256v1');
      whole.setPrivateKey(Buffer.from(d, 'base64url'));
      const point = whole.getPublicKey();
      const isWhole = point
        .subarray(1)
        .equals(Buffer.concat([x, y].map((part) => Buffer.from(part, 'base64url'))));
      if (!isWhole) return undefined;
      return new DpopKey(createPrivateKey({ key: { kty: 'EC', crv: 'P-256', x, y, d }, format: 'jwk' }));
    } catch {
      return undefined;
    }
  }

  /** The private key; for the line that writes it into a record. */
  reveal(): StoredKey {
    const { kty, crv, x, y, d } = this.#private.export({ format: 'jwk' }) as unknown as StoredKey;
    return { kty, crv, x, y, d };
  }

  isSame(other: DpopKey): boolean {
    return this.#private.equals(other.#private);
  }

  async sign(claims: Readonly<Record<string, string | number>>): Promise<string> {
    const { SignJWT } = await import('jose');
    return await new SignJWT({ ...claims })
      .setProtectedHeader({ typ: 'dpop+jwt', alg: 'ES256', jwk: { ...this.#public } })
      .sign(this.#private);
  }
}

/** What one server wants of proofs. A nonce is good for the server that gave it, even where two share an origin. */
export class ProofSite {
  readonly #clock: Clock;
  #nonce: string | undefined;
  /** How far ahead of ours the server's clock was at its last refusal, and how far ahead proofs are dated. */
  #aheadMs: number | undefined;
  #skewMs = 0;
  #correctedAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get hasNonce(): boolean {
    return this.#nonce !== undefined;
  }

  heard({ dpopNonce, date }: ProofAdvice): void {
    if (dpopNonce !== undefined && dpopNonce.length <= MAX_NONCE_LENGTH && NONCE.test(dpopNonce)) {
      this.#nonce = dpopNonce;
    }
    const at = date === undefined ? Number.NaN : Date.parse(date);
    if (!Number.isNaN(at)) this.#aheadMs = at - this.#clock.now();
  }

  /**
   * A proof was refused as invalid. True where its date may be why: the server's clock differs from the one it was
   * dated by. From now on proofs are dated by the server's.
   */
  correctClock(): boolean {
    const nowMs = this.#clock.monotonic();
    if (this.#aheadMs !== undefined && Math.abs(this.#aheadMs - this.#skewMs) >= NOTICEABLE_SKEW_MS) {
      this.#skewMs = this.#aheadMs;
      this.#correctedAtMs = nowMs;
    }
    return nowMs - this.#correctedAtMs < STRAGGLERS_MS;
  }

  async prove(key: DpopKey, { method, url, ath }: ProofRequest): Promise<string> {
    // A manual clock must not move on while the signature is made on another thread: its date is fixed.
    const busy = this.#clock.track?.();
    try {
      return await key.sign({
        jti: randomUUID(),
        htm: method,
        // RFC 9449, 4.2: without query and fragment.
        htu: `${url.origin}${url.pathname}`,
        iat: Math.floor((this.#clock.now() + this.#skewMs) / 1000),
        ...(ath !== undefined && { ath }),
        ...(this.#nonce !== undefined && { nonce: this.#nonce }),
      });
    } finally {
      busy?.dispose();
    }
  }
}

/** The key of one credential, and what its resource server wants of proofs. */
export class Dpop {
  readonly resource: ProofSite;
  #key: DpopKey | undefined;

  constructor(clock: Clock) {
    needsPart('ERR_CREDENTIAL_SOURCE', 'dpop', 'node:crypto', generateKeyPairSync);
    this.resource = new ProofSite(clock);
  }

  get key(): DpopKey | undefined {
    return this.#key;
  }

  /** The key in use; made where there is none. */
  obtainKey(): DpopKey {
    this.#key ??= DpopKey.generate();
    return this.#key;
  }

  /** Uses a key from now on. Answers the one in use, which may be another object of the same key. */
  use(key: DpopKey): DpopKey {
    if (this.#key?.isSame(key) !== true) this.#key = key;
    return this.#key as DpopKey;
  }

  /** The next token is bound to another key. */
  forget(): void {
    this.#key = undefined;
  }
}

/** `ath` (RFC 9449, 4.2). */
export function accessTokenHash(token: string): string {
  return createHash('sha256').update(token, 'ascii').digest('base64url');
}
