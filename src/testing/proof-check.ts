/**
 * A server's own look at proofs of possession (RFC 9449, 4.3).
 *
 * Guarantees that a proof passes once, for the request it was made for, at the time it says, and under the nonces of
 * this very checker where it asks for one. Never trusts a library that a client may have made the proof with.
 */
import { createHash, createPublicKey, type JsonWebKey, randomBytes, verify } from 'node:crypto';
import type { Clock } from '../clock.js';

export type ProofError = 'invalid_dpop_proof' | 'use_dpop_nonce';
/** The thumbprint (RFC 7638) of the key that made the proof, or why it is none. */
export type ProofVerdict = { readonly thumbprint: string } | { readonly error: ProofError };

export interface ProvenRequest {
  readonly method: string;
  /** Without query and fragment. */
  readonly url: string;
  /** The access token that came with it. */
  readonly token?: string | undefined;
}

/** How far from the server's clock a proof may be dated, and how long a nonce is good. */
export const PROOF_WINDOW_MS = 60_000;
/** Of proofs seen; by then the first ones are too old to come again. */
const MOST_REMEMBERED = 100_000;

const INVALID = Object.freeze({ error: 'invalid_dpop_proof' });

export class ProofCheck {
  readonly #clock: Clock;
  readonly #wantsNonce: () => boolean;
  readonly #seen = new Set<string>();
  /** Until when each is good. */
  readonly #nonces = new Map<string, number>();

  constructor(clock: Clock, wantsNonce: () => boolean) {
    this.#clock = clock;
    this.#wantsNonce = wantsNonce;
  }

  judge(proof: string | undefined, request: ProvenRequest): ProofVerdict {
    const read = proof === undefined ? undefined : readProof(proof);
    if (read === undefined) return INVALID;
    const { claims, thumbprint } = read;
    const { jti, htm, htu, iat, ath, nonce } = claims;
    if (htm !== request.method || htu !== request.url || typeof iat !== 'number') return INVALID;
    if (Math.abs(iat * 1000 - this.#clock.now()) > PROOF_WINDOW_MS) return INVALID;
    if (request.token !== undefined && ath !== sha256(request.token)) return INVALID;
    if (typeof jti !== 'string' || jti.length < 16 || this.#seen.has(jti)) return INVALID;
    if (this.#wantsNonce() && !this.#isGood(nonce)) return { error: 'use_dpop_nonce' };
    if (this.#seen.size >= MOST_REMEMBERED) this.#seen.clear();
    this.#seen.add(jti);
    return { thumbprint };
  }

  /** A new one for each answer; none where none is asked for. */
  headers(): Record<string, string> {
    if (!this.#wantsNonce()) return {};
    const now = this.#clock.now();
    for (const [nonce, untilMs] of this.#nonces) if (untilMs < now) this.#nonces.delete(nonce);
    const nonce = randomBytes(16).toString('base64url');
    this.#nonces.set(nonce, now + PROOF_WINDOW_MS);
    return { 'dpop-nonce': nonce };
  }

  #isGood(nonce: unknown): boolean {
    return typeof nonce === 'string' && (this.#nonces.get(nonce) ?? 0) >= this.#clock.now();
  }
}

function readProof(proof: string): { claims: Record<string, unknown>; thumbprint: string } | undefined {
  const [head = '', body = '', signature = '', ...rest] = proof.split('.');
  if (rest.length > 0) return undefined;
  try {
    const header = JSON.parse(Buffer.from(head, 'base64url').toString()) as Record<string, unknown>;
    const claims = JSON.parse(Buffer.from(body, 'base64url').toString()) as Record<string, unknown>;
    const { kty, crv, x, y, ...others } = header.jwk as JsonWebKey;
    if (header.typ !== 'dpop+jwt' || header.alg !== 'ES256' || 'd' in others) return undefined;
    const key = createPublicKey({ key: { kty, crv, x, y } as JsonWebKey, format: 'jwk' });
    const isGenuine = verify(
      'sha256',
      Buffer.from(`${head}.${body}`),
      { key, dsaEncoding: 'ieee-p1363' },
      Buffer.from(signature, 'base64url'),
    );
    return isGenuine ? { claims, thumbprint: sha256(JSON.stringify({ crv, kty, x, y })) } : undefined;
  } catch {
    return undefined;
  }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
