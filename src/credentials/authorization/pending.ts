/**
 * Authorizations that were begun and not finished yet: what the callback has to fit to.
 *
 * Guarantees that each can be finished once, by whichever process reads it first, and for ten minutes only; and that
 * what is stored is found by a digest of the `state`, which itself is in no store's key. Never keeps a code or a token.
 */
import { createHash } from 'node:crypto';
import type { Clock } from '../../clock.js';
import type { CredentialStore } from '../provider.js';
import { Secret } from '../secret.js';
import { SharedRecord } from '../shared-record.js';
import { objectOf, textIn } from './record.js';

/** A person has to find a password, perhaps a second device; a link that is older was forgotten. */
export const PENDING_MS = 10 * 60_000;

export interface PendingAuthorization {
  /** The MCP server's address. */
  readonly target: string;
  readonly issuer: string;
  readonly clientId: string;
  readonly verifier: Secret;
  readonly redirectUri: string;
  readonly resource?: string | undefined;
  readonly scope?: string | undefined;
}

export class PendingAuthorizations {
  readonly #store: CredentialStore;
  readonly #owner: string;
  readonly #clock: Clock;

  /** `owner`: the id of the provider; another one's callback is not found. */
  constructor(store: CredentialStore, owner: string, clock: Clock) {
    this.#store = store;
    this.#owner = owner;
    this.#clock = clock;
  }

  /** Throws `ERR_STORE_UNAVAILABLE`: a callback that cannot be finished must not be asked for. */
  async put(state: string, pending: PendingAuthorization): Promise<void> {
    const untilMs = this.#clock.now() + PENDING_MS;
    const data = JSON.stringify({ v: 1, untilMs, ...pending, verifier: pending.verifier.reveal() });
    await this.#record(state).compareAndSet(undefined, { generation: 1, data, expiresAtMs: untilMs });
  }

  /** The one with this `state`, which is gone with that. Throws `ERR_STORE_UNAVAILABLE`. */
  async take(state: string): Promise<PendingAuthorization | undefined> {
    const record = this.#record(state);
    const stored = await record.read();
    if (stored === undefined || !(await record.compareAndSet(stored.generation, undefined))) return undefined;
    const value = objectOf(stored.data);
    if (value === undefined || !(Number(value.untilMs) > this.#clock.now())) return undefined;
    const text = (name: string) => textIn(value, name);
    const [target, issuer, clientId] = [text('target'), text('issuer'), text('clientId')];
    const [verifier, redirectUri] = [text('verifier'), text('redirectUri')];
    if (target === undefined || issuer === undefined || clientId === undefined) return undefined;
    if (verifier === undefined || redirectUri === undefined) return undefined;
    return {
      target,
      issuer,
      clientId,
      verifier: new Secret(verifier),
      redirectUri,
      resource: text('resource'),
      scope: text('scope'),
    };
  }

  #record(state: string): SharedRecord {
    const digest = createHash('sha256').update(`${this.#owner} ${state}`).digest('hex').slice(0, 32);
    return new SharedRecord(this.#store, `${this.#owner}-pending-${digest}`, this.#clock);
  }
}
