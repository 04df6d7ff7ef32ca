/**
 * What a credential is to the engine: something that can be asked for request headers, and that has a
 * generation.
 *
 * Guarantees that the secret leaves only through `Credential.headers()`. A generation moves when, and only
 * when, the value changed, so that a straggler's refusal of an old value costs nothing.
 */
import type { Disposer } from '../disposer.js';
import type { HostedMcpError } from '../errors.js';

/** How a server refused a credential. */
export interface Rejection {
  /** Of the credential that was refused; 0: there was none. */
  generation: number;
  status: number;
  /** `error` of the challenge (RFC 6750, 3.1; RFC 9449, 7.1). */
  challenge?: string | undefined;
  /** `scope` of the challenge: what the request needs. */
  scope?: string | undefined;
  /** `resource_metadata` of the challenge (RFC 9728, 5.1), as the server wrote it. */
  resourceMetadata?: string | undefined;
  /** The server answered a call under it before: it has been ended since. */
  hadAnswered?: boolean | undefined;
  /** `DPoP-Nonce` of the answer (RFC 9449, 8). */
  dpopNonce?: string | undefined;
}

export interface AcquireOptions {
  /** Detaches this caller only; a refresh under way goes on for the others. */
  signal?: AbortSignal | undefined;
  /** The generation a server refused: a newer one is returned, or one refresh is made. */
  rejected?: Rejection | undefined;
  /** A wider scope that the server asked for. */
  scope?: string | undefined;
  /** How long this caller can wait. */
  maxWaitMs?: number | undefined;
}

export interface Credential {
  /** +1 each time the value changes; safe to log. */
  readonly generation: number;
  /** Epoch milliseconds on the local clock. */
  readonly expiresAtMs?: number;
  readonly scope?: string;
  /** The request headers that carry the secret: the only way to it. */
  headers(request: { method: string; url: URL }): Record<string, string> | Promise<Record<string, string>>;
  /**
   * Told what an answer says about the next proof (RFC 9449, 8.2), by the engine: its `DPoP-Nonce`, and the `Date` of
   * a 401. Answers with neither are not told.
   */
  answered?(advice: { dpopNonce?: string | undefined; date?: string | undefined }): void;
}

/** What a provider tells about itself. Carries no secret. */
export type CredentialEvent =
  | { type: 'refreshed'; id: string; generation: number; expiresAtMs?: number | undefined }
  | { type: 'adopted'; id: string; generation: number; expiresAtMs?: number | undefined }
  | { type: 'failed'; id: string; error: HostedMcpError }
  /** A machine's credential got a wider scope, because the MCP server asked for it. */
  | { type: 'scope-widened'; id: string; scope: string }
  /** The MCP server names another authorization server than before. */
  | { type: 'server-changed'; id: string; previous: string; current: string };

/** Write your own: `id` and `acquire` are enough. */
export interface CredentialProvider {
  /** Stable and not secret: names the credential in stores, events and rate-limit keys. */
  readonly id: string;
  /**
   * A credential for `target`. Throws a `HostedMcpError`: `ERR_REAUTHORIZATION_REQUIRED`,
   * `ERR_CREDENTIAL_REJECTED`, `ERR_CREDENTIAL_SOURCE`, `ERR_TOKEN_ENDPOINT`, `ERR_STORE_UNAVAILABLE`.
   */
  acquire(target: URL, options?: AcquireOptions): Promise<Credential>;
  onEvent?(listener: (event: CredentialEvent) => void): Disposer;
  /** Drops what is stored. */
  forget?(): Promise<void>;
  /** Takes the token back at its issuer (RFC 7009); `unsupported` where the issuer cannot. Rejects where it could not be done. */
  revoke?(options: { signal?: AbortSignal | undefined }): Promise<'revoked' | 'unsupported'>;
  /** Ends timers; a token request that has left is finished and stored, for at most `drainMs` (15 s). */
  close?(options?: { drainMs?: number | undefined }): Promise<void>;
}

/**
 * On a provider of this library: the credential where nothing has to be waited for, else undefined, and `acquire` is
 * asked. A call then loses no turn.
 */
export const AT_HAND: unique symbol = Symbol('atHand');

export interface ProviderAtHand extends CredentialProvider {
  [AT_HAND]?(target: URL): Credential | undefined;
}

/** A token with what is known of its end. */
export interface AccessToken {
  token: string;
  expiresAtMs?: number | undefined;
}

/** A bearer token, or a function that gives one: asked again after a refusal with `rejected: true`. */
export type TokenSource =
  | string
  | ((request: {
      target: URL;
      signal: AbortSignal;
      rejected: boolean;
    }) => string | AccessToken | Promise<string | AccessToken>);

/** When an OAuth token is renewed. Defaults and reasons: `REFRESH_DEFAULTS`. */
export interface RefreshPolicy {
  fraction?: number | undefined;
  maxWindowMs?: number | undefined;
  minWindowMs?: number | undefined;
  jitter?: number | undefined;
  background?: 'active' | 'always' | 'never' | undefined;
  tokenTimeoutMs?: number | undefined;
  assumedLifetimeMs?: number | undefined;
  serveExpired?: boolean | undefined;
}

/** One stored credential. `data` is opaque to a store. */
export interface StoredRecord {
  readonly generation: number;
  readonly data: string;
  readonly expiresAtMs?: number;
}

export interface Lease {
  /** What is left of the lease, on the monotonic clock. */
  remainingMs(): number;
  release(): Promise<void>;
}

/**
 * Where credentials live. `compareAndSet` with `expectedGeneration: undefined` means "no record yet",
 * with `next: undefined` "delete"; it answers false when somebody else was first. `lease` works for an id
 * that has no record and answers undefined while another holds it.
 */
export interface CredentialStore {
  read(id: string, options?: { signal?: AbortSignal | undefined }): Promise<StoredRecord | undefined>;
  compareAndSet(
    id: string,
    expectedGeneration: number | undefined,
    next: StoredRecord | undefined,
    options?: { signal?: AbortSignal | undefined },
  ): Promise<boolean>;
  lease(
    id: string,
    leaseMs: number,
    options?: { signal?: AbortSignal | undefined },
  ): Promise<Lease | undefined>;
  close?(): Promise<void>;
}
