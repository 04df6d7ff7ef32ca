/**
 * Discovery for one provider: what the MCP server names, what that says of itself, and where it is remembered.
 *
 * Guarantees that nothing is asked before the MCP server is known, that every address found passes the guard, and that
 * an issuer's metadata are read once. Never sends a credential.
 */
import { createHash } from 'node:crypto';
import type { Clock } from '../../clock.js';
import type { HttpFetch } from '../../http/exchange.js';
import { AddressGuard } from '../discovery/address-guard.js';
import { MetadataSource } from '../metadata.js';
import type { CredentialStore, Rejection } from '../provider.js';
import { SharedRecord } from '../shared-record.js';
import { memoryCredentialStore } from '../stores/memory.js';
import { TokenHttp } from '../token-fetch.js';
import { type DiscoveredServer, discoverServer } from './discovered-server.js';
import { AuthorizationRecord } from './record.js';

export interface DiscoveryOptions {
  /** Of the provider. */
  readonly id: string;
  readonly store: CredentialStore | undefined;
  readonly clock: Clock;
  readonly fetch: HttpFetch | undefined;
  readonly timeoutMs: number;
  /** The app's word: no other server gets anything. */
  readonly issuer?: string | undefined;
  readonly metadataOrigins?: readonly string[] | undefined;
}

export class Discovery {
  readonly http: TokenHttp;
  readonly store: CredentialStore;
  readonly #options: DiscoveryOptions;
  readonly #guard: AddressGuard;
  readonly #sources = new Map<string, MetadataSource>();

  constructor(options: DiscoveryOptions) {
    this.#options = options;
    this.store = options.store ?? memoryCredentialStore({ clock: options.clock });
    const named = options.issuer === undefined ? [] : [new URL(options.issuer)];
    this.#guard = new AddressGuard(undefined, { named });
    this.http = new TokenHttp(options.clock, options.fetch, this.#guard);
  }

  /** Names the MCP server; the first one counts. */
  bind(target: URL): void {
    this.#guard.bind(target);
  }

  /** Throws `ERR_DISCOVERY`, `ERR_TOKEN_ENDPOINT`. */
  async server(
    target: URL,
    rejection: Rejection | undefined,
    known: string | undefined,
  ): Promise<DiscoveredServer> {
    const { clock, timeoutMs, metadataOrigins, issuer } = this.#options;
    const found = await discoverServer({
      target,
      rejection,
      known: issuer ?? known,
      metadataOrigins,
      http: this.http,
      clock,
      timeoutMs,
    });
    return issuer === undefined ? found : { ...found, issuer, isFallback: false };
  }

  metadataOf({ issuer, isFallback }: Pick<DiscoveredServer, 'issuer' | 'isFallback'>): MetadataSource {
    const key = `${isFallback} ${issuer}`;
    let source = this.#sources.get(key);
    if (source === undefined) {
      const { clock, timeoutMs } = this.#options;
      // A server of 2025-03-26 is found by its own address, however its metadata spell that.
      const exact = this.#options.issuer === undefined && !isFallback;
      const options = { issuer, tokenEndpoint: undefined, exact, fallback: isFallback };
      source = new MetadataSource({ ...options, http: this.http, clock, timeoutMs });
      // A server that moves each day must not fill the memory.
      if (this.#sources.size >= MAX_SOURCES) this.#sources.clear();
      this.#sources.set(key, source);
    }
    return source;
  }

  recordOf(target: URL): AuthorizationRecord {
    const id = `${this.#options.id}-${digest(`${target.origin}${target.pathname}`)}`;
    return new AuthorizationRecord(new SharedRecord(this.store, id, this.#options.clock));
  }
}

const MAX_SOURCES = 20;

/** Short, and not to be turned back. */
export function digest(...parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16);
}
